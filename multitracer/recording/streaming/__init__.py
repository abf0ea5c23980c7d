"""Recordings that never lie in memory as a whole: read piece by piece, what ended on disk.

`read.py` is the entry: what comes out is a `Recording` whose connections can be listed and written, but whose
segments are gone. `ended.py` keeps the connections in a file without a name, `index.py` where in a large
capture each stretch of time lies. `one_connection.py` reads a capture twice, to keep the segments of one.
`running.py` lets the native kernel count a capture of which only numbers are asked for.
"""
