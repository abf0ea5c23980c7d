"""A recording in the field: every collector under one supervisor, into one session folder.

Read `plan.py` first (what is recorded), then `supervisor.py` (the loop). Collectors are child processes; this
room starts, watches and ends them and knows nothing of what they measure.
"""
