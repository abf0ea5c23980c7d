"""From the lines of a text log to tables: the common part of logs of senders, modems, positions and clocks.

In comes a stream; `lines.py` yields its lines and counts those that a format cannot use, by reason.
`rows.py` turns text into exact numbers, and rows into tables. `date_line.py` reads the stamps that people put
on lines; `collector_log.py` reads the JSON records of our collectors, whose monotonic times `clock_pairs.py`
puts on the wall clock; `column_map.py` reads any CSV by a map, `has_map` says whether one lies beside a log.

What must hold: a line is bounded, a time is int64 nanoseconds without rounding through a float, a value that
is absent or cannot be is NA. A last line without an end was cut, and is not read as if it were whole.
"""
