"""What every format promises: ours, and whatever is dropped into the folder or installed beside it."""

from __future__ import annotations

import importlib
import importlib.metadata
import io
import os
import re
import signal
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers
from multitracer.cli import analyze
from multitracer.errors import FormatError, InputError, PluginError, UnknownFormatError
from multitracer.logs import Point
from multitracer.recording.inputs import Inputs
from multitracer.schemas.radio import RADIO
from multitracer.tables import Column, Schema, Table
from parsers import _registry
from parsers import _registry as _plug_ins
from tests.cli.program import call
from tests.conftest import SAMPLES
from tests.narrowed import parsed
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


class Points(list[object]):
    """Entry points of one group, as `importlib.metadata` returns them."""

    groups = frozenset({"multitracer.formats"})

    def select(self, *, group: str) -> Points:
        return self


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Return a list: what is put into it is found as an installed plug-in."""
    points = Points()
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: points)
    for cached in (_registry.installed, _plug_ins.has_plug_ins):
        cached.cache_clear()
    yield points
    for cached in (_registry.installed, _plug_ins.has_plug_ins):
        cached.cache_clear()


class Plugin:
    """An entry point that loads a module with a format."""

    value = "acme:module"
    group = "multitracer.formats"

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
    searches: list[object] = []

    def entry_points() -> list[object]:
        searches.append("all groups")
        return installed

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert [parsers.left_out() for _ in range(3)] == [[], [], []]
    assert searches == ["all groups"]


def test_an_installed_format_in_a_pcapng_file_is_recognised(installed: list[object], tmp_path: Path) -> None:
    path = tmp_path / "acme.pcapng"
    path.write_bytes(section(options=option(1, b"acme 1.0")) + interface())
    assert parsers.detect(path).name == "pcapng"
    for cached in (_registry.installed, _plug_ins.has_plug_ins):
        cached.cache_clear()
    installed.append(Plugin("acme", replace(ACME, sniff=lambda head: "yes" if b"acme" in head else "no")))
    assert parsers.detect(path).name == "acme-log"


@pytest.mark.parametrize(("size", "is_small"), [(1 << 20, True), (1 << 30, False)])
def test_a_large_capture_of_a_plug_in_is_not_kept_for_the_use_of_its_link(
    size: int, is_small: bool, installed: list[object], tmp_path: Path
) -> None:
    """Its packets cannot be counted before it is read."""
    installed.append(Plugin("acme", replace(ACME, layer="packet", blocks=None)))
    path = tmp_path / "x.acme"
    path.write_bytes(b"acme")
    os.truncate(path, size)
    inputs = Inputs("x", [Point(str(path), (str(path),))])
    assert analyze._is_small(inputs, None) is is_small
    assert analyze._is_small(inputs, 100)


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


def _radio_of_its_own(stream: BinaryIO, *, path: str) -> Any:
    schema = Schema("radio", (Column("time_ns", "int64", "time", "ns since 1970"),))
    return {"radio": Table(schema, {"time_ns": np.zeros(1, np.int64)})}


def _radio_with_text_for_numbers(stream: BinaryIO, *, path: str) -> Any:
    return {"radio": Table(RADIO, {name: np.full(1, "x", object) for name in RADIO.names})}


def _exits(*_: object, **__: object) -> Any:
    sys.exit(0)


@pytest.mark.parametrize(
    ("parse", "why"),
    [
        (_radio_of_its_own, "must return the column answered_ns (int64, ns since 1970) in the table radio"),
        (_radio_with_text_for_numbers, "acme-log failed: SchemaError: table radio: column time_ns must have the type"),
        (_exits, "acme-log failed: SystemExit: 0"),
    ],
)
def test_a_plug_in_that_lies_about_its_tables_or_exits_is_an_error_of_the_file(
    installed: list[object], tmp_path: Path, parse: Any, why: str
) -> None:
    installed.append(Plugin("acme", replace(ACME, layer="radio", parse=parse)))
    (tmp_path / "log").write_bytes(b"acme 1.0")
    done = call("report", tmp_path / "log", "-o", tmp_path / "report.html", status=1)
    assert why in done.stderr
    assert not (tmp_path / "report.html").exists()


def test_a_table_of_ours_in_a_misspelt_layer_is_an_error_of_the_file(installed: list[object], tmp_path: Path) -> None:
    def parse(stream: BinaryIO, *, path: str) -> Any:
        return {"radio": Table(RADIO, {column.name: np.zeros(0, column.dtype) for column in RADIO})}

    installed.append(Plugin("acme", replace(ACME, layer="radoi", parse=parse)))
    (tmp_path / "log").write_bytes(b"acme 1.0")
    with pytest.raises(FormatError, match="in the layer 'radoi', in which nobody looks for it; write radio"):
        parsers.read(tmp_path / "log")


def test_the_error_of_an_unknown_file_names_plug_ins_that_are_broken(installed: list[object]) -> None:
    installed.append(Plugin("acme", ImportError("no acme")))
    with pytest.raises(UnknownFormatError, match=r"the format is unknown .*format plug-in acme .*no acme; the plug-in"):
        parsers.recognise(b"acme 1.0", path="x")


def _hangs(head: bytes, /) -> parsers.Match:
    while True:
        time.sleep(0.01)


def test_a_plug_in_that_hangs_leaves_the_file_to_the_others(
    installed: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_registry, "_SNIFF_S", 0.1)
    installed += [Plugin("acme", replace(ACME, sniff=_hangs)), Plugin("other", replace(ACME, name="other"))]
    before = signal.getitimer(signal.ITIMER_REAL)
    assert parsers.recognise(b"acme 1.0", path="x").name == "other"
    (error,) = parsers.installed().broken
    assert "its sniff failed: TimeoutError: no answer within 0.1 s" in str(error)
    assert bool(before[0]) == bool(signal.getitimer(signal.ITIMER_REAL)[0]), "the timer of pytest goes on"


def _fails(head: bytes, /) -> parsers.Match:
    raise ZeroDivisionError("of acme")


@pytest.mark.parametrize(
    ("sniff", "why"),
    [
        (_fails, "ZeroDivisionError: of acme"),
        (_exits, "SystemExit: 0"),
        (lambda head: 7, "the function sniff returned '7', but must return one of no, maybe, yes"),
    ],
)
def test_a_plug_in_that_fails_on_a_file_leaves_it_to_the_others(
    installed: list[object], sniff: Callable[[bytes], parsers.Match], why: str
) -> None:
    installed += [Plugin("acme", replace(ACME, sniff=sniff)), Plugin("other", replace(ACME, name="other"))]
    assert {parsers.recognise(b"acme 1.0", path="x").name for _ in range(3)} == {"other"}
    assert [str(error) for error in parsers.installed().broken] == [f"format plug-in acme-log: its sniff failed: {why}"]


_SS = (
    "1700000000.5\nESTAB 0 0 10.0.0.1:5 10.0.0.2:{}\n\t cubic rto:200 cwnd:{} mss:1448 unacked:{} delivery_rate {}bps\n"
)
_CELL = "mCellInfo=[CellInfoLte:{{CellIdentityLte:{{mCi={}}} CellSignalStrengthLte: rsrp=-90 rssnr={}}}]\n"
_TRIP = '{{"round_trips":[{{"timestamps":{{"client":{{"send":{{"wall":{}}}}}}},"delay":{{"rtt":{}}}}}]}}'
_POINT = (
    '<gpx><trk><trkpt lat="1" lon="2"><time>2026-01-01T00:00:00Z</time><ele>{}</ele><sat>{}</sat></trkpt></trk></gpx>'
)
_INTERVAL = (
    '{{"start":{{"timestamp":{{"timesecs":{}}}}},"intervals":[{{"streams":'
    '[{{"start":0,"end":1,"bytes":{},"bits_per_second":{},"rtt":{}}}]}}]}}'
)
_LONG, _DIGITS = "9" * 5_000, "\u0661\u0662"
_CANNOT_BE: dict[str, tuple[str, str, list[str]]] = {
    "ss: a negative port": ("ss", _SS.format(-1, 10, 1, 5), ["port_remote"]),
    "ss: a port beyond 16 bits": ("ss", _SS.format(65_536, 10, 1, 5), ["port_remote"]),
    "ss: a port of thousands of digits": ("ss", _SS.format(_LONG, 10, 1, 5), ["port_remote"]),
    "ss: a count beyond 64 bits": ("ss", _SS.format(7, 2**64, 1, 5), ["cwnd_segments"]),
    "ss: a count that absence makes 0": ("ss", _SS.format(7, 10, _LONG, 5), ["unacked_segments"]),
    "ss: a rate": ("ss", _SS.format(7, 10, 1, f"{2**63}T"), ["delivery_rate"]),
    "ss: a date before 1677": ("ss", "1600-01-01 00:00:00Z" + _SS[12:].format(7, 1, 1, 5), ["time_ns"]),
    "ss: seconds after 2242": ("ss", "9999999999.5" + _SS[12:].format(7, 1, 1, 5), ["time_ns"]),
    "telephony: below 64 bits": ("telephony-registry", _CELL.format(7, -(2**63) - 1), ["sinr_raw"]),
    "telephony: thousands of digits": ("telephony-registry", _CELL.format(_LONG, -5), ["cell_id"]),
    "telephony: other digits": ("telephony-registry", _CELL.format(7, _DIGITS), ["sinr_raw"]),
    "irtt: a huge JSON number": ("irtt", _TRIP.format(5, 10**400), ["rtt"]),
    "irtt: thousands of digits": ("irtt", _TRIP.format(_LONG, 5), ["wall"]),
    "irtt: NaN and infinity": ("irtt", _TRIP.format("NaN", "-Infinity"), ["wall", "rtt"]),
    "speedtest": (
        "speedtest",
        f'{{"ping":{10**400},"download":5,"upload":-1,"bytes_sent":1e400}}',
        ["latency", "upload", "bytes_sent"]
    ),
    "ping": ("ping", f"[99999999999.5] 64 bytes from a: time={_LONG} ms\n", ["time_ns", "rtt_s"]),
    "gpx": ("gpx", _POINT.format("nan", "1_0"), ["altitude_m", "satellites"]),
    "iperf3": (
        "iperf3", _INTERVAL.format("-1e999", "1e30", "NaN", -5), ["timesecs", "bytes", "bits_per_second", "rtt"],
    ),
}  # fmt: skip
_DATES = ("0001-01-01 00:00:00", "1677-09-20 00:00:00Z", "2263-01-01 00:00:00", "9999-12-31 23:59:59Z",
          "2026-13-01 00:00:00", "2026-02-30 10:00:00Z", "2026-01-01 25:00:00",
          "2026-01-01 00:00:00+99:59")  # fmt: skip
_ANSWER = "2026-01-01 00:00:00Z\n{}\nAT+CSQ\n+CSQ: 20,99\nOK\n"
_CANNOT_BE |= {date: ("at-transcript", _ANSWER.format(date), ["time_ns"]) for date in _DATES}


@pytest.mark.parametrize("case", _CANNOT_BE)
def test_a_number_or_date_that_cannot_be_is_missing_counted_and_told(case: str) -> None:
    name, text, dropped = _CANNOT_BE[case]
    fmt = next(fmt for fmt in FORMATS if fmt.name == name)
    table, *_ = (table for table in parsed(fmt, text.encode()).values() if len(table))
    (row,) = table.rows()
    assert table.provenance["missing"] == dict.fromkeys(dropped, 1)
    for column in set(dropped) & row.keys():
        assert row[column] is None or (column == "port_remote" and row[column] == 0)
    told = [warning for warning in table.provenance["warnings"] if "1 value is impossible: set to missing" in warning]
    assert sorted(warning.partition(":")[0] for warning in told) == sorted(dropped)


def test_what_a_log_says_of_a_flight_it_cannot_have_is_no_product() -> None:
    fmt = next(fmt for fmt in FORMATS if fmt.name == "ss")
    (row,) = parsed(fmt, _SS.replace("1448", str(2**52)).format(7, 2**52, 1, 5).encode())["tcp_state"].rows()
    assert (row["cwnd_segments"], row["cwnd_bytes"]) == (2**52, None)


def test_a_column_with_one_bad_value_among_many_keeps_the_others() -> None:
    fmt = next(fmt for fmt in FORMATS if fmt.name == "telephony-registry")
    text = "".join(_CELL.format(n, 2**63 if n == 70_000 else -5) for n in range(70_001))  # more than a chunk of rows
    radio = parsed(fmt, text.encode())["radio"]
    assert np.flatnonzero(radio.missing("sinr_raw")).tolist() == [70_000]
    assert (radio["sinr_raw"][:70_000] == -5).all()
    assert radio.provenance["missing"] == {"sinr_raw": 1}


def test_half_of_a_character_is_written_as_unknown() -> None:
    record = b'{"kind":"marker","note":"a\\ud800","realtime_ns":1700000000000000000}\n'
    (row,) = parsed(next(fmt for fmt in FORMATS if fmt.name == "markers"), record)["markers"].rows()
    assert row["note"] == "a\ufffd"
