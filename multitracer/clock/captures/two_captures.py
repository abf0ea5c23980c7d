"""Offset and skew of the clocks of two captures of the same packets.

Clock B is related to clock A by ``B = A + offset + skew * (A - first)``. Delay and offset can be separated
because the offset has the opposite sign in the other direction (Paxson 1998). The steps:

1. `matching`, `directions`: the same packets, by direction.
2. `steps`, `hidden_step`: the places of clock steps; the following steps apply to each interval between
them. 3. `bottleneck`: the time per byte of the slowest link in each direction. 4. `skew`: the skew, by three methods.
5. `minimum_delay`: the minimum delay of a packet of zero length in each direction, with its uncertainty. 6. This file:
half the difference of the two minimum delays is the offset, if both directions have the same minimum delay.

The data cannot show whether that last condition is satisfied. Without it, causality still holds: every delay
is positive, which bounds the offset from both sides (`lower_ns`, `upper_ns`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.captures.bottleneck import Side, sides_of, unqueued
from multitracer.clock.captures.directions import Ways, both_ways
from multitracer.clock.captures.intervals import (
    JumpInterval,
    gross_rates,
    intervals,
    looseness_ns,
    quickened,
    refined,
    slowed,
)
from multitracer.clock.captures.matching import is_long
from multitracer.clock.captures.minimum_delay import Level, alike_in_size, classes, level_at_known_rate, level_posterior
from multitracer.clock.captures.skew import skew_of
from multitracer.clock.captures.steps import (
    CLOCKS,
    SMALLEST_STEP_NS,
    ClockLabel,
    Step,
    find_steps,
    placed,
    rows_of,
    without,
)
from multitracer.clock.model.estimate import MOST_SKEW_PPM, PPM, Estimate
from multitracer.clock.model.skew_posterior import LARGEST_SKEW
from multitracer.errors import ClockError
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.capture import CaptureTables
    from multitracer.clock.captures.directions import MatchedDirection
    from multitracer.tables import Array


# What would hold of two captures with some jumps: estimates, and how well they make sense of the packets.


_LARGE_NS = 1e9
"""A value larger than any contradiction in a plausible attempt, ns: an attempt with a note is the last choice."""
_EXCLUDED = "the delays of the queues contradict causality; the error is all that causality allows"
_SHARP_PPM = 40.0
"""Maximum uncertainty of a rate that is accepted as true.

