"""The content of the screen: one line for each collector, and the last minutes of each number."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from multitracer.units import NS_PER_S
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from multitracer.recorder.child import CollectorProcess
    from multitracer.recorder.folder import Room

# The newest values in a collector's log: a small function for each collector that the screen shows.


Record = dict[str, Any]
_CARRIED = "carried"
"""Kind of a reading of the look before."""
_MOST_CARRIED = 1000
"""Sockets whose last reading is carried; it bounds memory."""
_SEVERAL = re.compile(r"-(udp|\d+)$")
"""End of the name of a second collector of the same kind: of a second phone, of other packets."""


@dataclass(slots=True)
class Newest:
    """The newest values of a collector, from the newest records of its log."""

    words: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    """Values by label with unit."""
    dropped: int | None = None
    """Number of packets, events or readings that were lost so far; None if not known."""
    gap: str | None = None
    """Reason why the source gives no values now; "" if it gives values, None if it is not known."""
    alert: str = ""
    """Warning for the engineer; empty if there is none."""
    packets: int | None = None
    """Number of packets recorded so far, for a collector whose log has no record for each packet; else None."""
    place: str | None = None
    """Latitude and longitude in degrees; "" if the source has no position now, None if it tells nothing of it."""
    carried: list[Record] = field(default_factory=list)
    """Records that belong before those of the next look, so that a rate is over all of the time between two looks."""


def values_of(name: str, records: Sequence[Record]) -> Newest:
    """Return the newest values of a collector; empty if this module does not know the collector."""
    reader = _BY_COLLECTOR.get(_SEVERAL.sub("", name))
    return reader(records) if reader and records else Newest()


def _numbers(record: Record, **labels: str) -> dict[str, float]:
    """Return the numbers of a record by their labels; missing ones are left out."""
    pairs = ((label, record.get(key)) for key, label in labels.items())
    return {label: float(v) for label, v in pairs if isinstance(v, int | float) and not isinstance(v, bool)}


def _tcp_info(records: Sequence[Record]) -> Newest:
    newest = Newest(dropped=_last(records, "missed"))
    sockets: dict[object, list[Record]] = {}
    before = {record.get("cookie"): record for record in records if record.get("kind") == _CARRIED}
    for record in records:
        if record.get("kind") == "reading" and isinstance(record.get("tcp_info"), dict):
            cookie = record.get("cookie")
            earlier = [before[cookie]] if cookie in before else []
            sockets.setdefault(cookie, earlier).append(record)
    if not sockets:
        newest.carried = list(before.values())  # a look between two rounds of readings
        return newest
    newest.carried = [readings[-1] | {"kind": _CARRIED} for readings in list(sockets.values())[:_MOST_CARRIED]]
    busiest = max(sockets.values(), key=lambda readings: (max(_moved_bytes(readings)), max(_totals(readings[-1]))))
    info = busiest[-1]["tcp_info"]
    newest.words = f"{count(len(sockets), 'socket')}, busiest to {busiest[-1].get('remote')}"
    newest.numbers = _numbers(info, snd_cwnd="cwnd, segments")
    sent_bytes, received_bytes = _moved_bytes(busiest)
    # Who only receives measures no round trip but that of its window.
    if rtt_us := (_complete(info.get("rcv_rtt")) if received_bytes > sent_bytes else 0) or _complete(info.get("rtt")):
        newest.numbers["RTT, ms"] = rtt_us / 1e3
    span_ns = _complete(busiest[-1].get("read_before_ns")) - _complete(busiest[0].get("read_before_ns"))
    if span_ns > 0:
        newest.numbers["sent, kbit/s"] = sent_bytes * 8e6 / span_ns
        newest.numbers["received, kbit/s"] = received_bytes * 8e6 / span_ns
    return newest


def _moved_bytes(readings: Sequence[Record]) -> tuple[int, int]:
    """Return the numbers of bytes that a socket sent and received between its first and its last reading."""
    (sent, received), (sent_before, received_before) = _totals(readings[-1]), _totals(readings[0])
    return sent - sent_before, received - received_before


def _totals(reading: Record) -> tuple[int, int]:
    info = reading["tcp_info"]
    return _complete(info.get("bytes_acked")), _complete(info.get("bytes_received"))


def _tcpdump(records: Sequence[Record]) -> Newest:
    newest = Newest(dropped=_last(records, "dropped_kernel"), packets=_last(records, "captured"))
    if newest.packets is not None:
        newest.words = f"{newest.packets:,} packets"
    return newest


def _tcp_probe(records: Sequence[Record]) -> Newest:
    return Newest(dropped=_last(records, "lost"))


_RADIO = {
    "rssi_dbm": "RSSI, dBm",
    "rsrp_dbm": "RSRP, dBm",
    "rsrq_db": "RSRQ, dB",
    "sinr_db": "SINR, dB",
    "bler_pct": "BLER, %",
    "cell_busy_pct": "cell busy, %",
}


def _modem(records: Sequence[Record]) -> Newest:
    """Return the newest values of the serving cell; empty if the answers contain no values."""
    newest = Newest(dropped=_last(records, "missed"), gap=_gap(records))
    for record in records:
        _serving(newest, record.get("shown"))
    return newest


def _serving(newest: Newest, shown: object) -> None:
    """Add the readings of the serving cell to the newest values, in place."""
    for reading in shown if isinstance(shown, list) else ():
        if isinstance(reading, dict) and reading.get("role") != "neighbour":
            newest.numbers |= _numbers(reading, **_RADIO)
            words = [str(reading[key]) for key in ("rat", "operator", "state") if reading.get(key)]
            newest.words = " ".join(words) if len(words) > 1 else newest.words or " ".join(words)


def _android(records: Sequence[Record]) -> Newest:
    newest = Newest(dropped=_last(records, "missed"))
    for record in records:
        kind = record.get("kind")
        if kind == "missed":
            newest.gap = str(record.get("why") or "nothing read")
        elif kind == "answer":
            newest.gap = ""
            _serving(newest, record.get("shown"))
            if record.get("of") == "location":
                _fix(newest, record.get("shown"))
        elif kind == "phone":
            newest.gap = newest.gap if "packets" not in record else ""
            newest.words = f"{record.get('serial')} {record.get('packets') or record.get('state')}"
        elif kind == "unable":
            newest.gap = str(record.get("says"))
            newest.alert = "; ".join(filter(None, (newest.alert, newest.gap)))
    return newest


_DISH = {
    "pop_ping_latency_ms": ("latency, ms", 1.0), "pop_ping_drop_rate": ("loss, %", 100.0),
    "downlink_throughput_bps": ("downlink, kbit/s", 1e-3), "uplink_throughput_bps": ("uplink, kbit/s", 1e-3),
}  # fmt: skip
"""Label and factor of what a dish states of itself."""


def _starlink(records: Sequence[Record]) -> Newest:
    newest = Newest(dropped=_last(records, "missed"))
    for record in records:
        if record.get("kind") == "missed":
            newest.gap = str(record.get("why") or "nothing read")
        elif record.get("kind") == "status":
            newest.gap = ""
            for key, (label, factor) in _DISH.items():
                newest.numbers |= {each: value * factor for each, value in _numbers(record, **{key: label}).items()}
            is_obstructed = record.get("currently_obstructed") is True
            newest.words = f"{record.get('state') or 'state not known'}{', obstructed' if is_obstructed else ''}"
    return newest


def _gps(records: Sequence[Record]) -> Newest:
    newest = Newest(dropped=_last(records, "missed"), gap=_gap(records))
    for record in records:
        _fix(newest, record.get("shown"))
    newest.words = "no fix" if newest.place == "" else newest.place or ""
    return newest


def _fix(newest: Newest, fix: object) -> None:
    """Add a position to the newest values, in place."""
    if not isinstance(fix, dict):
        return
    newest.place = ""
    place = fix.get("lat_deg"), fix.get("lon_deg")
    if all(isinstance(each, float) for each in place):
        newest.place = "{:.5f} {:.5f}".format(*place)
        newest.numbers |= _numbers(fix, speed_mps="speed, m/s")


def _gap(records: Sequence[Record]) -> str | None:
    """Return the reason why the last round had no answer; "" if it had one, None if there was no round."""
    gap = None
    for record in records:
        if record.get("kind") == "missed":
            gap = str(record.get("why") or "nothing read")
        elif record.get("shown"):
            gap = ""
    return gap


def _host_clock(records: Sequence[Record]) -> Newest:
    newest = Newest()
    for record in records:
        if "synchronized" in record:
            error_s = _complete(record.get("max_error_ns")) / 1e9
            newest.words = f"synchronised, ±{error_s:.3f} s" if record["synchronized"] else "not synchronised"
    steps = [_complete(record.get("step_ns")) / 1e9 for record in records if record.get("event") == "step"]
    newest.alert = "; ".join(f"the clock was stepped by {step_s:+.3f} s" for step_s in steps)
    return newest


def _complete(value: object) -> int:
    return value if isinstance(value, int) else 0


def _last(records: Iterable[Record], key: str) -> int | None:
    values = [record[key] for record in records if isinstance(record.get(key), int)]
    return values[-1] if values else None


_BY_COLLECTOR: dict[str, Callable[[Sequence[Record]], Newest]] = {
    "tcp_info": _tcp_info,
    "tcp_probe": _tcp_probe,
    "tcpdump": _tcpdump,
    "sniffer": _tcpdump,
    "modem": _modem,
    "remote": _modem,
    "android": _android,
    "starlink": _starlink,
    "android-packets": _android,
    "gps": _gps,
    "host_clock": _host_clock,
}


# The new records of a log since the last look, for the screen; the log itself is only read.


_MOST_BYTES = 256 << 10
"""Maximum bytes read at a time; older ones are skipped, so that a fast log does not delay the supervisor."""


class Follower:
    """Follows the JSON lines of a log, which may also hold other lines."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._place = 0
        self.lines = 0
        """Complete lines at the last read, lines that are not records included."""

    def records(self, path: Path) -> Iterator[dict[str, object]]:
        """Yield the complete records since the last call; a new path is read from its beginning."""
        self.lines = 0
        if path != self._path:
            self._path, self._place = path, 0
        try:
            with path.open("rb") as stream:
                size = stream.seek(0, 2)
                self._place = max(self._place, size - _MOST_BYTES)
                stream.seek(self._place)
                text = stream.read(_MOST_BYTES)
        except OSError:
            return
        complete = text.rpartition(b"\n")[0]
        self._place += len(complete) + 1 if complete else 0
        lines = complete.splitlines()
        self.lines = len(lines)
        for line in lines:
            if (record := _record(line)) is not None:
                yield record


