"""CDPD, Cellular Digital Packet Data: one mobile's link to the fixed host, and the cell that it shares.

In come IP packets at two sides, `config.py`, a script and a seed; out come packets, events and readings of
the modem. Read `link.py` first: it draws the way of a packet. `mdlp.py` cuts packets into frames and repeats
what was lost; `blocks.py` packs frames into coded blocks. The base station has the `forward_channel.py` to
itself; on the reverse channel the mobile (`reverse_transmitter.py`) contends by the rules of `dsma.py` with
`other_users.py`. `block_radio.py` decides which blocks are lost; behind the radio is the `fixed_network.py`.

What must hold: everything happens in order of one scheduler, at times that do not depend on how often the
driver calls. A block's fate is decided whether it is sent or not, so the radio is the same under any load.
What is uncertain in the model, and where each number comes from, is in docs/links.md and `config.py`.
"""
