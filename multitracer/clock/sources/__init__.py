"""Relations of clocks from other data than the packets of two captures, one file for each kind.

The input is tables of logs, or a log and a capture. `relate_…` returns the estimates of one pair of clocks,
or raises `ClockError`; `relations_of_…` yields the relations of a complete recording. There are three kinds:

- Two clocks gave times to one instant (`paired_stamps.py` fits the pairs): clock readings, slots of a link,
  sync probes (`sync_probes.py`). The clock bounds that CentaurusComm measured are fitted in the same way.
- A log and a capture recorded the same events: acknowledged bytes, packets that a link accepted, or stalls
  (`stalls.py`). `logs_without_capture.py` selects the capture with the smallest uncertainty.
- One clock receives the times of another after an unknown delay (`one_way.py`): GPS time, TCP timestamps, and
  modems.

Rules: no source uses the result of another one, or the graph. Each states its own uncertainty; the graph chooses.
"""
