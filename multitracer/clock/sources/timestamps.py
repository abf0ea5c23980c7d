"""The clock behind a host's TCP timestamps (RFC 7323, section 5.4), seen at a capture point.

Timestamps tick at a rate of their own, usually 1, 10, 100, 250 or 1000 Hz, from an origin that may differ for
each connection. The slope of their values over the capture's clock is the skew of the two (Kohno, Broido and
Claffy, "Remote physical device fingerprinting", 2005).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Flag, Mark
from multitracer.clock.sources.one_way import LEAST_STAMPS, one_way_estimate
from multitracer.errors import ClockError
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.capture import Capture
    from multitracer.clock.model.estimate import Estimate
    from multitracer.tables import Array


METHOD = "TCP timestamps"
USUAL_RATES_HZ = (1, 2, 10, 100, 250, 300, 500, 1000)
"""RFC 7323, 5.4 allows 1 to 1000; most are the HZ of a kernel."""
_NEAR = 0.02
"""A host's clock is not farther from its nominal rate; a measured rate farther off is of another kind."""


def relate_timestamps(capture: Capture, flow: int, *, delay_ns: float = 0.0) -> list[Estimate]:
    """Return the relation of a sender's timestamp clock to the capture's, in ns since its first value.

    Parameters
    ----------
    capture : Capture
        Its clock is `from`.
    flow : int
        One direction of a connection, as in its segments: 2 x row in flows + direction.
    delay_ns : float
        The least time from the sender to the capture point, as far as it is not known; 0 at the sender.

    Raises
    ------
    ClockError
        If there are too few timestamps, or they tick at no usual rate.
    """
    segments = capture.segments
    mine = (segments["flow"] == flow) & (segments["marks"] & Mark.HAS_TIMESTAMPS > 0)
    rows = np.flatnonzero(mine & (segments["flags"] & (Flag.SYN | Flag.RST) == 0))
    if len(rows) < LEAST_STAMPS:
        raise ClockError(
            f"{METHOD}: not determinable, because {len(rows)} segments with timestamps are too few; "
            "what would help: a longer connection, or timestamps switched on"
        )
    time = segments["time_ns"][rows]
    ticks = np.cumsum(
        np.diff(segments["tsval"][rows], prepend=segments["tsval"][rows][:1]).view(np.int32), dtype=np.int64
    )
    rate = _rate(time, ticks)
    return [
        one_way_estimate(
            time, ticks * (NS_PER_S // rate), method=METHOD, delay_ns=delay_ns, tick_ns=NS_PER_S / rate
        )
    ]


def _rate(time_ns: Array, ticks: Array) -> int:
    """Return the usual rate nearest to the one at which the ticks of the whole connection went by."""
    span = int(time_ns[-1] - time_ns[0])
    measured = int(ticks[-1] - ticks[0]) * NS_PER_S / span if span > 0 else 0.0
    nearest = min(USUAL_RATES_HZ, key=lambda usual: abs(measured / usual - 1))
    if abs(measured / nearest - 1) > _NEAR + 2 / max(1, int(ticks[-1])):
        raise ClockError(
            f"{METHOD}: not determinable, because they tick at {measured:.4g} Hz, no rate that hosts use; "
            "what would help: a longer connection"
        )
    return nearest
