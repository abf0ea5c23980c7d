"""The report of a campaign: one page on all its sessions, and on demand the reports of the worst ones.

A catalogue comes in, HTML goes out. `questions.py` judges each second, and queries DuckDB, which counts, so
that no table is completely in memory: how good is it, which cells, hours and devices are bad, why, which
stretches. `places.py` queries where it is bad and shows the map (`places.js` draws it); `page.py` shows the
rest, `drawings.py` draws lines and writes tables. `write.py` combines all of it.

What must hold: every number can be computed by SQL from the catalogue, and is tested against it; for missing
data a sentence says why; text of sessions is escaped, and never used as a file name.
"""