In 200 runs with a clock error of 0.05 to 4 %, attempts with the rate of a quartz had an uncertainty of at
least 70 ppm, those with the true rate at most 4 ppm."""
_NO_LOOSER = 1.02  # the same packets on either line: rounding and a packet more or less between jumps


@dataclass(frozen=True, slots=True)
class Attempt:
    """A candidate solution for some clock steps, with the minimum delays of both directions."""

    estimates: list[Estimate]
    min_ns: tuple[float, float]
    loose_ns: float
    """Mean distance of packets from the minimum delay, summed over both directions, ns."""

    @property
    def absurd_ns(self) -> float:
        """Return how far the worst offset is outside of its causality bounds, ns; 0 if all are inside."""
        return max(self._outside_ns(e) + _LARGE_NS * bool(e.notes) for e in self.estimates)

    @property
    def is_sharp(self) -> bool:
        """Return whether one precise rate of the clock explains all packets."""
        vague = max(e.skew_uncertainty_ppm for e in self.estimates)
        skew = max(abs(e.skew_ppm) for e in self.estimates)
        return self.absurd_ns <= 0 and vague < _SHARP_PPM and skew < MOST_SKEW_PPM

    def explains_more(self, other: Attempt) -> bool:
        """Return whether this attempt is at least about as good as `other` with no more steps.

        It is as good if packets are about as close to the minimum delays.
        """
        no_more = len(self.estimates) <= len(other.estimates)
        return no_more and self.loose_ns < _NO_LOOSER * other.loose_ns

    def _outside_ns(self, e: Estimate) -> float:
        lower, upper = _causality(e)
        out, back = self.min_ns
        return float(max(lower + back - e.offset_ns, e.offset_ns - (upper - out), 0))

    def believable(self) -> list[Estimate]:
        """Return the estimates; if causality excludes one of them, replace all by their causality bounds.

        If one estimate is excluded, we assume that all minimum delays are wrong.
        """
        excluded = any(self._outside_ns(e) > 0 for e in self.estimates)
        return [_by_causality(e) for e in self.estimates] if excluded else self.estimates


def _causality(e: Estimate) -> tuple[int, int]:
    assert e.lower_ns is not None
    assert e.upper_ns is not None
    return e.lower_ns, e.upper_ns


def _by_causality(e: Estimate) -> Estimate:
    """Return the estimate with the middle of its causality bounds as its offset.

    Half the distance of the bounds becomes its uncertainty.
    """
    lower, upper = _causality(e)
    wide = (upper - lower) / 2 + e.uncertainty_ns
    return replace(e, offset_ns=(lower + upper) // 2, uncertainty_ns=wide, notes=(*e.notes, _EXCLUDED))


# Captures whose stamps come in coarse steps: of a program that cut the fraction off, or of a slow tick.
#
# A stamp that was cut off is late by up to a step, and so is the least delay; the estimators take stamps for
# exact. The error of what they find grows by a step of each capture.


_FEW = 20  # the distances of fewer stamps may have a common divisor by chance
_LOOK = 10_000  # bounds the time: what so many stamps have in common, all have
_DECIMAL_NS = (NS_PER_MS, 10 * NS_PER_MS)  # what programs that print three or two decimals leave
_COARSE_NS = 50 * NS_PER_MS
"""Minimum resolution that counts as coarse times, ns: smaller ones may be slots of the link in virtual time (5 and 20
ms)."""
_NOTE = "stamps come in steps of {:,.0f} ms, which the error holds"


def tick_ns(capture: CaptureTables) -> int:
    """Return the resolution of a capture's times in ns, if they are truncated or coarse; otherwise 0."""
    time_ns = capture.segments["time_ns"][:_LOOK]
    time_ns = time_ns[time_ns != NOT_A_TIME]
    if len(time_ns) < _FEW:
        return 0
    tick = int(np.gcd.reduce(np.diff(time_ns)))
    return tick if tick in _DECIMAL_NS or tick >= _COARSE_NS else 0


def widened(estimate: Estimate, coarse_ns: int) -> Estimate:
    """Return an estimate with its uncertainty raised by the resolution of coarse times."""
    if not coarse_ns:
        return estimate
    lower, upper = estimate.lower_ns, estimate.upper_ns
    tilt = estimate.skew_uncertainty_ppm * PPM * (estimate.first_ns - estimate.pivot)
    return replace(
        estimate,
        uncertainty_ns=math.hypot(estimate.at_pivot_ns + coarse_ns, tilt),
        lower_ns=None if lower is None else lower - coarse_ns,
        upper_ns=None if upper is None else upper + coarse_ns,
        crossed_ns=max(estimate.crossed_ns - coarse_ns, 0),
        notes=(*estimate.notes, _NOTE.format(coarse_ns / NS_PER_MS)),
    )


TWO_CAPTURES = "two captures"
SYMMETRY = "± assumes equal delays in both directions; the bounds by causality do not"
SLOWEST_NS_PER_BYTE = 1.15e6
"""Maximum time per byte, ns: a link slower than 7 kbit/s is considered only if its own arrivals show it."""
_FASTEST_NS_PER_BYTE = 1e-2  # 800 Gbit/s: nothing is faster
_RATES = 160  # 8 decades in steps of 12 %; each zoom narrows them to what is likely
_ZOOMS = 3  # after the third a step is far below the error of a rate
_DRAWS = 8192  # the 95 % limits of 8,192 draws scatter by 1 to 2 % of the width
_UNLIKE = 0.9
"""Standard deviation of the logarithm of the ratio of the rates of the two directions, if one is not measured."""
_LARGEST_OVERHEAD_BYTES = 16
"""Maximum difference of framing overhead between the directions: PPP or Ethernet on one side only."""
_WIDTH_95 = 1.96  # of a normal distribution: 95 % lie within so many standard deviations
_FEW_ALIKE = 20  # packets of like size in both directions; with fewer their least delays are chance
_RATES_APART = 3.0
"""Maximum ratio of an unmeasured rate to the measured rate of the other direction."""
_STAMPING_NS = 40_000.0
"""Difference between a host's timestamp and the time on the link, ns, one standard error: some ten microseconds."""
_VAGUE = 0.05
"""Maximum relative uncertainty of a certain step."""
_MARGIN, _MARGIN_SLOTTED = 1.4, 1.05
"""Factors on the uncertainty for errors of the gap model, without and with slots: calibrated in tests/clock so that 95
% intervals contain 95 %."""
_DOUBTED = 0.7
"""Share of a level's possible error that enters the uncertainty: half of it is on each side of the middle, and it is
uncertain itself."""
_MOST_HIDDEN = 4  # bounds the time. Not measured
_BROAD_NS = 1e8
"""Possible error of a class of sizes without information, in addition to the typical wait, ns. Not measured."""
_BARELY = 1e-9  # weight of draws that contradict causality: not 0, so that there is an answer if all do
_CROSSED = "some packets seem to arrive {:,.3f} ms before they are sent: a jump not found, or a mistaken packet"


