"""Figures: one function each, tables in, a plotly figure out; nothing is shown or written here.

Read `series.py` first (what is drawn), then `direction.py` (where it comes from), `stack.py` (how panels
share a time axis), `time_sequence.py` (the first figure) and `stacked.py` (all logs of a recording).
plotly is imported when a figure is made.
"""

from __future__ import annotations

from multitracer.figures.direction import Direction
from multitracer.figures.stacked import stacked
from multitracer.figures.time_sequence import time_sequence

__all__ = ["Direction", "stacked", "time_sequence"]
