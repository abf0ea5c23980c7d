"""Routes for other programs: where a drive went, coloured by a quantity, as GeoJSON, KML or GPX.

A `Route`, SERIES of one quantity and marks (handovers, bad stretches, notes of the engineer) come in; text
goes out, for QGIS and MapInfo (GeoJSON), Google Earth (KML) and navigation programs (GPX). Read `track.py`
first: it joins the series to the route and cuts it into runs of one colour; `recorded.py` fills it from a
recording, and the three writers of `route_files.py` write it down.

What must hold: all three have the same places, times, values and colours as the map of the report
(`figures.palette`). A value is that of the source, to the digit; a missing one is grey and has no
number. No line crosses a gap of the route. Names and notes come from outside: they are escaped, and never
become markup, also not in a balloon that renders HTML. Nothing is written to disk here.
"""
