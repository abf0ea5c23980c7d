"""Clocks: how the clocks of a recording relate, estimated from its data, with the error of every stamp."""
