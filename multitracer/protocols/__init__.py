"""Protocol cores without I/O: bytes and points in time go in, bytes and events come out.

- `rlp/`, `l2r.py`, `ppp.py`, `vj/`: the layers of a GSM data call, from radio frames to IP packets.
- `tcp/`: a TCP of our own; `centaurus/`, `wtcp/`: the transports of papers 000 and 001.
- `modem/`, `position.py`, `sock_diag.py`: decode the output of modems, GPS receivers and Linux.
- `pcap_file.py`, `rlpdump.py`, `gsmtap.py`: files and packets as bytes, written or read.

Read `rlp/entity.py` first: its rules of the file are those of all state machines here. The same core runs in
real time (testbed), in virtual time (simulator) and in tests.

What must hold: no module reads a clock, opens a socket or sleeps; `now_ns` is always passed in. A wrong call
raises `LocalProtocolError`; what a peer sends never raises anything else than `RemoteProtocolError`. After
each call the caller asks for the next deadline; a call after the deadline does the work that is due.
"""
