"""Recording in the field: one supervisor runs all collectors, which write into one session folder.

The input is a plan (`plan.py`: collectors, duration, host). The output is a session folder with manifest.json and one
folder of logs for each host. The supervisor (`supervisor.py`) is one loop: it starts the collectors as child processes
(`child.py`), restarts those that die, monitors disk and terminal, writes the same tag into all logs at the same time
(`SyncProber`), and ends all processes in order. `merge.py` joins the folders of two endpoints.

Invariants: the folder can be opened at any time, even after `kill -9` of the recorder. If a collector fails,
only its own log is affected; the manifest gives the outcome of each collector. This package does not depend
on what collectors measure; only the screen reads their logs.
"""
