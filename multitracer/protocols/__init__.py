"""Protocol cores without I/O: bytes and times are passed in, bytes and events are returned.

- `rlp.py`, `l2r.py`: frame formats of a GSM data call; the protocol entities are in `multitracer.lab`.
- `centaurus/`, `wtcp/`: the transports of papers 000 and 001.
- `modem/`, `position.py`, `sock_diag.py`: decode the output of modems, GPS receivers and Linux.
- `pcap_file.py`, `rlpdump.py`, `gsmtap.py`: files and packets as bytes, written or read.
- `error_trace.py`, `capacity_trace.py`: recorded behaviour of a link, as text.

Read `wtcp/connection.py` first: its rules of the file are those of all state machines here. The same core
runs in real time (testbed), in virtual time (simulator) and in tests.

What must hold: no module reads a clock, opens a socket or sleeps; `now_ns` is always passed in. A wrong call
raises `LocalProtocolError`; octets from a peer raise only `RemoteProtocolError`. After each call the caller
asks for the next deadline; a call after the deadline processes everything that is due.
"""
