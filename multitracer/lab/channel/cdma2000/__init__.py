"""cdma2000 1x packet data: a fundamental channel always, a supplemental one in bursts, and RLP above both.

In come IP packets of mobiles and of the fixed host, `config.py`, a script and a seed; out come packets,
events and readings of each modem. Read `link.py` first: it draws the way of a packet. `rates.py` holds the
channels' rates and frames; `pilot.py` the signal, and what follows from it for a frame and an assignment;
`supplemental.py` assigns rates by backlog and channel; `rlp.py` finds holes, asks for them in rounds and
gives up; `member.py` joins these for one mobile.

What must hold: all frames begin at whole multiples of 20 ms. The same seed gives the same radio, whatever is
sent. A packet is delivered in order, lost with an event that says so, or still inside. What the model leaves
out is in docs/links.md, where each number comes from in `config.py`.
"""
