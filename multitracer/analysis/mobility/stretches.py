"""Where it was bad, how bad, and why: ranked stretches of a drive.

A second is bad when data were wanted and the rate was far below what is typical of the drive; where no rate
can be judged, when the radio was bad and the phone's logger saw no good rate all the same. Bad seconds that
follow each other are a stretch, which is cut where the cause changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.causes import Cause, Radio, causes_of, inherited, missing_of, radio_of
from multitracer.analysis.mobility.edges import Span, cause_span, sharpened
from multitracer.analysis.mobility.evidence import evidence_of, median
from multitracer.analysis.mobility.seconds import Drive, Seconds, seconds_of
from multitracer.mobility import STRETCHES
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array, Document, Mask, Numbers, Row

POOR_SHARE = 0.2
"""Below this share of the typical rate a second is bad: good radio alone varies by a factor of four (capacity
of Shannon at 5 and at 25 dB). Not measured."""
OUTAGE_SHARE = 0.5
"""The same while an outage or a retransmission timer is the limit: the first and last second of such a
silence hold what came before and after it."""
GOOD_BPS = 1e6
"""What a phone's logger sees in a second with a good rate: more than a phone sends and loads by itself. Not
measured."""
LEAST_S = 2
"""A single second may be the edge of a reading or of a burst. Not measured."""
_LEAST_SLOW_S = 10
"""A low rate for less is any pause between two requests. Not measured."""
_BRIDGE_S = 2
"""Up to this many seconds that are not bad do not end a stretch. Not measured."""
_PLACES = ("lat_deg", "lon_deg", "begin_m", "end_m", "cause_begin_m", "cause_end_m")
_LEAST_CAUSE_S = 3
"""A cause that lasts for less joins its neighbour: levels vary around a threshold. Not measured."""


Bounds = tuple[int | None, int | None]
"""Begin and end in ns since 1970, the end not included; None leaves a side open."""


class _Part(NamedTuple):
    """Seconds in a row with one cause."""

    first: int
    last: int
    cause: Cause
    opens: bool
    """It is the first part of its stretch."""
    closes: bool
    """It is the last one."""
    is_whole: bool = True
    """All of it is shown."""

    @property
    def rows(self) -> Numbers:
        """Its seconds."""
        return np.arange(self.first, self.last + 1)

    def within(self, rows: slice) -> _Part | None:
        """Return what of it lies in a range of seconds; None if nothing does."""
        first, last = max(self.first, rows.start), min(self.last, rows.stop - 1)
        opens, closes = self.opens and first == self.first, self.closes and last == self.last
        is_whole = (first, last) == (self.first, self.last)
        return _Part(first, last, self.cause, opens, closes, is_whole) if first <= last else None


class _Judged(NamedTuple):
    """A drive with what is known of its seconds, and what was judged of them."""

    drive: Drive
    seconds: Seconds
    radio: Radio
    shown: Numbers
    """Cause that each second shows itself."""
    by_rate: Mask
    typical_bps: float
    shown_ns: Bounds


def stretches(drive: Drive, *, poor_bps: float | None = None, shown_ns: Bounds = (None, None)) -> Table:
    """Return the bad stretches of a drive, the one that cost most time first.

    Parameters
    ----------
    drive : Drive
    poor_bps : float, optional
        Below this rate a second is bad, in bit/s; default a fifth of the typical rate, which is the upper
        quartile of the seconds in which data were wanted.
    shown_ns : pair of int or None
        Only what lies from the first time until before the second is returned and counted; it is judged by
        the whole drive. None leaves a side open.

    Returns
    -------
    Table
        STRETCHES. `cell` is the row of the table that `cells_of` makes of the same stays. Provenance:
        `typical_bps`, `poor_bps`, `good_bps`, `judged_s` (seconds judged by rate, by radio alone, and not at
        all), `of_s` (those that were judged or lie in a stretch), and `by_logger_s`: seconds with a bad radio
        in which the phone's logger saw `good_bps` or more, or in a stretch its usual rate. `slow_s`, with the
        longest run, is of a log that does not tell when data were wanted: a good radio, and a rate below
        `slow_bps`.

    Raises
    ------
    InputError
        If the drive's times span more than a million seconds.
    """
    seconds = seconds_of(drive)
    radio = radio_of(seconds)
    judged_bad = _bad(seconds, radio, poor_bps)
    judged, bad = judged_bad.by_rate, judged_bad.bad
    first, last = _runs(bad)
    shown = causes_of(seconds, radio, bad, judged_bad.poor_bps)
    known = radio.level_known | radio.quality_known
    undecided = radio.quality_known & ~radio.is_good & ~radio.is_poor
    parts = []
    for a, b in zip(first, last, strict=True):
        inside = slice(a, b + 1)
        parts += _parts(
            a,
            inherited(
                shown[inside], seconds.limit[inside], undecided[inside], ~seconds.is_read[inside],
                seconds.rate_bps[inside], seconds.is_blank[inside],
            ),
        )  # fmt: skip
    rows = _within(seconds, shown_ns)
    parts = [cut for part in parts if (cut := part.within(rows)) is not None]
    in_parts = np.zeros(len(known), dtype=bool)
    for part in parts:
        in_parts[part.rows] = True
    known, judged_rows = known[rows], judged[rows]
    facts = {
        "typical_bps": judged_bad.typical_bps,
        "poor_bps": judged_bad.poor_bps,
        "good_bps": judged_bad.good_bps,
        "by_logger_s": int(judged_bad.by_logger[rows].sum()),
        "judged_s": {"by rate": int(judged_rows.sum()), "by radio": int((~judged_rows & known).sum()),
                     "not": int((~judged_rows & ~known).sum())},
        "of_s": int((in_parts[rows] | judged_rows | known).sum()),
    }  # fmt: skip
    if drive.limits is None and drive.wanted is None:
        facts |= _slow(
            seconds.begin_ns[rows], _is_slow(seconds, radio, judged_bad)[rows], judged_bad.usual_bps
        )
    return _table(
        _Judged(drive, seconds, radio, shown, judged, judged_bad.typical_bps, shown_ns), parts, facts
    )


class _Bad(NamedTuple):
    """Which seconds were bad, and the rates by which they were judged."""

    by_rate: Mask
    bad: Mask
    by_logger: Mask
    """The radio was bad, and the logger saw a rate as good as usual."""
    typical_bps: float
    poor_bps: float
    good_bps: float
    usual_bps: float


def _bad(seconds: Seconds, radio: Radio, poor_bps: float | None) -> _Bad:
    rate = seconds.rate_bps
    judged = seconds.is_wanted & np.isfinite(rate)
    typical = float(np.quantile(rate[judged], 0.75)) if judged.any() else float("nan")
    poor = POOR_SHARE * typical if poor_bps is None else poor_bps
    known = radio.level_known | radio.quality_known
    out = (np.char.partition(seconds.limit, " ")[:, 0] == "outage") if len(judged) else judged
    out = out | (seconds.limit == "recovery timer")
    bound = np.where(out, max(OUTAGE_SHARE * typical, poor), poor)
    good, usual = _good_bps(rate[~judged]), _usual_bps(rate[~judged])
    with np.errstate(invalid="ignore"):
        alone = ~judged & known & (radio.is_weak | radio.is_poor)
        bad = np.where(judged, rate < bound, alone & ~(rate >= good))
    for first, last in zip(*_runs(bad), strict=True):
        inside = slice(first, last + 1)
        seen = rate[inside][np.isfinite(rate[inside])]
        if not judged[inside].any() and len(seen) and seen.mean() >= usual:
            bad[inside] = False
    return _Bad(judged, bad, alone & ~bad & np.isfinite(rate), typical, poor, good, usual)


def _slow(begin_ns: Array, slow: Mask, usual_bps: float) -> Document:
    """Return how long, and when longest, the rate was low though nobody knows whether data were wanted."""
    edges = np.flatnonzero(np.diff(np.append(np.append(0, slow.astype(np.int8)), 0)))
    lengths = edges[1::2] - edges[::2]
    if not len(lengths) or lengths.max() < _LEAST_SLOW_S or not usual_bps > GOOD_BPS:
        return {}
    longest = int(lengths.argmax())
    return {
        "slow_s": int(slow.sum()),
        "slow_bps": POOR_SHARE * usual_bps,
        "slow_longest_s": int(lengths[longest]),
        "slow_longest_ns": int(begin_ns[edges[2 * longest]]),
    }


def _is_slow(seconds: Seconds, radio: Radio, judged_bad: _Bad) -> Mask:
    """Return in which seconds the logger saw far less than usual, though nothing is bad of the radio."""
    fine = radio.level_known & ~radio.is_weak & ~radio.is_poor
    with np.errstate(invalid="ignore"):
        return np.asarray(fine & (seconds.rate_bps < POOR_SHARE * judged_bad.usual_bps))


def _within(seconds: Seconds, shown_ns: Bounds) -> slice:
    """Return the seconds whose middle is shown."""
    begin_ns, end_ns = shown_ns
    middle = seconds.begin_ns + NS_PER_S // 2
    first = 0 if begin_ns is None else np.searchsorted(middle, begin_ns)
    last = len(middle) if end_ns is None else np.searchsorted(middle, end_ns)
    return slice(int(first), int(last))


def _usual_bps(rate_bps: Array) -> float:
    """Return the median of what a logger saw, and at least what is a good rate."""
    known = rate_bps[np.isfinite(rate_bps)]
    return max(float(np.median(known)), GOOD_BPS) if len(known) else float("inf")


def _good_bps(rate_bps: Array) -> float:
    """Return from which rate on a second was good, whatever the radio, if nobody knows what was wanted."""
    known = rate_bps[np.isfinite(rate_bps)]
    usual = float(np.quantile(known, 0.75)) if len(known) else float("inf")
    return max(OUTAGE_SHARE * usual, GOOD_BPS)


def _runs(bad: Mask) -> tuple[list[int], list[int]]:
    """Return the first and last seconds of the stretches."""
    rows = np.flatnonzero(bad)
    if not len(rows):
        return [], []
    ends = np.flatnonzero(np.diff(rows) > _BRIDGE_S + 1)
    first, last = rows[np.append(0, ends + 1)], rows[np.append(ends, len(rows) - 1)]
    long = (
        np.add.reduceat(bad.astype(np.int64), first) >= LEAST_S
    )  # a run reaches to the next one, which is not bad between
    return first[long].tolist(), last[long].tolist()


def _parts(first: int, cause: Numbers) -> list[_Part]:
    """Return the parts of a stretch: it is cut where its cause changes."""
    cause = _filled(cause)
    for least in range(2, _LEAST_CAUSE_S + 1):  # the shortest first
        while _give_away(cause, least):
            pass
    begins, ends = _edges(cause)
    return [
        _Part(first + int(a), first + int(b) - 1, Cause(int(cause[a])), a == 0, b == len(cause))
        for a, b in zip(begins, ends, strict=True)
    ]


def _edges(cause: Numbers) -> tuple[Numbers, Numbers]:
    """Return where runs of one cause begin and end."""
    edges = np.flatnonzero(np.diff(cause) != 0) + 1
    return np.append(0, edges), np.append(edges, len(cause))


def _give_away(cause: Numbers, least: int) -> bool:
    """Give runs shorter than `least` to their longer neighbours, in place, and return whether there were any.

    Of short runs in a row it is every second one, so each pass at least halves their number.
    """
    begins, ends = _edges(cause)
    length, number = ends - begins, np.arange(len(begins))
    short = length < least
    if len(begins) == 1 or not short.any():
        return False
    group = np.maximum.accumulate(np.where(short, 0, number + 1))
    rows = np.flatnonzero(short & ((number - group) % 2 == 0))
    before = np.where(rows > 0, length[rows - 1], 0)
    after = np.where(rows + 1 < len(begins), length[np.minimum(rows + 1, len(begins) - 1)], 0)
    heirs = np.where(before >= after, rows - 1, rows + 1)
    runs = cause[begins]
    runs[rows] = runs[heirs]
    cause[:] = np.repeat(runs, length)
    return True


def _filled(cause: Numbers) -> Numbers:
    """Return the causes, where seconds that were not bad have the cause before them."""
    rows = np.where(cause != Cause.NONE, np.arange(len(cause)), 0)
    return np.asarray(cause[np.maximum.accumulate(rows)])


def _table(judged: _Judged, parts: list[_Part], facts: Document) -> Table:
    rows = [_row(judged, part) for part in parts]
    rows = sorted(rows, key=lambda row: (-np.nan_to_num(row["lost_s"]), -row["seconds"], row["begin_ns"]))
    columns: dict[str, Array] = {}
    for column in STRETCHES:
        columns[column.name] = np.array([row[column.name] for row in rows], dtype=column.dtype)
    return Table(STRETCHES, columns | _places(judged.drive, columns), facts)


def _row(judged: _Judged, part: _Part) -> Row:
    seconds, rows = judged.seconds, part.rows
    rate = seconds.rate_bps[rows]
    known = rate[np.isfinite(rate)]
    is_unknown = part.cause is Cause.UNKNOWN
    begin_ns, end_ns, span = _when(judged, part)
    from_ns, to_ns = judged.shown_ns
    begin_ns = begin_ns if from_ns is None else max(begin_ns, from_ns)
    end_ns = end_ns if to_ns is None else min(end_ns, to_ns)
    span = span if part.is_whole else None
    words = evidence_of(part.cause, seconds, judged.radio, rows, judged.drive.handovers)
    return {
        "begin_ns": begin_ns,
        "end_ns": end_ns,
        "seconds": (end_ns - begin_ns) / NS_PER_S,
        "lost_s": _lost_s(judged, rows),
        "throughput_bps": float(known.mean()) if len(known) else np.nan,
        "typical_bps": judged.typical_bps,
        "cell": _cell(judged.drive, seconds.begin_ns[rows]),
        "rsrp_dbm": median(seconds.rsrp_dbm[rows]),
        "sinr_db": median(seconds.sinr_db[rows]),
        "cause": part.cause.label,
        "share": float((judged.shown[rows] == part.cause).mean()),
        "evidence": words,
        "missing": missing_of(seconds, judged.radio, rows) if is_unknown else "",
        "cause_begin_ns": NOT_A_TIME if span is None else span.begin_ns,
        "cause_end_ns": NOT_A_TIME if span is None else span.end_ns,
        "cause_within_s": np.nan if span is None else span.within_s,
        **dict.fromkeys(_PLACES, np.nan),
    }


def _when(judged: _Judged, part: _Part) -> tuple[int, int, Span | None]:
    """Return when a part begins and ends, and when its cause does; where the cause changes, by the second."""
    drive, rows = judged.drive, part.rows
    begin = int(judged.seconds.begin_ns[part.first])
    end = int(judged.seconds.begin_ns[part.last]) + NS_PER_S
    if judged.by_rate[rows].any():
        first, last = sharpened(drive.fine, begin, end)
        begin, end = first if part.opens else begin, last if part.closes else end
        return begin, end, cause_span(drive, part.cause, begin, end)
    span = cause_span(drive, part.cause, begin, end)
    if span is not None and part.opens and abs(span.begin_ns - begin) <= NS_PER_S:
        begin = span.begin_ns
    if span is not None and part.closes and abs(span.end_ns - end) <= NS_PER_S:
        end = span.end_ns
    return begin, end, span


def _lost_s(judged: _Judged, rows: Numbers) -> float:
    """Return the cost of the stretch: for each second the missing part of the typical rate."""
    rows = rows[judged.by_rate[rows]]
    if not len(rows) or not judged.typical_bps > 0:
        return float("nan")
    return float(np.clip(1 - judged.seconds.rate_bps[rows] / judged.typical_bps, 0.0, 1.0).sum())


def _cell(drive: Drive, time_ns: Array) -> int:
    stay = drive.stays.at(time_ns + NS_PER_S // 2)
    cell = drive.stays.table["cell"][stay[stay >= 0]]
    return int(drive.stays.ranks[np.bincount(cell).argmax()]) if len(cell) else NA


def _places(drive: Drive, columns: dict[str, Array]) -> dict[str, Array]:
    if drive.route is None:
        return {}
    begin, end = columns["begin_ns"], columns["end_ns"]
    middle = drive.route.at(begin + (end - begin) // 2)
    return {
        "lat_deg": middle.lat_deg,
        "lon_deg": middle.lon_deg,
        "begin_m": drive.route.at(begin).distance_m,
        "end_m": drive.route.at(end).distance_m,
        "cause_begin_m": drive.route.at(columns["cause_begin_ns"]).distance_m,
        "cause_end_m": drive.route.at(columns["cause_end_ns"]).distance_m,
    }
