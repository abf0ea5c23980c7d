"""The blocks of a pcapng file, a window of it at a time; `parsers/pcapng.py` calls it.

The input is a window of bytes that may end in the middle of a block. `walk.py` finds the blocks in it by the
lengths that they state, those of packets in many lanes at once; `blocks.py` reads the ones that describe
others (sections, interfaces and their clock resolutions, statistics); `packets.py` makes records of the
packets, with `times.py` for their times and `comments.py` for their comments. The output is records for the
decoder, in the order of the file, and the damage.

Rules: byte order and interfaces are valid only within their section; an interface is valid only for packets
after it. If the two lengths of a block differ, the neighbouring blocks decide which one is wrong. Times are
ns since 1970, rounded down; a time beyond int64 is NOT_A_TIME. Unknown blocks are skipped.
"""
