"""How fast the clock of a sender's timestamps ticks (RFC 7323, 5.4), and when the capture's disagrees."""

from __future__ import annotations

from typing import NamedTuple

from multitracer.units import NS_PER_S

SMALLEST_STEP_NS = NS_PER_S // 2
"""Smaller steps are left to `time_steps_back`: ticks are coarse and hosts stamp before they queue."""
LEAST_SEGMENTS = 20  # with fewer a rate of ticks is not known well. Not measured
_LEAST_CALM = 10
"""So many segments have to follow each other without a long pause before the rate of the ticks is known."""
_LARGEST_SKEW = 0.01  # part of the time: far above the skew of any clock. Not measured
_USUAL_RATES_HZ = (1, 2, 10, 100, 250, 300, 500, 1000)
"""Rates in use: Linux ticks each ms, older kernels HZ times a second, others each 10, 100 or 500 ms."""
_QUEUE_SKEW = 0.1  # part of a usual rate: a queue that grows stretches the measured one. Not measured


class StampRate(NamedTuple):
    """The clock of a sender's timestamps."""

    measured_hz: float
    nominal_hz: int
    """The usual rate that is nearest."""

    @property
    def limits(self) -> dict[str, float]:
        """By how much the time between two stamped segments may differ from what their ticks say."""
        return {
            "tick_ns": NS_PER_S / self.nominal_hz,
            "least_ns": SMALLEST_STEP_NS,
            "skew": _LARGEST_SKEW,
            "resolution_ns": 2 * NS_PER_S / self.measured_hz,
        }


def stamp_rate(calm: int, spent_ns: int, ticked: int) -> StampRate | None:
    """Return the rate that pauses without room for a step show; None if it is not known.

    Parameters
    ----------
    calm : int
        How many such pauses there are.
    spent_ns, ticked : int
        The sums of their time, and of their ticks.
    """
    rate_hz = ticked * NS_PER_S / spent_ns if spent_ns > 0 else 0.0
    nominal = _nominal(rate_hz)
    return None if calm < _LEAST_CALM or nominal is None else StampRate(rate_hz, nominal)


def _nominal(rate_hz: float) -> int | None:
    """Return the usual rate nearest to the measured one, which queues make too low or too high; None far off.

    The short gaps of packets that a link bunches are those in which ticks seem to run fast: 2 Hz as 3.1 Hz.
    """
    nearest = min(_USUAL_RATES_HZ, key=lambda usual: abs(usual - rate_hz))
    return nearest if abs(nearest - rate_hz) < _QUEUE_SKEW * nearest else None
