"""Common code for logs of MultiTracer's collectors: their records, gaps, and rows with few values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from multitracer.errors import FormatError
from multitracer.protocols.position import Dates
from multitracer.schemas.radio import GAPS, POSITION, REMOTE_CLOCK
from multitracer.tables import NA, NOT_A_TIME
from multitracer.words import count
from parsers._text.times import Rows, parsed_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from multitracer.protocols.position import Epochs, Fix
    from multitracer.tables import Array, Column, Document, Schema, Table, Times
    from parsers._text.lines import LogLines

# From CLOCK_MONOTONIC to wall-clock time, by a collector's readings of both at the same time.
#
# On Linux the two differ by an offset that changes only when the wall clock is set; slewing moves both.
# Between two pairs the offset is interpolated, and its error is bounded by their brackets and by how much it
# moved. Where it moved faster than a clock is slewed, the clock was set: the offset stays as it was until the
# second pair, which collectors write as soon as they are told, so that nothing is spread over the step.


LATEST_NS = 1 << 62
"""Latest valid time stamp (year 2116): later ones are damage, and could overflow a sum."""
_FASTEST_SLEW = 0.1
"""Maximum slew as a fraction of time: chrony at most 8.3 % (`maxslewrate`), adjtimex 10 % (`tick`)."""


@dataclass(slots=True)
class ClockPairs:
    """Pairs of monotonic and wall-clock readings, in the order of the log."""

    _middles: list[int] = field(default_factory=list)
    _offsets: list[int] = field(default_factory=list)
    _errors: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._middles)

    def add(self, record: Mapping[str, object]) -> bool:
        """Add a clock record of a collector; return whether the record is valid."""
        keys = ("monotonic_before_ns", "realtime_ns", "monotonic_after_ns")
        before, realtime, after = (record.get(key) for key in keys)
        if not (is_time(before) and is_time(realtime) and is_time(after)) or before > after:
            return False
        if self._middles and before < self._middles[-1]:
            return False
        middle = (before + after) // 2
        self._middles.append(middle)
        self._offsets.append(realtime - middle)
        self._errors.append(after - middle)
        return True

    def place(self, monotonic_ns: Times) -> Times:
        """Convert monotonic times to wall-clock times: int64, ns, same shape.

        Unchanged if there are no pairs.
        """
        if not self._middles:
            return monotonic_ns
        base = self._offsets[0]
        at, offsets = self._knots()
        moved = [offset - base for offset in offsets]
        return monotonic_ns + base + np.rint(np.interp(monotonic_ns, at, moved)).astype(np.int64)

    def _knots(self) -> tuple[list[int], list[int]]:
        """Return the pairs, with an extra pair immediately before each pair after a wall-clock step."""
        at: list[int] = []
        offsets: list[int] = []
        before = 0
        for middle, offset, error in zip(self._middles, self._offsets, self._errors, strict=True):
            if at and abs(offset - offsets[-1]) > _FASTEST_SLEW * (middle - at[-1]) + error + before:
                at.append(max(at[-1], middle - 1))
                offsets.append(offsets[-1])
            at.append(middle)
            offsets.append(offset)
            before = error
        return at, offsets

    def facts(self) -> dict[str, object]:
        """Return notes on the clock conversion for the provenance."""
        if not self._middles:
            return {"from": "monotonic", "to": None, "pairs": 0}
        moves = [abs(b - a) for a, b in zip(self._offsets, self._offsets[1:], strict=False)]
        return {
            "from": "monotonic",
            "to": "realtime",
            "pairs": len(self._middles),
            "uncertainty_ns": max(self._errors) + max(moves, default=0),
        }


def is_time(value: object) -> TypeGuard[int]:
    """Return whether a value of a record is a valid time in ns."""
    return type(value) is int and 0 <= value < LATEST_NS


_VERSION = 1
_MOST_GAPS = 100_000
_LONGEST_REASON = 64


class Sparse:
    """Rows that have values for only some columns of a schema; the other cells are missing."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._missing = {column.name: _missing(column) for column in schema}
        self._rows = Rows(schema, schema.names)

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, values: Mapping[str, object]) -> None:
        """Add one row; a value that is None is missing."""
        known = {name: value for name, value in values.items() if value is not None}
        self._rows.append(*(self._missing | known).values())

    def columns(self) -> dict[str, Array]:
        """Return the columns collected, by name: each of shape (len(self),), dtype of its column."""
        return self._rows.columns()

    def nothing(self, name: str) -> Array:
        """Return a column in which all cells are missing: shape (len(self),), dtype of the column."""
        return np.full_like(self.columns()[name], self._missing[name])

    def table(self, provenance: Mapping[str, object], columns: Mapping[str, Array] | None = None) -> Table:
        """Return the table in order of time; `columns` replace collected columns of the same name."""
        return self._rows.table(provenance, columns)


