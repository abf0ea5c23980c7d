"""A simulated drive: a modem and a GPS receiver on pseudo-terminals, for tests and `capture --rehearse`.

Each runs as a separate process (`python -m multitracer.lab.rehearsal.modem`, `….gps`), so that the collectors open a
real port. `journey.py` gives the position of the car and the radio there, `modem.py` answers like a vendor's modem.
Other events (no answers, garbage, an unplugged cable) come from a script or from standard input.
"""
