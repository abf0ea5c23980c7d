"""Relations of two clocks, and the computations that determine them.

The input is times that two clocks gave to the same events. The output is an `Estimate` (`estimate.py`) for
each interval between two steps: offset, skew, their uncertainties, and the causality bounds. A `Relation`
(`relation.py`) has the estimates of one pair of clocks and converts times of one clock to the other. A
`ClockGraph` has all relations of a recording and converts times along the path with the smallest uncertainty.
`edges.py` writes the graph as tables and reads them.

Three fits of a straight line are available: below all delays, between events that bound it from above and
from below, and at the densest minimum delays (`skew_posterior.py`).

Rules: a time is int64 nanoseconds of its own clock; an offset is `to` minus `from`; a converted time has an
uncertainty, and a time that cannot be converted has a reason. This package does not know captures, logs or files.
"""
