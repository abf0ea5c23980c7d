"""What relates clocks besides the packets of two captures, one file for each kind of source.

In go the tables of logs, or a log and a capture. `relate_…` returns the estimates of one pair of clocks, or
raises `ClockError`; `relations_of_…` yields the relations of a whole recording. There are three kinds:

- Two clocks stamped one instant (`paired_stamps.py` fits the pairs): clock readings (`snapshots.py`), tags of
  the clapperboard (`clap_tags.py` finds them, `claps.py` relates them), slots of a link (`link_slots.py`).
  The bounds that CentaurusComm measured are fitted alike (`transactions.py`).
- A log and a capture saw the same happen: `state_edges.py`, `link_edges.py`, and `stalls.py` with
  `stall_sources.py`. `logs_without_capture.py` finds the capture that tells most.
- One clock hears another after a delay that nobody measured (`one_way.py`): `gps_time.py`, `timestamps.py`,
  and `free_running.py`, which asks for the clocks of TCP timestamps and modems.

What must hold: no source knows another's result, nor the graph. Each states its own error; the graph chooses.
"""
