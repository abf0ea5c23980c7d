"""Makes a copy of a session for sharing, without addresses, identities, cells, positions and payload.

The input is a session folder; the output is a new folder with the same structure. Read `session.py` first:
its table shows the changes to each type of log. `pseudonyms.py` maps identifiers with one random key for the
complete session, which is never stored, and rewrites packets; `logs.py` rewrites logs.

Invariants: the analysis of the copy gives the same TCP results as that of the original. An address has the same
pseudonym in all logs, and addresses with a common prefix have pseudonyms with a common prefix. Data that cannot be made
anonymous (free text, unknown files) are omitted, and the user is informed. The original is not changed.
"""
