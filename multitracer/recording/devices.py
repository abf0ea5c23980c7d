"""Groups the radio logs of a recording by phone and by drive.

The logs of one host belong to one phone unless they contradict each other, as those of two phones in one car
do. Logs that follow each other belong to one drive: many programs begin a new file every hour. A gap of more
than six hours without a reading begins another drive.
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.serving import Serving, is_serving
from multitracer.schemas.radio import POSITION, RADIO
from multitracer.schemas.signalling import HANDOVERS
from multitracer.tables import NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Array, Mask, Numbers, Times


PAUSE_NS = 6 * 3600 * NS_PER_S
"""Minimum gap without a reading, in ns, that begins another drive: longer than a lunch break, shorter than a night."""
_PAUSE_STEPS = 20
"""The gap must also be at least this many times the median interval of the readings: a meter may read twice a
day. Not measured."""
_MOST_DRIVES = 50
"""Maximum number of drives of one phone: of more gaps, the longest ones are used. It bounds the work for a hostile log.
"""
_OVERLAP_NS = 10 * NS_PER_S
"""Maximum overlap, in ns, of two logs that follow each other: a new file may begin before the old one is closed."""
_NEAR_NS = NS_PER_S
"""Maximum distance in time of two readings that are compared, in ns: phones and modems are read about once a second."""
_MIN_COMPARED = 3  # fewer readings decide nothing; not measured
_OTHER_FORMAT, _SAME_FORMAT, _OTHER_LEVELS = 0.5, 0.2, 0.5
"""Two logs belong to two phones if at least this share of their simultaneous readings differs:
`_OTHER_FORMAT` for cells in logs of different formats, `_SAME_FORMAT` for cells in logs of one format,
`_OTHER_LEVELS` for signal levels. Logs of one phone in two formats may name the cells of two layers; in one
format they differ only where the cell changes between their readings. Levels are compared only within one
format, because formats differ in scale and filter. Not measured."""
Span = tuple[int, int]
"""The first and the last time of a log, in ns since 1970."""
_ANCHOR_NS = 6 * NS_PER_S
"""Maximum distance, in ns, between a reading of an NR cell and the LTE readings around it: programs on phones
usually read a cell at least every 5 s. Not measured."""
_CELLS = ("cell_id", "physical_cell_id")
_LEVELS = ("rsrp_dbm", "rscp_dbm", "rssi_dbm")


class PhoneLog(NamedTuple):
    """The tables of one log of a phone."""

    host: str
    path: str
    format: str
    radio: Table
    """The table RADIO of the log; it may be empty."""
    orders: Table
    """HANDOVERS from the log's signalling messages."""

    @property
    def serials(self) -> set[str]:
        """The serial numbers of the phones that answered, as far as the log states them."""
        stated = self.radio.provenance.get("phones", ())
        return {str(each["serial"]) for each in stated if isinstance(each, dict) and each.get("serial")}

    @property
    def times(self) -> Times:
        """The known times of all rows: int64, ns."""
        time_ns = np.concatenate([self.radio["time_ns"], self.orders["time_ns"]])
        return np.asarray(time_ns[time_ns != NOT_A_TIME])


def phones_apart(logs: list[PhoneLog]) -> Iterator[tuple[str, list[PhoneLog]]]:
    """Yield the name of each phone, and its logs, once for each drive.

    The name is that of the host; if one host has logs of several phones, the name of the first log is added.
    """
    for host in dict.fromkeys(log.host for log in logs):
        phones = _by_phone([log for log in logs if log.host == host])
        for own in phones:
            name = PurePath(own[0].path).name
            label = "/".join(filter(None, (host, name))) if len(phones) > 1 and name != host else host
            yield from ((label, drive) for drive in _drives(_with_legs(own)))


def span_of(time_ns: Times) -> Span:
    """Return the first and the last of some times, ns; without times, a span after all others."""
    last = int(np.iinfo(np.int64).max)
    return (int(time_ns.min()), int(time_ns.max())) if len(time_ns) else (last, last)


def follow(one: Span, other: Span) -> bool:
    """Return whether one log follows the other: they overlap by at most `_OVERLAP_NS`."""
    return min(one[1], other[1]) - max(one[0], other[0]) <= _OVERLAP_NS


def likest(name: str, others: list[str]) -> int:
    """Return the index of the name in `others` that shares the longest prefix with `name`."""
    return max(range(len(others)), key=lambda place: _alike(name, others[place]))


