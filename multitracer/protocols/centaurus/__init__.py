"""CentaurusComm, the message transport of paper 000, section III; begin with `level2.py`, then `worker.py`.

Objects of an application, packets of a medium and `now_ns` come in; packets, objects and events come out.
`UdpWorker`, `SerialMaster` and `SerialSlave` are endpoints, `CentaurusConfig` their options; `events` is what
they report. Level I (`level1_udp.py`, `level1_serial.py`) is the medium, Level II (`level2.py`) who offers a
message when.

What must hold: an object is delivered whole and once, or its sender learns that it was not. Memory for a peer
is bounded, and nobody gets much more octets than he sent before he has proved his address. The wire format,
and what is the paper's and what is ours, is in docs/centauruscomm.md.
"""
