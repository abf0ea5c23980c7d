"""What is known of two clocks, and the arithmetic that finds it.

In go stamps that two clocks gave to the same events. Out comes an `Estimate` (`estimate.py`) for each
interval between two steps: offset, skew, the error of both, and the bounds that causality sets. A `Relation`
(`relation.py`) holds the estimates of one pair of clocks and places stamps of one clock on the other. A
`ClockGraph` holds all relations of a recording and maps stamps along the path with the least
uncertainty. `edges.py` writes the graph as tables and reads them again.

Three fits of a straight line serve the estimators: below all delays, between the events that
bound it from above and from below, and where the least delays are densest (`skew_posterior.py`).

What must hold: a time is int64 nanoseconds of its own clock; an offset is `to` less `from`; a stamp that is
placed has an error, and one that is not has a reason. Nothing here knows of captures, logs or files.
"""
