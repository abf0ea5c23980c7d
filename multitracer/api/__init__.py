"""The public Python API for analysts: `import multitracer as mt`.

`mt.open` returns a `Session`: its tables are DataFrames, its figures are plotly figures, and its results are
objects that a notebook can display. `session.py` is the session itself, with its tables in `tables.py`, its figures in
`figures.py` and its cache in `kept.py`. `frames.py` turns tables into DataFrames that describe their columns, and lists
all columns; `events.py` has functions for any DataFrame with times. `campaign.py` is a campaign of sessions and the
comparison of two sides. This package computes no results: all numbers come from lower packages.

Stable are only the names in `multitracer.__all__` and the public members of the objects that they return.
Results are cached, so that a second call takes no time.
"""
