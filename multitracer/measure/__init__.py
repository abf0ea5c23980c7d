"""Measurements of transactions: request, reply, good-bye over real sockets and serial lines (paper 000).

A plan comes in (`plan.py`: protocols, sizes, number of sessions, order) and a server's address. Out comes a
folder with transactions.csv, one line for each finished transaction, and the plan itself. Client and server
speak the same messages (`exchange.py`) over TCP or CentaurusComm; `transports.py` makes both from what the
user names. A plan may be a product of variables (`variables.py`), whose tuples are sessions of their own
(`MeasuredTuples`: which are done). Read `exchange.py`, then `endpoint.py` (how CentaurusComm uses the
kernel's sockets) and `run.py` (how a plan is carried out and resumed).

What must hold: a finished transaction is on the disk before the next one begins, so an interrupted run
continues where it stopped and repeats nothing. Times are int64 ns of one clock that never runs backwards; a
dropped transaction has a line, too, and no RTT.
"""
