"""Relation of a radio log to a capture from their stalls: while the radio is bad, no ACK arrives.

Rules of the file
-----------------
- A stall of the log is a time with a bad radio; a stall of the capture is a gap between arrivals that is long
  compared with typical gaps. Both are represented as 0 and 1 in cells of equal length, and correlated for every shift.
- A peak alone is no proof, since any two series have one. It must be higher than the peaks of the same log
  with its stalls shuffled (order of gaps and durations), and no other shift may be almost as good. Otherwise
  the relation is not determinable.
- The shift is the median of the differences between begins and ends of stalls that coincide, with the error
  of a median. A gap in the capture begins with the last arrival before the stall and ends with the first
  arrival after it. So the error of the shift is the mean of both errors plus half the interval of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Flag
from multitracer.clock.model.estimate import Estimate
from multitracer.errors import ClockError
from multitracer.tables import NA
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.capture import CaptureTables
    from multitracer.tables import Array, Table

STALLS = "radio stalls and ACK gaps"
LARGEST_SHIFT_NS = 60 * NS_PER_S
"""Maximum shift, ns: clocks of phones are right to a minute, and the probability of a chance match grows with the
range."""
_RASTER_NS = 20 * NS_PER_MS  # a block of GSM data, finer than any radio log
_MOST_CELLS = 1 << 20  # bounds memory and time: 5.8 h at 20 ms, then the raster grows
_FEWEST_STALLS = 5  # fewer than five meet by chance at some shift
_SHUFFLES = 100  # a peak above the best of 100 shuffled logs is chance in about 1 of 101 recordings
_BESIDE_NS = NS_PER_S
"""Shifts nearer than this to the peak (ns) count as the same shift."""
_MIN_RATIO, _MIN_EXCESS, _MIN_SHARE = 1.5, 1.1, 0.4
"""Minimum ratio of the peak to the next best shift, to the best one by chance, and minimum share of stalls that must
coincide."""
_WIDTH_95 = 1.96  # 95 % of a normal distribution
_MAD_SIGMA = 1.4826  # standard deviation of a normal distribution by its median absolute deviation
_DRIFT_PPM = 100.0
"""Maximum difference of the rates of two quartzes, ppm: stalls do not determine it."""
_LONG, _TYPICAL_GAP, _SHORTEST_STALL_NS = 5, 0.9, 100 * NS_PER_MS
"""A stall is this many times this quantile of the gaps, and at least 100 ms. Not measured."""
_PEAK_WIDTHS = 1.5  # stalls of both logs together: so far from the peak they no longer overlap. Not measured
_MEDIAN_ERROR = 1.25  # sqrt(pi / 2): standard error of a median over that of a mean


def stalls_of_arrivals(arrival_ns: Array, *, min_ns: float | None = None) -> Array:
    """Return the gaps between arrivals that are long enough to be stalls.

    Parameters
    ----------
    arrival_ns : ndarray of int64, shape (n_arrivals,)
        Capture times of ACKs (or any packets from the far side).
    min_ns : float, optional
        Shortest stall; by default five times the 90th percentile of the gaps, and at least 100 ms.

    Returns
    -------
    ndarray of int64, ns, shape (n_stalls, 2)
        Begin and end of each.
    """
    time = np.sort(arrival_ns)
    gap = np.diff(time)
    if not len(gap):
        return np.empty((0, 2), dtype=np.int64)
    minimum = _shortest(gap) if min_ns is None else min_ns
    at = np.flatnonzero(gap >= minimum)
    stalls: Array = np.stack([time[at], time[at + 1]], axis=1)
    return stalls


def _shortest(gap: Array) -> float:
    """Return the minimum length of a gap that counts as a stall, ns."""
    return max(_LONG * float(np.quantile(gap, _TYPICAL_GAP)), _SHORTEST_STALL_NS)


def stalls_of_readings(time_ns: Array, bad: Array) -> Array:
    """Return the intervals in which a log's readings were bad.

    Parameters
    ----------
    time_ns : ndarray of int64, shape (n_readings,)
    bad : ndarray of bool, shape (n_readings,)
        Whether no data could be received: BLER near 100 %, RSSI at its zero level, no registration, ...

    Returns
    -------
    ndarray of int64, ns, shape (n_stalls, 2)
        Begin and end of each.

    Notes
    -----
    The radio became bad between the last good reading and the first bad one; the middle is used.
    """
    order = np.argsort(time_ns, kind="stable")
    time, state = time_ns[order], bad[order].astype(np.int8)
    middle = time[:-1] + np.diff(time) // 2
    begins, ends = np.flatnonzero(np.diff(state) > 0), np.flatnonzero(np.diff(state) < 0)
    if len(ends) and (not len(begins) or ends[0] < begins[0]):
        ends = ends[1:]
    begins = begins[: len(ends)]
    stalls: Array = np.stack([middle[begins], middle[ends]], axis=1)
    return stalls


def relate_stalls(
    capture: Array, log: Array, *, round_trip_ns: float = 0.0, largest_shift_ns: int = LARGEST_SHIFT_NS
) -> list[Estimate]:
    """Return the relation of a radio log's clock to a capture's clock, computed only from stalls.

    A stall is a time in which no data arrived (capture), or the radio was bad (log).

    Parameters
    ----------
    capture : ndarray of int64, shape (n_stalls, 2)
        Stalls of a capture, its clock is `from`.
    log : ndarray of int64, shape (n_stalls, 2)
        Stalls of the radio log, its clock is `to`.
    round_trip_ns : float
        Minimum RTT. The first ACK after a stall comes up to one RTT after the radio is back, and the last one before it
        up to one RTT after the radio is gone. Half the RTT is subtracted, and added to the uncertainty.
    largest_shift_ns : int
        Maximum offset of the clocks.

    Raises
    ------
    ClockError
        If the stalls do not determine a shift: too few stalls, no shift better than chance, or several
        equally good ones.
    """
    if min(len(capture), len(log)) < _FEWEST_STALLS:
        raise ClockError(
            f"{STALLS}: cannot determine the clock offset, because there are {len(capture)} stalls in "
            f"the capture and {len(log)} in the log, fewer than {_FEWEST_STALLS}; what would help: a "
            "longer drive, or a log of 10 readings a second"
        )
    base = min(int(capture[0, 0]), int(log[0, 0]))
    ours, theirs = (capture - base).astype(np.float64), (log - base).astype(np.float64)
    shift, ratio = _peak(ours, theirs, largest_shift_ns)
    chance = _by_chance(ours, theirs, largest_shift_ns)
    peak = _height(ours, theirs, largest_shift_ns)
    if peak <= _MIN_EXCESS * chance or ratio < _MIN_RATIO:
        raise ClockError(
            f"{STALLS}: cannot determine the clock offset, because the best shift is {ratio:.2f} "
            f"times as good as the next one, and {peak / chance:.2f} times as good as the best of "
            f"{_SHUFFLES} shuffled logs; what would help: more stalls, or a log and a capture of the "
            "same time"
        )
    meeting = _meeting(ours, theirs, shift)
    return [_estimate(capture, (shift, ratio, round_trip_ns), meeting)]


def _raster(stalls: Array, step: float, cells: int) -> Array:
    """Return which cells of `step` ns are in a stall: 1 or 0."""
    edges = np.zeros(cells + 1)
    begin, end = (np.rint(stalls[:, k] / step).astype(np.int64).clip(0, cells) for k in (0, 1))
    np.add.at(edges, begin, 1)
    np.add.at(edges, np.maximum(end, np.minimum(begin + 1, cells)), -1)
    inside: Array = (np.cumsum(edges[:-1]) > 0).astype(np.float64)
    return inside


def _correlation(ours: Array, theirs: Array, largest: float) -> tuple[Array, Array]:
    """Return the possible shifts, and the correlation of the stalls at each shift: about 1 if all coincide.

    Parts of the capture that the log does not cover have no influence.
    """
    span = max(ours.max(), theirs.max()) + 2 * largest
    step = max(_RASTER_NS, span / _MOST_CELLS)
    cells = int(span / step) + 1
    size = 1 << (2 * cells - 1).bit_length()
    one, other = (_raster(stalls + largest, step, cells) for stalls in (ours, theirs))
    one -= one.mean()
    other -= other.mean()
    product = np.fft.irfft(np.fft.rfft(other, size) * np.conj(np.fft.rfft(one, size)), size)
    reach = int(largest / step)
    lags = np.arange(-reach, reach + 1)
    height = product[lags] / np.sqrt((one**2).sum() * (other**2).sum())
    return lags * step, height


def _height(ours: Array, theirs: Array, largest: float) -> float:
    return float(_correlation(ours, theirs, largest)[1].max())


def _peak(ours: Array, theirs: Array, largest: float) -> tuple[float, float]:
    """Return the shift with the highest correlation, and its correlation divided by the next highest one.

    Shifts next to the best one are not considered as next highest.
    """
    shifts, height = _correlation(ours, theirs, largest)
    best = int(np.argmax(height))
    longest = float(np.median(ours[:, 1] - ours[:, 0]) + np.median(theirs[:, 1] - theirs[:, 0]))
    elsewhere = height[np.abs(shifts - shifts[best]) > max(_BESIDE_NS, _PEAK_WIDTHS * longest)]
    second = max(float(elsewhere.max(initial=0.0)), 1e-9)
    return float(shifts[best]), float(height[best]) / second


def _by_chance(ours: Array, theirs: Array, largest: float) -> float:
    """Return the highest correlation that logs with the same stalls and gaps in random order have."""
    luck = np.random.default_rng(len(ours) * 1_000_003 + len(theirs))
    long, between = theirs[:, 1] - theirs[:, 0], np.diff(theirs[:, 0])
    best = 0.0
    for _ in range(_SHUFFLES):
        begin = theirs[0, 0] + np.concatenate([[0.0], np.cumsum(luck.permutation(between))])
        shuffled = np.stack([begin, begin + luck.permutation(long)], axis=1)
        best = max(best, _height(ours, shuffled, largest))
    return best


def _meeting(ours: Array, theirs: Array, shift: float) -> tuple[Array, Array]:
    """Return which stalls of `ours` coincide with one of `theirs` at a shift, and the time differences.

    Each coinciding stall has two differences, of begin and of end, in ns. A ClockError is raised if too few
    stalls coincide.
    """
    moved = ours + shift
    nearest = np.abs(moved.mean(axis=1)[:, None] - theirs.mean(axis=1)[None, :]).argmin(axis=1)
    apart = theirs[nearest] - moved
    meets = np.abs(apart).max(axis=1) < _BESIDE_NS / 2
    meets &= np.minimum(moved[:, 1], theirs[nearest, 1]) > np.maximum(moved[:, 0], theirs[nearest, 0])
    within = (moved[:, 1] > theirs[0, 0]) & (moved[:, 0] < theirs[-1, 1])
    minimum = max(_FEWEST_STALLS, _MIN_SHARE * min(int(within.sum()), len(theirs)))
    if int(meets.sum()) < minimum:
        raise ClockError(
            f"{STALLS}: cannot determine the clock offset, because only {int(meets.sum())} of "
            f"{int(within.sum())} stalls coincide at the best shift; what would help: more stalls, or "
            "a log and a capture of the same time"
        )
    return meets, apart[meets]


def _estimate(capture: Array, best: tuple[float, float, float], meeting: tuple[Array, Array]) -> Estimate:
    shift, ratio, round_trip_ns = best
    meets, apart = meeting
    begins, ends = apart[:, 0], apart[:, 1]
    middle = (float(np.median(begins)) + float(np.median(ends))) / 2
    both = (begins + ends) / 2
    noise = _MAD_SIGMA * float(np.median(np.abs(both - np.median(both))))
    systematic = max(abs(float(np.median(begins)) - float(np.median(ends))), round_trip_ns) / 2
    error = _WIDTH_95 * _MEDIAN_ERROR * noise / np.sqrt(len(apart)) + systematic + _RASTER_NS / 2
    first, last = int(capture[meets, 0].min()), int(capture[meets, 1].max())
    return Estimate.around(
        (first + last) // 2,
        error,
        first_ns=first,
        last_ns=last,
        offset_ns=round(shift + middle + round_trip_ns / 2),
        skew_ppm=0.0,
        skew_uncertainty_ppm=_DRIFT_PPM,
        method=STALLS,
        evidence=len(apart),
        notes=(f"the best shift is {ratio:.1f} times as good as the next one",),
    )


# What in a capture and in a radio log is a stall, for `stalls`.


_BLER_PCT = 80.0  # with four of five blocks wrong hardly a packet gets through. Not measured
_ZERO_LEVEL_DBM = -113.0
"""The lowest value of RXLEV and of +CSQ, dBm: it means this level or less (TS 27.007, 8.5)."""
_NOT_REGISTERED = (0, 2, 3, 4)
"""Values of <stat> of TS 27.007, 7.2, of a modem without service."""
_QUICK = 0.1
"""Quantile of the RTTs that is used: the minimum may be a wrong match, the median includes queueing."""


def relate_radio(capture: CaptureTables, radio: Table) -> list[Estimate]:
    """Return the relation of a radio log's clock to the clock of a capture at the data sender.

    It is computed only from stalls.

    Parameters
    ----------
    capture : CaptureTables
        Its clock is `from`; its flow with most payload is used.
    radio : Table
        `radio`, its clock is `to`.

    Raises
    ------
    ClockError
        If the stalls do not determine the relation.
    """
    arrivals, round_trip_ns = acks_of_largest_flow(capture)
    serving = radio["role"] != "neighbour"
    log = stalls_of_readings(radio["time_ns"][serving], is_bad(radio)[serving])
    return relate_stalls(stalls_of_arrivals(arrivals), log, round_trip_ns=round_trip_ns)


def is_bad(radio: Table) -> Array:
    """Return which readings show that no data can be received: all blocks wrong, no signal, or no network.

    Returns
    -------
    ndarray of bool, shape (n_readings,)
        A missing value is not bad.
    """
    bad = (radio["bler_pct"] >= _BLER_PCT) | (radio["rssi_dbm"] <= _ZERO_LEVEL_DBM)
    registration = radio["registration"]
    none: Array = bad | ((registration != NA) & np.isin(registration, _NOT_REGISTERED))
    return none


def acks_of_largest_flow(capture: CaptureTables) -> tuple[Array, float]:
    """Return the capture times of the ACKs for the flow with most payload, and the flow's minimum RTT.

    Returns
    -------
    time_ns : ndarray of int64, ns, shape (n_acks,)
    min_ns : float
        0 without a sample.

    Raises
    ------
    ClockError
        If no host sent payload.
    """
    segments = capture.segments
    flow, payload = segments["flow"], segments["payload_bytes"]
    if not (payload > 0).any():
        raise ClockError(
            "radio stalls and ACK gaps: cannot determine the clock offset, because the capture "
            "contains no data; what would help: a transfer that continues through the stalls"
        )
    largest = int(np.argmax(np.bincount(flow, weights=payload)))
    rows = np.flatnonzero((flow == largest ^ 1) & (segments["flags"] & Flag.ACK > 0))
    sent = np.flatnonzero((flow == largest) & (payload > 0))
    end = segments["seq"][sent] + payload[sent].astype(np.uint32)
    _, first = np.unique(end, return_index=True)
    number, acked = np.unique(segments["ack"][rows], return_index=True)
    _, mine, theirs = np.intersect1d(end[first], number, assume_unique=True, return_indices=True)
    took = segments["time_ns"][rows[acked[theirs]]] - segments["time_ns"][sent[first[mine]]]
    took = took[took > 0]
    return segments["time_ns"][rows], float(np.quantile(took, _QUICK)) if len(took) else 0.0
