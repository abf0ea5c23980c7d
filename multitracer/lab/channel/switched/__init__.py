"""A link that is up while the received power is above a threshold: paper 002's link between two nodes.

In come IP packets at two sides, `config.py`, a script and a seed; out come packets, events and readings. The
power is known before the run: `multitracer.lab.channel.ray` computes it, or `trace.py` has read it. `link.py`
switches at its crossings and carries packets at a fixed rate each way.

What must hold: a packet arrives only if the link was up from its first bit to its last; everything happens in
order of one scheduler, at times that do not depend on how often the driver calls.
"""
