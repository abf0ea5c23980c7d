"""How the records of an rlpdump log become the tables `link_frames` and `link_events`.

The input is the blocks of one log, which is a pcapng file with rlpdump's mark; `parsers/rlpdump.py` finds them, and
reads sections and interfaces with `parsers/_pcapng/`. `log.py` holds the totals, and reads records of any layout one at
a time, and the lines of events. `bulk.py` reads records in the layout that rlpdump itself writes, many at once.

Rules: both readers make the same rows, in the order of the log. A record that cannot be used is
skipped and counted with its reason. A value that is not a number, or is too large, is missing, never 0.
"""
