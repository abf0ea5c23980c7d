"""What relates clocks besides the packets of two captures, one file for each kind of source.

In go the tables of logs, or a log and a capture. `relate_…` returns the estimates of one pair of clocks, or
raises `ClockError`; `relations_of_…` yields the relations of a whole recording. There are three kinds:

- Two clocks stamped one instant (`paired_stamps.py` fits the pairs): clock readings, slots of a
  link, tags of the clapperboard (`claps.py`). The bounds that CentaurusComm measured are fitted alike.
- A log and a capture saw the same happen: bytes acknowledged, packets handed over, or stalls
  (`stalls.py`). `logs_without_capture.py` finds the capture that tells most.
- One clock hears another after a delay that nobody measured (`one_way.py`): GPS time, TCP
  timestamps, and modems.

What must hold: no source knows another's result, nor the graph. Each states its own error; the graph chooses.
"""
