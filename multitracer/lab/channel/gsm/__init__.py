"""A GSM circuit-switched data call: PPP over the relay (L2R) and RLP, one frame every 20 ms.

In come IP packets at two sides, `config.py`, a script and a seed; out come packets, each end's events, and
for each frame on the air the truth of its fate. Read `link.py` first: it joins two ends (`end.py`) by a radio
for each direction and plays the script. An end is interface queue, PPP, relay and RLP one above the other;
`drain.py` is the terminal that reads at a fixed rate. The protocols are those of `multitracer/protocols/`.

What must hold: time passes in slots, and a driver calls `tick` once for each, in order, in virtual or in real
time. A frame's fate is decided in the slot in which it arrives. For each direction `character_balance.py`
counts where every character went: delivered, thrown away by a reset, or still inside; nothing vanishes.
"""
