"""Captures that are damaged on purpose: what is left of them, and what the truth then is about."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.limits.names import Confidence, Limit
from multitracer.recording.read import read
from tests.causes.damage import cut, lose, snap
from tests.causes.judge import _in_view, judge
from tests.causes.made import MSS, NS, Made
from tests.causes.test_bundled import RECORDINGS
from tests.causes.truth import truth

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.causes.judge import Judged

_HEAD = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 96, 101)
_BYTES = 80


def _capture(folder: Path, count: int) -> Path:
    """Write a packet each 10 ms; its first bytes are its number."""
    rows = [
        struct.pack("<IIII", *divmod(NS + number * 10_000_000, NS), _BYTES, 1500)
        + struct.pack("<I", number).ljust(_BYTES, b"\0")
        for number in range(count)
    ]
    file = folder / "tcp-0.pcap"
    file.write_bytes(_HEAD + b"".join(rows))
    return file


def _numbers(file: Path, size: int = _BYTES) -> list[int]:
    data, step = file.read_bytes(), 16 + size
    return [struct.unpack_from("<I", data, at + 16)[0] for at in range(len(_HEAD), len(data) - step + 1, step)]


@pytest.mark.parametrize("run", [1, 20])
def test_a_share_of_the_packets_is_lost_in_runs_and_the_rest_is_untouched(tmp_path: Path, run: int) -> None:
    file = _capture(tmp_path, 20_000)
    lost = lose(file, 0.05, run=run, seed=1)
    left = _numbers(file)
    assert lost == 20_000 - len(left)
    assert lost == pytest.approx(1000, rel=0.3)
    gaps = [after - before - 1 for before, after in pairwise(left) if after > before + 1]
    assert sum(gaps) / len(gaps) == pytest.approx(run, rel=0.3)
    assert file.stat().st_size == len(_HEAD) + len(left) * (16 + _BYTES)


def test_a_smaller_snap_length_keeps_the_beginning_of_each_packet(tmp_path: Path) -> None:
    file = _capture(tmp_path, 10)
    snap(file, 54)
    assert _numbers(file, 54) == list(range(10))
    data = file.read_bytes()
    assert struct.unpack_from("<I", data, 16)[0] == 54
    assert struct.unpack_from("<II", data, len(_HEAD) + 8) == (54, 1500)


@pytest.mark.parametrize("share", [0.35, 0.8])
def test_a_cut_file_ends_amid_a_packet_and_the_last_whole_one_is_told(tmp_path: Path, share: float) -> None:
    file = _capture(tmp_path, 100)
    until_ns = cut(file, share)
    last = _numbers(file)[-1]
    assert until_ns == NS + last * 10_000_000
    assert last == pytest.approx(99 * share, abs=1)
    assert 0 < (file.stat().st_size - len(_HEAD)) % (16 + _BYTES) < 16 + _BYTES


@pytest.mark.parametrize("host", ["mobile", "fixed"])
def test_what_an_end_sees_of_a_transfer_ends_with_its_capture(tmp_path: Path, host: str) -> None:
    made = Made(tmp_path)
    begin_s = made.handshake()
    for number in range(4):
        made.call("send", begin_s + number, begin_s + number + 0.0001, MSS)
        made.segment(begin_s + number, number)
    folder = made.save()
    whole = json.loads(json.dumps(truth(folder)["transfers"][0]))
    until_ns = NS + 1_500_000_000
    (folder / "truth" / "damage.json").write_text(json.dumps({"host": host, "until_ns": until_ns}))
    damaged = json.loads(json.dumps(truth(folder)["transfers"][0]))
    assert damaged["shares"] == whole["shares"]
    ends = {view: (_in_view(damaged, view) or [])[-1][1] for view in ("both", "sender", "receiver")}
    unharmed = {view: (_in_view(whole, view) or [])[-1][1] for view in ends}
    cut_view = "sender" if host == "mobile" else "receiver"
    assert ends == unharmed | {cut_view: until_ns}


def _damaged(folder: Path, name: str, at: str, how: Callable[[Path], object]) -> tuple[Judged, Judged]:
    """Return the verdicts on both captures of a bundled recording, before and after one was damaged."""
    (whole,) = (each for each in RECORDINGS if each.name == name)
    told = json.loads((whole / "truth" / "truth.json").read_text())
    copy = shutil.copytree(whole, folder / name)
    host = "mobile" if told["upload"] == (at == "sender") else "fixed"
    (capture,) = (copy / "session" / host).glob("tcp-0.pcap*")
    capture.write_bytes(gzip.decompress(capture.read_bytes()) if capture.suffix == ".gz" else capture.read_bytes())
    how(capture)
    verdicts = judge(whole, told, "both"), judge(copy, told, "both")
    assert verdicts[0] is not None
    assert verdicts[1] is not None
    return verdicts[0], verdicts[1]


@pytest.mark.parametrize("name", ["1000021-cellular-bulk", "00020-steady-writes", "00010-lossy-answers"])
def test_where_the_receivers_capture_ends_the_senders_tells_the_rest(tmp_path: Path, name: str) -> None:
    before, after = _damaged(tmp_path, name, "receiver", lambda capture: cut(capture, 0.4))
    assert after.answer == before.answer == before.primaries[0]
    assert after.ours[after.answer] == pytest.approx(before.ours[after.answer], abs=0.05)


@pytest.mark.parametrize("name", ["00053-outage-data", "00140-small-rcvbuf", "3000020-posts-read-slowly"])
def test_where_the_senders_capture_ends_early_the_receivers_tells_all(tmp_path: Path, name: str) -> None:
    before, after = _damaged(tmp_path, name, "sender", lambda capture: cut(capture, 0.4))
    assert after.answer == before.answer == before.primaries[0]
    assert after.ours[after.answer] == pytest.approx(before.ours[after.answer], abs=0.1)


def test_the_senders_state_is_not_asked_for_where_it_was_recorded(tmp_path: Path) -> None:
    """The sender's capture ends early: the receiver's is taken, to which the state that is there does not belong."""
    for has_state in (True, False):
        folder = tmp_path / str(has_state)
        _damaged(folder, "00180-small-sndbuf-far", "sender", lambda capture: cut(capture, 0.4))
        session = folder / "00180-small-sndbuf-far" / "session"
        if not has_state:
            for log in session.rglob("tcp_info.jsonl*"):
                log.unlink()
        told = explain(read(session)).headline
        assert (told.limit, told.confidence) == (Limit.CONGESTION_WINDOW, Confidence.WEAK)
        assert ("TCP state (ss)" in told.help) is not has_state


@pytest.mark.parametrize("name", ["00004-policer", "00140-small-rcvbuf", "00195-ecn"])
def test_what_the_receivers_capture_lacks_was_not_lost_if_it_was_acknowledged(tmp_path: Path, name: str) -> None:
    before, after = _damaged(tmp_path, name, "receiver", lambda capture: lose(capture, 0.04, run=5, seed=1))
    assert after.findings == before.findings
    assert "random-loss" not in after.findings
    assert after.ours == pytest.approx(before.ours, abs=0.05)


@pytest.mark.parametrize("name", ["00100-slow-reader", "00140-small-rcvbuf"])
def test_the_scale_of_the_window_is_known_if_one_capture_has_the_option(tmp_path: Path, name: str) -> None:
    before, after = _damaged(tmp_path, name, "sender", lambda capture: snap(capture, 52))
    assert after.answer == before.answer == "receiver-window"
    assert after.ours[after.answer] == pytest.approx(before.ours[after.answer], abs=0.1)
