"""CDPD, Cellular Digital Packet Data: the links of 1 to 30 mobiles to the fixed host, and their cell.

In come IP packets at the hosts, `config.py`, a script and a seed; out come packets, events and readings of
the modems. Read `link.py` first: it draws the way of a packet; `member.py` is all of one mobile. `mdlp.py`
cuts packets into frames and repeats what was lost, `packet_end.py` sends whole packets once; `blocks.py`
packs frames into blocks. The base station has the `forward_channel.py` to itself, on which mobiles take
turns; on the reverse channel the mobiles (`reverse_transmitter.py`) contend by the rules of `dsma.py`
with each other and with `other_users.py`. `block_radio.py` decides which blocks are
lost; behind it is `fixed_network.py`.

What must hold: everything happens in order of one scheduler, at times that do not depend on how often the
driver calls. A block's fate is decided whether it is sent or not, so the radio is the same under any load.
What is uncertain in the model, and where each number comes from, is in docs/links.md and `config.py`.
"""
