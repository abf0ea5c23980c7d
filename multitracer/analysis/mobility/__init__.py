"""Analysis of a drive: the route, the serving cells, the cost of handovers, and where and why it was bad.

The inputs are tables of readings (RADIO, POSITION), HANDOVERS from signalling where it was recorded, and
series of rates, round-trip times and limits, all on one clock. The outputs are ROUTE, CELLS, handovers,
windows and epochs around handovers, and ranked bad segments of the route (`multitracer.schemas.mobility` has
the schemas). Read `route.py` first, then `handovers.py` and `cells.py`; all other modules depend on these.

Three rules: a missing reading is never a change and never 0; a position is interpolated only across gaps up to a stated
limit; a cause is named only with its evidence. The package has tables in and tables out: no files, no clock, no
drawing. Time and memory grow with n log n of the rows. docs/mobility.md has each definition.
"""
