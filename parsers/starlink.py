"""What a Starlink dish says of itself, and its history, a sample for each second; of several programs.

- The log of `collectors.starlink`.
- CSV of starlink-grpc-tools (`dish_grpc_text.py`) that begins with its header (`-H`), of the modes status and
  bulk_history; of others the columns of these names. Its times are UTC.
- JSON as grpcurl prints the answers to get_status and get_history, and of `dish_grpc_mqtt.py --json`. It has no time
  but in a loop with `date` before each; without, only the values are known.

The last sample of an answer is that of the second before the answer; the others follow backwards, a second each. Their
times are therefore known to a second. Identity and place of the dish are not in the tables. Source:
collectors/starlink.py; starlink-grpc-tools (README.md, starlink_grpc.py) for the names; SpaceX.API.Device
(dish.proto), as the dish gives it by reflection.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from multitracer.schemas.application import PINGS
from multitracer.schemas.radio import DISH, DISH_OUTAGES
from multitracer.units import NS_PER_S
from parsers._format import Format, Match
from parsers._text.collector_log import CollectorLog, Sparse, header_of, is_time
from parsers._text.lines import LogLines, date_line, names_in
from parsers._text.times import EARLIEST_NS, decimal_of, ns_since_1970, parsed_json
from parsers._text.times import LATEST_NS as LATEST_DATE_NS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.tables import Document, Table

_MOST_SAMPLES = 100_000
"""Samples of one answer; a dish keeps 900."""
_MS_PER_S = 1000
_SERIES = "dish"
_OF_STATUS = {
    "fraction_obstructed": "obstructed_ratio", "direction_azimuth": "azimuth_deg",
    "direction_elevation": "elevation_deg", "uptime": "uptime_s",
}  # fmt: skip
_OF_HISTORY = {
    "pop_ping_drop_rate": "loss_ratio", "downlink_throughput_bps": "downlink_bps",
    "uplink_throughput_bps": "uplink_bps",
}  # fmt: skip
_LATENCY = "pop_ping_latency_ms"


_TIME = "datetimestamp_utc"
_OF_CSV = _OF_STATUS | _OF_HISTORY
_LONGEST_JSON = 4 << 20
"""Characters of a JSON object: a history of 15 minutes has 100 kB."""
_STARTS = re.compile(rb'\s*\{\s*"(?:apiVersion|dishGet\w{1,20}|dish_(?:status|bulk_history))"')
_TRUE, _FALSE = ("True", "1"), ("False", "0")


class _Rows:
    """Collects the rows; times are those of the log's clock."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.dish, self.outages, self.pings = Sparse(DISH), Sparse(DISH_OUTAGES), Sparse(PINGS)

    def status(self, record: Mapping[str, object], time_ns: int | None) -> None:
        """Add the state of the dish."""
        values: Document = {ours: self._real(record, theirs) for theirs, ours in _OF_STATUS.items()}
        if isinstance(is_obstructed := record.get("currently_obstructed"), bool):
            values["obstructed"] = int(is_obstructed)
        self.dish.append({"time_ns": time_ns, "line": self._lines.number, "state": _state(record), **values})

    def history(self, record: Mapping[str, object], last_ns: int | None, *, newest: int | None = None) -> bool:
        """Add the samples of an answer, or only the newest ones; return whether the record is valid."""
        count = record.get("samples")
        lists = {name: record.get(name) for name in (*_OF_HISTORY, _LATENCY)}
        if type(count) is not int or not 0 < count <= _MOST_SAMPLES:
            return False
        if not all(isinstance(each, list) and len(each) == count for each in lists.values()):
            return False
        for at in range(max(0, count - newest) if newest is not None else 0, count):
            time_ns = None if last_ns is None else max(0, last_ns - (count - 1 - at) * NS_PER_S)
            self.sample({name: values[at] for name, values in lists.items() if isinstance(values, list)}, time_ns)
        return True

    def sample(self, sample: Mapping[str, object], time_ns: int | None, **more: object) -> None:
        """Add the values of a second; a latency only if not all pings were lost."""
        known = {ours: self._real(sample, theirs) for theirs, ours in _OF_HISTORY.items()}
        self.dish.append({"time_ns": time_ns, "line": self._lines.number, **known, **more})
        if (rtt_ms := self._real(sample, _LATENCY)) is not None and (known["loss_ratio"] or 0) < 1:
            own = {"time_ns": time_ns, "run": 1, "source": "starlink", "series": _SERIES}
            self.pings.append({**own, "rtt_s": rtt_ms / _MS_PER_S})

    def outage(self, record: Mapping[str, object], at_ns: int | None) -> bool:
        """Add an outage; return whether the record is valid."""
        start_ns, duration_ns = record.get("start_ns"), record.get("duration_ns")
        if not is_time(duration_ns):
            return False
        cause = _printable(record.get("cause", ""))[:32]
        times = {"time_ns": at_ns, "dish_time_ns": start_ns if is_time(start_ns) else None}
        self.outages.append({**times, "line": self._lines.number, "cause": cause, "duration_ns": duration_ns})
        return True

    def _real(self, record: Mapping[str, object], name: str) -> float | None:
        """Return a finite number of a record; None, counted where there is something else."""
        value = record.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53:
            return float(value) if math.isfinite(value) else None
        if value is not None:
            self._lines.drop(name)
        return None

    def tables(self, provenance: Document) -> dict[str, Table]:
        """Return the rows as tables, with their times as they are."""
        rows = {"dish": self.dish, "dish_outages": self.outages, "pings": self.pings}
        return {name: each.table(provenance) for name, each in rows.items()}