def relate(near: CaptureTables, far: CaptureTables) -> list[Estimate]:
    """Return the relation of the far capture's clock to the near one's, an estimate for each interval.

    Parameters
    ----------
    near, far : CaptureTables
        Two captures of the same connections. Exchanging them gives the inverse relation.

    Returns
    -------
    list of Estimate
        One estimate for each interval between steps of either clock, sorted by time.

    Raises
    ------
    ClockError
        If the captures share too few packets, or packets of one direction only.
    """
    if _is_second(near, far):
        return [estimate.inverse() for estimate in relate(far, near)]
    return _related(near, far)


def _is_second(near: CaptureTables, far: CaptureTables) -> bool:
    """Return whether `near` is the second of the two captures in an order that ignores their arguments.

    So an exchange of the captures gives the exact inverse.
    """
    return _rank(near) > _rank(far)


def _rank(capture: CaptureTables) -> tuple[int, int, bytes]:
    times = capture.segments["time_ns"]
    return len(times), int(times[0]) if len(times) else 0, times[:1000].tobytes()


@dataclass(frozen=True, slots=True)
class _Offset:
    """The offset for a given skew: its centre and the half-width of its 95 % interval."""

    centre_ns: float
    half_ns: float


def _related(near: CaptureTables, far: CaptureTables) -> list[Estimate]:
    try:
        attempt = _typical(near, far)
    except ClockError:
        if estimates := _by_gross_rate(near, far, None):
            return [_assuming(estimate) for estimate in estimates]
        raise
    estimates = _by_gross_rate(near, far, attempt) or attempt.believable()
    coarse_ns = tick_ns(near) + tick_ns(far)
    return [_assuming(widened(estimate, coarse_ns)) for estimate in estimates]


def _typical(near: CaptureTables, far: CaptureTables) -> Attempt:
    attempt = _attempt(near, far, both_ways(near, far))
    if is_long(near) and (len(attempt.estimates) > 1 or attempt.absurd_ns > 0):
        attempt = _attempt(near, far, both_ways(near, far, complete=True))  # where exactly was the jump?
    return attempt


def _by_gross_rate(near: CaptureTables, far: CaptureTables, typical: Attempt | None) -> list[Estimate]:
    """Return estimates with a clock rate outside of the range of a quartz.

    The list is empty if such a rate does not explain the packets better than `typical`.

    Parameters
    ----------
    near, far : CaptureTables
    typical : Attempt, optional
        The solution with a normal rate; None without one.
    """
    if typical is not None and typical.is_sharp:
        return []
    ways = both_ways(near, far)
    begin = ways.first_ns + ways.base_ns
    for rate in gross_rates(ways):
        slow = slowed(far, begin, rate)
        try:
            attempt = _attempt(near, slow, both_ways(near, slow), only_sharp=True)
        except ClockError:  # not sharp, or jumps between which nothing was seen: a wrong rate
            continue
        if attempt.is_sharp and (typical is None or attempt.explains_more(typical)):
            return [quickened(estimate, begin, rate) for estimate in attempt.estimates]
    return []


