"""The columns of all tables, by layer: what a table holds, in which unit, and the enums in its cells.

`schema.py` says what a column and a schema are, and has the tables of a capture; every other module has those
of one layer (`radio.py`, `link.py`, `tcp.py`, ...). Readers and analyses make tables by them
(`multitracer/tables.py`).

What must hold: a name means one thing in all tables and carries its unit; nothing here knows how a table is
kept, and nothing loads NumPy.
"""
