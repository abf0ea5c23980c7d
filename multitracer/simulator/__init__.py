"""Virtual time: two hosts with our own TCP on the modelled link; a second simulates minutes.

A `Scenario` comes in. `VirtualRun` (`run.py`) builds hosts (`host.py`), applications and the link on one
event loop (`loop.py`) and runs it to its end; out comes a summary, and with `record.py` a session folder with
the logs that a real run leaves, and the truth.

Read `run.py` first. The TCP is `protocols.tcp`, the link is of `channel`: this room only drives them.

What must hold: a run is determined by its scenario and its seed alone; no real clock is read. Events at one
time run in the order in which they were scheduled. Every packet that leaves a host is delivered, dropped with
a reason, or still queued at the end.
"""
