"""Hostile logs of every format, by grammar: `python -m tests.fuzz.logs --minutes 10`.

Real lines and records (of the bundled samples, and of the tests of each format) are changed where their grammar has a
number, a date, a field, a value, a line or a checksum. A log follows from its seed alone. A format gives tables that
keep their schema, or refuses the log; a traceback, a warning of Python or NumPy, too much time or memory is a failure:
the log is written to out/fuzz, its seed is printed, and the run goes on.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import io
import json
import operator
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import multitracer.schemas
import parsers
from multitracer.capture import CaptureTables
from multitracer.errors import FormatError, InputError, PreflightError, UnknownFormatError
from multitracer.schemas.schema import NA, NOT_A_TIME, Schema
from multitracer.schemas.transactions import TRANSACTIONS
from parsers._stream import open_stream
from parsers._text.times import EARLIEST_NS, LATEST_NS
from tests.conftest import SAMPLES
from tests.fuzz.captures import GRAMMARS, broken, overwritten
from tests.fuzz.commands import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from multitracer.tables import Array, Column
    from parsers._format import Parsed

_OUT = Path("out") / "fuzz"
_LONGEST_S = 5.0
"""Processor time of one log; the slowest takes half a second."""
_MOST_GROWTH_KB = 400_000
"""Memory by which a run may grow; the formats, tshark's and scat's readers among them, take some 100 MB."""
_INSPECTED_IN = 20
"""One log in so many goes through `inspect`, too, which takes ten times as long as its parser."""
_TOLD_EVERY_S = 60.0
_FEWEST = 300
"""Logs of the shortest run: some of each format, three seconds of a processor."""
_LARGEST = 20_000
"""Bytes of a log before it is changed."""
_MAPPED = "mapped-csv"
_CAPTURES = ("pcap", "pcapng", "snoop", "erf")
_OF_OCTETS = (*_CAPTURES, "rlpdump", "diag", "sdm")
"""Formats of records of octets; the others are text."""
_SLOW = ("diag", "sdm")
"""Formats that start other programs, a second for each log: one log in so many is of theirs."""
_SLOW_IN = 500

_INTEGERS = (0, 1, 7, 127, 128, 255, 256, 32_767, 32_768, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53,
             2**62, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64, 10**18, 10**19, 10**30, 10**308, 10**309,
             10**400)  # fmt: skip
_NUMBERS = (
    *map(str, _INTEGERS), *(f"-{each}" for each in _INTEGERS), "9" * 5_000, "-" + "9" * 5_000, "0" * 5_000,
    "1." + "9" * 400, "1e308", "1e309", "-1e309", "1e-400", "5e-324", "1e9999999999", "nan", "NaN", "inf", "-inf",
    "Infinity", "-Infinity", "-0.0", "+5", "--5", "1_000", "0x10", "1e", "1.2.3", "1,5", ".5", "5.", "٣٤", "१२", "²",
    "½", "१२.५", "", " ", "-", "007",
)  # fmt: skip
_YEARS = ("0001", "0000", "1600", "1677", "1678", "1900", "1969", "1970", "2038", "2106", "2116", "2117", "2242",
          "2243", "2262", "2263", "9999", "٢٠٢٦")  # fmt: skip
_DAYS = ("01-01", "12-31", "02-29", "02-30", "13-01", "00-00", "09-21", "99-99")
_CLOCKS = ("00:00:00", "23:59:59", "23:59:60", "24:00:00", "25:61:61", "99:99:99", "٠٠:٠٠:٠٠")
_ZONES = ("", "Z", "+00:00", "+14:00", "-14:00", "+23:59", "-23:59", "+24:00", "+99:99", "-9959", " UTC", " IST")
_HOSTILE = (
    b"\0", b"\xed\xa0\x80", b"\xff\xfe", b"\x80", "\u202e\u2028\ufeff".encode(), b"\x1b[2J", b"' OR 1=1 --", b"<a>",
    b"../../etc/passwd", b"%s%n", b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u0000", b"\\ud800", b"\r", b"\n", b"\t",
    b",", b";", b"=", b":", b"A" * 3_000, b"[" * 2_000, b'{"a":' * 500, b"-" * 70, b" " * 3_000, b"1" * 5_000,
)  # fmt: skip
_VALUES = (b"null", b"true", b"false", b"[]", b"{}", b'""', b'"x"', b"[[]]", b'{"a":1}', b"-1", b"1e400", b"NaN",
           b"-Infinity", b"[1,2]", b'"9e999"', b'"\\ud800\\u0000"')  # fmt: skip
_NUMBER = re.compile(rb"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_DATE = re.compile(
    rb"\d{4}(?P<sep>[-./])\d\d[-./]\d\d(?:(?P<t>[T _])\d\d(?P<colon>[:.])\d\d[:.]\d\d)?(?P<fraction>[.,]\d{1,9})?"
    rb"(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_VALUE = re.compile(rb'(?<=[:\[,])\s*(?:"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null)(?=\s*[,}\]])')
_SENTENCE = re.compile(rb"\$([^*$\r\n]*)\*[0-9A-Fa-f]{2}")

# --- the logs that are changed ---

_CONSTANTS = {
    "bugreport": ("REPORT",),
    "at_transcript": ("MINICOM", "STAMPED", "LOOP", "TERMINAL"),
    "drive_csv": ("TOWERS", "SURVEY", "XCAL", "CAIT"),
    "flent": ("SAMPLE",),
    "ftrace": ("OURS", "TRACE_CMD_NS", "PERF", "PROBE_4_16"),
    "gnettrack": ("HEAD ROWS", "RESULTS"),
    "gnettrack_kml": ("_SMALL",),
    "gpsd": ("HELLO TPV",),
    "gpx": ("TRACK",),
    "iperf3": ("SAMPLE",),
    "iperf3_text": ("TEXT", "OLD"),
    "latency": ("LOG",),
    "mapped_csv": ("CSV",),
    "modem_tools": ("MMCLI", "QMICLI", "UQMI", "INFO3G", "GSMCTL", "MMCLI_TEXT", "MMCLI_KEYS", "CELLS", "HILINK",
                    "MIKROTIK"),
    "ndt7": ("CLIENT",),
    "nmea": ("RMC GGA NO_FIX", "RMC RMC"),
    "ping": ("PING",),
    "ns2_trace": ("TRACE",),
    "position_table": ("LOG",),
    "radio_table": ("LOG",),
    "sdm": ("RAW", "LOGGED"),
    "siftr": ("FIRST_1_2_2 LINE_1_2_2 LAST", "FIRST_1_2_4 LINE_1_2_4 LINE_1_2_4", "FIRST_1_3_0 LINE_1_3_0 LAST"),
    "starlink": ("STATUS", "BULK", "LOOP", "MQTT"),
    "ss": ("LOSSY LOSSY_6", "TWO_LINES OLD_KERNEL"),
    "tcp_info": ("WHOLE",),
    "telephony_registry": ("DUMP SECOND_CARD",),
    "track_csv": ("LOGGER", "SENSOR"),
}  # fmt: skip
"""Logs by the module of tests/parsers that holds them; several names are the parts of one log."""
_NOW_NS = 1_770_113_472_000_000_000
_STAMPS = (
    b"2026-02-03 10:11:12\n",
    b"1770113472.5\n",
    b"2026-02-03T10:11:13.5+01:00\n",
    b"Tue Feb  3 10:11:12 UTC 2026\n",
)
"""What a loop writes between the outputs of a program."""
_LOOPED = ("ss", "at-transcript", "modem-tools", "telephony-registry")


@functools.lru_cache(1)
def known() -> dict[str, list[bytes]]:
    """Return whole logs of each format that is in the tests, in the bundled samples, or made here; by format."""
    logs: dict[str, list[bytes]] = {name: list(made) for name, made in _made().items()}
    for module, texts in _CONSTANTS.items():
        held = importlib.import_module(f"tests.parsers.test_{module}")
        for names in texts:
            data = b"".join(_octets(getattr(held, name)) for name in names.split())
            logs.setdefault(module.replace("_", "-"), []).append(data)
    for path in sorted(SAMPLES.rglob("*")):
        data, name = (
            _sample(path)
            if path.is_file() and path.suffix != ".py" and path.stat().st_size < 5 * _LARGEST
            else (b"", "")
        )
        if name and len(logs.setdefault(name, [])) < 8:
            logs[name].append(data)
    for name in _LOOPED:
        logs[name] += [b"".join(stamp + log for stamp in _STAMPS[at % 2 :: 2]) for at, log in enumerate(logs[name])]
    return logs


def _octets(held: object) -> bytes:
    if isinstance(held, list):
        return b"".join(map(_octets, held))
    return held if isinstance(held, bytes) else str(held).encode()


def _sample(path: Path) -> tuple[bytes, str]:
    """Return the first lines or octets of a sample without its compression, and its format; "" if it has none."""
    try:
        name = parsers.detect(path).name
        with open_stream(path) as stream:
            data = io.BufferedReader(stream).read(_LARGEST)
    except (FormatError, UnknownFormatError, InputError):
        return b"", ""
    return (data if name in _OF_OCTETS else data[: data.rfind(b"\n") + 1] or data), name


def _made() -> dict[str, list[bytes]]:
    """Return logs of the formats that no constant of a test holds."""
    read = {"monotonic_before_ns": 5_000, "realtime_ns": _NOW_NS, "monotonic_after_ns": 6_000}
    chrony = "A,b,1,1700000000.0,0.000001,0.000002,0.000003,1.5,0.1,0.01,0.02,0.003,64.0,Normal"
    clocks = [{"host": "a", **read, "boottime_ns": 7, "synchronized": 1, "frequency_ppm": 1.5, "max_error_ns": 5},
              {"host": "b", **read, "chrony": chrony, "tag": "ab12"},
              {"host": "c", **read, "ptp": "TIME_STATUS_NP master_offset -35 x gmPresent true"}]  # fmt: skip
    trip = {"lost": "false", "timestamps": {"client": {"send": {"wall": _NOW_NS}}}, "delay": {"rtt": 25_000_000}}
    ookla = {"timestamp": "2026-02-03T10:11:12Z", "ping": {"latency": 3.5, "low": 3.0, "high": 9.0, "iqm": 4.0},
             "download": {"bandwidth": 5_000, "bytes": 90_000, "elapsed": 7_000, "latency": {"iqm": 5.0}},
             "upload": {"bandwidth": 600, "bytes": 9_000, "elapsed": 8_000}}  # fmt: skip
    by_cli = {"download": 8e6, "upload": 1e6, "ping": 30.5, "server": {"host": "x"}, "bytes_sent": 1_000,
              "bytes_received": 9_000, "timestamp": "2026-02-03T10:11:12.5Z"}  # fmt: skip
    measured = [{"AppInfo": {"ElapsedTime": 250_000 * n, "NumBytes": 9_000 * n},
                 "TCPInfo": {"RTT": 40_000, "RTTVar": 2_000, "SndCwnd": 10, "PacingRate": 5_000}}
                for n in (1, 2, 3)]  # fmt: skip
    archived = {"UUID": "x", "StartTime": "2026-02-03T10:11:12.5Z", "ServerMeasurements": measured}
    row = dict.fromkeys(TRANSACTIONS.names[:-1], "5") | {"protocol": "tcp", "vary": "request", "outcome": "ok"}
    table = "".join(",".join(cells) + "\n" for cells in (row, *[row.values()] * 3))
    of_ping = b"[1770113472.%06d] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=31.5 ms\n"
    mlab = importlib.import_module("tests.parsers.test_mlab_tcp_info").SNAPSHOT
    qlog, key_log = (importlib.import_module(f"tests.parsers.{name}") for name in ("test_qlog", "test_key_log"))
    return {
        "android": [_phone()],
        "starlink": [_lines(_DISH)],
        "claps": [_lines({"kind": "clap", "tag": f"ab{n}", **read} for n in range(4))],
        "clocks": [_lines(clocks)],
        "diag": [importlib.import_module("tests.parsers.test_diag").log(6)],
        "key-log": [key_log.LINE.encode() * 3],
        "qlog": [make().encode() for make in (qlog.of_aioquic, qlog.of_quiche, qlog.of_draft_01)],
        "irtt": [_lines([{"version": {"irtt": "0.9.1"}, "config": {}, "round_trips": [trip] * 3}])],
        "markers": [_lines({"kind": "marker", "note": f"tunnel {n}", "realtime_ns": _NOW_NS + n} for n in range(4))],
        "mlab-tcp-info": [_lines([{"Timestamp": "2026-02-03T10:11:12Z", "Metadata": {"UUID": "x"}}, mlab, mlab])],
        "ndt7": [_lines([{"Download": archived, "UUID": "x"}])],
        "ping": [b"PING a (192.0.2.1) 56(84) bytes of data.\n" + of_ping % 1 + of_ping % 999_999],
        "speedtest": [_lines([ookla]), _lines([by_cli])],
        "transactions": [table.encode()],
    }  # fmt: skip


_DISH = (
    {"kind": "header", "format": "multitracer-starlink", "version": 1, "clock": "CLOCK_MONOTONIC"},
    {"kind": "status", "asked_ns": 5, "answered_ns": 9, "state": "CONNECTED", "uptime": 20, "fraction_obstructed": 0.5,
     "currently_obstructed": False, "direction_azimuth": -3.5},
    {"kind": "history", "asked_ns": 10**10, "answered_ns": 10**10 + 9, "counter": 22, "samples": 2,
     "pop_ping_drop_rate": [0.0, 1.0], "pop_ping_latency_ms": [30.5, None], "downlink_throughput_bps": [5e7, 0.0],
     "uplink_throughput_bps": [3e6, 0.0]},
    {"kind": "outage", "at_ns": 9, "cause": "OBSTRUCTED", "start_ns": 10**18, "duration_ns": 2 * 10**9},
)  # fmt: skip


def _phone() -> bytes:
    """Return a log of a phone that was asked everything."""
    phone, registry = (importlib.import_module(f"tests.{name}") for name in
                       ("collectors.test_android", "parsers.test_telephony_registry"))  # fmt: skip
    texts = {
        "registry": registry.DUMP, "location": "90000.50 1.0\n" + phone.LOCATION.format(second=0),
        "power": "mWakefulness=Awake", "wifi": phone.WIFI, "battery": phone.BATTERY, "packages": phone.PACKAGES,
        "apps": phone.APPS,
    }  # fmt: skip
    stamps = {"asked_ns": 6_000, "answered_ns": 9_000, "status": 0}
    answers = [{"kind": "answer", "of": name, **stamps, "raw": text} for name, text in texts.items()]
    read = {"monotonic_before_ns": 5_000, "realtime_ns": _NOW_NS, "monotonic_after_ns": 6_000}
    return _lines([
        {"kind": "header", "format": "multitracer-android", "version": 1, "clock": "CLOCK_MONOTONIC"},
        {"kind": "clock", **read}, {"kind": "phone", "at_ns": 7, "state": "opened", "serial": "x", "says": "y"},
        {"kind": "remote_clock", "host": "x", "before_ns": 5, "remote_ns": _NOW_NS, "after_ns": 9},
        *answers, {"kind": "answer", "of": "registry", **stamps, "same": True},
        {"kind": "event", "at_ns": 9, "raw": phone.EVENT},
        {"kind": "missed", "count": 1, "since_ns": 5, "until_ns": 9, "why": "unplugged"},
    ])  # fmt: skip


def _lines(records: Iterable[object]) -> bytes:
    return b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in records)


# --- how they are changed ---


def hostile(seed: int, only: str = "") -> tuple[str, bytes]:
    """Return format and octets of the log of a seed; `only`: of this format."""
    rng = random.Random(seed)
    names = [only] if only else sorted({*known(), *_CAPTURES} - set(_SLOW)) if rng.randrange(_SLOW_IN) else list(_SLOW)
    name = rng.choice(names)
    if name in _CAPTURES:
        made = GRAMMARS[_CAPTURES.index(name)](rng)
        return name, broken(rng, made) if rng.random() < 0.7 else made
    data, changes = rng.choice(known()[name]), (broken, overwritten) if name in _OF_OCTETS else _CHANGES
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        data = rng.choice(changes)(rng, data)
    return name, _summed(data) if rng.random() < 0.7 else data


def _replaced(
    rng: random.Random, data: bytes, what: re.Pattern[bytes], make: Callable[[re.Match[bytes]], bytes]
) -> bytes:
    """Return data with one match of a pattern, or now and then all in a row, made anew."""
    matches = list(what.finditer(data))
    if not matches:
        return data
    begin = rng.randrange(len(matches))
    chosen = matches[begin : begin + rng.choice((1, 1, 1, 2, 4, len(matches)))]
    parts, at = [], 0
    for match in chosen:
        parts += [data[at : match.start()], make(match)]
        at = match.end()
    return b"".join([*parts, data[at:]])


def _number(rng: random.Random, data: bytes) -> bytes:
    return _replaced(rng, data, _NUMBER, lambda _: rng.choice(_NUMBERS).encode())


def _digit(rng: random.Random, data: bytes) -> bytes:
    return _replaced(rng, data, _NUMBER, lambda match: str(rng.randrange(10 ** min(len(match[0]), 18))).encode())


def _date(rng: random.Random, data: bytes) -> bytes:
    def made(match: re.Match[bytes]) -> bytes:
        year, day, clock, zone = (rng.choice(each) for each in (_YEARS, _DAYS, _CLOCKS, _ZONES))
        sep, colon = match["sep"].decode(), (match["colon"] or b":").decode()
        of_day = f"{year}-{day}".replace("-", sep)
        of_clock = clock.replace(":", colon).encode()
        shown = of_day.encode() + (match["t"] + of_clock if match["t"] else b"") + (match["fraction"] or b"")
        return shown + (zone.encode() if rng.random() < 0.5 else match["zone"] or b"")

    return _replaced(rng, data, _DATE, made)


def _value(rng: random.Random, data: bytes) -> bytes:
    return _replaced(rng, data, _VALUE, lambda _: rng.choice((rng.choice(_VALUES), rng.choice(_NUMBERS).encode())))


def _field(rng: random.Random, data: bytes) -> bytes:
    """Drop, double, swap or empty a field of a line."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at = rng.randrange(len(lines))
    mark = max((b",", b";", b"\t", b" ", b":", b"|"), key=lines[at].count)
    fields = lines[at].split(mark)
    place, other = rng.randrange(len(fields)), rng.randrange(len(fields))
    match rng.randrange(4):
        case 0:
            del fields[place]
        case 1:
            fields[place:place] = [fields[other]] * rng.choice((1, 2, 300))
        case 2:
            fields[place], fields[other] = fields[other], fields[place]
        case _:
            fields[place] = b""
    lines[at] = mark.join(fields)
    return b"".join(lines)


