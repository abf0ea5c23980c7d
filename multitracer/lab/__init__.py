"""The lab: what makes networks to record, and runs that reproduce papers. The analyser works without it.

`scenario/` says what a run is: hosts, link, traffic, script. `channel/` models radios and links, and `tcp/`,
`rlp/`, `vj/` and `ppp.py` the protocols of their hosts. `simulator/` runs a scenario in virtual time,
`testbed/` in real time with the kernel's TCP, `rig/` a measurement with both of its ends; `rehearsal/` is the
drive of `capture --rehearse`. What comes out is a session folder, as a recording in the field makes it.

What must hold: nothing imports the lab but the lab and its commands in `multitracer/cli/` (an import
contract); without this folder, everything that reads recordings still works (a test).
"""
