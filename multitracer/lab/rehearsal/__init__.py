"""A drive on any laptop: a modem and a GPS receiver on pseudo-terminals, for tests and `capture --rehearse`.

Each runs as a process of its own (`python -m multitracer.lab.rehearsal.modem`, `….gps`), so that the
collectors meet a real port. `journey.py` says where the car is and what the radio is like there, `modem.py`
says it as a vendor's modem would. What else can happen (silence, garbage, a cable that is pulled) is told by
a script or on standard input.
"""
