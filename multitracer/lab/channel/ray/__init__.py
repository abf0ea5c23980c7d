"""A radio channel from geometry: which rays arrive at an antenna, and their sum over time.

In come walls, boxes (buildings, cars), the ground and two nodes that move (`config.py`), and a seed for what
is random in them; out comes the received power of every step (`channel.py`). `movement.py` places the nodes,
`scene.py` the objects, `checks.py` refuses places that cannot be, `surfaces.py` says what reflects, `rays.py`
finds the rays by images of the transmitter, `reflection.py` what a reflection leaves of them, `fades.py` when
the link is down.

What must hold: equation (1) of paper 002. No I/O and no clock; the same seed gives the same bytes. Lengths
are metres, the third axis is height, times of arrays are seconds since the begin.
"""