class RemoteClocks:
    """Rows of REMOTE_CLOCK: another machine's clock, between two readings of the log's clock."""

    def __init__(self) -> None:
        self._rows = Sparse(REMOTE_CLOCK)

    def take(self, record: Mapping[str, object], line: int) -> bool:
        """Add a record; return whether it is valid."""
        before, remote, after = (record.get(name) for name in ("before_ns", "remote_ns", "after_ns"))
        if not (is_time(before) and is_time(remote) and is_time(after)) or before > after:
            return False
        stamps = {"time_ns": before, "until_ns": after, "remote_ns": remote}
        self._rows.append({**stamps, "host": str(record.get("host", ""))[:_LONGEST_REASON], "line": line})
        return True

    def table(self, log: CollectorLog) -> Table:
        """Return the readings, with this host's times as wall-clock times."""
        columns = self._rows.columns()
        placed = {name: log.pairs.place(columns[name]) for name in ("time_ns", "until_ns")}
        return self._rows.table(log.provenance(), placed)


class Nowhere:
    """Removes the position 0/0, which receivers without a fix write, and counts it."""

    def __init__(self) -> None:
        self.times = 0

    def drop(self, fix: Document) -> Document:
        """Return a fix without its coordinates if they are 0/0; otherwise the fix."""
        if fix.get("lat_deg") != 0 or fix.get("lon_deg") != 0:
            return fix
        self.times += 1
        return {name: value for name, value in fix.items() if name not in ("lat_deg", "lon_deg")}

    def note(self, lines: LogLines) -> dict[str, int]:
        """Add a warning if there were such positions; return the missing values by column."""
        if not self.times:
            return {}
        lines.warn(
            f"{count(self.times, 'position')} with latitude and longitude 0 (the receiver had no "
            "position): set to missing"
        )
        return dict.fromkeys(("lat_deg", "lon_deg"), self.times)


class Positions:
    """Rows of POSITION from fixes whose date may follow later in the log.

    If the logger wrote no time stamp, the time of the fix is used.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self.rows = Sparse(POSITION)
        self.dates = Dates()
        self.nowhere = Nowhere()

    def take(self, fixes: Iterable[Fix]) -> None:
        """Add fixes in the order of the log."""
        for fix in fixes:
            self._append(self.dates.take(fix))

    def finish(self, epochs: Epochs) -> None:
        """Add the remaining fixes of the last epoch."""
        self.take(epochs.finish())
        self._append(self.dates.finish())

    def _append(self, dated: Iterable[Fix]) -> None:
        for fix in dated:
            own = {"source": self._source, "time_ns": fix.get("fix_time_ns")}
            self.rows.append({**own, **self.nowhere.drop(dict(fix))})


def _missing(column: Column) -> float | str:
    kind = np.dtype(column.dtype).kind
    if kind == "f":
        return float("nan")
    if kind == "U":
        return ""
    return NOT_A_TIME if column.unit.startswith("ns") else NA


@dataclass(slots=True)
class _Gap:
    """Consecutive rounds without an answer; times are those of the log's clock."""

    since_ns: int
    until_ns: int
    count: int
    reason: str


