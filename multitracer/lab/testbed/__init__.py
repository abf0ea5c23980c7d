"""The same scenarios under real kernels: TCP of two network namespaces over a modelled link of any kind.

A `Scenario` and a speed come in; out comes a session folder with the captures, the sender's variables and
the link's log. `world.py` makes the hosts (`namespaces.py`) and lets the link's events happen at their time
(`driver.py`); what is run in it is a `Workload`: traffic (`run.py`, `traffic.py`), or a measurement of
`rig`. Read `world.py` first, then `driver.py`.

What must hold: link time is real time since the start times the speed, and lateness is made up for at once,
so a busy machine changes no rate. Everything that is started or made carries the number of the process that
made it; whatever ends a run, the next one finds and removes what was left (`namespaces.py`). Without root a
user namespace serves; `doctor.py` says what is lost then.
"""