def _attempt(near: CaptureTables, far: CaptureTables, base: Ways, *, only_sharp: bool = False) -> Attempt:
    """Return the best solution.

    Parameters
    ----------
    near, far : CaptureTables
    base : Ways
        The packets of both.
    only_sharp : bool
        Whether a solution without a precise rate is of no use; then that may be an error.

    Raises
    ------
    ClockError
        If the captures share too few packets, or packets of one direction only.
    """
    steps, _ = find_steps(base)
    attempt = _with_jumps(near, far, base, *_jumps(near, far, base, steps), only_sharp=only_sharp and not steps)
    if steps and attempt.absurd_ns > 0:  # jumps at wrong places: look only at what is impossible without them
        other = _with_jumps(near, far, base, *_with_hidden(near, far, base, []))
        attempt = min(attempt, other, key=lambda each: each.absurd_ns)
    return attempt


def _assuming(e: Estimate) -> Estimate:
    """Return the estimate with a note: its uncertainty assumes equal minimum delays in both directions."""
    return replace(e, notes=(*e.notes, SYMMETRY))


def _with_jumps(
    near: CaptureTables, far: CaptureTables, base: Ways, steps: list[Step], ways: Ways, *, only_sharp: bool = False
) -> Attempt:
    """Return the solution for given clock steps; `base` are the packets with the steps, `ways` without."""
    sharp = _SHARP_PPM * PPM / _WIDTH_95 if only_sharp and not steps else np.inf
    sides = sides_of(near, far, ways, steps)
    skew, error = skew_of(sides, steps, useful=sharp)
    if error >= sharp:
        raise ClockError("no rate of the clocks is precise")
    if steps:
        steps, ways = _refined(base, sides, skew, steps)
        sides = sides_of(near, far, ways, steps)
        skew, error = skew_of(sides, steps)
    by_size = [alike_in_size(side.way.size_bytes) if side.spaced is None else [] for side in sides]
    offsets = {s: _offset(sides, by_size, s) for s in (skew, skew - error, skew + error)}
    at = offsets[skew]
    turn = (offsets[skew + error].centre_ns - offsets[skew - error].centre_ns) / (2 * error)
    line = _Line(at.centre_ns, at.half_ns, skew, error, -turn)
    parts = intervals(ways, steps, offset_ns=line.offset_ns, skew=skew)
    missing = missing_ns(ways)
    out, back = (_quickest_ns(side) for side in sides)
    estimates = [_estimate(ways, line, interval, missing) for interval in parts]
    return Attempt(estimates, (out, back), looseness_ns(ways, line.skew))


def _quickest_ns(side: Side) -> float:
    """Return the transmission time of the shortest packet of a direction at the highest likely rate, ns.

    It is 0 if the rate is unknown.
    """
    return side.guess_ns_per_byte / (1.0 if side.spaced else _RATES_APART) * float(side.way.size_bytes.min())


def _jumps(near: CaptureTables, far: CaptureTables, base: Ways, steps: list[Step]) -> tuple[list[Step], Ways]:
    """Return all clock steps, including those hidden by queues, and the packets without the steps.

    If a step of `steps` is uncertain from nearby packets, steps that explain all packets are used instead.
    """
    sure = [step for step in steps if step.error_ns <= _VAGUE * abs(step.shift_ns)]
    if len(sure) < len(steps):
        hidden = _with_hidden(near, far, base, sure)
        if len(hidden[0]) > len(sure) and missing_ns(hidden[1]) < SMALLEST_STEP_NS:
            return hidden
    return _with_hidden(near, far, base, steps)


def _with_hidden(near: CaptureTables, far: CaptureTables, ways: Ways, steps: list[Step]) -> tuple[list[Step], Ways]:
    """Return all steps, and the packets without them.

    To the given steps, further ones are added as long as packets seem to arrive before they are sent.
    """
    jumps = list(steps)
    for step in steps:
        ways = without(ways, step)
    while len(jumps) < len(steps) + _MOST_HIDDEN and missing_ns(ways) >= SMALLEST_STEP_NS:
        sides = sides_of(near, far, ways, jumps)
        flat, free = unqueued(near, far, ways, sides, jumps)
        slot = max(side.slot_ns for side in sides)
        hidden = hidden_step(flat, free, skew_of(sides, jumps, with_error=False)[0], slot_ns=slot)
        if hidden is None or any((hidden.clock, hidden.row) == (step.clock, step.row) for step in jumps):
            break
        jumps.append(hidden)
        ways = without(ways, hidden)
    return jumps, ways


