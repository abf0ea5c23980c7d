"""Decodes the records of a capture to a table of TCP segments, for any link type.

In come records (`decode.py`: their bytes, lengths and times), a batch at a time. `chain.py` follows the
headers of all packets of a batch together: each step (`steps.py` lists them: `ethernet.py`, `ppp.py`,
`tool_headers.py`, `tunnel.py`, `qmap.py`) takes one header off. `opening.py` opens tunnels.
`ip.py` reads IP, and verifies what a tunnel seems to hold; `fragments.py` joins
fragments, `tcp.py` and `options.py` read segments; `flows.py` numbers connections by the `keys.py` of their
ends, and `trunk.py` and `one_way.py` join what VLANs keep apart. `columns.py` grows the table, `layers.py`
holds what steps share. Out come segments, connections, and counts of all other packets, by reason.

What must hold: no loop over packets in Python, except over rare ones; every packet is a segment or is
counted. Fields are read only from captured bytes; missing ones are NA.
"""
