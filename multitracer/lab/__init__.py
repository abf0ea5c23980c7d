"""The lab: makes networks to record, and reproduces papers. The analyser works without it.

`scenario/` defines a run: hosts, link, traffic, script. `channel/` models radios and links, and `tcp/`,
`rlp/`, `vj/` and `ppp.py` the protocols of their hosts. `simulator/` runs a scenario in virtual time,
`testbed/` in real time with the kernel's TCP, `rig/` a measurement with both of its endpoints; `rehearsal/`
is the simulated drive of `capture --rehearse`. The result is a session folder, like that of a recording in the field.

What must hold: only the lab itself and its commands in `multitracer/cli/` import the lab (an import
contract); without this folder, everything that reads recordings still works (a test).
"""
