"""A clock that is only received: its stamps arrive after a delay that nothing measures.

The rate is known well, from the line that all stamps stay below and the level on which most of the promptest
lie. The offset is known up to the least delay, which has to be assumed: its half is added, and is its
error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.envelope import envelope
from multitracer.clock.model.estimate import PPM, Estimate, EventDirection, Evidence
from multitracer.clock.model.skew_posterior import skew_posterior, window_lows
from multitracer.errors import ClockError

if TYPE_CHECKING:
    from multitracer.tables import Array


LEAST_STAMPS = 20  # with fewer the promptest stamp is chance
_CAUTION = 2.0
"""Delays of neighbours are not independent, so errors are larger. Not measured; cf. 1.6 in `skew`."""
_WIDTH_95 = 1.96  # 95 % of a normal distribution
_STAMPING_NS = 20_000.0
"""Hosts stamp packets some ten microseconds late; the same in `causal_bounds`."""


def one_way_estimate(
    from_ns: Array, to_ns: Array, *, method: str, delay_ns: float, tick_ns: float
) -> Estimate:
    """Return the relation of a clock to one that receives its stamps.

    Parameters
    ----------
    from_ns : ndarray of int64, shape (n_stamps,)
        When each stamp was received, by the clock of the receiver.
    to_ns : ndarray of int64, shape (n_stamps,)
        The stamps.
    method : str
        The name of the estimate's method.
    delay_ns : float
        The most that the promptest stamp may have been under way.
    tick_ns : float
        Resolution of the stamps, which are rounded down.

    Raises
    ------
    ClockError
        If there are too few stamps, or they span no time.
    """
    if len(from_ns) < LEAST_STAMPS or int(np.ptp(from_ns)) <= 0:
        raise ClockError(
            f"{method}: not determinable, because {len(from_ns)} stamps are too few; "
            "what would help: a longer log"
        )
    first, base = int(from_ns.min()), int(to_ns[0] - from_ns[0])
    time = (from_ns - first).astype(np.float64)
    late = -(to_ns - from_ns - base).astype(np.float64)  # how long under way, but for the offset
    start = -envelope(time, late)[0]
    skew = start
    for _ in range(2):
        lows = [window_lows(-1, time, late, slope=skew)]
        grid, mass = skew_posterior(lows, [start])
        skew = float((grid * mass).sum())
    spread = float(np.sqrt((mass * (grid - skew) ** 2).sum()))
    rounding = (tick_ns / np.sqrt(12) + _STAMPING_NS) / float(np.ptp(time))
    level = float((late + skew * time).min())
    queued = float(np.median(late + skew * time)) - level
    rounding += max(0.0, queued - tick_ns) / float(np.ptp(time))
    pivot = float(time.mean())
    return Estimate.around(
        first + round(pivot),
        (delay_ns + tick_ns) / 2 + _STAMPING_NS,
        first_ns=first,
        last_ns=int(from_ns.max()),
        offset_ns=base + round(-level + (delay_ns + tick_ns) / 2),
        skew_ppm=skew / PPM,
        skew_uncertainty_ppm=_WIDTH_95 * float(np.hypot(_CAUTION * spread, rounding)) / PPM,
        method=method,
        evidence=len(from_ns),
        lower_ns=base + round(-level),
        notes=(f"the fastest stamp is assumed to have travelled for {delay_ns / 1e6:.0f} ms at most",),
        points=Evidence(from_ns, to_ns, np.full(len(from_ns), EventDirection.BACKWARD, dtype=np.int8)),
    )
