"""The report of a campaign: one page on all its sessions, and on demand the reports of the worst ones.

A catalogue comes in, HTML goes out. `judged.py` says of each second whether it was bad; DuckDB counts it, so
that no table is ever whole in memory. Each part of the page is a module that asks for its numbers
(`quality.py`: how good is it, `places.py`: where is it bad, `groups.py`: which cells, hours and devices,
`costs.py`: why, `worst.py`: which stretches) and one that shows them, `page.py`; `drawings.py` draws lines,
`places.js` the map. `write.py` puts all of it together.

What must hold: every number can be had with SQL from the catalogue, and is tested against it; what a campaign
lacks is one sentence where it would stand; text of sessions is escaped, and names no file.
"""