def _alike(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)  # up to the end of the shorter one
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _by_phone(logs: list[PhoneLog]) -> list[list[PhoneLog]]:
    """Return the logs of one host in groups, one for each phone.

    If a log fits several phones, it goes to the one whose log has the most similar name.
    """
    phones: list[_Phone] = []
    for span, log in sorted(((span_of(log.times), log) for log in logs), key=lambda each: each[0]):
        fitting = [phone for phone in phones if not phone.contradicts(log, span)]
        operators = _operators(log)
        choice = [phone for phone in fitting if operators & phone.operators] or fitting
        if not choice:
            choice = [_Phone([], [], set())]
            phones += choice
        phone = choice[likest(log.path, [each.logs[-1].path if each.logs else "" for each in choice])]
        phone.logs.append(log)
        phone.spans.append(span)
        phone.operators.update(operators)
    return [phone.logs for phone in phones]


class _Phone(NamedTuple):
    """The logs that belong to one phone, their time spans, and the network operators that they name."""

    logs: list[PhoneLog]
    spans: list[Span]
    operators: set[str]

    def contradicts(self, log: PhoneLog, span: Span) -> bool:
        """Return whether a log cannot be from this phone, because it contradicts one of the phone's logs."""
        stated = [own.serials for own in self.logs if own.serials]
        if log.serials and stated and all(log.serials.isdisjoint(own) for own in stated):
            return True
        pairs = zip(self.logs, self.spans, strict=True)
        overlapping = [own for own, other in pairs if not follow(span, other)]
        return any(_contradict(log, own) for own in overlapping)


def _operators(log: PhoneLog) -> set[str]:
    return {*log.radio["operator"].tolist(), *log.radio["plmn"].tolist()} - {""}


def _contradict(one: PhoneLog, other: PhoneLog) -> bool:
    """Return whether two logs are from different phones: their simultaneous readings differ too often."""
    alike = one.format == other.format
    first, second = Serving.of(one.radio), Serving.of(other.radio)
    bound = _SAME_FORMAT if alike else _OTHER_FORMAT
    if any(_differ(first, second, name) >= bound for name in _CELLS):
        return True
    return alike and any(_differ(first, second, name) >= _OTHER_LEVELS for name in _LEVELS)


def _differ(first: Serving, second: Serving, column: str) -> float:
    """Return the share of comparable readings in which a column differs; 0 if too few can be compared."""
    rows, others = _read(first, column), _read(second, column)
    if not len(rows) or not len(others):
        return 0.0
    near = others[_nearest(second.time_ns[others], first.time_ns[rows])]
    families = first.family[rows], second.family[near]
    same = (families[0] == families[1]) | (families[0] == "") | (families[1] == "")
    compared = same & (np.abs(second.time_ns[near] - first.time_ns[rows]) <= _NEAR_NS)
    if compared.sum() < _MIN_COMPARED:
        return 0.0
    values = first.identity(column)[rows], second.identity(column)[near]
    return float((values[0] != values[1])[compared].mean())


def _read(serving: Serving, column: str) -> Numbers:
    values = serving.identity(column)
    return np.flatnonzero(values >= 0 if values.dtype.kind == "i" else np.isfinite(values))


def _nearest(known: Times, wanted: Times) -> Numbers:
    """Return the index of the nearest `known` time (ascending) for each `wanted` time."""
    after = np.clip(np.searchsorted(known, wanted), 1, max(len(known) - 1, 1))
    after = np.minimum(after, len(known) - 1)
    before = np.maximum(after - 1, 0)
    return np.where(np.abs(known[after] - wanted) < np.abs(known[before] - wanted), after, before)


def _with_legs(logs: list[PhoneLog]) -> list[PhoneLog]:
    """Return the logs of a phone, with NR cells between LTE cells of another log as secondary cells.

    A program may write one file for each technology. A phone that uses both has its anchor in LTE (EN-DC: TS
    37.340, 4.1.2). Two serving cells would look like a change of cell at each reading.
    """
    anchors = [_times_of(log.radio, "LTE") for log in logs]
    if not any(map(len, anchors)):
        return logs
    legs = []
    for place, log in enumerate(logs):
        others = np.sort(np.concatenate([np.empty(0, np.int64), *anchors[:place], *anchors[place + 1 :]]))
        leg = is_serving(log.radio) & (log.radio["rat"] == "NR") & _amid(others, log.radio["time_ns"])
        role = np.where(leg, "secondary", log.radio["role"])
        legs.append(log._replace(radio=Table(RADIO, log.radio.columns | {"role": role}, log.radio.provenance)))
    return legs


def _times_of(radio: Table, rat: str) -> Times:
    """Return the times at which a cell of a technology served."""
    rows = is_serving(radio) & (radio["rat"] == rat) & (radio["time_ns"] != NOT_A_TIME)
    return np.asarray(radio["time_ns"][rows])


