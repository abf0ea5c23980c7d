"""Virtual time: hosts with our own TCP on the modelled link; faster than real time.

Input: a `Scenario`. `VirtualNetwork` (`network.py`) connects hosts (`host.py`) and the link by one event
loop; `VirtualRun` (`run.py`) runs the scenario's traffic in it to its end. Output: a summary and, with
`record.py`, a session folder with the logs of a real run, and the truth.

Read `network.py` first, then `run.py`. The transports are in `protocols` and `lab/tcp`, the links in
`channel`: this package only drives them.

What must hold: a run is determined by its scenario and its seed alone; no real clock is read. Events at one
time run in the order in which they were scheduled. Every packet that leaves a host is delivered, dropped with
a reason, or still queued at the end.
"""
