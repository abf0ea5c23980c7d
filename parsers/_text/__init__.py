"""Turns the lines of a text log into tables: what logs of senders, modems, positions and clocks share.

In comes a stream; `lines.py` yields its lines and counts those that a format cannot use, by reason.
`rows.py` turns text into exact numbers, and rows into tables. `date_line.py` reads time stamps on
lines; `collector_log.py` reads the JSON records of our collectors, whose monotonic times `clock_pairs.py`
puts on the wall clock; `column_map.py` reads any CSV by a map, `has_map` tests whether a log has one.

What must hold: a line is bounded; a time is int64 nanoseconds without rounding through a float; an absent or
impossible value is NA. A last line without an end is incomplete, and is not read.
"""
