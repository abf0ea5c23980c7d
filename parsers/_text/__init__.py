"""Converts the lines of text logs to tables; common code for logs of senders, modems, positions and clocks.

`lines.py` yields the lines of a stream, counts by reason the lines that a format cannot use, and by column the values
that cannot be; it also reads time stamps on lines. `times.py` is the one way from text and JSON to numbers, times and
the cells of a table. `collector_log.py` reads the JSON records of our collectors, and puts their monotonic times on the
wall clock; `column_map.py` and `mapped_log.py` read any CSV by a map.

Invariants: the length of a line is bounded; times are int64 nanoseconds, never rounded to a float; an absent
or impossible value is NA. A last line without a line end is incomplete and is ignored.
"""
