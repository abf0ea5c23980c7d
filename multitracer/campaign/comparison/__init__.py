"""Two sides of campaigns, compared: which sessions they are, their sums, what may be said, and the page.

`inputs.py` turns what a user named into two sides of sessions, `sums.py` asks the catalogue for sums by
session, place and hour, `multitracer.analysis.comparison` compares these, `sentences.py` says what came out
and no more than that, `page.py` draws it.
"""
