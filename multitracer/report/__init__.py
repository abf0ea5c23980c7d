"""Reports: analysed captures become one self-contained HTML file, or several files with an index.

The input is a `Recording`; the output is a page that needs no network and no server. Read `write.py` first
(the order of the sections), then `markup.py` (making HTML), `packed_columns.py` and `embed.py` (encoding a
figure as text and JSON in the page; the code in `points/` reads and draws it, `timeline.js` links it with the
rest). `first_screen.py` opens the page with the answer; `sections.py` describes a direction, `limit_words.py`
the limits. `drive_section.py` makes the sections on a drive (`route_map.py` the map, `base_map.py` the lines
below it), `transactions_page.py` the page of a measurement. `page.py` makes the frame of all pages, and puts
script and style into the page or into files beside it; `static_sheet.py` draws pictures that need no script.

Invariants: each text from a capture is escaped, and the page's content security policy allows only the scripts of this
package. This package computes no results: all numbers come from lower packages. A file appears under its name only when
it is complete (`replacing.py`); its size is bounded for captures of any length.
"""
