"""A copy of a session that can be shared: without addresses, identities, cells, places and payload.

Read `session.py` first. `pseudonyms.py` has the mapping, one key for a whole session; the other files apply
it to a kind of log. What cannot be made harmless is left out, and said so.
"""
