"""The columns of all tables by layer: meaning, unit, and the enums of their values.

`schema.py` defines columns and schemas, and has the tables of a capture; every other module has those
of one layer (`radio.py`, `link.py`, `tcp.py`, ...). Readers and analyses make tables by these schemas
(`multitracer/tables.py`).

What must hold: a column name has one meaning in all tables and contains its unit; nothing here depends on how
a table is stored, and nothing imports NumPy.
"""
