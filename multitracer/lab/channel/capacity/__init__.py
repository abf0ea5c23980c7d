"""A link whose capacity over time is a trace: Mahimahi's format, a line for each delivery opportunity.

In come IP packets at two sides and, for a direction or both, a `CapacityTrace` (`trace.py`); out come the
same packets, as many octets as the opportunities carry, a constant delay later. Read `link.py` first: it has
the rules of an opportunity. `opportunities.py` finds the next one however many there are.

What must hold: nothing is lost but by a full queue, by a script or by the trace's end, and order is kept. The
work of a run grows with its packets, not with the opportunities of its trace. Nothing in it is random.
"""
