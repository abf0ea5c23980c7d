"""Exports conclusions for other programs: Wireshark, Perfetto, xplot.

A `Recording` and its diagnosis come in; bytes go out, written in chunks. Each
target is one file: `wireshark.py` (the records with remarks), `perfetto.py` (a trace of lanes, counters and
packets), `xplot.py` (the plots that `tcptrace -G` draws). Read `explained.py` first.

What must hold: records are copied, never changed; another program shows the values of our tables. Memory is
that of the tables: records, events and points are written one after the other. Names and notes come from
outside: they become printable text of bounded length in every file, and never a file name.
"""