def _refined(ways: Ways, sides: list[Side], skew: float, steps: list[Step]) -> tuple[list[Step], Ways]:
    """Return the steps, with sizes measured again with the known skew, and the packets without them."""
    out, back = (side.way.shifted(side.flat_ns - side.way.sign * skew * side.way.time_ns) for side in sides)
    slot = max(side.slot_ns for side in sides)
    better = refined(Ways(out, back, ways.first_ns, ways.base_ns), steps, slot_ns=slot)
    for step in better:
        ways = without(ways, step)
    return better, ways


@dataclass(frozen=True, slots=True)
class _Line:
    """Offset (at time 0) and skew of the packets without the steps."""

    offset_ns: float
    half_ns: float
    skew: float
    error: float
    pivot_ns: float


def _estimate(ways: Ways, line: _Line, interval: JumpInterval, missing: float) -> Estimate:
    """Return the estimate for one interval between steps; the clocks are the original ones, with steps."""
    first, last = interval.first_ns, interval.last_ns
    shift = interval.b_shift_ns - interval.a_shift_ns
    minimum, most = interval.bounds_ns(first)
    lower, upper = ways.base_ns + math.floor(minimum), ways.base_ns + math.ceil(most)
    crossed = max(lower - upper, round(missing) if missing >= SMALLEST_STEP_NS else 0, 0)
    stamp = ways.first_ns + round(interval.a_shift_ns)
    there = ways.first_ns + ways.base_ns + round(interval.b_shift_ns)
    pivot = float(np.clip(line.pivot_ns, first, last))
    away = _WIDTH_95 * line.error * (pivot - line.pivot_ns)
    return Estimate.around(
        stamp + round(pivot),
        float(np.sqrt(line.half_ns**2 + interval.error_ns**2 + away**2 + crossed**2)),
        first_ns=stamp + round(first),
        last_ns=stamp + round(last),
        offset_ns=ways.base_ns + round(line.offset_ns + line.skew * first + shift),
        skew_ppm=line.skew / PPM,
        skew_uncertainty_ppm=_WIDTH_95 * line.error / PPM,
        method=TWO_CAPTURES,
        evidence=len(interval.ways.out) + len(interval.ways.back),
        to_first_ns=there + round(interval.b_first_ns),
        to_last_ns=there + round(interval.b_last_ns),
        lower_ns=min(lower, upper) + round(shift),
        upper_ns=max(lower, upper) + round(shift),
        crossed_ns=round(crossed),
        notes=(_CROSSED.format(crossed / NS_PER_MS),) if crossed else (),
    )


def _offset(sides: list[Side], by_size: list[list[Array]], skew: float) -> _Offset:
    """Return the offset of the clocks at time 0 for a given skew, with its uncertainty.

    `by_size` has, for each direction without a measured rate, the packets of each class of sizes.
    """
    luck = np.random.default_rng(20_261_120)
    (out, out_rate), (back, back_rate) = (
        _level(*each, skew).draw(luck.permutation((np.arange(_DRAWS) + 0.5) / _DRAWS), luck.random(_DRAWS))
        for each in zip(sides, by_size, strict=True)
    )
    overhead = luck.uniform(0, _LARGEST_OVERHEAD_BYTES, _DRAWS)
    stamping = luck.normal(0, _STAMPING_NS, _DRAWS)
    out, back = out - overhead * out_rate, back - overhead * back_rate
    weight = np.where(out + back >= 0, 1.0, _BARELY)
    if sides[0].spaced is None or sides[1].spaced is None:
        weight = weight * np.exp(-0.5 * (np.log(out_rate / back_rate) / _UNLIKE) ** 2)
    margin = _MARGIN if min(side.slot_ns for side in sides) <= 0 else _MARGIN_SLOTTED
    offset = _interval((out - back) / 2 + stamping, weight, margin)
    caveat = [side.uncertainty_ns / 2 for side in sides]
    offset = _Offset(offset.centre_ns + (caveat[0] - caveat[1]) / 2, offset.half_ns + _DOUBTED * sum(caveat))
    alike = _like_with_like(sides, skew)
    if alike is None:
        return offset
    low, high = offset.centre_ns - offset.half_ns, offset.centre_ns + offset.half_ns
    return _Offset(float(np.clip(alike, low, high)), offset.half_ns)


