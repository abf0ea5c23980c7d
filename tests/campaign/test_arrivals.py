"""A session is taken when it is complete: by its manifest, or because nothing of it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.campaign.arrivals import IDLE_S, SessionArrivals, SessionLook, look_at
from multitracer.campaign.discovery import Candidate
from multitracer.manifest import LogFile, Manifest, write_manifest

if TYPE_CHECKING:
    from pathlib import Path

LISTED = {"phone/a.pcap": 100, "phone/b.jsonl": 50}
MANIFEST = {"manifest.json": (900, 1)}


def _look(sizes: dict[str, int], listed: dict[str, int | None] | None = None) -> SessionLook:
    return SessionLook({**MANIFEST, **{name: (size, 1) for name, size in sizes.items()}}, listed or {})


def test_a_session_with_all_that_its_manifest_lists_is_complete_at_once() -> None:
    assert SessionArrivals().lack("a", _look(LISTED, dict(LISTED)), 0.0) is None


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"phone/a.pcap": 100}, "phone/b.jsonl is missing"),
        ({"phone/a.pcap": 40, "phone/b.jsonl": 50}, "phone/a.pcap has 40 B instead of 100 B"),
        ({"phone/a.pcap": 400, "phone/b.jsonl": 50}, "phone/a.pcap has 400 B instead of 100 B"),
        ({"phone/.a.pcap.x81bQz": 100}, "phone/a.pcap is missing and 1 file more"),
        ({"phone/a.pcap": 40, "phone/b.jsonl.gz": 7}, "phone/a.pcap has 40 B instead of 100 B"),
    ],
)
def test_a_session_that_lacks_something_waits_for_ever(sizes: dict[str, int], sentence: str) -> None:
    arrivals = SessionArrivals()
    for hour in range(3):
        assert arrivals.lack("a", _look(sizes, dict(LISTED)), 3600.0 * hour) == sentence


def test_a_listed_file_that_was_packed_is_there() -> None:
    look = _look({"phone/a.pcap": 100, "phone/b.jsonl.gz": 7}, dict(LISTED))
    arrivals = SessionArrivals()
    arrivals.lack("a", look, 0.0)
    assert arrivals.lack("a", look, IDLE_S) is None


@pytest.mark.parametrize("listed", [{}, dict(LISTED), {**LISTED, "phone/c.log": None}])
def test_what_no_size_is_listed_of_has_to_be_quiet(listed: dict[str, int | None]) -> None:
    look = _look({**LISTED, "phone/c.log": 3}, listed)
    arrivals = SessionArrivals()
    assert arrivals.lack("a", look, 10.0) == "files changed within the last 60 s"
    assert arrivals.lack("a", look, 10.0 + IDLE_S - 0.1) is not None
    assert arrivals.lack("a", look, 10.0 + IDLE_S) is None


@pytest.mark.parametrize(
    "name", [".big.pcap.Ab12Cd", "big.pcap.part", ".~tmp~/big.pcap", ".rsync-partial/big.pcap", "x.filepart"]
)
def test_a_copy_that_stopped_half_way_keeps_its_session_waiting(name: str) -> None:
    look = _look({"small.pcap": 3, name: 5})
    arrivals = SessionArrivals()
    for at_s in (0.0, 3600.0):
        assert arrivals.lack("a", look, at_s) == f"{name} is a temporary name of an unfinished copy"
    complete = _look({"small.pcap": 3, "big.pcap": 5})
    assert arrivals.lack("a", complete, 3601.0) is not None
    assert arrivals.lack("a", complete, 3661.0) is None


@given(st.lists(st.tuples(st.floats(0, 90), st.integers(0, 3)), min_size=1, max_size=30))
def test_a_session_without_a_list_is_complete_after_a_minute_without_change(looks: list[tuple[float, int]]) -> None:
    arrivals, now_s, since_s, before = SessionArrivals(), 0.0, 0.0, None
    for pause_s, size in looks:
        now_s += pause_s
        if size != before:
            since_s, before = now_s, size
        is_complete = arrivals.lack("a", _look({"a.pcap": size}), now_s) is None
        assert is_complete == (now_s - since_s >= IDLE_S)
        if is_complete:
            since_s, before = now_s, None  # it was taken; what comes later is another look


def test_sessions_that_are_gone_are_forgotten() -> None:
    arrivals = SessionArrivals()
    for key in "ab":
        arrivals.lack(key, _look({"a.pcap": 1}), 0.0)
    arrivals.keep({"b"})
    assert arrivals.lack("a", _look({"a.pcap": 1}), 100.0) is not None
    assert arrivals.lack("b", _look({"a.pcap": 1}), 100.0) is None


def test_a_look_sees_hidden_files_links_and_what_the_manifest_lists(tmp_path: Path) -> None:
    (tmp_path / "phone").mkdir()
    (tmp_path / "phone" / ".a.pcap.123456").write_bytes(b"12")
    (tmp_path / "b.log").write_bytes(b"123")
    (tmp_path / "link").symlink_to("b.log")
    (tmp_path / "nothing").symlink_to("gone")
    write_manifest(tmp_path, Manifest("drive", files=[LogFile("./b.log", "phone", 3)]))
    look = look_at(Candidate((str(tmp_path),)))
    sizes = {name: size for name, (size, _) in look.files.items() if name not in ("manifest.json", "nothing")}
    assert sizes == {"phone/.a.pcap.123456": 2, "b.log": 3, "link": 3}
    assert look.listed == {"b.log": 3}


def test_half_a_manifest_lists_nothing(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"schema": "multitracer.session/1", "files": [{"pa', "utf-8")
    assert look_at(Candidate((str(tmp_path),))).listed == {}
