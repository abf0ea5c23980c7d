"""A copy of a session that can be shared: without addresses, identities, cells, positions and payload.

A session folder comes in; a new folder with the same structure comes out. Read `session.py` first: its table
shows how each kind of log is changed. `pseudonyms.py` has the mapping, one random key for a whole session,
which is never stored, and applies it to a packet; `logs.py` applies it to a log.

What must hold: the analysis of the copy gives the same numbers for TCP as that of the original. The same
address has the same pseudonym in every log, and addresses with a common prefix keep one. Data that cannot be
made anonymous (free text, unknown files) are left out, and the user is informed. The original is only read.
"""