def _record(line: bytes) -> dict[str, object] | None:
    line = line.removeprefix(b"# multitracer ")
    if not line.startswith(b"{"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


_KEPT = 120
"""Maximum number of values of a series on the screen: two minutes, one value a second."""
_LATE_NS = 3 * NS_PER_S
"""Age after which a value is no longer shown."""
SILENT_NS = 10 * NS_PER_S
"""Time after which a collector whose log does not grow counts as silent, in ns."""


@dataclass(slots=True)
class CollectorState:
    """The current state of one collector."""

    name: str
    state: str = "starting"
    """State: recording, no values (its source gives none), silent, starting, waiting (for a restart), ended."""
    bytes: int = 0
    bytes_per_s: float = 0.0
    records_per_s: float = 0.0
    dropped: int = 0
    last: str = ""
    """The last value as text, or the reason why there is none; control characters are removed."""
    since_s: float = 0.0
    """Time since the state began, in s; if it is silent, since its log grew last."""
    place: str | None = None
    """Latitude and longitude in degrees; "" if it has no position now, None if it is no source of positions."""
    restarts: int = 0
    alert: str = ""
    """Warning about this collector; empty if there is none."""


@dataclass(slots=True)
class RecordingStatus:
    """The content of the screen."""

    elapsed_s: float = 0.0
    lines: list[CollectorState] = field(default_factory=list)
    series: dict[str, deque[float]] = field(default_factory=dict)
    """Values of the last two minutes by label with unit, one a second; NaN where there was none."""
    now: str = ""
    """What limits the connection that carries most now; empty if nobody asked."""
    room: Room | None = None
    markers: int = 0
    sync_probes: int = 0
    message: str = ""
    """Message for the engineer; empty if there is none."""

    @property
    def place(self) -> str:
        """The position with its source; that of a receiver comes first. Empty if nothing records positions."""
        sources = sorted((line for line in self.lines if line.place is not None), key=lambda line: line.name != "gps")
        known = [f"{line.place} ({line.name})" for line in sources if line.place]
        unknown = [f"not known ({line.name}: no fix)" for line in sources]
        return next(iter((*known, *unknown)), "")


_OF_A_RADIO = frozenset({"modem", "remote", "android", "starlink"})
"""Collectors whose values have the same labels."""


def watchers_of(children: Sequence[CollectorProcess]) -> list[Watcher]:
    """Return a watcher for each collector; of several radios each has its name before the labels of its values."""
    names = [child.source.name for child in children if _SEVERAL.sub("", child.source.name) in _OF_A_RADIO]
    prefixes = {name: f"{name} " for name in names} if len(names) > 1 else {}
    return [Watcher(child, prefixes.get(child.source.name, "")) for child in children]


class Watcher:
    """Monitors one collector by reading its logs.

    Parameters
    ----------
    child : CollectorProcess
    prefix : str
        Written before the labels of its values.
    """

    def __init__(self, child: CollectorProcess, prefix: str = "") -> None:
        self._child = child
        self._prefix = prefix
        self._log, self._notes = Follower(), Follower()
        self._line = CollectorState(child.source.name)
        self._grew_ns = 0
        self._seen_ns = 0
        self._gap = ""
        self._told_ns: dict[str, int] = {}
        self._state_ns = 0
        self._placed_ns = 0
        self._carried: list[Record] = []
        self._packets = (0, 0)
        self._packets_per_s = 0.0

    def look(self, series: dict[str, deque[float]], now_ns: int) -> CollectorState:
        """Return the state of the collector, and add its newest values to the series."""
        line, child = self._line, self._child
        elapsed_s = max((now_ns - self._seen_ns) / NS_PER_S, 1e-3) if self._seen_ns else 1.0
        self._seen_ns = now_ns
        used = sum(path.stat().st_size for path in child.logs)
        line.bytes_per_s = max(0, used - line.bytes) / elapsed_s
        if used > line.bytes:
            self._grew_ns = now_ns
        line.bytes = used
        self._read(line, series, elapsed_s, now_ns)
        self._leave_gaps(series, now_ns)
        line.restarts = max(0, len(child.runs) - 1)
        before, line.state = line.state, self._state(now_ns)
        if line.state != before or not self._state_ns:
            self._state_ns = now_ns
        line.since_s = (now_ns - (self._grew_ns if line.state == "silent" else self._state_ns)) / NS_PER_S
        if not child.is_running and child.runs:
            line.last = child.runs[-1].outcome or ""
        line.last = _printable(line.last)
        return line

    def _read(self, line: CollectorState, series: dict[str, deque[float]], elapsed_s: float, now_ns: int) -> None:
        if not self._child.runs:
            return
        log, notes = self._child.source.logs(self._child.folder, len(self._child.runs) - 1)
        follower = self._notes if notes else self._log
        records = [*self._carried, *follower.records(notes or log)]
        newest = values_of(self._child.source.name, records)
        self._carried = newest.carried
        line.records_per_s = follower.lines / elapsed_s
        if notes:
            self._count_packets(line, newest.packets, now_ns)
        self._gap = self._gap if newest.gap is None else newest.gap
        line.last = self._gap or newest.words or line.last
        line.alert = newest.alert or line.alert
        if newest.dropped is not None:
            line.dropped = newest.dropped
        if newest.place is not None:
            line.place, self._placed_ns = newest.place, now_ns
        elif line.place and now_ns - self._placed_ns > SILENT_NS:
            line.place = ""
        for name, value in newest.numbers.items():
            label = self._prefix + name
            series.setdefault(label, deque(maxlen=_KEPT)).append(value)
            self._told_ns[label] = now_ns

    def _count_packets(self, line: CollectorState, packets: int | None, now_ns: int) -> None:
        """Compute the rate from the packet count, which the collector writes only every few seconds."""
        before, then_ns = self._packets
        elapsed_ns = now_ns - then_ns
        line.records_per_s = self._packets_per_s
        if packets is not None and (packets != before or elapsed_ns > SILENT_NS):
            self._packets_per_s = max(0, packets - before) * NS_PER_S / elapsed_ns if then_ns else 0.0
            self._packets = (packets, now_ns)

    def _leave_gaps(self, series: dict[str, deque[float]], now_ns: int) -> None:
        """Add NaN to a series whose values no longer arrive, so that the gap is visible."""
        for label, told_ns in self._told_ns.items():
            if now_ns - told_ns > _LATE_NS:
                series[label].append(math.nan)

    def _state(self, now_ns: int) -> str:
        if not self._child.is_running:
            return "waiting" if self._child.due_ns is not None else "ended"
        if not self._line.bytes:
            return "starting"
        if self._gap:
            return "no values"
        return "recording" if now_ns - self._grew_ns < SILENT_NS else "silent"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


# What limits the transfer now: a program beside the recorder writes it, because it needs the analysis.


_OLDEST_NOW_NS = 10 * NS_PER_S
"""Age after which a statement about now is no longer shown."""
_LONGEST_NOW = 200
_END_S = 1.0
"""Time to end by itself, so that it removes its files: a look takes a tenth of it."""


class CurrentLimit:
    """The newest sentence of a program that writes `{"at_ns": …, "words": …}`, one a line; it ends with its input.

    Parameters
    ----------
    command : sequence of str
        Empty for none.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._words, self._at_ns, self._began_ns = "", 0, 0
        if command:
            pipe, idle = subprocess.PIPE, subprocess.DEVNULL
            self._child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=idle, start_new_session=True)
            assert self._child.stdout is not None
            os.set_blocking(self._child.stdout.fileno(), False)

    def look(self, now_ns: int) -> str:
        """Return the sentence; empty without a program, or while it begins."""
        if self._child is None or self._child.stdout is None:
            return ""
        self._began_ns = self._began_ns or now_ns
        *lines, self._rest = (self._rest + (self._child.stdout.read(1 << 16) or b"")).split(b"\n")
        for line in lines:
            record = _record(line) or {}
            self._words, self._at_ns = str(record.get("words", ""))[:_LONGEST_NOW], _complete(record.get("at_ns"))
        if self._child.poll() is not None:
            return f"not known: the analysis ended with status {self._child.returncode}"
        if (old_ns := now_ns - (self._at_ns or self._began_ns)) > _OLDEST_NOW_NS:
            return f"not known: no analysis for {old_ns / NS_PER_S:.0f} s"
        return _printable(self._words)

    def close(self) -> None:
        """End the program."""
        if (child := self._child) is None or child.stdin is None or child.stdout is None:
            return
        child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_END_S)
        child.kill()
        child.wait()
        child.stdout.close()
        self._child = None
