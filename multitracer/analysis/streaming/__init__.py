"""Connections of a capture that never lies in memory as a whole.

Pieces of a capture go in, in its order; connections come out as they end, with the numbers that `analyse`
gives them. Read `open_connections.py` first: the segments of connections that still run, those that leave.
A connection with many segments is *folded*: what was counted is kept (`folded.py`), and its segments become a
few that stand for them (`history.py`) before those that the future still needs.

What must hold: for each connection the result of `analyse`, but for what docs/large_captures.md lists; memory
in proportion to the connections that are open.
"""
