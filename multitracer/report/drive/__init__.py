"""What a report says of a drive: where it was bad, the map, radio and road over time, cells and changes.

In come a `Road` (a recording as a drive, with what limited its connection) and what the page's time axis
calls 0. Out go sections of markup, and JSON for the page's figures and map. `stretches_section.py` is the
answer, `route_map.py` the map, `base_map.py` lines below it, `picture.py` the same for pages without scripts,
`cells_section.py` the tables; `drive_section.py` brings them together.

What must hold: times in the JSON are seconds of the page's axis, places metres around the middle of the
route; a text that came from a log is escaped; nothing is fetched; what is left out is said.
"""
