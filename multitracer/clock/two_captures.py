"""Offset and skew of the clocks of two captures of the same packets.

Clock B against clock A, ``B = A + offset + skew * (A - first)``; a delay is told apart from an offset because
the offset has the opposite sign on the way back (Paxson 1998). The steps, a file each:

1. `matching`, `ways`: the same packets, by direction.
2. `steps`: where a clock jumped; what follows is said of each interval between.
3. `serialization`: how long the slowest link of each way needs for a byte.
4. `envelope`, `mode`: the skew, by lines below all delays and by the densest level.
5. `levels`: how long a packet of no length takes each way, with what may lie below.
6. Here: half the difference of the two levels is the offset, if the two ways are equally long.

That last condition cannot be seen in the data. What holds without it is causality: every packet took some
time, which bounds the offset from both sides (`lower_ns`, `upper_ns`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from multitracer.clock.envelope import envelope
from multitracer.clock.estimate import PPM, Estimate
from multitracer.clock.levels import Level, classes, level_posterior
from multitracer.clock.mode import skew_posterior, window_lows
from multitracer.clock.serialization import Spacing, spacing
from multitracer.clock.ways import Way, Ways, both_ways

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multitracer.capture import Capture

    Array = NDArray[Any]

METHOD = "two captures"
SLOWEST_NS_PER_BYTE = 1.3e6
"""A link slower than 6 kb/s is not thought of unless its own arrivals show it."""
_FASTEST_NS_PER_BYTE = 1e-2
_RATES = 240
_DRAWS = 8192
_UNLIKE = 1.0
"""Spread of the logarithm of the ratio of the two ways' rates, where one of them is not measured."""
_LARGEST_OVERHEAD_BYTES = 16
_WIDTH_95 = 1.96
_SURE = 4.0


def relate(near: Capture, far: Capture) -> list[Estimate]:
    """Return the relation of the far capture's clock to the near one's, an estimate for each interval.

    Parameters
    ----------
    near, far : Capture
        Two captures of the same connections. Exchanging them gives the inverse relation.

    Returns
    -------
    list of Estimate
        In order of time, one for each interval between steps of either clock.

    Raises
    ------
    ClockError
        If the captures share too few packets, or packets of one direction only.
    """
    if _is_second(near, far):
        return [estimate.inverse() for estimate in relate(far, near)]
    return [_related(both_ways(near, far))]


def _is_second(near: Capture, far: Capture) -> bool:
    """Return whether `near` takes the second place in the order in which any two captures are compared."""
    return _rank(near) > _rank(far)


def _rank(capture: Capture) -> tuple[int, int, bytes]:
    times = capture.segments["time_ns"]
    return len(times), int(times[0]) if len(times) else 0, times[:1000].tobytes()


@dataclass(frozen=True, slots=True)
class _Offset:
    """The offset at a skew: its centre and the half-width of its 95 % interval."""

    centre_ns: float
    half_ns: float


def _related(ways: Ways) -> Estimate:
    measured = [spacing(way) for way in (ways.out, ways.back)]
    guess = [_guess(measured[0], measured[1]), _guess(measured[1], measured[0])]
    flat = [
        way.shifted(way.delay_ns - rate * way.size_bytes)
        for way, rate in zip((ways.out, ways.back), guess, strict=True)
    ]
    skew, error, _ = _skew(flat)
    offsets = {s: _offset(ways, measured, guess, s) for s in (skew, skew - error, skew + error)}
    at = offsets[skew]
    first, last = _span(ways)
    turn = (offsets[skew + error].centre_ns - offsets[skew - error].centre_ns) / (2 * error)
    pivot = float(np.clip(-turn, first, last))
    first_ns = ways.first_ns + round(first)
    centre = at.centre_ns + (skew * first)
    bounds = _bounds(ways, skew, error, first)
    return Estimate.around(
        ways.first_ns + round(pivot),
        at.half_ns,
        first_ns=first_ns,
        last_ns=ways.first_ns + round(last),
        offset_ns=ways.base_ns + round(centre),
        skew_ppm=skew / PPM,
        skew_uncertainty_ppm=_WIDTH_95 * error / PPM,
        method=METHOD,
        evidence=len(ways.out) + len(ways.back),
        lower_ns=bounds[0],
        upper_ns=bounds[1],
        notes=(),
    )


