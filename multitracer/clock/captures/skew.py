"""Skew of two clocks from the packets of both directions, by three methods that check each other.

- Lines below all delays, one for each direction (`envelope`): exact if queues empty, wrong if a queue
  persists.
- The level at which the minimum delays of many windows are densest, in both directions together
  (`skew_posterior`).
- The slots of a link, if both endpoints receive on a link with slots (`raster_skew`).

Each interval between two clock steps has its own level, so an error in the size of a step does not change the
skew. If neither a line below the delays nor slots support the densest level, the uncertainty is increased.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.captures.bottleneck import Side, arrivals_without_jump
from multitracer.clock.captures.steps import Step, stretches
from multitracer.clock.model.skew_posterior import LARGEST_SKEW, Lows, envelope, skew_near, skew_posterior, window_lows

if TYPE_CHECKING:
    from multitracer.tables import Array

    Course = tuple[int, Array, Array]
    """Sign of the skew, times and delays of one direction in one stretch."""

# Two clocks compared by the slots of the link between their hosts.
#
# Both ends receive on the same raster: a slot that lasts 20 ms by the network lasts a little more or less by
# either clock. The ratio of the two is the skew, to which every arrival contributes, whatever queue it stood
# in.


_LARGEST = 5e-4  # 500 ppm, the most that NTP takes for a clock's rate (RFC 5905)
_GRID = 2001  # 0.5 ppm a step; the line that follows refines it
_UNLIKE, _ROUND_NS = 0.02, 1e5
"""Maximum relative difference of the slots at both endpoints, and the multiple that nominal slots have, ns. Not
measured."""
_OUTLIER = 0.12
"""Maximum distance of an arrival from its slot, as a share of a slot: other arrivals were delayed by something else."""
_CORRELATED = 6.0
"""Factor on the error: a delayed host is late for several packets in a row."""
_MIN_ARRIVALS = 30  # with fewer a line through slots tells next to nothing. Not measured
_MOST_IN_PERIODOGRAM = 1024
"""Maximum number of arrivals in the periodogram, taken from the full time; all arrivals refine the result."""
_MIN_STRENGTH = 0.5
"""Minimum strength of the periodogram; 1 means perfect slots. Random times give sqrt(ln(`_GRID`) / n): 0.09 for n =
1,024."""
_REFINEMENTS = 4  # slot numbers change hardly after the first line. Not measured


def raster_skew(a_ns: Array, b_ns: Array, *, slot_a: float, slot_b: float) -> tuple[float, float] | None:
    """Return the skew of clock B and its standard error, from the slots of a link.

    It is None if the two endpoints do not receive with the same slots.

    Parameters
    ----------
    a_ns, b_ns : ndarray of float64, shapes (n_at_a,), (n_at_b,)
        Arrivals at A by clock A, and at B by clock B.
    slot_a, slot_b : float, ns
        The slots found in these arrivals; 0 for none.
    """
    slots = [slot for slot in (slot_a, slot_b) if slot > 0]
    if min(len(a_ns), len(b_ns)) < _MIN_ARRIVALS or not slots or max(slots) > (1 + _UNLIKE) * min(slots):
        return None
    nominal = float(np.rint(np.mean(slots) / _ROUND_NS) * _ROUND_NS)
    a, b = (_slot(np.sort(times), nominal) for times in (a_ns, b_ns))
    if a is None or b is None:
        return None
    return b[0] / a[0] - 1, float(np.hypot(a[1] / a[0], b[1] / b[0]))


def _slot(times: Array, nominal: float) -> tuple[float, float] | None:
    """Return the exact length of a slot and its standard error, in ns; None if no slot is found.

    A periodogram gives an approximate length; then a line is fitted to times and slot numbers.
    """
    times = times - times[0]
    rates = (1 + np.linspace(-_LARGEST, _LARGEST, _GRID)) / nominal
    strength = _periodogram(times[:: -(-len(times) // _MOST_IN_PERIODOGRAM)], rates)
    rate = float(rates[int(np.argmax(strength))])
    if strength.max() < _MIN_STRENGTH:
        return None
    length, start = 1 / rate, _phase(times, rate) / rate
    for _ in range(_REFINEMENTS):
        number = np.rint((times - start) / length)
        rest = times - start - number * length
        near = np.abs(rest) < _OUTLIER * nominal
        line = np.polynomial.polynomial.polyfit(number[near], rest[near], 1)
        start, length = start + float(line[0]), length + float(line[1])
    spread = float(np.std(rest[near]))
    error = _CORRELATED * spread / (np.sqrt(near.sum()) * float(np.std(number[near])))
    return length, error


def _periodogram(times: Array, rates: Array) -> Array:
    """Return for each rate how well the times fit slots of that rate, from 0 to 1.

    The rates are evenly spaced.
    """
    phasor = np.exp(2j * np.pi * ((times * rates[0]) % 1.0))
    step = np.exp(2j * np.pi * times * (rates[-1] - rates[0]) / (len(rates) - 1))
    strength = np.empty(len(rates))
    for i in range(len(rates)):  # a product costs a tenth of an exponential
        strength[i] = abs(phasor.mean())
        phasor *= step
    return strength


def _phase(times: Array, rate: float) -> float:
    return float(np.angle(np.exp(2j * np.pi * ((times * rate) % 1.0)).sum()) / (2 * np.pi)) % 1.0


_FEWEST = 12
"""Minimum number of packets of a direction in an interval; fewer determine no slope."""
_SURE = 4.0
"""Number of standard errors from which two methods contradict each other (by chance: 6 in 100,000)."""
_SLACK = 5e-6  # 5 ppm: what a quartz changes with the temperature of a room during a recording
_STAMPING_NS = 40_000.0
"""Difference between a host's timestamp and the time on the link, ns, one standard error: some ten microseconds."""
_NO_CHANCE = 6.0
"""Number of standard errors from 0 from which a skew between slots belongs to the link: ticks of the hosts have none.
"""
_AT_THE_EDGE = 0.95
"""Share of the maximum skew of a quartz: if the densest level needs more, queues mislead it."""
_CAUTION = 1.6
"""Factor on the error of the skew, since packets of one queue are not independent."""


