"""What was concluded, for the programs that people know already: Wireshark, Perfetto, xplot.

A `Recording` comes in, and what was explained of it (`Explained`); bytes go out, written piece by piece. Each
target is one file: `wireshark.py` (the records with remarks), `perfetto.py` (a trace of lanes, counters and
packets), `xplot.py` (the plots that `tcptrace -G` draws). Read `explained.py` first.

What must hold: records are copied, never changed; what a program draws is what our tables say. Memory is that
of the tables: records, events and points are written one after the other. Names and notes come from outside:
they are printable text of bounded length in every file, and no file has a name that a capture chose.
"""
