"""Everything that is public to an analyst: `import multitracer as mt`.

`mt.open` returns a `Session`: its tables are DataFrames, its figures are plotly figures, its answers are
objects that a notebook shows. `session.py` is the session itself, with its tables in `tables.py`, its figures
in `figures.py` and its cache in `kept.py`. `frames.py` turns tables into DataFrames that describe their
columns, and lists all columns; `events.py` has functions for any DataFrame with times. `campaign.py` is
a campaign of sessions and the comparison of two sides. Nothing is computed here: every number comes from
lower packages.

What must hold: the names in `multitracer.__all__` and the members of the objects that they return are stable;
nothing else is. Results are cached, so a second call costs nothing.
"""
