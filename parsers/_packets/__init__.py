"""From the records of a capture to a table of TCP segments, whatever link they were captured on.

In come records (`decode.py`: their bytes, lengths and times), a batch at a time. `chain.py` follows the
headers of all packets of a batch together: each step (`steps.py` lists them: `ethernet.py`, `ppp.py`,
`cooked.py`, `wireless.py`, `tunnel.py`) takes one header off. `ip.py` reads IP, `fragments.py` joins what was
cut, `tcp.py` and `options.py` read segments; `flows.py` numbers connections by the `keys.py` of their ends,
and `trunk.py` and `one_way.py` join what VLANs keep apart. `columns.py` grows the table, `layers.py` holds
what steps share. Out come segments, connections, and a ledger of every packet that is none, by reason.

What must hold: no loop over packets in Python but for the rare; every packet is a segment or in the ledger.
What a packet says is read only as far as its captured bytes reach; the rest is NA.
"""
