"""Clocks: how the clocks of a recording relate, estimated from its data, with the error of every stamp.

Read first: `estimate.py` (what an estimator says), `relation.py` (clocks, and stamps placed between steps),
`graph.py` (the path with the least uncertainty), `session_clock.py` (everything that a recording shows), then
the estimators, a file each, and `doctor.py`. docs/clock.md tells what users see.
"""
