"""A measurement with both its ends over a modelled link; and the radio joined to its transactions.

Read `radio_join.py` for what a measurement in the field uses too, `virtual.py` for one in virtual time,
`real.py` for one under the kernel's TCP. The programs at the ends of that one should begin at once, so
nothing is imported here.
"""
