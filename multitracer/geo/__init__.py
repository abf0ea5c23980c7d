"""Exports the route of a drive, coloured by a quantity, as GeoJSON, KML or GPX.

The input is a `Route`, the SERIES of one quantity, and marks (handovers, bad segments, notes of the
engineer). The output is text for QGIS and MapInfo (GeoJSON), Google Earth (KML) and navigation programs
(GPX). Read `track.py` first: it joins the series to the route and divides it into runs of one colour;
`route_files.py` makes a track from a recording, and has the three writers.

Invariants: all formats have the positions, times, values and colours of the report's map (`figures.palette`). Values
equal those of the source exactly; a missing value is grey and has no number. No line crosses a gap of the route. Names
and notes from the input are escaped, also where a program renders HTML. This package writes no files.
"""
