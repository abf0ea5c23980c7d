"""The same scenarios under real kernels: TCP of two network namespaces over the modelled GSM data call.

A `Scenario` and a speed come in; out comes a session folder with the captures, the sender's variables and the
link's log. `run.py` makes the hosts (`namespaces.py`), the applications (`traffic.py`) and the collectors,
and then lets the link's slots pass at their time (`driver.py`). Read `run.py` first, then `driver.py`.

What must hold: link time is real time since the start times the speed, and lateness is made up for at once,
so a busy machine changes no rate. Everything that is started or made carries the number of the process that
made it; whatever ends a run, the next one finds and removes what was left (`stale.py`). Without root a user
namespace serves; `doctor.py` says what is lost then.
"""
