"""Converts the lines of text logs to tables; common code for logs of senders, modems, positions and clocks.

`lines.py` yields the lines of a stream, and counts by reason the lines that a format cannot use.
`rows.py` turns text into exact numbers, and rows into tables. `date_line.py` reads time stamps on
lines; `collector_log.py` reads the JSON records of our collectors, whose monotonic times `clock_pairs.py`
puts on the wall clock; `column_map.py` reads any CSV by a map, `has_map` tests whether a log has one.

Invariants: the length of a line is bounded; times are int64 nanoseconds, never rounded to a float; an absent
or impossible value is NA. A last line without a line end is incomplete and is ignored.
"""
