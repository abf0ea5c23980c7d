"""Named tuples that are made of every packet."""

from __future__ import annotations

named = tuple.__new__
"""Makes a named tuple from its type and a tuple of all its fields: in half the time of the type's own
constructor, which is a Python function. Nothing checks how many fields there are."""
