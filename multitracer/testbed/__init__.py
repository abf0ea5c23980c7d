"""The same scenarios under real kernels: TCP of two network namespaces over the modelled GSM data call.

Read `run.py` first, then `driver.py`: the loop that lets the link's slots pass at their time. Everything
that is started or made carries the number of the process that made it, so that whatever ends a run leaves
nothing behind that the next one does not find and remove (`stale.py`).
"""
