"""A copy of a session that can be shared: without addresses, identities, cells, places and payload.

A session folder comes in; a new folder with the same structure comes out. Read `session.py` first: its table
says what becomes of each kind of log. `pseudonyms.py` has the mapping, one random key for a whole session,
which is never stored, and applies it to a packet; `logs.py` applies it to a log.

What must hold: the analysis of the copy gives the same numbers for TCP as that of the original. The same
address has the same pseudonym in every log, and addresses with a common prefix keep one. What cannot be made
harmless (free text, unknown files) is left out, and the user is told. The original is only read.
"""
