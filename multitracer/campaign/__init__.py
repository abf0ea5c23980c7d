"""A campaign: the results of thousands of sessions in one folder, as Parquet tables for any program.

Input: sessions, found below the paths and URLs that a user named (`discovery.py`). Each is analysed alone
(`analysed.py`) and becomes its rows in every table (`session_tables.py`), which a worker writes as a
spool. A committer merges the spools of some hundred sessions into a group of parts, one Parquet file for
each table, and then writes a snapshot, a numbered file that names the valid parts (`committer.py`). A reader
uses the list of the newest snapshot, never the names in a folder (`catalogue.py`), and can query by SQL
(`query.py`). `compared_sides.py` queries the sums of two groups of sessions, `compared.py` compares them.

Read `schemas.py` first: the tables. Only `store.py` writes, reads and lists the files of a campaign, and
`bucket.py` for a URL; only `remote.py` uses fsspec.

What must hold: a crash at any point leaves the last snapshot valid; each session's rows appear exactly once,
even if it is analysed twice; a session that fails is a row of `failures` and does not stop others; no content
of a session is used as a name in the store; a query reads only the tables.
"""
