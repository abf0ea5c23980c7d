"""Fair comparison of two sides: the difference of their means, with a confidence interval.

The unit that repeats is a session, not a second, since the seconds of a drive resemble each other. So a session counts
once, as the mean of its seconds. A permutation test moves sessions from one side to the other; it is exact where each
session could have been on either side. The interval contains every difference that this test does not reject. Where
both sides have places and hours in common, only sessions of the same place and hour are compared.

`difference.py` has one quantity with its test and its interval, `medians.py` the same for medians, `sides.py`
the matching by place and hour, all quantities of two sides, and the correction for several claims. Arrays in,
arrays out.
"""
