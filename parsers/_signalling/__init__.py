"""Signalling between phone and network becomes tables, with two programs that others maintain.

A diagnostic log goes through `scat` (`programs.py`), which writes GSMTAP packets; `gsmtap.py` reads these, or
those of a capture; `dissection.py` has tshark dissect them in one process; `messages.py`, `measurements.py`
and `changes.py` make the rows of `signalling`, `radio` and `handovers`. Nothing here decodes ASN.1.

What must hold: the fields that tshark is given name no subscriber and no phone. Time, memory and output of
both programs are bounded; if one dies or hangs, what it wrote until then is used and one sentence says so.
"""
