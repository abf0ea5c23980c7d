"""A measurement with both its ends on one machine, over a modelled link; and the radio joined to it.

A plan of `measure`, a link of `channel` and a seed come in; out comes a session folder as of a measurement in
the field, with the truth about the link beside it. `virtual.py` runs it in virtual time (in the world of
`simulator`), `real.py` under the kernel's TCP in network namespaces (in that of `testbed`). `radio_join.py`
puts the readings of the modem into the line of each transaction; measurements in the field use it, too.

What must hold: in virtual time the same plan, scenario and seed give the same octets. Both ways use the
clients, the servers and the log formats of `measure` and `collectors`, unchanged. However a real run ends, no
process and no namespace stays behind. The programs at its ends must start quickly: nothing is imported here.
"""
