"""Exports a diagnosis to other programs: Wireshark, Perfetto, xplot.

The input is a `Recording` and its diagnosis; the output is written in chunks. Each module writes one format:
`wireshark.py` (the records with comments), `perfetto.py` (a trace of lanes, counters and packets), `xplot.py`
(the plots that `tcptrace -G` draws). Read `explained.py` first.

Invariants: records are copied without changes; the other program shows the values of the tables. Records,
events and points are written one by one, so that only the tables need memory. Names and notes from the input
are not trusted: in all files they are printable text of bounded length, and never a file name.
"""