class CollectorLog(ABC):
    """Reads the common records of a collector's log: header, clocks, gaps, end. Subclasses read the others.

    A gap lasts from the first to the last of consecutive rounds without an answer.
    """

    def __init__(self, path: str, lines: LogLines, *, name: str) -> None:
        self.path = path
        self.lines = lines
        self.name = name
        self.header: Document = {}
        self.end: Document = {}
        self.pairs = ClockPairs()
        self._gaps: list[_Gap] = []
        self._answered = True
        self._late = 0

    def read(self) -> Self:
        """Read all lines of the log, and return self.

        Raises
        ------
        FormatError
            If the first record is not this collector's header.
        """
        for text in self.lines:
            self.take(text)
        if not self.header:
            raise FormatError(self.path, f"the header of multitracer-{self.name} is missing")
        return self

    @abstractmethod
    def take(self, text: str) -> None:
        """Use one line, or count why it could not be used."""

    def record(self, text: str) -> Document | None:
        """Return the record of a line if the format must read it; count an invalid line.

        Raises
        ------
        FormatError
            If the first record is not this collector's header.
        """
        record = parsed_json(text)
        if not isinstance(record, dict):
            self.lines.skip("not a JSON object")
            return None
        if not self.header:
            self._begin(record)
            return None
        used = self._use(record)
        if used is False:
            self.lines.skip("not a record of this format")
        return record if used is None else None

    def answered(self) -> None:
        """End the current gap, because a round had an answer."""
        self._answered = True

    def gaps(self) -> Table:
        """Return the gaps as a table."""
        rows = Rows(GAPS, GAPS.names)
        for gap in self._gaps:
            rows.append(gap.since_ns, gap.until_ns, gap.count, gap.reason)
        columns = rows.columns()
        placed = {name: self.pairs.place(columns[name]) for name in ("time_ns", "until_ns")}
        return rows.table(self.provenance(), placed)

    def provenance(self) -> Document:
        """Return the provenance: counts, clock conversion and warnings."""
        return self.lines.provenance(
            self.path,
            self.name,
            header=self.header,
            clock=self.pairs.facts(),
            ended=self.end.get("reason"),
            missed_reads=self._late + sum(gap.count for gap in self._gaps),
            late_reads=self._late,
        )

    def _begin(self, record: Document) -> None:
        wanted = f"multitracer-{self.name}"
        if record.get("kind") != "header" or record.get("format") != wanted:
            raise FormatError(self.path, f"the header of {wanted} is missing", line=self.lines.number)
        if record.get("version") != _VERSION:
            raise FormatError(
                self.path, f"the version {record.get('version')!r} of {wanted} is not supported; update multitracer"
            )
        self.header = record

    def _use(self, record: Document) -> bool | None:
        """Read a common record and return whether it is valid; None if the format must read it."""
        kind = record.get("kind")
        if kind == "clock":
            return self.pairs.add(record)
        if kind == "clap":
            return True
        if kind == "missed":
            return self._miss(record)
        if kind == "end":
            self.end = record
            return True
        return None

    def _miss(self, record: Document) -> bool:
        since, until, count = (record.get(key) for key in ("since_ns", "until_ns", "count"))
        why = record.get("why")
        if not (is_time(since) and is_time(until) and is_time(count) and isinstance(why, str)):
            return False
        if why == "late":  # there were answers, only fewer than were to be
            self._late += count
            return True
        reason = "".join(c for c in why if c.isprintable())[:_LONGEST_REASON]
        last = self._gaps[-1] if self._gaps else None
        if last is not None and not self._answered and last.reason == reason:
            last.until_ns = max(until, last.until_ns)
            last.count = min(last.count + count, 1 << 53)
        elif len(self._gaps) < _MOST_GAPS:
            self._gaps.append(_Gap(since, until, count, reason))
        self._answered = False
        return True


def header_of(name: str) -> bytes:
    """Return the first record of a collector's log."""
    return b'{"kind":"header","format":"multitracer-%s"' % name.encode()
