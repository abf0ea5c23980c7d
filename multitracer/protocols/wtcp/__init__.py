"""WTCP, the transport of paper 001 for wireless wide-area networks, without I/O; begin with `connection.py`.

Octets and `now_ns` come in; octets, the application's bytes and the next deadline come out. `sender.py`
paces the data, finds holes and leaves blackouts by probes; `receiver.py` puts the stream together and decides
when to acknowledge; `rate.py` computes the rate, at the receiver, from `ratios.py` and `losses.py`.
`packet.py` is the wire format, `worker.py` an endpoint for many peers. docs/wtcp.md tells the paper's part
from ours.

What must hold: the stream that is delivered equals the stream that was written. Nothing that a peer sends
raises, or makes this end send faster than `WtcpConfig.max_rate_bps`, or more than was received before the
peer has proved its address. Memory for a peer is bounded.
"""

from __future__ import annotations

from multitracer.protocols.wtcp.config import IP_UDP_BYTES, WtcpConfig
from multitracer.protocols.wtcp.connection import WtcpConnection
from multitracer.protocols.wtcp.state import (
    BlackoutBegan,
    BlackoutEnded,
    Lost,
    RateCause,
    RateChanged,
    RateReceived,
    StateChanged,
    WtcpCounters,
    WtcpEvent,
    WtcpState,
)
from multitracer.protocols.wtcp.worker import WorkerCounters, WtcpOutgoing, WtcpWorker

__all__ = [
    "IP_UDP_BYTES",
    "BlackoutBegan",
    "BlackoutEnded",
    "Lost",
    "RateCause",
    "RateChanged",
    "RateReceived",
    "StateChanged",
    "WorkerCounters",
    "WtcpConfig",
    "WtcpConnection",
    "WtcpCounters",
    "WtcpEvent",
    "WtcpOutgoing",
    "WtcpState",
    "WtcpWorker",
]
