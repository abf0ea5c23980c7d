"""The middle of the house: from paths to one connection as every log of a recording shows it.

In come the paths that a user named. `read.py` is the one way in: it returns a `Recording`, whose captures are
read and whose logs are parsed when they are asked for, each once. `inputs.py` says what a folder holds;
`capture.py` is one point's capture with its analysis; `recording.py` numbers the connections through all
captures and owns what counts for the whole recording: its clocks, its speed, its warnings. `places.py` finds
one connection at every capture point, and says who sent and who received; `transfer.py` is one direction of
it in every log, with the series, and `join.py` says which frames of the link carried which segment.

What must hold: connection numbers are those of the recording, from 1; a log is parsed at most once; a table
that a log gave is shared and never changed; what cannot be used is a sentence in `Recording.warnings`.
"""
