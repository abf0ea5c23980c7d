"""The mean of the rates that a mobile was assigned: what `rate = "mean"` is given as a control."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.protocols.channel_events import STREAM_BITS, RateAssigned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.protocols.link_events import LinkEvent


def mean_rate_bps(events: Iterable[LinkEvent], *, until_ns: int, mobile: int = 1) -> float | None:
    """Return the mean of the assigned rates over time, from the first assignment to `until_ns`.

    Parameters
    ----------
    events : iterable of LinkEvent
        Of the side that sends, in order: of the fixed host for the rates to the mobiles.
    until_ns : int
        End of the time, link time in ns.
    mobile : int
        Whose rates, from 1: the fixed host's log has those of all.

    Returns
    -------
    float or None
        In bit/s, of the channel and not of packets; None if no time passed with a rate.
    """
    first_ns = since_ns = until_ns
    rate_bps, bits = 0, 0
    for event in events:
        if not isinstance(event, RateAssigned) or event.offset_bytes >> STREAM_BITS != mobile - 1:
            continue
        if not rate_bps:
            first_ns = since_ns = event.time_ns
        bits += rate_bps * (event.time_ns - since_ns)
        rate_bps, since_ns = event.rate_bps, event.time_ns
    bits += rate_bps * (until_ns - since_ns)
    return bits / (until_ns - first_ns) if until_ns > first_ns else None
