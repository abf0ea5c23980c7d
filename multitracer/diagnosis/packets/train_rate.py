"""How fast the link is at its best: the rate of short trains of packets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.transfer import Transfer

_TRAIN = 3
"""Packets whose rate is that of the link: a policer's bucket lets so many pass at once."""
_FASTEST = 0.98  # quantile of the rates: the highest are bunches in the capture. Not measured
HEADERS_BYTES = 40
"""Of IPv4 and TCP, without options."""
_ENDLESS = np.iinfo(np.int64).max


def train_rate(transfer: Transfer, *, until_ns: int = _ENDLESS) -> float:
    """Return octets a second (98th percentile) of trains of packets, as they arrived or were acknowledged.

    Parameters
    ----------
    transfer : Transfer
    until_ns : int, ns
        What arrives later, by the sender's clock, does not count.
    """
    pairs = transfer.data_pairs
    if pairs is not None and transfer.receiver is not None:
        arrived = np.sort(pairs.arrived[pairs.arrived >= 0], kind="stable")  # they are about in order
        arrived = arrived[transfer.came_ns[arrived] <= until_ns]
        time_ns, payload = (transfer.receiver[name][arrived] for name in ("time_ns", "payload_bytes"))
        octets = np.cumsum(np.where(payload > 0, payload + HEADERS_BYTES, 0))
    else:
        acks = transfer.acks[transfer.sender["time_ns"][transfer.acks] <= until_ns]
        time_ns = transfer.sender["time_ns"][acks]
        data = transfer.payload_bytes + HEADERS_BYTES
        octets = np.arange(len(acks)) * (data.sum() / max(len(transfer.acks), 1))
    if len(time_ns) <= _TRAIN:
        return 0.0
    gone_s = (time_ns[_TRAIN:] - time_ns[:-_TRAIN]) * transfer.speed / NS_PER_S
    rates = (octets[_TRAIN:] - octets[:-_TRAIN])[gone_s > 0] / gone_s[gone_s > 0]
    return float(np.quantile(rates, _FASTEST)) if len(rates) else 0.0