def skew_of(
    sides: list[Side], steps: list[Step], *, with_error: bool = True, useful: float = np.inf
) -> tuple[float, float]:
    """Return the skew of clock B relative to clock A, and its standard error.

    Parameters
    ----------
    sides : list of Side
        Both directions, without the steps.
    steps : list of Step
        The clock steps; their known sizes are not used.
    with_error : bool
        Whether the error is needed: what drifts within the recording costs most of the time.
    useful : float
        From this error on only a lower bound of the error is returned.
    """
    slots = _by_slots(sides, steps)
    skew, error = _by_delays(_courses(sides, steps), with_error=with_error, useful=useful if slots is None else np.inf)
    if slots is not None:
        apart = abs(slots[0] - skew)
        agree = apart < _SURE * np.hypot(slots[1], error) + _SLACK
        certain = abs(slots[0]) > _NO_CHANCE * slots[1] + _SLACK
        if not agree and not certain:
            error = max(error, apart)
        elif slots[1] < error or not agree:
            skew, error = slots
    span = max(float(np.ptp(side.way.time_ns)) for side in sides)
    return skew, float(np.hypot(error, _STAMPING_NS / span))


def _courses(sides: list[Side], steps: list[Step]) -> list[Course]:
    """Return the packets of each direction in each interval between steps.

    Intervals with few packets are left out. If no interval has enough, all packets form one interval.
    """
    courses: list[Course] = []
    for side in sides:
        way, flat = side.way, side.flat_ns
        masks = [mask for mask in stretches(way, steps) if mask.sum() >= _FEWEST]
        masks = masks or [np.ones(len(way), dtype=bool)]
        courses += [(way.sign, way.time_ns[mask], flat[mask]) for mask in masks]
    return courses


