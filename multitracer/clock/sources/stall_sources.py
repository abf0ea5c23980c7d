"""What in a capture and in a radio log is a stall, for `stalls`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Flag
from multitracer.clock.sources.stalls import relate_stalls, stalls_of_arrivals, stalls_of_readings
from multitracer.errors import ClockError
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.capture import Capture
    from multitracer.clock.model.estimate import Estimate
    from multitracer.tables import Array, Table


_BLER_PCT = 80.0  # with four of five blocks wrong hardly a packet gets through. Not measured
_ZERO_LEVEL_DBM = -113.0
"""The lowest value of RXLEV and of +CSQ: that or less (TS 27.007, 8.5)."""
_NOT_REGISTERED = (0, 2, 3, 4)
"""<stat> of TS 27.007, 7.2, of a modem that no network serves."""
_QUICK = 0.1
"""Quantile of the answers: the least may be a mistaken pair, the median stands in the queue."""


def relate_radio(capture: Capture, radio: Table) -> list[Estimate]:
    """Return the relation of a radio log's clock to a capture's at the data sender, by stalls alone.

    Parameters
    ----------
    capture : Capture
        Its clock is `from`; of its flows the one with most payload counts.
    radio : Table
        `radio`, its clock is `to`.

    Raises
    ------
    ClockError
        If the stalls cannot say.
    """
    arrivals, round_trip_ns = acks_of_largest_flow(capture)
    serving = radio["role"] != "neighbour"
    log = stalls_of_readings(radio["time_ns"][serving], is_bad(radio)[serving])
    return relate_stalls(stalls_of_arrivals(arrivals), log, round_trip_ns=round_trip_ns)


def is_bad(radio: Table) -> Array:
    """Return which readings say that nothing can come through: all blocks wrong, no signal, or no network.

    Returns
    -------
    ndarray of bool, shape (n_readings,)
        A missing value is not bad.
    """
    bad = (radio["bler_pct"] >= _BLER_PCT) | (radio["rssi_dbm"] <= _ZERO_LEVEL_DBM)
    registration = radio["registration"]
    none: Array = bad | ((registration != NA) & np.isin(registration, _NOT_REGISTERED))
    return none


def acks_of_largest_flow(capture: Capture) -> tuple[Array, float]:
    """Return when the ACKs for the flow with most payload were captured, and its least round-trip time in ns.

    Returns
    -------
    time_ns : ndarray of int64, ns, shape (n_acks,)
    least_ns : float
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
            "radio stalls and ACK gaps: not determinable, because the capture holds no data; what would "
            "help: "
            "a transfer that lasts through the stalls"
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