def _line(rng: random.Random, data: bytes) -> bytes:
    """Swap, drop, double or cut lines, or put a time stamp between them."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            lines[at], lines[other] = lines[other], lines[at]
        case 1:
            del lines[at]
        case 2:
            lines[at:at] = [lines[other]] * rng.choice((1, 2, 50))
        case 3:
            lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)] + b"\n" * rng.randrange(2)
        case 4:
            lines[at:at] = [_date(rng, rng.choice(_STAMPS))]
        case _:
            lines[at] = _number(rng, rng.choice(_STAMPS)).rstrip() + b" " + lines[at]
    return b"".join(lines)


def _junk(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice((*_HOSTILE, rng.randbytes(rng.choice((1, 4, 40))))) + data[at:]


_CHANGES = (_number, _number, _number, _digit, _date, _date, _value, _value, _field, _line, _junk, broken)


def _summed(data: bytes) -> bytes:
    """Return data in which the checksum of each NMEA sentence is right."""
    return _SENTENCE.sub(lambda m: b"$%s*%02X" % (m[1], functools.reduce(operator.xor, m[1], 0)), data)


# --- what must hold ---


@functools.lru_cache(1)
def schemas() -> list[Schema]:
    """Return the schemas of all tables."""
    folder = Path(multitracer.schemas.__file__).parent
    modules = [importlib.import_module(f"multitracer.schemas.{path.stem}") for path in folder.glob("[a-z]*.py")]
    return [value for module in modules for value in vars(module).values() if isinstance(value, Schema)]


_SIGNED = ("sinr_raw", "tai_offset_s")
"""Columns of whole numbers that may be negative; -1 is the missing value of the others."""


def check(tables: Parsed) -> None:
    """Check what holds of the tables of every log, whatever it says."""
    if isinstance(tables, CaptureTables):
        return  # tests.fuzz.captures checks them
    for table in tables.values():
        assert table.schema in schemas()
        assert tuple(table.columns) == table.schema.names
        for column in table.schema:
            values = table[column.name]
            assert values.dtype == np.dtype(column.dtype), column.name
            assert len(values) == len(table), column.name
            _check_values(column, values)
        json.dumps(table.provenance)
        assert all(count > 0 for count in table.provenance.get("missing", {}).values())
        for row in table.take(slice(0, 20)).rows():
            str(row)


def _check_values(column: Column, values: Array) -> None:
    if column.is_time:
        known = values[values != NOT_A_TIME]
        assert ((known >= EARLIEST_NS) & (known <= LATEST_NS)).all(), f"{column.name}: {known}"
    elif values.dtype.kind == "f":
        assert not np.isinf(values).any(), f"{column.name}: {values}"
    elif values.dtype.kind == "U":
        "".join(values.tolist()).encode()
    elif values.dtype.kind == "i" and column.na and column.unit != "ns" and column.name not in _SIGNED:
        assert (values >= NA).all(), f"{column.name}: {values}"


def failure_of(name: str, data: bytes, folder: Path, *, inspect: bool = False, must_read: bool = False) -> str | None:
    """Return what goes wrong with a log, a traceback; None if nothing does.

    Parameters
    ----------
    name : str
        Format of the log.
    data : bytes
    folder : Path
        For the file, where one must be.
    inspect : bool
        Whether the log is also given to `multitracer inspect`.
    must_read : bool
        Whether the log must not be refused.
    """
    signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST_S)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            path = folder / ("mapped" if name == _MAPPED else "log")
            if name == _MAPPED or inspect:
                path.write_bytes(data)
            if name == _MAPPED:
                path.with_name("mapped.toml").write_text(importlib.import_module("tests.parsers.test_mapped_csv").MAP)
            fmt = next(each for each in parsers.formats() if each.name == name)
            try:
                check(fmt.parse(io.BytesIO(data), path=str(path)))
            except (FormatError, PreflightError):
                if must_read:
                    raise
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            return failure(["inspect", str(path)]) if inspect else None
    except Exception:  # noqa: BLE001  # to find any is the purpose
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"it takes longer than {_LONGEST_S} s")


def fuzz(seconds: float, *, first_seed: int, only: str = "") -> tuple[Counter[str], dict[int, str]]:
    """Fuzz for some time, with some hundred logs at least.

    Returns
    -------
    tried : Counter
        Number of logs by format.
    failed : dict of int to str
        Tracebacks by seed.
    """
    with tempfile.TemporaryDirectory(prefix="multitracer-") as folder:
        return _fuzz(seconds, first_seed, only, Path(folder))


def _fuzz(seconds: float, first_seed: int, only: str, folder: Path) -> tuple[Counter[str], dict[int, str]]:
    told = time.monotonic()
    end = told + seconds
    seed, failed, tried = first_seed, dict[int, str](), Counter[str]()
    while time.monotonic() < end or tried.total() < _FEWEST:
        name, data = hostile(seed, only)
        tried[name] += 1
        if wrong := failure_of(name, data, folder, inspect=seed % _INSPECTED_IN == 0):
            failed[seed] = wrong
            _OUT.mkdir(parents=True, exist_ok=True)
            (_OUT / f"log-{seed}-{name}").write_bytes(data)
            sys.stderr.write(f"seed {seed}, {name}:\n{wrong}\n")
        if time.monotonic() - told > _TOLD_EVERY_S:
            told = time.monotonic()
            sys.stderr.write(f"{tried.total():,} logs, {len(failed)} failed; next seed {seed + 1}\n")
        seed += 1
    return tried, failed


def main() -> int:
    """Run from the command line; exit status 1 if a log failed."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=10.0)
    arguments.add_argument("--seed", type=int, default=time.time_ns() // 1000)
    arguments.add_argument("--format", default="", help="only this format")
    chosen = arguments.parse_args()
    known()
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tried, failed = fuzz(60 * chosen.minutes, first_seed=chosen.seed, only=chosen.format)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    for name, times in sorted(tried.items()):
        sys.stdout.write(f"{name:20} {times:,}\n")
    sys.stdout.write(
        f"{tried.total():,} logs of {len(tried)} formats from seed {chosen.seed} on, {len(failed)} failed; "
        f"memory grew by {grown_kb / 1000:.0f} MB\n"
    )
    return bool(failed) or grown_kb > _MOST_GROWTH_KB


if __name__ == "__main__":
    sys.exit(main())