def _by_delays(courses: list[Course], *, with_error: bool, useful: float = np.inf) -> tuple[float, float]:
    """Return the skew at which minimum delays agree best (the densest level), and its standard error.

    The result is checked with the lines below all delays, and with what it would be without some of the time.
    """
    lines = [_line(courses, sign) for sign in (1, -1)]
    skew = float(np.mean(lines))
    for _ in range(2):
        lows = [window_lows(sign, time, delay, slope=skew) for sign, time, delay in courses]
        grid, mass = skew_posterior(lows, lines)
        skew = float((grid * mass).sum())
    error = _CAUTION * float(np.sqrt((mass * (grid - skew) ** 2).sum()))
    error = float(np.hypot(error, disagreement(skew, error, lines)))
    edge = LARGEST_SKEW if abs(skew) > _AT_THE_EDGE * LARGEST_SKEW else 0.0
    if with_error and max(error, edge) < useful:
        error = float(np.hypot(error, _without_some_blocks(lows, skew, error)))
    return skew, max(error, edge)


def _without_some_blocks(lows: list[Lows], skew: float, error: float) -> float:
    """Return the standard error of the skew by the jackknife that deletes several blocks of time at once.

    What a level rests on lasts: a cell, a scheduler's load, the distance to a mast. The minima of one block share it,
    so that their number says little; how far the skew moves without some blocks does (Kuensch 1989). The densest level
    is no smooth function of the blocks: two that agree by chance hold it when either is left out. Such an error is
    found only if more than the square root of their number are deleted together (Shao and Wu 1989).
    """
    begin, end = (float(edge([edge(low.time_ns) for low in lows])) for edge in (np.min, np.max))
    inner = np.linspace(begin, end, _BLOCKS + 1)[1:-1]
    blocks = [np.searchsorted(inner, low.time_ns) for low in lows]
    skews = []
    for first in range(_BLOCKS):
        deleted = (first + np.array(_DELETED)) % _BLOCKS
        kept = [(low, ~np.isin(block, deleted)) for low, block in zip(lows, blocks, strict=True)]
        rest = [low.where(keep) for low, keep in kept if keep.sum() >= _MIN_WINDOWS]
        if {low.sign for low in rest} == {1, -1}:
            skews.append(skew_near(rest, skew, _FAR_ERRORS * error))
    if len(skews) < _MIN_SKEWS:
        return 0.0
    return _STUDENT[len(skews) - _MIN_SKEWS] * float(np.sqrt((_BLOCKS / len(_DELETED) - 1) * np.var(skews)))


_BLOCKS, _MIN_SKEWS, _MIN_WINDOWS = 8, 4, 3
"""Number of blocks, the fewest deletions that must leave minima of both directions, and how many minima of each. Not
measured."""
_DELETED = (0, 1, 3)
"""Blocks that are deleted together, counted from each block, the first after the last: 1, 2 and 3 apart."""
_STUDENT = tuple(quantile / 1.96 for quantile in (3.182, 2.776, 2.571, 2.447, 2.365))
"""The 95 % quantile of Student's t for `_MIN_SKEWS` to `_BLOCKS` skews, over that of the normal distribution."""
_FAR_ERRORS = 8.0  # errors of the skew within which it is searched without some blocks first. Not measured


def disagreement(skew: float, error: float, lines: list[float]) -> float:
    """Return how far the skew from the densest level is from the nearest skew in `lines`.

    `lines` are the skews of the lines below all delays. Queues often mislead one line, but rarely both. If
    one line agrees within `error`, the result is 0.
    """
    apart = min(abs(line - skew) for line in lines)
    return 0.0 if apart <= error else apart


def _line(courses: list[Course], sign: int) -> float:
    """Return the weighted mean skew of the lines below all delays of one direction.

    Long intervals between steps have more weight.
    """
    own = [(time, delay) for its, time, delay in courses if its == sign]
    weight = [float(np.ptp(time)) ** 2 + 1.0 for time, _ in own]
    slopes = [sign * envelope(time, delay)[0] for time, delay in own]
    return float(np.clip(np.average(slopes, weights=weight), -LARGEST_SKEW, LARGEST_SKEW))


def _by_slots(sides: list[Side], steps: list[Step]) -> tuple[float, float] | None:
    arrived = {side.way.sign: arrivals_without_jump(side, steps) for side in sides}
    slots = {side.way.sign: side.slot_ns for side in sides}
    return raster_skew(arrived[-1], arrived[1], slot_a=slots[-1], slot_b=slots[1])
