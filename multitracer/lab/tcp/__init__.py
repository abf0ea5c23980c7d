"""Our own TCP without I/O; names are those of the RFCs.

Input: packets and `now_ns`. Output: packets, the application's bytes and the next deadline. Read
`connection.py` first: it is one end of a connection, with its receiving half (reassembly, ACKs) and a
sender (`transmitter.py` and `linux_sender.py`: windows, timers, recovery). `congestion/` has one algorithm
per file, `packet.py` converts between segments and bytes, `profile.py` holds the differences between
implementations, including Linux.

What must hold: the delivered stream equals the written stream, whatever the network does. Sequence numbers
are unwrapped only in `connection.py`. No packet raises an error; a wrong call does.
"""
