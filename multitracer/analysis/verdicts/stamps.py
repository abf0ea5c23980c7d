"""The timestamps option as a clock (RFC 7323, section 5.4): how fast it ticks, and when a segment left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.capture import Mark
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.verdicts.copies import Copies
    from multitracer.tables import Array, Table

_RATES_HZ = np.array([1, 2, 10, 100, 250, 1000, 1_000_000])
"""RFC 7323, 5.4, allows 1 to 1000; in use are 2 (BSD of old), 10, 100, 250 and 1000, and 10^6 (Linux 6.7)."""
_APART = 0.1
"""So far a measured rate may be from one of these: delays of the first and the last packet."""
_LEAST_NS = NS_PER_S
"""Over so long a rate can be told."""
_DRIFT = 2e-4
"""Of a host's clock, at most: 100 ppm each for it and that of the capture."""


def since(stamps: Array, origin: np.uint32) -> Array:
    """Return how many ticks timestamps are after another; less than 2^31 lie between (RFC 7323, 5.2)."""
    ticks: Array = (stamps - origin).view(np.int32).astype(np.int64)
    return ticks


def tick_ns(segments: Table, rows: Array) -> int | None:
    """Return how long a tick of the host that sent `rows` is; None if that cannot be told."""
    if len(rows) < 2:
        return None
    ticks = int(since(segments["tsval"][rows[-1:]], segments["tsval"][rows[0]])[0])
    span_ns = int(segments["time_ns"][rows[-1]] - segments["time_ns"][rows[0]])
    if ticks <= 0 or span_ns < _LEAST_NS:
        return None
    rate = ticks * NS_PER_S / span_ns
    nearest = int(_RATES_HZ[np.argmin(np.abs(np.log(_RATES_HZ / rate)))])
    return NS_PER_S // nearest if abs(rate / nearest - 1) < _APART else None


def stamped_rows(copies: Copies, *, sender: bool) -> Array:
    """Return the rows with timestamps, of the sender of the data or of its receiver."""
    segments = copies.segments
    own = (segments["reverse"] == copies.reverse) == sender
    return np.flatnonzero(own & has(segments["marks"], Mark.HAS_TIMESTAMPS))


def left_before(copies: Copies, least_ns: float) -> Array:
    """Return which were reported by an ACK that left the receiver before they could have come there.

    By its own timestamp. What came through fastest shows what the receiver's clock said when it did.

    Parameters
    ----------
    least_ns : float
        How long, at least, after a retransmission an answer to it is captured.
    """
    back = stamped_rows(copies, sender=False)
    tick = tick_ns(copies.segments, back)
    early = np.zeros(len(copies), dtype=bool)
    if tick is None:
        return early
    time_ns = copies.segments["time_ns"][back]
    left_ns = since(copies.segments["tsval"][back], copies.segments["tsval"][back[0]]) * tick
    fastest_ns = left_ns + (time_ns - left_ns).min()
    error_ns = tick + _DRIFT * (time_ns[-1] - time_ns[0])
    place = np.minimum(np.searchsorted(back, copies.report), len(back) - 1)
    there = (back[place] == copies.report) & (copies.report > copies.row)
    sent_ns = copies.segments["time_ns"][copies.row]
    early[:] = there & (fastest_ns[place] + error_ns < sent_ns + least_ns)
    return early
