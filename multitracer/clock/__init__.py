"""Clocks: how the clocks of a recording relate, found from its data, with the error of every stamp.

In go the logs of a recording and its captures. Out come `Clocks` (`session_clock.py`): the graph of the
clocks, the reference, the faults that the doctor found, and contradictions between relations.

- `captures/` relates two clocks by the packets of two captures, `sources/` by everything else that is logged.
- `model/` holds what both share: estimate, relation, graph, and how a line is fitted.
- `doctor/` names the faults of clocks, and the repair of each.
- `contradictions.py` compares relations with each other. `moved_table.py` converts the times of a table to
  another clock, and `words.py` describes the conversion in a sentence.

What must hold: `captures/`, `sources/` and `doctor/` import `model/` and not each other. What the data do not
show is refused with a reason, never guessed. docs/clock.md describes what users see.
"""
