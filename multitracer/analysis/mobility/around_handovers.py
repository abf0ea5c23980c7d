"""The traffic around each handover, compared with a baseline one minute earlier in the same drive.

A handover has four windows. *During* is the time in which the change must have happened (the command to its
completion, or the two readings), at least half a second. *Before* and *after* lie at its two sides. The
*baseline* is as long as these three together and lies a minute earlier: same car, same server, nearly the
same route. A baseline that contains another cell change is not used.

`epochs` averages a quantity over all handovers: mean and median for each bin of the time since the handover,
with confidence intervals. The mean's interval is the percentile bootstrap over handovers (Efron 1979): all bins of a
handover are drawn together, so the dependence of neighbouring bins is preserved. The median's interval is that of order
statistics: two of the sorted values, equally far from both ends, that contain the median of the population with a
probability of at least 95 % for any distribution. With fewer than six handovers there is no such interval.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.handovers import bounds_ns
from multitracer.analysis.mobility.series import Samples, Steps, medians
from multitracer.errors import InputError
from multitracer.schemas.mobility import AROUND, AROUND_LIMITS, EPOCHS
from multitracer.tables import NA, Table
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask, Numbers, Times

SIDE_S = 5.0
"""Length of the windows before and after, s: long enough for some round trips of a slow link. Not measured."""
BASELINE_S = 60.0
"""The baseline begins this many seconds earlier: in a town, a car passes one or two cells in this time. Not measured.
"""
_MIN_NS = NS_PER_S // 2
"""Minimum length of the window `during`, ns: a shorter one contains no round trip of a slow link. Not measured."""
_MIN_COVERED = 0.5  # of a window, so that its mean is one of that window; not measured
WINDOWS = ("baseline", "before", "during", "after")
_NOT_RECORDED = "no throughput was recorded"
_NOT_KNOWN = "less than half of its throughput is known"


class SentSegments(NamedTuple):
    """Segments that were sent, without retransmissions, and whether each was lost."""

    time_ns: Times
    lost: Mask


class LimitIntervals(NamedTuple):
    """Intervals with the limit of each, of all transfers; overlapping intervals all count."""

    begin_ns: Times
    end_ns: Times
    limit: Array


class DriveTraffic(NamedTuple):
    """The traffic of a drive; a field is None if it was not recorded."""

    throughput: Steps | None = None
    """Throughput, bit/s."""
    rtt: Samples | None = None
    """Round-trip times, ns; each has the time at which it ended."""
    segments: SentSegments | None = None
    limits: LimitIntervals | None = None


class _Windows(NamedTuple):
    """The four windows of each handover, window after window; all arrays have shape (4 n,)."""

    handover: Numbers
    name: Array
    begin: Times
    end: Times
    reason: Array


def around(
    handovers: Table, traffic: DriveTraffic, *, side_s: float = SIDE_S, baseline_s: float = BASELINE_S
) -> tuple[Table, Table]:
    """Return the traffic around each handover, and what limited the transfers in that time.

    Parameters
    ----------
    handovers : Table
        JUDGED_HANDOVERS, sorted by time.
    traffic : DriveTraffic
        The traffic, on the clock of the handovers.
    side_s : float
        Length of the windows before and after.
    baseline_s : float
        Time by which the baseline is earlier.

    Returns
    -------
    around : Table
        AROUND: four rows for each handover.
    limits : Table
        AROUND_LIMITS; empty without limits.
    """
    windows = _windows(handovers, round(side_s * NS_PER_S), round(baseline_s * NS_PER_S))
    usable = windows.reason == ""
    rates = _rates(windows, traffic.throughput, usable)
    is_baseline = usable & (windows.name == WINDOWS[0])
    unknown = is_baseline & np.isnan(rates["throughput_bps"])
    windows.reason[unknown] = _NOT_RECORDED if traffic.throughput is None else _NOT_KNOWN
    windows.reason[is_baseline & (rates["throughput_bps"] == 0)] = "no data arrived in it, so nothing has a ratio to it"
    columns: dict[str, Array] = {
        "handover": windows.handover, "window": windows.name, "begin_ns": windows.begin,
        "end_ns": windows.end, "reason": windows.reason,
        **rates, **_round_trips(windows, traffic.rtt),
        **_losses(windows, traffic.segments),
    }  # fmt: skip
    facts = {"side_s": side_s, "baseline_s": baseline_s}
    order = np.argsort(windows.handover, kind="stable")
    table = Table(AROUND, {name: column[order] for name, column in columns.items()}, facts)
    return table, _limits(windows, traffic.limits, facts)


def _windows(handovers: Table, side_ns: int, baseline_ns: int) -> _Windows:
    low, high = bounds_ns(handovers)
    grown = np.maximum(_MIN_NS - (high - low), 0)
    begin, end = low - grown // 2, high + (grown + 1) // 2
    first, last = begin - side_ns, end + side_ns
    begins = (first - baseline_ns, first, begin, end)
    ends = (last - baseline_ns, begin, end, last)
    number = len(handovers)
    reason = np.full(4 * number, "", dtype="U64")
    inside = np.searchsorted(np.sort(low), ends[0], side="right")
    passed = np.searchsorted(np.sort(high), begins[0], side="left")
    reason[:number][inside > passed] = "another change of the cell lies in it"
    reason[:number][ends[0] > first] = "it reaches into the handover's own windows"
    names = np.repeat(np.array(WINDOWS, dtype="U8"), number)
    return _Windows(np.tile(np.arange(number), 4), names, np.concatenate(begins), np.concatenate(ends), reason)


def _rates(windows: _Windows, throughput: Steps | None, usable: Mask) -> dict[str, Array]:
    if throughput is None:
        mean = np.full(len(windows.begin), np.nan)
    else:
        mean, covered = throughput.mean(windows.begin, windows.end)
        mean = np.where(covered >= _MIN_COVERED, mean, np.nan)
    number = len(mean) // 4
    base = np.where(usable & (mean > 0), mean, np.nan)[:number]
    return {"throughput_bps": mean, "throughput_ratio": mean / np.tile(base, 4)}


def _round_trips(windows: _Windows, rtt: Samples | None) -> dict[str, Array]:
    number = len(windows.begin)
    if rtt is None:
        return {"rtt_median_ms": np.full(number, np.nan), "rtt_samples": np.full(number, NA)}
    median, count = medians(rtt.known(), windows.begin, windows.end)
    return {"rtt_median_ms": median / NS_PER_MS, "rtt_samples": count}


def _losses(windows: _Windows, segments: SentSegments | None) -> dict[str, Array]:
    number = len(windows.begin)
    if segments is None:
        unknown = np.full(number, NA)
        return {"sent": unknown, "lost": unknown, "loss_ratio": np.full(number, np.nan)}
    order = np.argsort(segments.time_ns, kind="stable")
    time, total = segments.time_ns[order], np.append(0, np.cumsum(segments.lost[order]))
    first, last = np.searchsorted(time, windows.begin), np.searchsorted(time, windows.end)
    sent, lost = last - first, total[last] - total[first]
    ratio = np.where(sent > 0, lost / np.maximum(sent, 1), np.nan)
    return {"sent": sent, "lost": lost, "loss_ratio": ratio}


def _limits(windows: _Windows, limits: LimitIntervals | None, facts: dict[str, float]) -> Table:
    if limits is None or not len(windows.begin):
        return Table.empty(AROUND_LIMITS)
    names = np.unique(limits.limit)
    seconds = np.zeros((len(names) + 1, len(windows.begin)))
    order = np.argsort(limits.begin_ns, kind="stable")
    for number, name in enumerate(names.tolist()):
        rows = order[limits.limit[order] == name]
        seconds[number] = _overlap_s(limits.begin_ns[rows], limits.end_ns[rows], windows)
    busy = _overlap_s(*_union(limits.begin_ns[order], limits.end_ns[order]), windows)
    total = seconds[:-1].sum(axis=0)
    seconds[:-1] *= np.where(total > 0, busy / np.where(total > 0, total, 1.0), 0.0)
    complete = (windows.end - windows.begin) / NS_PER_S
    seconds[-1] = np.maximum(complete - busy, 0.0)
    labels = np.append(names, "idle").astype("U17")
    share = (seconds / complete).T.reshape(-1)
    columns = {
        "handover": np.repeat(windows.handover, len(labels)),
        "window": np.repeat(windows.name, len(labels)),
        "limit": np.tile(labels, len(windows.begin)),
        "share": share,
    }
    order = np.argsort(columns["handover"], kind="stable")
    order = order[share[order] > 0]
    return Table(AROUND_LIMITS, {name: column[order] for name, column in columns.items()}, facts)


def _union(begin: Times, end: Times) -> tuple[Times, Times]:
    """Return begins and ends of disjoint intervals, ascending: overlapping intervals are merged."""
    if not len(begin):
        return begin, end
    reach = np.maximum.accumulate(end)
    first = np.append(True, begin[1:] > reach[:-1])
    return begin[first], reach[np.append(np.flatnonzero(first)[1:] - 1, len(begin) - 1)]


def _overlap_s(begin: Times, end: Times, windows: _Windows) -> Array:
    """Return the seconds that the given intervals cover in each window; overlapping intervals count twice."""
    if not len(begin):
        return np.zeros(len(windows.begin))
    origin = int(begin.min())

    def until(time: Times) -> Array:
        """Return the total length of all intervals before each time, in s."""
        total = np.zeros(len(time))
        for edges, sign in ((np.sort(begin), 1.0), (np.sort(end), -1.0)):
            at = (edges - origin) / NS_PER_S
            passed, count = np.append(0.0, np.cumsum(at)), np.searchsorted(edges, time, side="right")
            total += sign * (count * ((time - origin) / NS_PER_S) - passed[count])
        return total

    return until(windows.end) - until(windows.begin)


BEFORE_S, AFTER_S, BIN_S = 10.0, 10.0, 0.5
"""Length before and after the handover, and width of the bins, s: a bin can contain an interruption of 30 to 50 ms and
the TCP stall that follows. Not measured."""
CERTAIN_S = 2.0
"""Handovers whose time has a larger uncertainty (s) are left out: they would blur four bins into one. Not measured."""
CONFIDENCE = 0.95  # the usual level; not measured
DRAWS = 1_000
"""Number of bootstrap draws: the end of a 95 % interval is the 25th of 1,000 sorted draws; its standard error is about
0.7 % in rank."""
_MOST_BINS = 10_000  # a window of an hour and a half in half seconds; more is a slip of the units


def epochs(
    handovers: Table,
    series: Steps | Samples,
    *,
    seed: int,
    window_s: tuple[float, float] = (BEFORE_S, AFTER_S),
    bin_s: float = BIN_S,
    certain_s: float = CERTAIN_S,
) -> Table:
    """Return a quantity as a function of the time since the handovers.

    Parameters
    ----------
    handovers : Table
        JUDGED_HANDOVERS.
    series : Steps or Samples
        The quantity. The value of a bin is the mean of Steps, or the median of Samples.
    seed : int
        Seed of the bootstrap: the same seed gives the same intervals.
    window_s : tuple of two float
        Time that the bins cover before and after a handover.
    bin_s : float
        Width of a bin.
    certain_s : float
        Handovers whose time has a larger uncertainty are left out and counted.

    Returns
    -------
    Table
        EPOCHS, in the unit of the series. A handover without a value in a bin is not in its `n`. Provenance:
        `handovers`, `left_out` by reason, `certain_s`, `seed`.

    Raises
    ------
    InputError
        If there are too many bins, or `bin_s` is not above 0.
    """
    count = _bins(window_s, bin_s)
    low, high = bounds_ns(handovers)
    certain = (high - low) <= round(certain_s * NS_PER_S)
    instants = (low + (high - low) // 2)[certain]
    edges = np.rint((np.arange(count + 1) * bin_s - window_s[0]) * NS_PER_S).astype(np.int64)
    values = np.empty((len(instants), count))
    ready = series.known() if isinstance(series, Samples) else series
    for number in range(count):
        values[:, number] = _values(ready, instants + edges[number], instants + edges[number + 1])
    columns: dict[str, Array] = {
        "begin_s": edges[:-1] / NS_PER_S, "end_s": edges[1:] / NS_PER_S,
        "n": np.isfinite(values).sum(axis=0), **_means(values, seed), **_medians(values),
    }  # fmt: skip
    left_out = {"time not known well enough": int((~certain).sum())}
    facts = {"handovers": len(instants), "left_out": left_out, "certain_s": certain_s, "seed": seed}
    return Table(EPOCHS, columns, facts)


def _bins(window_s: tuple[float, float], bin_s: float) -> int:
    if not (0 < bin_s < np.inf and 0 < sum(window_s) < np.inf):
        raise InputError(
            f"epochs: the bin width {bin_s} s cannot be used for the window {window_s} "
            "s; both must be numbers of seconds above 0"
        )
    count = round(sum(window_s) / bin_s)
    if not 1 <= count <= _MOST_BINS:
        raise InputError(
            f'epochs: the number of bins must be 1 to {_MOST_BINS}, but is {count}; choose another "bin_s"'
        )
    return count


def _values(series: Steps | Samples, begin: Times, end: Times) -> Array:
    """Return the value of one bin for each handover: the mean of Steps or the median of Samples.

    Samples must be sorted by time. A handover without data in the bin has NaN.
    """
    if isinstance(series, Steps):
        mean, covered = series.mean(begin, end)
        return np.asarray(np.where(covered >= _MIN_COVERED, mean, np.nan))
    return medians(series, begin, end)[0]


def _means(values: Array, seed: int) -> dict[str, Array]:
    number, bins = values.shape
    known = np.isfinite(values)
    mean = _ratio(np.where(known, values, 0.0).sum(axis=0), known.sum(axis=0))
    if number < 2:
        unknown = np.full(bins, np.nan)
        return {"mean": mean, "mean_low": unknown, "mean_high": unknown}
    random = np.random.default_rng(seed)
    weights = random.multinomial(number, np.full(number, 1 / number), size=DRAWS).astype(np.float64)
    drawn = _ratio(weights @ np.where(known, values, 0.0), weights @ known)
    drawn[:, known.sum(axis=0) < 2] = np.nan
    ends = np.full((2, bins), np.nan)
    some = np.flatnonzero(np.isfinite(drawn).any(axis=0))
    tail = (1 - CONFIDENCE) / 2
    ends[:, some] = np.nanquantile(drawn[:, some], [tail, 1 - tail], axis=0)
    return {"mean": mean, "mean_low": ends[0], "mean_high": ends[1]}


def _ratio(total: Array, count: Array) -> Array:
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _medians(values: Array) -> dict[str, Array]:
    bins = values.shape[1]
    result = np.full((3, bins), np.nan)
    for number in range(bins):
        ordered = np.sort(values[np.isfinite(values[:, number]), number])
        if len(ordered):
            result[0, number] = np.median(ordered)
        rank = order_statistic(len(ordered))
        if rank:
            result[1:, number] = ordered[rank - 1], ordered[-rank]
    return dict(zip(("median", "median_low", "median_high"), result, strict=True))


def order_statistic(number: int) -> int:
    """Return which of the sorted values, from 1, is the lower bound of the median's 95 % interval.

    The upper bound has the same rank, counted from the largest value.

    Parameters
    ----------
    number : int
        Number of values.

    Returns
    -------
    int
        The largest k with P(fewer than k of n values are below the median) <= 2.5 %, by the binomial
        distribution; 0 if there is none (n < 6).
    """
    tail, rank, below = (1 - CONFIDENCE) / 2, 0, 0
    limit = tail * 2**number if number < 1_000 else 0.0
    if number >= 1_000:  # as the normal distribution: 1.96 standard deviations
        return int(number / 2 - 1.96 * number**0.5 / 2)
    for k in range(number):
        below += comb(number, k)
        if below > limit:
            break
        rank = k + 1
    return rank
