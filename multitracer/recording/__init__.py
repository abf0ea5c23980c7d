"""Recordings: from the paths that a user named to one connection in every log of a recording.

The input is a list of paths. `read.py` is the only entry point: it returns a `Recording`. The captures are
read at once; each log is parsed when it is first asked for, and at most once.

- `inputs.py` finds the captures and logs in a folder.
- `capture.py` holds the capture of one capture point with its analysis.
- `recording.py` numbers the connections of all captures, and owns the clocks, speed and warnings of the
  recording.
- `places.py` finds one connection at every capture point, and which endpoint sent the data.
- `transfer.py` holds one direction of a connection in every log, with its series.
- `short_transfers.py` computes many short transfers of one capture together.
- `join.py` maps each TCP segment to the link frames that carried it.

Rules: connection numbers are those of the recording, from 1. A table that a log returned is shared and never
changed. An input that cannot be used adds a sentence to `Recording.warnings`.
"""
