"""The log of `collectors.starlink`: what a Starlink dish says of itself, and its history, a sample for each second.

The last sample of an answer is that of the second before the answer; the others follow backwards, a second each. Their
times are therefore known to a second. Source: collectors/starlink.py; package starlink-grpc-core for the names;
SpaceX.API.Device (dish.proto), as the dish gives it by reflection.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, BinaryIO

from multitracer.schemas.application import PINGS
from multitracer.schemas.radio import DISH, DISH_OUTAGES
from multitracer.units import NS_PER_S
from parsers._format import Format, Match
from parsers._text.collector_log import CollectorLog, Sparse, header_of, is_time
from parsers._text.lines import LogLines

if TYPE_CHECKING:
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


class _Log(CollectorLog):
    """Reads the records of a log, and collects the rows."""

    def __init__(self, path: str, lines: LogLines) -> None:
        super().__init__(path, lines, name="starlink")
        self.dish, self.outages, self.pings = Sparse(DISH), Sparse(DISH_OUTAGES), Sparse(PINGS)

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
        values: Document = {ours: self._real(record, theirs) for theirs, ours in _OF_STATUS.items()}
        if isinstance(is_obstructed := record.get("currently_obstructed"), bool):
            values["obstructed"] = int(is_obstructed)
        state = "".join(c for c in str(record.get("state", "")) if c.isprintable())
        self.dish.append({"time_ns": time_ns, "line": self.lines.number, "state": state[:16], **values})
        return True

    def _history(self, record: Document) -> bool:
        last_ns, count = _middle(record), record.get("samples")
        lists = {name: record.get(name) for name in (*_OF_HISTORY, _LATENCY)}
        if last_ns is None or type(count) is not int or not 0 < count <= _MOST_SAMPLES:
            return False
        if not all(isinstance(each, list) and len(each) == count for each in lists.values()):
            return False
        for at in range(count):
            time_ns = max(0, last_ns - (count - 1 - at) * NS_PER_S)
            sample = {name: values[at] for name, values in lists.items() if isinstance(values, list)}
            known = {ours: self._real(sample, theirs) for theirs, ours in _OF_HISTORY.items()}
            self.dish.append({"time_ns": time_ns, "line": self.lines.number, **known})
            if (rtt_ms := self._real(sample, _LATENCY)) is not None:
                own = {"time_ns": time_ns, "run": 1, "source": "starlink", "series": _SERIES}
                self.pings.append({**own, "rtt_s": rtt_ms / _MS_PER_S})
        return True

    def _outage(self, record: Document) -> bool:
        at_ns, start_ns, duration_ns = (record.get(name) for name in ("at_ns", "start_ns", "duration_ns"))
        if not (is_time(at_ns) and is_time(duration_ns)):
            return False
        cause = "".join(c for c in str(record.get("cause", "")) if c.isprintable())[:32]
        times = {"time_ns": at_ns, "dish_time_ns": start_ns if is_time(start_ns) else None}
        self.outages.append({**times, "line": self.lines.number, "cause": cause, "duration_ns": duration_ns})
        return True

    def _real(self, record: Document, name: str) -> float | None:
        """Return a finite number of a record; None, counted where there is something else."""
        value = record.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53:
            return float(value) if math.isfinite(value) else None
        if value is not None:
            self.lines.drop(name)
        return None

    def placed(self, rows: Sparse) -> Table:
        """Return rows as a table, with their times as wall-clock times."""
        return rows.table(self.provenance(), {"time_ns": self.pairs.place(rows.columns()["time_ns"])})


def _middle(record: Document) -> int | None:
    asked_ns, answered_ns = record.get("asked_ns"), record.get("answered_ns")
    if not (is_time(asked_ns) and is_time(answered_ns)) or asked_ns > answered_ns:
        return None
    return asked_ns + (answered_ns - asked_ns) // 2


def sniff(head: bytes) -> Match:
    """Return "yes" for a log that begins with the header of `collectors.starlink`."""
    return "yes" if head.startswith(header_of("starlink")) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `dish`, `dish_outages`, `pings` and `gaps`.

    Raises
    ------
    FormatError
        If the first record is not this header.
    """
    log = _Log(path, LogLines(stream)).read()
    rows = {"dish": log.dish, "dish_outages": log.outages, "pings": log.pings}
    return {name: log.placed(each) for name, each in rows.items()} | {"gaps": log.gaps()}


FORMAT = Format(
    name="starlink",
    layer="radio",
    description="state and history of a Starlink dish, recorded by MultiTracer's collector starlink",
    source="collectors/starlink.py; SpaceX.API.Device (dish.proto)",
    sniff=sniff,
    parse=parse,
)
