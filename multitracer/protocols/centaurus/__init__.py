"""CentaurusComm, the message transport of paper 000, section III; begin with `level2.py`, then `worker.py`.

Objects of an application, packets of a medium and `now_ns` come in; packets, objects and events come out.
`UdpWorker`, `SerialMaster` and `SerialSlave` are endpoints, `CentaurusConfig` their options; `events` is what
they report. Level I (`level1_udp.py`, `level1_serial.py`) is the medium. Level II (`level2.py`) decides which
end offers a message, and when.

What must hold: an object is delivered completely and once, or its sender learns that it was not. Memory for a
peer is bounded. A peer whose address is not proven gets at most a few times the octets that it sent.
docs/centauruscomm.md has the wire format, and says what comes from the paper and what is our own.
"""