def _like_with_like(sides: list[Side], skew: float) -> float | None:
    """Return the offset at time 0 from packets of equal sizes in both directions; None without such packets.

    It is used for a link with slots. We assume that packets of one size wait equally long for slots in both
    directions. The result is only the best value within an interval that does not depend on this assumption.
    """
    if min(side.slot_ns for side in sides) <= 0:
        return None
    flat = [side.way.delay_ns - side.way.sign * skew * side.way.time_ns for side in sides]
    sizes = [side.way.size_bytes for side in sides]
    halves, minimum = [], []
    for size in np.intersect1d(sizes[0], sizes[1]):
        one, other = (np.sort(f[s == size]) for f, s in zip(flat, sizes, strict=True))
        if min(len(one), len(other)) >= _FEW_ALIKE:
            halves.append((one[0] - other[0]) / 2)
            minimum.append((one[0] + other[0]) / 2 - size * sum(side.guess_ns_per_byte for side in sides) / 2)
    near = [f for f, at in zip(halves, minimum, strict=True) if at <= min(minimum) + sides[0].slot_ns]
    return float(np.mean(near)) if near else None


def _interval(values: Array, weight: Array, margin: float) -> _Offset:
    order = np.argsort(values)
    share = np.cumsum(weight[order]) / weight.sum()
    low, high = (float(values[order][np.searchsorted(share, q).clip(max=len(order) - 1)]) for q in (0.025, 0.975))
    return _Offset((low + high) / 2, margin * (high - low) / 2)


def _level(side: Side, alike: list[Array], skew: float) -> Level:
    way = side.way
    delay = way.delay_ns - way.sign * skew * way.time_ns
    broad = float(np.median(delay) - delay.min()) + _BROAD_NS
    if side.spaced is not None:
        steps = np.linspace(-3, 3, 25)
        rates = side.spaced.ns_per_byte * (1 + side.spaced.error * steps)
        return level_at_known_rate(delay, way.size_bytes, rates, -0.5 * steps**2, slot_ns=side.slot_ns, broad_ns=broad)
    sizes = classes(delay, way.size_bytes, alike, ns_per_byte=side.guess_ns_per_byte, slot_ns=side.slot_ns)
    low, high = _FASTEST_NS_PER_BYTE, min(SLOWEST_NS_PER_BYTE, side.slowest_ns_per_byte)
    for _ in range(_ZOOMS):
        rates = np.geomspace(low, high, _RATES)
        prior = np.full(_RATES, np.log(high / low))
        level = level_posterior(sizes, rates, prior, slot_ns=side.slot_ns, broad_ns=broad)
        low, high = level.likely_rates()
    return level


# Clock steps hidden by full queues: no packet near the step shows it, but no line fits all packets.


_SKEWS = 41
"""Number of skews that are tried, 25 ppm apart: in ten minutes half of that changes a delay by 8 ms, less than the
smallest step."""
_BESIDE = 3
"""Number of packets on each side of a place whose median gives the step there."""
_PART = 0.6
"""Maximum unexplained share of a step at the best place; with more, that place is no better than others."""
_MOST_PLACES, _TRIED = 5_000, 40
"""Maximum number of places that are examined, and of the best ones that are fitted, to bound the time. Not measured."""
_RIVAL = 0.2
"""A place with at most this much more unexplained than the best one may be the true place."""
_ALIKE = 0.1
"""Maximum relative difference between the steps that the minimum delays of the two directions show at such a place."""
_MIN_ERROR_NS = NS_PER_MS


def missing_ns(ways: Ways) -> float:
    """Return the maximum time by which a packet seems to arrive before it was sent, ns.

    Offset and skew of the clocks are chosen so that this time is as small as possible.
    """
    skews = np.linspace(-LARGEST_SKEW, LARGEST_SKEW, _SKEWS)
    missing = np.inf
    for skew in sorted(skews.tolist(), key=abs):
        took = sum(float((w.delay_ns - w.sign * skew * w.time_ns).min()) for w in (ways.out, ways.back))
        missing = min(missing, -took)
        if missing <= 0:
            return 0.0
    return missing


