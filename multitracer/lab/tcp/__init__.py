"""Our own TCP without I/O; names are those of the RFCs.

Packets and `now_ns` come in; packets, the application's bytes and the next deadline come out. Read
`connection.py` first: it is one end of a connection, made of a `sender.py` (windows, recovery, timers) and a
`receiver.py` (reassembly, ACKs). `congestion/` holds one algorithm a file, `packet.py` turns segments into
bytes and back, `profile.py` is what differs from one implementation to the next, Linux among them.

What must hold: the stream that is delivered equals the stream that was written, whatever the network does.
Sequence numbers are unwrapped in `connection.py` and nowhere else. No packet raises; a wrong call does.
"""
