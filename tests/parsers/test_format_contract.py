"""What every format promises: ours, and whatever is dropped into the folder or installed beside it."""

from __future__ import annotations

import importlib
import importlib.metadata
import io
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers
from multitracer.errors import FormatError, InputError, PluginError, UnknownFormatError
from parsers import _registry
from parsers import _registry as _plug_ins
from tests.conftest import SAMPLES
from tests.parsers.frames import interface, option, section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from parsers._format import Format

FORMATS = parsers.formats()


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
def test_a_format_describes_itself(fmt: Format) -> None:
    assert fmt.name == fmt.name.lower().replace("_", "-")
    assert re.fullmatch("[a-z]+", fmt.layer)
    assert 10 < len(fmt.description) < 100
    assert fmt.source


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
@given(data=st.binary(max_size=300))
def test_sniffing_never_raises_and_never_changes_its_mind(fmt: Format, data: bytes) -> None:
    answer = fmt.sniff(data)
    assert answer in ("no", "maybe", "yes")
    assert fmt.sniff(data) == answer
    assert fmt.sniff(b"") == "no"


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_parsed_or_are_a_format_error_with_its_place(fmt: Format, data: bytes) -> None:
    try:
        fmt.parse(io.BytesIO(data), path="bytes")
    except FormatError as error:
        assert error.path == "bytes"  # noqa: PT017 - most bytes are refused, some are not


