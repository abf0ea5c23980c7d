"""A recording in the field: every collector under one supervisor, into one session folder.

A plan comes in (`plan.py`: which collectors, how long, for whom). Out comes a session folder: one folder per
host with its logs, and manifest.json. The supervisor (`supervisor.py`) is one loop: it starts the collectors
as child processes (`child.py`), restarts those that die, watches the disk and the terminal, puts one tag into
all logs at one instant (`SyncProber`), and ends everything in order. `merge.py` joins the folders of two
ends.

What must hold: the folder can be opened at any instant, whatever happens to the recorder, even after
`kill -9`. A collector that fails loses only its own log, and the manifest states how each one ended. This
package does not know what collectors measure; the screen only follows their logs.
"""
