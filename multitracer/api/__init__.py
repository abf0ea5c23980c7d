"""Everything that is public to an analyst: `import multitracer as mt`.

`mt.open` returns a `Session`: its tables are DataFrames, its figures plotly figures, its answers objects
that a notebook shows. `session.py` is the session itself, with its tables in `tables.py`, its figures in
`figures.py` and what it keeps in `kept.py`. `frames.py` turns tables into DataFrames that say what their
columns mean, and lists all columns; `events.py` has functions for any DataFrame with times. `campaign.py` is
a campaign of sessions and the comparison of two sides. Nothing is computed here: every number comes from the
rooms below.

What must hold: the names in `multitracer.__all__` and the members of the objects that they return are a
promise; nothing else is. What is read or computed once is kept, so asking again costs nothing.
"""
