"""The pauses of a client before it asked for more, as the sentence at the top and its finding count them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import distinct
from multitracer.diagnosis.held import stretches
from multitracer.diagnosis.limits.names import Limit, Part
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.tables import Array

_ROUND_TRIPS = 1.0
"""Above that of an answer's last packet and the next request: as much again is a pause of the client."""
_REACTS_S = 0.01  # a program that waits for nothing asks sooner, also on a busy host. Not measured


def pauses_s(limited: Limited) -> Array:
    """Return how long the client had all that came before it asked for more, each time: float64, s.

    By its capture, where there is one; else the server's waits for it that, without the round trip that each
    took, last as long as one.
    """
    by_client = client_pauses_s(limited.transfer)
    if by_client is not None:
        return by_client
    begin, end = stretches(limited, Limit.APPLICATION, Part.PEER)
    waits_ns = end - begin
    floor_ns = 0 if limited.seen is None else limited.seen.floor_ns
    waits_s = np.asarray(waits_ns * limited.transfer.speed / NS_PER_S)
    return waits_s[(waits_ns >= _ROUND_TRIPS * floor_ns) & (waits_s >= _REACTS_S)]


def client_pauses_s(transfer: Transfer) -> Array | None:
    """Return how long the client had all that came before it asked for more; None without its capture.

    A server that waits does so for its answer to get through the link's queue, too.
    """
    data, asks, client = transfer.data_pairs, transfer.ack_pairs, transfer.receiver
    if data is None or asks is None or client is None:
        return None
    came = distinct(data.arrived[data.arrived != NA])
    requests = distinct(asks.sent[asks.sent != NA])
    requests = requests[client["payload_bytes"][requests] > 0]
    last = np.searchsorted(came, requests) - 1
    first = (last >= 0) & (np.diff(last, prepend=-1) > 0)
    time_ns = client["time_ns"]
    paused_ns = time_ns[requests[first]] - time_ns[came[last[first]]]
    paused_s = np.asarray(paused_ns * transfer.speed / NS_PER_S)
    return paused_s[paused_s >= _REACTS_S]
