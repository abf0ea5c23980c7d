"""The report of a campaign: one page about all its sessions, and on request the reports of the worst ones.

Input: a catalogue. Output: HTML. `questions.py` classifies each second and lets DuckDB count, so that no
table is completely in memory: the quality, the bad cells, hours and devices, the causes, and the bad segments
of the routes. `places.py` queries the bad places and makes the map (`places.js` draws it); `page.py` makes
the other sections, `drawings.py` draws lines and writes tables. `write.py` combines everything.

What must hold: every number can be computed by SQL from the catalogue, and is tested against it; for missing
data a sentence states the reason; text of sessions is escaped, and never used as a file name.
"""