def _amid(known: Times, time_ns: Times) -> Mask:
    """Return which times have a time in `known` shortly before and shortly after them: bool."""
    if not len(known):
        return np.zeros(len(time_ns), dtype=bool)
    after = np.searchsorted(known, time_ns)
    before = known[np.maximum(after - 1, 0)]
    later = known[np.minimum(after, len(known) - 1)]
    soon = (time_ns - before <= _ANCHOR_NS) & (later - time_ns <= _ANCHOR_NS)
    return np.asarray((after > 0) & (after < len(known)) & soon)


def _drives(logs: list[PhoneLog]) -> list[list[PhoneLog]]:
    """Return the logs of a phone in groups, one for each drive; rows without a time go to the first one."""
    cuts = _pauses(np.sort(np.concatenate([log.times for log in logs])))
    if not len(cuts):
        return [logs]
    drives: list[list[PhoneLog]] = [[] for _ in range(len(cuts) + 1)]
    for log in logs:
        radio, orders = _cut(log.radio, cuts), _cut(log.orders, cuts)
        for drive, own in zip(drives, zip(radio, orders, strict=True), strict=True):
            if len(own[0]) or len(own[1]):
                drive.append(log._replace(radio=own[0], orders=own[1]))
    return drives


def _pauses(time_ns: Times) -> Times:
    """Return the times, in ns, at which a new drive begins after a long time without readings."""
    apart = np.diff(time_ns)
    steps = apart[apart > 0]
    if not len(steps):
        return np.empty(0, dtype=np.int64)
    long = np.flatnonzero(apart > max(PAUSE_NS, _PAUSE_STEPS * float(np.median(steps))))
    longest = np.sort(long[np.argsort(-apart[long], kind="stable")[: _MOST_DRIVES - 1]])
    return np.asarray(time_ns[longest + 1])


def _cut(table: Table, cuts: Times) -> list[Table]:
    number: Array = np.searchsorted(cuts, table["time_ns"], side="right")
    return [table.take(number == drive) for drive in range(len(cuts) + 1)]


def radio_of(logs: list[PhoneLog]) -> Table:
    """Return the concatenated RADIO tables of logs, in the order of the logs."""
    return logs[0].radio if len(logs) == 1 else Table.concatenate(RADIO, [log.radio for log in logs])


def orders_of(logs: list[PhoneLog]) -> Table:
    """Return the concatenated HANDOVERS tables of logs, in the order of the logs."""
    return Table.concatenate(HANDOVERS, [log.orders for log in logs])


# The position logs of a recording as tracks: successive logs of one receiver are one track.


class Placed(NamedTuple):
    """A table of one log, on the clock of the radio context."""

    host: str
    path: str
    table: Table
    format: str


def tracks_of(logs: list[Placed]) -> list[Placed]:
    """Return one table of positions for each receiver, joined from its successive logs.

    The logs of a receiver have the same host and format, and do not overlap in time. A log that fits several
    receivers goes to the one whose last log has the most similar name.
    """
    tracks: list[_Track] = []
    for span, log in sorted(((span_of(_times(log)), log) for log in logs), key=lambda each: each[0]):
        fitting = [track for track in tracks if track.fits(log, span)]
        if not fitting:
            fitting = [_Track([], [])]
            tracks += fitting
        track = fitting[likest(log.path, [each.logs[-1].path if each.logs else "" for each in fitting])]
        track.logs.append(log)
        track.spans.append(span)
    return [_joined(track.logs) for track in tracks]


class _Track(NamedTuple):
    """The logs of one receiver found so far, and their time spans."""

    logs: list[Placed]
    spans: list[Span]

    def fits(self, log: Placed, span: Span) -> bool:
        """Return whether a log has the same host and format, and does not overlap these logs in time."""
        same = (self.logs[0].host, self.logs[0].format) == (log.host, log.format)
        return same and all(follow(span, other) for other in self.spans)


def of_drive(tracks: list[Placed], span_ns: tuple[int, int] | None) -> list[Placed]:
    """Return the tracks, cut to the time of a drive with `PAUSE_NS` before and after it.

    If no track has positions in that time, all tracks are returned: their clock may be a different one.
    """
    if span_ns is None:
        return tracks
    begin_ns, end_ns = span_ns[0] - PAUSE_NS, span_ns[1] + PAUSE_NS
    cut = [track._replace(table=track.table.within(begin_ns, end_ns)) for track in tracks]
    return [track for track in cut if len(track.table)] or tracks


def _times(log: Placed) -> Times:
    time_ns = log.table["time_ns"]
    return np.asarray(time_ns[time_ns != NOT_A_TIME])


def _joined(logs: list[Placed]) -> Placed:
    """Return the logs of one receiver as one; rows stay in the order of the logs."""
    if len(logs) == 1:
        return logs[0]
    table = Table.concatenate(POSITION, [log.table for log in logs])
    if any(log.table.provenance.get("zone") == "unknown" for log in logs):
        table.provenance["zone"] = "unknown"
    return logs[0]._replace(table=table)
