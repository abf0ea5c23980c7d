"""Figures: each function converts tables to a plotly figure; it does not show or write the figure.

The input is the tables of a connection (segments, variables of the sender, frames of the link); the output is
a figure object, or a dict in the format of plotly. Between them are *series* (`series.py`): labelled lines of
integers, in which each point refers to a frame of a file.

Read `series.py` first, then `direction.py` (where series come from), `stack.py` (how panels share a time
axis), `time_sequence.py` (the first figure) and `stacked.py` (all logs of a recording). Further panels
are in `panels/`, found by name.

Invariants: a series is in order of time, with int64 nanoseconds and values in the base unit of its panel. A
figure shows exactly the values of the tables: points are omitted only where no pixel changes (`series.py`).
plotly is imported only when a figure is made.
"""
