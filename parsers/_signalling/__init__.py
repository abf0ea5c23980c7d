"""Signalling between phone and network becomes tables, with two programs that others maintain.

A diagnostic log goes through `scat` (`programs.py`), which writes GSMTAP packets; `gsmtap.py` reads these, or
those of a capture; `dissection.py` runs one tshark process to dissect them; `messages.py`, `measurements.py`
and `changes.py` make the rows of `signalling`, `radio` and `handovers`. Nothing here decodes ASN.1.

Rules: no requested tshark field identifies a subscriber or a phone. Time, memory and output
of both programs are bounded; if one dies or hangs, its output until then is used, and a warning says so.
"""
