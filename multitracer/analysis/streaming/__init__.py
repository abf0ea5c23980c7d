"""Analysis of a capture that is never completely in memory.

The input is blocks of a capture, in its order; the output is connections as they close, with the same numbers as from
`analyse`. Read `open_connections.py` first: it stores the segments of open connections and releases closed ones. A
connection with many segments is *folded*: its counts are stored (`aggregated.py`), and its old segments are replaced by
a few that represent them (`folding.py`), followed by the segments that later ones still need.

Two rules: the result for each connection is that of `analyse`, except for the differences in
docs/large_captures.md; memory is in proportion to the number of open connections.
"""
