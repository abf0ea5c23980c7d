"""Runs scenarios with real kernels: TCP of two network namespaces over a modelled link of any kind.

Input: a `Scenario` and a speed. Output: a session folder with captures, TCP variables and the link's log.
`network.py` makes the hosts (`namespaces.py`) and runs the link's events at their times
(`driver.py`); the task of a run is a `Workload`: traffic (`run.py`, `traffic.py`), or a measurement of
`rig`. Read `network.py` first, then `driver.py`.

What must hold: link time is real time since the start times the speed, and late events run at once, so a busy
machine changes no rate. Everything that is started or made has the number of its maker's process in its name
or environment; however a run ends, the next run removes what remained (`namespaces.py`). Without root a user
namespace is used; `doctor.py` reports what is not possible then.
"""
