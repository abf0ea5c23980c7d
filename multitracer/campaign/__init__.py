"""A campaign: the results of thousands of sessions in one folder, as Parquet tables that anything can read.

Sessions come in, found below the paths and URLs that a user named (`discovery.py`). Each is analysed alone
(`analysed.py`) and becomes its rows in every table (`session_tables.py`), which a worker writes as a
spool. A committer folds the spools of some hundred sessions into a group of parts, a Parquet file for each of
the tables, and then writes a snapshot, a numbered file that names the live parts (`committer.py`). Who reads
takes the list of the newest snapshot, never the names in a folder (`catalogue.py`), and may ask in SQL
(`query.py`). `compared_sides.py` asks for the sums of two sides of sessions, `compared.py` compares them.

Read `schemas.py` first: the tables. `store.py` is the one place that writes, reads and lists files of a
campaign, `bucket.py` that for a URL; `remote.py` alone talks to fsspec.

What must hold: a crash at any point leaves the last snapshot valid; each session's rows appear exactly once,
though it may be analysed twice; a session that fails is a row of `failures` and stops no other; nothing in a
session decides a name in the store; a query reads the tables and nothing else.
"""
