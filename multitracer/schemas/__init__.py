"""The columns of all tables, by layer: their contents, units, and the enums in their cells.

`schema.py` defines columns and schemas, and has the tables of a capture; every other module has those
of one layer (`radio.py`, `link.py`, `tcp.py`, ...). Readers and analyses make tables by them
(`multitracer/tables.py`).

What must hold: a name means one thing in all tables and carries its unit; nothing here depends on how a table
is stored, and nothing loads NumPy.
"""
