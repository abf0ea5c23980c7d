"""A measurement with both endpoints on one machine, over a modelled link; and joining the radio log to it.

Input: a plan of `measure`, a link of `channel` and a seed. Output: a session folder like that of a
measurement in the field, with the true state of the link. `virtual.py` runs it in virtual time (in the
modelled network of `simulator`), `real.py` under the kernel's TCP in network namespaces (in those of
`testbed`). `radio_join.py` adds the readings of the modem to each transaction, also for measurements in the
field.

What must hold: in virtual time the same plan, scenario and seed give the same octets. Both variants use the
clients, the servers and the log formats of `measure` and `collectors`, unchanged. However a real run ends, no
process and no namespace remains. The programs at its ends must start quickly: nothing is imported here.
"""