@pytest.mark.parametrize("path", sorted(p for p in SAMPLES.rglob("*") if p.is_file()), ids=lambda p: p.name)
def test_a_sample_is_claimed_by_one_format_and_cut_short_by_no_other(path: object) -> None:
    with open(path, "rb") as file:  # type: ignore[call-overload]  # noqa: PTH123
        head = file.read(4096)
    claims = [fmt.name for fmt in FORMATS if fmt.sniff(head) == "yes"]
    assert len(claims) <= 1
    for length in (1, 4, 20, 200):
        cut_claims = {fmt.name for fmt in FORMATS if fmt.sniff(head[:length]) == "yes"}
        assert cut_claims <= set(claims)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Return a list: what is put into it is found as an installed plug-in."""
    points: list[object] = []
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: points)
    for cached in (_registry.installed, _plug_ins.has_plug_ins):
        cached.cache_clear()
    yield points
    for cached in (_registry.installed, _plug_ins.has_plug_ins):
        cached.cache_clear()


class Plugin:
    """An entry point that loads a module with a format."""

    value = "acme:module"

    def __init__(self, name: str, fmt: object) -> None:
        self.name = name
        self.__name__ = name
        self.FORMAT = fmt

    def load(self) -> Plugin:
        if isinstance(self.FORMAT, BaseException):
            raise self.FORMAT
        return self


ACME = replace(FORMATS[0], name="acme-log", sniff=lambda head: "yes" if head[:4] == b"acme" else "no")


def test_an_installed_format_is_found_and_recognised(installed: list[object]) -> None:
    installed.append(Plugin("acme", ACME))
    assert "acme-log" in [fmt.name for fmt in parsers.formats()]
    assert parsers.recognise(b"acme 1.0", path="x").name == "acme-log"


def test_packages_are_searched_once_however_many_sessions_are_opened(
    installed: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[str] = []

    def entry_points(*, group: str) -> list[object]:
        searches.append(group)
        return installed

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert [parsers.left_out() for _ in range(3)] == [[], [], []]
    assert searches == ["multitracer.formats"]


def test_an_installed_format_in_a_pcapng_file_is_recognised(installed: list[object], tmp_path: Path) -> None:
    path = tmp_path / "acme.pcapng"
    path.write_bytes(section(options=option(1, b"acme 1.0")) + interface())
    assert parsers.detect(path).name == "pcapng"
    for cached in (_registry.installed, _plug_ins.has_plug_ins):
        cached.cache_clear()
    installed.append(Plugin("acme", replace(ACME, sniff=lambda head: "yes" if b"acme" in head else "no")))
    assert parsers.detect(path).name == "acme-log"


def test_an_installed_capture_format_is_read_as_a_capture(installed: list[object], tmp_path: Path) -> None:
    known = next(fmt for fmt in FORMATS if fmt.name == "pcap")
    installed.append(
        Plugin("acme", replace(ACME, layer="packet", parse=lambda stream, path: known.parse(stream, path=path)))
    )
    path = tmp_path / "x"
    path.write_bytes(b"acme")
    with pytest.raises(FormatError):  # it was read: as pcap it is none
        parsers.read_capture([path])
    with pytest.raises(InputError, match="name only this file"):
        parsers.read_capture([path, path])


def test_a_log_that_is_no_capture_is_named(installed: list[object], tmp_path: Path) -> None:
    installed.append(Plugin("acme", replace(ACME, layer="radio")))
    path = tmp_path / "x"
    path.write_bytes(b"acme")
    with pytest.raises(InputError, match="this is acme-log"):
        parsers.read_capture([path])


def test_two_that_claim_a_file_are_both_named(installed: list[object]) -> None:
    installed += [Plugin("acme", ACME), Plugin("other", replace(ACME, name="other-log"))]
    with pytest.raises(UnknownFormatError, match="acme-log, other-log"):
        parsers.recognise(b"acme 1.0", path="x")


def test_a_certain_claim_beats_a_possible_one(installed: list[object]) -> None:
    unsure = replace(ACME, name="unsure", sniff=lambda head: "maybe" if head else "no")
    installed += [Plugin("acme", ACME), Plugin("unsure", unsure)]
    assert parsers.recognise(b"acme 1.0", path="x").name == "acme-log"
    assert parsers.recognise(b"who knows", path="x").name == "unsure"


@pytest.mark.parametrize("fmt", [replace(FORMATS[0]), None, "text", ImportError("no acme"), SystemExit(3)])
def test_a_plug_in_that_is_broken_or_takes_a_name_is_left_out_and_reported(
    installed: list[object], fmt: object
) -> None:
    installed.append(Plugin("acme", fmt))
    assert [known.name for known in parsers.formats()] == sorted(known.name for known in FORMATS)
    (told,) = parsers.installed().broken
    assert isinstance(told, PluginError)
    assert "acme" in str(told)
    assert str(told).endswith("the plug-in is not used")


@pytest.mark.parametrize("returned", [None, [1], {"acme": 1}])
def test_a_plug_in_that_returns_no_tables_is_an_error_of_the_file(
    installed: list[object], tmp_path: Path, returned: object
) -> None:
    def parse(stream: BinaryIO, *, path: str) -> Any:
        return returned

    installed.append(Plugin("acme", replace(ACME, parse=parse)))
    (tmp_path / "log").write_bytes(b"acme 1.0")
    with pytest.raises(FormatError, match="the format plug-in acme-log must return a dict of tables"):
        parsers.read(tmp_path / "log")


def _fails(head: bytes, /) -> parsers.Match:
    raise ZeroDivisionError("of acme")


@pytest.mark.parametrize(
    ("sniff", "why"),
    [
        (_fails, "ZeroDivisionError: of acme"),
        (lambda head: 7, "the function sniff returned '7', but must return one of no, maybe, yes"),
    ],
)
def test_a_plug_in_that_fails_on_a_file_leaves_it_to_the_others(
    installed: list[object], sniff: Callable[[bytes], parsers.Match], why: str
) -> None:
    installed += [Plugin("acme", replace(ACME, sniff=sniff)), Plugin("other", replace(ACME, name="other"))]
    assert {parsers.recognise(b"acme 1.0", path="x").name for _ in range(3)} == {"other"}
    assert [str(error) for error in parsers.installed().broken] == [f"format plug-in acme-log: its sniff failed: {why}"]
