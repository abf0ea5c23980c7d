"""CentaurusComm, the message transport of paper 000, section III; begin with `level2.py`, then `worker.py`.

Input: objects of an application, packets of a medium and `now_ns`. Output: packets, objects and events.
`UdpWorker`, `SerialMaster` and `SerialSlave` are endpoints, `CentaurusConfig` has their options, `events.py`
the events that they report. Level I (`level1_udp.py`, `level1_serial.py`) is the medium. Level II
(`level2.py`) decides which end offers a message, and when.

What must hold: an object is delivered completely and once, or its sender is informed that it was not. Memory
for a peer is bounded. A peer whose address is not proven gets at most a few times the octets that it sent.
docs/centauruscomm.md has the wire format, and lists which parts are from the paper and which are our own.
"""
