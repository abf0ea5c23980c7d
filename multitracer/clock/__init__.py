"""Clocks of a recording: their relations, determined from the data, with the uncertainty of every time.

The input is the logs and captures of a recording. The output is `Clocks` (`session_clock.py`): the graph of
the clocks, the reference clock, the faults that the doctor found, and contradictions between relations.

- `captures/` relates two clocks by the packets of two captures, `sources/` by all other logged data.
- `model/` has what both share: estimate, relation, graph, and the fit of lines.
- `doctor/` names faults of clocks, and a repair for each.
- `session_clock.py` also compares relations with each other. `moved_table.py` converts the times of a table to
  another clock, and describes the conversion in a sentence.

Two rules: `captures/`, `sources/` and `doctor/` import `model/` but not each other. What the data do not show
is refused with a reason, never guessed. docs/clock.md describes the results for users.
"""
