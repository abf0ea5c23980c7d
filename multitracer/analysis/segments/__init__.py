"""Classification of the segments of connections, and their sums: steps on the columns of a group.

Read `examination.py` first: it calls the steps in their order. `axis` defines the axis of sequence numbers,
`coverage` finds the data that were seen before, `acknowledgments` and `duplicates` examine ACKs and packets
captured twice. `segment_rows` builds TCP_SEGMENTS from the results, `directions` one row for each direction.
If the native kernel is available, `compiled` uses it to count such rows.
"""
