"""Radio and link models: frame errors, packet queues, and complete data calls.

Input: a configuration, a seed and a script; `links.py` makes the link that they describe. An IP packet enters
the link at one host and leaves it at another host later, or is lost; each host has events for its log, and
each mobile's modem has readings. `gsm.py`, `cdpd.py`, `bluetooth.py`, `cdma2000.py`, `capacity.py` and
`switched.py` hold one kind of link each (parts of large ones are in modules whose names begin alike).
`ray.py` computes the power of a radio channel from geometry. `shared/` holds what links have in common: read
`shared/packet_link.py` first, the interface on which drivers rely, then `gsm.py`.

What must hold: a model does no I/O and reads no clock; the simulator (virtual time) and the testbed (real
time) drive the same objects. The same seed gives the same radio, whatever is sent. No kind of link imports
another; every packet that goes in is delivered, reported as dropped, or still inside.
"""
