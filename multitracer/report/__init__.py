"""Reports: analysed captures become one self-contained HTML file, or several files with an index.

A `Recording` comes in; a page goes out that needs no network and no server. Read `write.py` first (the order
of the sections), then `markup.py` (making HTML), `packed_columns.py` and `embed.py` (encoding a figure as
text and JSON in the page; the code in `points/` reads and draws it, `timeline.js` links it with the
rest). `first_screen.py` opens the page with the answer; `sections.py` describes a direction, `limit_words.py`
the limits. `drive_section.py` is the part of a page that needs a road (`route_map.py` the map, `base_map.py`
the lines below it), `transactions_page.py` the page of a measurement. `page.py` is the frame of all pages,
and decides whether script and style stand in the page or beside it; `static_sheet.py` draws what needs no
script.

What must hold: every text that comes from a capture is escaped, and the page's content security policy allows
only the scripts written here. Nothing is computed: numbers are those of lower packages. The file appears
complete under its name or not at all (`replacing.py`); its size is bounded, however long the capture was.
"""
