"""Clocks: how the clocks of a recording relate, found from its data, with the error of every stamp.

In go the logs of a recording and its captures. Out come `Clocks` (`session_clock.py`): the graph of the
clocks, the reference, what the doctor found, and which relations contradict each other.

- `captures/` relates two clocks by the packets of two captures, `sources/` by everything else that is logged.
- `model/` holds what both share: estimate, relation, graph, and how a line is fitted.
- `doctor/` names the faults of clocks, and the repair of each.
- `contradictions.py` compares relations with each other. `moved_table.py` puts the times of a table onto
  another clock, and `words.py` says in a sentence how they came there.

What must hold: `captures/`, `sources/` and `doctor/` import `model/` and not each other. What the data cannot
tell is refused with a reason, never guessed. docs/clock.md tells what users see.
"""