def _printable(value: object) -> str:
    return "".join(c for c in str(value) if c.isprintable())


def _state(record: Mapping[str, object]) -> str:
    return _printable(record.get("state", ""))[:16]


class _Log(CollectorLog):
    """Reads the records of the collector's log."""

    def __init__(self, path: str, lines: LogLines) -> None:
        super().__init__(path, lines, name="starlink")
        self._rows = _Rows(lines)

    def take(self, text: str) -> None:
        """Read one line, or count it as unusable by reason."""
        record = self.record(text)
        if record is None:
            return
        uses = {"status": self._status, "history": self._history, "outage": self._outage}
        use = uses.get(str(record.get("kind")))
        if use is None or not use(record):
            self.lines.skip("not a record of this format")

    def _status(self, record: Document) -> bool:
        time_ns = _middle(record)
        if time_ns is None:
            return False
        self.answered()
        self._rows.status(record, time_ns)
        return True

    def _history(self, record: Document) -> bool:
        last_ns = _middle(record)
        return last_ns is not None and self._rows.history(record, last_ns)

    def _outage(self, record: Document) -> bool:
        at_ns = record.get("at_ns")
        return is_time(at_ns) and self._rows.outage(record, at_ns)

    def tables(self) -> dict[str, Table]:
        """Return the tables, with their times as wall-clock times."""
        rows = {"dish": self._rows.dish, "dish_outages": self._rows.outages, "pings": self._rows.pings}
        placed = {
            name: each.table(self.provenance(), {"time_ns": self.pairs.place(each.columns()["time_ns"])})
            for name, each in rows.items()
        }
        return placed | {"gaps": self.gaps()}


# --- CSV of starlink-grpc-tools ---


def _of_csv(head: str, lines: LogLines, path: str) -> dict[str, Table]:
    """Return the tables of a CSV log; `head` is its first line.

    Raises
    ------
    FormatError
        If that names no columns.
    """
    names, rows = names_in(head, ","), _Rows(lines)
    if not names:
        raise FormatError(path, "the first line does not name the columns", line=1)
    for text in lines:
        cells = names_in(text, ",")
        if not cells or cells == names:  # the header is printed anew by each start with -H
            continue
        time_ns = _time_of(cells[0])
        is_unreachable = cells[1:4] == ["", "", ""] and len(cells) == _UNREACHABLE
        if time_ns is None or not (is_unreachable or len(cells) == len(names)):
            lines.skip("not a row of this table")
            continue
        values = dict(zip(names, cells, strict=False))
        record = {name: decimal_of(values[name]) for name in (*_OF_CSV, _LATENCY) if values.get(name)}
        for name, value in record.items():
            if value is None and values[name].lower() != "nan":
                lines.drop(name)
        own: Document = {ours: record.get(theirs) for theirs, ours in _OF_STATUS.items()}
        obstructed = values.get("currently_obstructed", values.get("obstructed", ""))
        own["obstructed"] = 1 if obstructed in _TRUE else 0 if obstructed in _FALSE else None
        rows.sample(record, time_ns, state=_state(values), **own)
    return rows.tables(lines.provenance(path, FORMAT.name))


