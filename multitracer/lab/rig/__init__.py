"""A measurement with both endpoints on one machine, over a modelled link; and joining the radio log to it.

A plan of `measure`, a link of `channel` and a seed come in; out comes a session folder like that of a
measurement in the field, with the truth about the link. `virtual.py` runs it in virtual time (in the modelled
network of `simulator`), `real.py` under the kernel's TCP in network namespaces (in that of `testbed`).
`radio_join.py` adds the readings of the modem to each transaction; measurements in the field use it, too.

What must hold: in virtual time the same plan, scenario and seed give the same octets. Both ways use the
clients, the servers and the log formats of `measure` and `collectors`, unchanged. However a real run ends, no
process and no namespace stays behind. The programs at its ends must start quickly: nothing is imported here.
"""
