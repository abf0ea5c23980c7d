"""Measures transactions (request, reply, good-bye) over real sockets and serial lines (paper 000).

The input is a plan (`plan.py`: protocols, sizes, number of sessions, order) and the address of a server. The
output is a folder with transactions.csv (one line for each finished transaction) and the plan. Client and
server exchange the messages of `exchange.py` over TCP, CentaurusComm or WTCP; `transports.py` makes both from
the options of the user. A plan may be a product of variables (`variables.py`), whose tuples are sessions of
their own (`MeasuredTuples`: which are done). Read `exchange.py`, then `endpoint.py` (how CentaurusComm uses
the kernel's sockets) and `run.py` (how a plan is carried out and resumed).

Invariants: a finished transaction is on the disk before the next one begins, so that a restarted run
continues without repetition. Times are int64 ns of one clock that never runs backwards. A dropped transaction
also has a line, without an RTT.
"""
