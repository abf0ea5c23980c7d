"""Radio and link models: frame errors, packet queues, and complete data calls.

A configuration, a seed and a script come in; `links.py` makes the link that they describe. IP packets go in
at one host and come out at another, later or never; each host has events for its log, and each
mobile's modem has readings. `gsm.py`, `cdpd.py`, `bluetooth.py`, `cdma2000.py`, `capacity.py` and
`switched.py` hold one kind of link each (large ones go on in modules of the same begin), `ray.py` the power
of a radio channel computed from geometry, `shared/` what links have in common: read
`shared/packet_link.py` first, what drivers may rely on, then `gsm.py`.

What must hold: a model does no I/O and reads no clock; the simulator (virtual time) and the testbed (real
time) drive the same objects. The same seed gives the same radio, whatever is sent. No kind of link knows
another; every packet that goes in is delivered, reported as dropped, or still inside.
"""
