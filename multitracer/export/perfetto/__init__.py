"""A trace of one transfer for ui.perfetto.dev: limits and findings, packets, counters, and what led to what.

`protobuf.py` writes fields, `track_event.py` the messages of a trace with them. `lanes.py` (limits,
findings), `packets.py` (segments, ACKs, flows between them) and `counters.py` fill it, and `transfer.py` puts
all together.

What must hold: times are link time, ns since 1970, of the sender's clock. Slices of one track never overlap.
Packets are written one after the other; texts from outside are printable and of bounded length.
"""