def hidden_step(flat: Ways, free: Ways, skew: float, *, slot_ns: float) -> Step | None:
    """Return the clock step that explains why packets seem to arrive before they are sent.

    It is None if no step explains it.

    Parameters
    ----------
    flat : Ways
        The packets without the known steps, and without their transmission times.
    free : Ways
        The same, without the queue of their own host.
    skew : float
        Approximate skew of B relative to A.
    slot_ns : float
        Time between two slots of the link, 0 for none; it limits the accuracy of a step from minimum delays.
    """
    if min(len(flat.out), len(flat.back)) < 2 * _BESIDE:
        return None
    places = [place for clock in CLOCKS for place in _places(flat, free, clock, skew)]
    places = sorted(place for place in places if place[4] <= _PART * abs(place[3]))
    best = next(
        (place for place in places[:_TRIED] if missing_ns(without(flat, _step(place, slot_ns))) < SMALLEST_STEP_NS),
        None,
    )
    if best is None:
        return None
    cost, clock, _, shift, _ = best
    vague = cost > _PART * abs(shift)
    likely = [
        its_row
        for its_cost, its_clock, its_row, _, its_error in places
        if its_clock == clock and (vague or its_cost - cost <= _RIVAL * abs(shift)) and its_error <= _ALIKE * abs(shift)
    ]
    step = _step(best, slot_ns)
    finer = placed(flat, step)
    step = finer if finer.clock == clock and missing_ns(without(flat, finer)) < SMALLEST_STEP_NS else step
    return replace(step, first_row=min([*likely, step.zone[0]]), last_row=max([*likely, step.zone[1]]))


def _step(place: tuple[float, ClockLabel, int, float, float], slot_ns: float) -> Step:
    _, clock, row, shift, error = place
    return Step(clock, row, shift, max(error, _MIN_ERROR_NS, slot_ns))


def _places(
    flat: Ways, free: Ways, clock: ClockLabel, skew: float
) -> Iterator[tuple[float, ClockLabel, int, float, float]]:
    """Yield for each possible row of a step: residual, clock, row, size of the step, and its error.

    A queue that is computed from times of the clock that stepped contains the step.
    """
    chosen = (flat.out, free.back) if clock == "a" else (free.out, flat.back)
    courses = [_Course(way, clock, skew) for way in chosen]
    rows = np.unique(np.concatenate([course.row[_BESIDE : 1 - _BESIDE] for course in courses]))
    levels, jumps = [], []
    for course in courses:
        at = np.searchsorted(course.row, rows).clip(_BESIDE, len(course.row) - _BESIDE)
        levels.append(course.min_moves(at))
        jumps.append(course.jumps(at))
    shift = (levels[0] + levels[1]) / 2
    cost = np.abs(jumps[0] - shift) + np.abs(jumps[1] - shift)
    possible = np.flatnonzero(np.abs(shift) >= SMALLEST_STEP_NS)
    for k in possible[np.argsort(cost[possible], kind="stable")[:_MOST_PLACES]]:
        error = abs(float(levels[0][k] - levels[1][k]))
        yield float(cost[k]) + error, clock, int(rows[k]), float(shift[k]), error


class _Course:
    """The delays of one direction, in packet order of one clock's capture, to measure a step at any row."""

    def __init__(self, way: MatchedDirection, clock: ClockLabel, skew: float) -> None:
        order = np.argsort(rows_of(way, clock), kind="stable")
        self.row = rows_of(way, clock)[order]
        self.sign = way.sign
        self.delay = (way.delay_ns - way.sign * skew * way.time_ns)[order]

    def min_moves(self, at: Array) -> Array:
        """Return the step of B - A at each row in `at`, from the minimum delays before and after it.

        `at` is int64, shape (n,), in the order of the capture; the result is float64, ns, shape (n,). All
        packets before and after the row are used.
        """
        before = np.minimum.accumulate(self.delay)
        behind = np.minimum.accumulate(self.delay[::-1])[::-1]
        moved: Array = self.sign * (behind[at] - before[at - 1])
        return moved

    def jumps(self, at: Array) -> Array:
        """Return the step of B - A at each row in `at`, from the median delays of the packets next to it.

        Types are those of `min_moves`; rows must be at least `_BESIDE` packets away from both ends.
        """
        window = np.lib.stride_tricks.sliding_window_view(self.delay, _BESIDE)
        middle = np.median(window, axis=1)
        jumped: Array = self.sign * (middle[at] - middle[at - _BESIDE])
        return jumped
