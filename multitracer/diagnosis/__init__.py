"""Where the time of a transfer went, and why: the join of TCP and the link, the account, the diagnoses.

Read `transfer.py` first (what is known of one transfer), then `join.py` (which link bytes carried which
segment), then `account.py` (every slot of the link gets a class).
"""
