"""The radio and the road, drawn: panels over time or distance, the serving cell, epochs around handovers.

In come `Surroundings` (series of one recording on one clock) or tables of the analysis; out go panels of
`stack.py` and plotly figures. `scale.py` holds the colours of a map for the report and for exported routes,
`received_power.py` draws a ray-traced radio and a transfer over it.

What must hold: a line joins two readings only where none is missing between them; a value is that of the log,
to the digit of its unit in the panel; a missing value has no point and no colour but grey.
"""
