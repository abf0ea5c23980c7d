"""WTCP, the transport of paper 001 for wireless wide-area networks, without I/O; begin with `connection.py`.

Octets and `now_ns` come in; octets, the application's bytes and the next deadline come out. `sender.py`
paces the data, finds holes and leaves blackouts by probes; `receiver.py` puts the stream together and decides
when to acknowledge; `rate.py` computes the rate, at the receiver.
`packet.py` is the wire format, `worker.py` an endpoint for many peers. docs/wtcp.md tells the paper's part
from ours.

What must hold: the stream that is delivered equals the stream that was written. Nothing that a peer sends
raises, or makes this end send faster than `WtcpConfig.max_rate_bps`, or more than was received before the
peer has proved its address. Memory for a peer is bounded.
"""
