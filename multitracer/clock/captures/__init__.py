"""Relation of the clocks of two captures: offset, skew and steps, from the packets in both.

The input is two captures of the same traffic. The output is an `Estimate` for each interval between two
steps, or a `ClockError` with the reason why the packets do not determine one. Nothing needs to be known
before: not the path, not its rate, not which capture is nearer to the sender.

`two_captures.py` is the entry point and lists the steps in their order. Packets are matched (`matching.py`) and
separated by direction (`directions.py`). Steps of the clocks (`steps.py`) divide the time (`intervals.py`).
Then follow the slowest link of each direction (`bottleneck.py`), the skew from both directions together
(`skew.py`), and the minimum delay of each direction (`minimum_delay.py`). Half the difference of the two
minimum delays is the offset. `with_packets` finds the packets of an estimate for a figure.

Rules: `from` is the first capture's clock, `to` the second's. Exchanging the captures gives the exact inverse. Since a
delay is never negative, the offset is bounded from both sides even if the delays of the two directions differ.
"""
