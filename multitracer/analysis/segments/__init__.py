"""What each segment of a connection was, and what they add up to: steps on the columns of a group.

Read `examination.py` first: it calls the steps in their order. `axis` is the number line they work on,
`coverage` what was on it already, `acknowledgments` and `duplicates` what came back, `exact_acks` the RTT.
`segment_rows` makes TCP_SEGMENTS of it, `directions` one row for each direction; where the native kernel is
there, `compiled` has it count such rows.
"""
