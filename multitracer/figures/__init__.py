"""Figures: one function each, tables in, a plotly figure out; nothing is shown or written here.

A connection's tables come in (segments, readings of the sender, frames of the link); out comes a figure, or
the plain dict that plotly calls one. On the way the tables become *series* (`series.py`): labelled lines of
whole numbers, each point traceable to a frame of a file.

Read `series.py` first, then `direction.py` (where series come from), `stack.py` (how panels share a time
axis), `time_sequence.py` (the first figure) and `stacked.py` (all logs of a recording). Further panels
are in `panels/`, found by name.

What must hold: a series is in order of time, in int64 nanoseconds and the base unit of its panel; a
figure shows exactly the values of the table, so fewer points are drawn only where no pixel changes
(`series.py`). plotly is imported when a figure is made.
"""