_UNREACHABLE = 5
"""Cells of a row that says only that the dish was unreachable: time, three empty ones, state."""


def _time_of(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is not None or not moment.year > 1970:
        return None
    time_ns = ns_since_1970(moment.replace(tzinfo=UTC))
    return time_ns if EARLIEST_NS <= time_ns <= LATEST_DATE_NS else None


# --- JSON of grpcurl, and of dish_grpc_mqtt.py ---


class _Json:
    """Reads objects, one after the other, each on one line or on many; a line with a date is the time of the next."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.rows = _Rows(lines)
        self.objects = 0
        self._time_ns: int | None = None
        self._kinds: set[str] = set()
        """Kinds of answers since the date."""
        self._text: list[str] = []
        self._length = 0
        self._counter: int | None = None
        self._outages: set[tuple[object, object]] = set()

    def take(self, text: str) -> None:
        """Read one line."""
        if not self._text and not text.startswith("{"):
            stamp = date_line(text)
            if stamp is not None:
                self._time_ns, self._kinds = self._lines.time_of(stamp), set()
                if stamp.caveat:
                    self._lines.warn(stamp.caveat)
            elif text.strip():
                self._lines.skip("not a JSON object")
            return
        self._length += len(text)
        if self._length <= _LONGEST_JSON:
            self._text.append(text)
        if text == "}" or (len(self._text) == 1 and text.endswith("}")):
            record = parsed_json("\n".join(self._text)) if self._length <= _LONGEST_JSON else None
            self._text, self._length = [], 0
            if not isinstance(record, dict) or not self._object(record):
                self._lines.skip("not an answer of a dish")

    def end(self) -> None:
        """Count an object that has no end."""
        if self._text:
            self._lines.skip("an object without its end", len(self._text))

    def _object(self, record: Document) -> bool:
        """Add an answer; a second one of its kind after a date has a time that is not known."""
        kind = next((name for name in _KINDS if name in record), "")
        if kind in self._kinds:
            self._time_ns, self._kinds = None, set()
        self._kinds.add(kind)
        status, history = record.get("dishGetStatus"), record.get("dishGetHistory")
        flat = record.get("dish_status")
        if isinstance(status, dict):
            self._status(status)
        elif isinstance(history, dict):
            return self._history(history)
        elif isinstance(flat, dict):
            self.rows.status(flat, self._time_ns)
            self.rows.sample(flat, self._time_ns)
        else:
            return False
        self.objects += 1
        return True

    def _status(self, status: Document) -> None:
        within = {name: each if isinstance(each := status.get(name), dict) else {} for name in _WITHIN}
        obstruction = within["obstructionStats"]
        # JSON of protocol buffers leaves out what is 0 or false.
        flow = {"popPingDropRate": 0.0, **status} if "popPingLatencyMs" in status else status
        if obstruction:
            obstruction = {"fractionObstructed": 0.0, "currentlyObstructed": False, **obstruction}
        record = {
            "fraction_obstructed": obstruction.get("fractionObstructed"),
            "currently_obstructed": obstruction.get("currentlyObstructed"),
            "direction_azimuth": status.get("boresightAzimuthDeg"),
            "direction_elevation": status.get("boresightElevationDeg"),
            "uptime": _count_of(within["deviceState"].get("uptimeS")),
            "state": status.get("state") or within["outage"].get("cause") or "CONNECTED",
        }
        self.rows.status(record, self._time_ns)
        self.rows.sample({ours: flow.get(theirs) for ours, theirs in _JSON_NAMES.items()}, self._time_ns)

    def _history(self, history: Document) -> bool:
        """Add the samples since the answer before, from the ring in which the dish has them."""
        current = _count_of(history.get("current"))
        lists = {ours: history.get(theirs) for ours, theirs in _JSON_NAMES.items()}
        sizes = {len(each) for each in lists.values() if isinstance(each, list)}
        if current is None or len(sizes) != 1 or not all(isinstance(each, list) for each in lists.values()):
            return False
        (size,) = sizes
        count = min(size, current)
        if not 0 < count <= _MOST_SAMPLES:
            return False
        at = [second % size for second in range(current - count, current)]
        record: Document = {
            ours: [_or_nan(each[n]) for n in at] for ours, each in lists.items() if isinstance(each, list)
        }
        is_later = self._counter is not None and current >= self._counter
        newest = current - self._counter if is_later and self._counter is not None else None
        self._counter = current
        self.objects += 1
        outages = history.get("outages")
        for each in outages[-_MOST_OUTAGES:] if isinstance(outages, list) else ():
            if isinstance(each, dict):
                self._outage(each)
        return self.rows.history(record | {"samples": count}, self._time_ns, newest=newest)

    def _outage(self, outage: Document) -> None:
        record = {"cause": str(outage.get("cause", "UNKNOWN")), "start_ns": _count_of(outage.get("startTimestampNs")),
                  "duration_ns": _count_of(outage.get("durationNs"))}  # fmt: skip
        key = record["start_ns"], record["cause"]
        if key not in self._outages and len(self._outages) < _MOST_SAMPLES:
            self._outages.add(key)
            self.rows.outage(record, self._time_ns)


_KINDS = ("dishGetStatus", "dishGetHistory", "dish_status")
_WITHIN = ("obstructionStats", "deviceState", "outage")
_JSON_NAMES = {
    "pop_ping_drop_rate": "popPingDropRate", "pop_ping_latency_ms": "popPingLatencyMs",
    "downlink_throughput_bps": "downlinkThroughputBps", "uplink_throughput_bps": "uplinkThroughputBps",
}  # fmt: skip
_MOST_OUTAGES = 1000


def _count_of(value: object) -> int | None:
    """Return a number that JSON of protocol buffers writes as text, because it may have 64 bits."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    return value if is_time(value) else None


def _or_nan(value: object) -> object:
    return None if value == "NaN" else value


def _of_json(first: str, lines: LogLines, path: str) -> dict[str, Table]:
    """Return the tables of JSON objects.

    Raises
    ------
    FormatError
        If none of them is an answer of a dish.
    """
    objects = _Json(lines)
    objects.take(first)
    for text in lines:
        objects.take(text)
    objects.end()
    if not objects.objects:
        raise FormatError(path, "the file contains no answer of a Starlink dish to get_status or get_history")
    if objects.rows.dish.columns()["time_ns"].min() < 0:
        lines.warn("the JSON has no time: write `date` before each answer, or record with `capture --starlink`")
    return objects.rows.tables(lines.provenance(path, FORMAT.name))


def _middle(record: Document) -> int | None:
    asked_ns, answered_ns = record.get("asked_ns"), record.get("answered_ns")
    if not (is_time(asked_ns) and is_time(answered_ns)) or asked_ns > answered_ns:
        return None
    return asked_ns + (answered_ns - asked_ns) // 2


def sniff(head: bytes) -> Match:
    """Return "yes" for the collector's log, for CSV of starlink-grpc-tools with its header, and for a dish's JSON."""
    if head.startswith(header_of("starlink")):
        return "yes"
    first = head[:_HEAD_BYTES].split(b"\n", 1)[0].rstrip(b"\r").split(b",")
    if first[0] == _TIME.encode():
        return "yes" if {name.encode() for name in (*_OF_CSV, _LATENCY)} & set(first) else "no"
    is_dish = b"dishGet" in head or b'"dish_status"' in head
    return "yes" if is_dish and _STARTS.search(head) else "no"


_HEAD_BYTES = 4096


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `dish`, `dish_outages` and `pings`, and of the collector's log `gaps`.

    Raises
    ------
    FormatError
        If the first record is not the collector's header, and the file is of no other program.
    """
    lines = LogLines(stream)
    first = next(iter(lines), "")
    if first.split(",")[0] == _TIME:
        return _of_csv(first, lines, path)
    if not header_of("starlink").decode().startswith(first[:20]) or len(first) < 20:
        return _of_json(first, lines, path)
    log = _Log(path, lines)
    log.take(first)
    return log.read().tables()


FORMAT = Format(
    name="starlink",
    layer="radio",
    description="state and history of a Starlink dish: MultiTracer's collector, starlink-grpc-tools, grpcurl",
    source="collectors/starlink.py; starlink-grpc-tools; SpaceX.API.Device (dish.proto)",
    sniff=sniff,
    parse=parse,
)
