"""What the traffic did around each handover, compared with the same drive a minute earlier.

A handover has four windows. *During* is the time in which the change must have happened (the command to its
completion, or the two readings), at least half a second. *Before* and *after* lie at its two sides. The
*baseline* is as long as these three together and lies a minute earlier: the same car, the same server, nearly
the same road. It is not used where another change of the cell lies in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.handovers import bounds_ns
from multitracer.analysis.mobility.series import medians
from multitracer.mobility import AROUND, AROUND_LIMITS
from multitracer.tables import NA, Table
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.mobility.series import Samples, Steps
    from multitracer.tables import Array, Mask, Numbers, Times

SIDE_S = 5.0
"""Length of the windows before and after: long enough for some round trips of a slow link. Not measured."""
BASELINE_S = 60.0
"""The baseline lies this much earlier: a car in a town passes one or two cells in it. Not measured."""
_LEAST_NS = NS_PER_S // 2
"""Least length of the window `during`: shorter ones hold no round trip of a slow link. Not measured."""
_LEAST_COVERED = 0.5  # of a window, so that its mean is one of that window; not measured
WINDOWS = ("baseline", "before", "during", "after")


class Segments(NamedTuple):
    """Segments that were sent, each once, and whether each was lost."""

    time_ns: Times
    lost: Mask


class Limits(NamedTuple):
    """Intervals with their limit, of all transfers; where intervals overlap, each is counted."""

    begin_ns: Times
    end_ns: Times
    limit: Array


class Traffic(NamedTuple):
    """The traffic of a drive; None for what was not recorded."""

    throughput: Steps | None = None
    """Bit/s."""
    rtt: Samples | None = None
    """Round-trip times, ns, at their ends."""
    segments: Segments | None = None
    limits: Limits | None = None


class _Windows(NamedTuple):
    """Four windows of each handover, window after window; all shape (4 n,)."""

    handover: Numbers
    name: Array
    begin: Times
    end: Times
    reason: Array


def around(
    handovers: Table, traffic: Traffic, *, side_s: float = SIDE_S, baseline_s: float = BASELINE_S
) -> tuple[Table, Table]:
    """Return what passed around each handover, and what limited the transfers then.

    Parameters
    ----------
    handovers : Table
        JUDGED_HANDOVERS, by time.
    traffic : Traffic
        On the clock of the handovers.
    side_s : float
        Length of the windows before and after.
    baseline_s : float
        How much earlier the baseline lies.

    Returns
    -------
    around : Table
        AROUND: four rows for each handover.
    limits : Table
        AROUND_LIMITS; empty without limits.
    """
    windows = _windows(handovers, round(side_s * NS_PER_S), round(baseline_s * NS_PER_S))
    usable = windows.reason == ""
    columns: dict[str, Array] = {
        "handover": windows.handover, "window": windows.name, "begin_ns": windows.begin,
        "end_ns": windows.end, "reason": windows.reason,
        **_rates(windows, traffic.throughput, usable), **_round_trips(windows, traffic.rtt),
        **_losses(windows, traffic.segments),
    }  # fmt: skip
    facts = {"side_s": side_s, "baseline_s": baseline_s}
    order = np.argsort(windows.handover, kind="stable")
    table = Table(AROUND, {name: column[order] for name, column in columns.items()}, facts)
    return table, _limits(windows, traffic.limits, facts)


def _windows(handovers: Table, side_ns: int, baseline_ns: int) -> _Windows:
    low, high = bounds_ns(handovers)
    grown = np.maximum(_LEAST_NS - (high - low), 0)
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
    return _Windows(
        np.tile(np.arange(number), 4), names, np.concatenate(begins), np.concatenate(ends), reason
    )


def _rates(windows: _Windows, throughput: Steps | None, usable: Mask) -> dict[str, Array]:
    if throughput is None:
        mean = np.full(len(windows.begin), np.nan)
    else:
        mean, covered = throughput.mean(windows.begin, windows.end)
        mean = np.where(covered >= _LEAST_COVERED, mean, np.nan)
    number = len(mean) // 4
    base = np.where(usable & (mean > 0), mean, np.nan)[:number]
    return {"throughput_bps": mean, "throughput_ratio": mean / np.tile(base, 4)}


def _round_trips(windows: _Windows, rtt: Samples | None) -> dict[str, Array]:
    number = len(windows.begin)
    if rtt is None:
        return {"rtt_median_ms": np.full(number, np.nan), "rtt_samples": np.full(number, NA)}
    median, count = medians(rtt.known(), windows.begin, windows.end)
    return {"rtt_median_ms": median / NS_PER_MS, "rtt_samples": count}


def _losses(windows: _Windows, segments: Segments | None) -> dict[str, Array]:
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


def _limits(windows: _Windows, limits: Limits | None, facts: dict[str, float]) -> Table:
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
    whole = (windows.end - windows.begin) / NS_PER_S
    seconds[-1] = np.maximum(whole - busy, 0.0)
    labels = np.append(names, "idle").astype("U17")
    share = (seconds / whole).T.reshape(-1)
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
    """Return intervals, sorted by begin, with those that overlap made one."""
    if not len(begin):
        return begin, end
    reach = np.maximum.accumulate(end)
    first = np.append(True, begin[1:] > reach[:-1])
    return begin[first], reach[np.append(np.flatnonzero(first)[1:] - 1, len(begin) - 1)]


def _overlap_s(begin: Times, end: Times, windows: _Windows) -> Array:
    """Return how many seconds of intervals lie in each window; where they overlap, each counts."""
    if not len(begin):
        return np.zeros(len(windows.begin))
    origin = int(begin.min())

    def until(time: Times) -> Array:
        """Return how many seconds of all intervals lie before each time."""
        total = np.zeros(len(time))
        for edges, sign in ((np.sort(begin), 1.0), (np.sort(end), -1.0)):
            at = (edges - origin) / NS_PER_S
            passed, count = np.append(0.0, np.cumsum(at)), np.searchsorted(edges, time, side="right")
            total += sign * (count * ((time - origin) / NS_PER_S) - passed[count])
        return total

    return until(windows.end) - until(windows.begin)
