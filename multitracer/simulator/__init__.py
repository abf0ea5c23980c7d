"""Virtual time: hosts with our own TCP on the modelled link, minutes of it in a second.

Read `run.py` first. `record.py` writes what a run does as a session folder.
"""
