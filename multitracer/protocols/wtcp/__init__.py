"""WTCP, the transport of paper 001 for wireless wide-area networks, without I/O; begin with `connection.py`.

Input: octets and `now_ns`. Output: octets, the application's bytes and the next deadline. `sender.py`
paces the data, finds losses and ends blackouts by probes; `receiver.py` reassembles the stream and decides
when to acknowledge; `rate.py` computes the rate, at the receiver.
`packet.py` is the wire format, `worker.py` an endpoint for many peers. docs/wtcp.md shows which
parts come from the paper and which are our own.

What must hold: the stream that is delivered equals the stream that was written. Nothing that a peer sends
raises an error, or makes this end send faster than `WtcpConfig.max_rate_bps`. A peer whose address is not
proven gets at most as many bytes as it sent. Memory for a peer is bounded.
"""
