"""Protocol cores without I/O: bytes and points in time go in, bytes and events come out.

No module here reads a clock, opens a socket or sleeps; `now_ns` is always passed in. The same core runs
in real time, in virtual time and in tests, byte by byte. Read `rlp/entity.py` first.
"""
