"""Two captures against each other: offset, skew and steps of their clocks, by the packets that both hold.

In go two captures of the same traffic; out comes an `Estimate` for each interval between two steps, or a
`ClockError` that says why the packets cannot tell. Nothing has to be known beforehand: not the path, not its
rate, not which capture is nearer to the sender.

`two_captures.py` is the way in, and names the steps in their order. The packets are matched (`matching.py`)
and separated by direction (`directions.py`). Steps of the clocks (`steps.py`, `hidden_steps.py`) divide the
time (`intervals.py`). Then come the slowest link of each direction (`bottleneck.py` and what it imports), the
skew from both directions together (`skew.py`), and the minimum delay of each (`least_delay.py`); half the
difference of the two minimum delays is the offset. `packet_evidence` finds the packets behind an estimate for
a figure.

What must hold: `from` is the first capture's clock, `to` the second's. Exchanging the captures gives the
exact inverse. A packet takes some time, so the offset is bounded from both sides even if the delays of the
two directions differ.
"""