def _span(ways: Ways) -> tuple[float, float]:
    times = [way.time_ns for way in (ways.out, ways.back)]
    return min(float(t.min()) for t in times), max(float(t.max()) for t in times)


def _guess(own: Spacing | None, other: Spacing | None) -> float:
    if own is not None:
        return own.ns_per_byte
    return other.ns_per_byte if other is not None else 0.0


def _skew(flat: list[Way]) -> tuple[float, float, list[float]]:
    """Return the skew, one standard error, and what the two envelopes say of it."""
    starts = [way.sign * envelope(way.time_ns, way.delay_ns)[0] for way in flat]
    first = float(np.mean(starts))
    lows = [window_lows(way.sign, way.time_ns, way.delay_ns, slope=first) for way in flat]
    for _ in range(2):
        grid, mass = skew_posterior(lows, starts)
        skew = float((grid * mass).sum())
        lows = [window_lows(way.sign, way.time_ns, way.delay_ns, slope=skew) for way in flat]
    error = float(np.sqrt((mass * (grid - skew) ** 2).sum()))
    return skew, max(error, 1e-9), starts


def _offset(ways: Ways, measured: list[Spacing | None], guess: list[float], skew: float) -> _Offset:
    """Return the offset at time 0 for a skew."""
    levels = [
        _level(way, spaced, rate, skew)
        for way, spaced, rate in zip((ways.out, ways.back), measured, guess, strict=True)
    ]
    luck = np.random.default_rng(20_261_120)
    (out, out_rate), (back, back_rate) = (
        level.draw(luck.permutation((np.arange(_DRAWS) + 0.5) / _DRAWS), luck.random(_DRAWS))
        for level in levels
    )
    overhead = luck.uniform(0, _LARGEST_OVERHEAD_BYTES, _DRAWS)
    out, back = out - overhead * out_rate, back - overhead * back_rate
    weight = np.where(out + back >= 0, 1.0, 1e-9)
    if measured[0] is None or measured[1] is None:
        weight = weight * np.exp(-0.5 * (np.log(out_rate / back_rate) / _UNLIKE) ** 2)
    return _interval((out - back) / 2, weight)


def _interval(values: Array, weight: Array) -> _Offset:
    order = np.argsort(values)
    share = np.cumsum(weight[order]) / weight.sum()
    low, high = (
        float(values[order][np.searchsorted(share, q).clip(max=len(order) - 1)]) for q in (0.025, 0.975)
    )
    return _Offset((low + high) / 2, (high - low) / 2)


def _level(way: Way, spaced: Spacing | None, guess: float, skew: float) -> Level:
    delay = way.delay_ns - way.sign * skew * way.time_ns
    if spaced is not None:
        rates = spaced.ns_per_byte * (1 + spaced.error * np.linspace(-4, 4, 65))
        prior = -0.5 * np.linspace(-4, 4, 65) ** 2
    else:
        rates = np.geomspace(_FASTEST_NS_PER_BYTE, SLOWEST_NS_PER_BYTE, _RATES)
        prior = np.zeros(_RATES)
    found = classes(delay, way.size_bytes, ns_per_byte=guess, slot_ns=0.0)
    broad = float(np.median(delay) - delay.min()) + 1e8
    return level_posterior(found, rates, prior, slot_ns=0.0, broad_ns=broad)


def _bounds(ways: Ways, skew: float, error: float, at: float) -> tuple[int, int]:
    """Return the offsets at a time between which every packet took some time, whatever the skew is."""
    out, back = (
        max(_least(way, skew + step * error, at) for step in (-_SURE, 0.0, _SURE))
        for way in (ways.out, ways.back)
    )
    return ways.base_ns - round(back), ways.base_ns + round(out)


def _least(way: Way, skew: float, at: float) -> float:
    return float((way.delay_ns - way.sign * skew * (way.time_ns - at)).min())
