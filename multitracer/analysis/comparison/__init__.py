"""Two sides compared, fairly: how far their means are apart, and how surely.

What repeats is a session, not a second: the seconds of a drive resemble each other. So a session counts
once, as the mean of its seconds, and chance is what happens when sessions change sides (a permutation test,
which is exact where sessions could have been on either side). The interval holds every difference that this
test does not refuse. Where both sides have a place and an hour in common, only what differs there counts.

`relabelling.py` has the test, `difference.py` one quantity with its interval, `matching.py` what is set
beside what, `sides.py` all quantities of two sides and what may be claimed of several at once
(`family.py`). Arrays in, arrays out.
"""
