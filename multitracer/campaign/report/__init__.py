"""The report of a campaign: one page on all its sessions, and on demand the reports of the worst ones.

A catalogue comes in, HTML goes out. `questions.py` says of each second whether it was bad, and asks DuckDB,
which counts, so that no table is ever whole in memory: how good is it, which cells, hours and devices are
bad, why, which stretches. `places.py` asks where it is bad and shows the map (`places.js` draws it);
`page.py` shows all else, `drawings.py` draws lines and writes tables. `write.py` puts all of it together.

What must hold: every number can be had with SQL from the catalogue, and is tested against it; what a campaign
lacks is one sentence where it would stand; text of sessions is escaped, and names no file.
"""
