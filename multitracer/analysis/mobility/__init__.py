"""What a drive shows: where it went, which cells served, what handovers cost, and where and why it was bad.

In come tables of readings (RADIO, POSITION), HANDOVERS of signalling where it was recorded, and series of
rates, round-trip times and limits, all on one clock. Out come ROUTE, CELLS, handovers, windows and epochs
around them, and ranked stretches (`multitracer.schemas.mobility` has the schemas). Read `route.py` first,
then `handovers.py` and `stays.py`: all others are counted on what these two say.

What must hold: a missing reading is never a change and never 0; a position is interpolated only up to a
stated gap; a cause is named only with its evidence. No file, no clock, no drawing: tables to tables. Time
and memory grow in proportion to the rows (times log n). docs/mobility.md has each definition.
"""
