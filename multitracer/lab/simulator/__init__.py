"""Virtual time: hosts with our own TCP on the modelled link; a second simulates minutes.

A `Scenario` comes in. `VirtualWorld` (`world.py`) joins hosts (`host.py`) and the link on one event loop;
`VirtualRun` (`run.py`) runs the scenario's traffic in it to its end. Out comes a summary, and
with `record.py` a session folder with the logs that a real run leaves, and the truth.

Read `world.py` first, then `run.py`. The transports are of `protocols`, the link is of
`channel`: this package only drives them.

What must hold: a run is determined by its scenario and its seed alone; no real clock is read. Events at one
time run in the order in which they were scheduled. Every packet that leaves a host is delivered, dropped with
a reason, or still queued at the end.
"""
