"""The blocks of a pcapng file, a window of it at a time; `parsers/pcapng.py` calls it.

In comes a window of bytes that may end in the middle of a block. `walk.py` finds the blocks in it by the
lengths that they state, those of packets in many lanes at once; `blocks.py` reads the ones that describe
others (sections, interfaces and their clock resolutions, statistics); `packets.py` makes records of the
packets, with `times.py` for their times and `comments.py` for their comments. Out come records for the
decoder, in the order of the file, and what is damaged.

What must hold: byte order and interfaces are the section's and end with it; an interface counts for packets
behind it only. Where a block states two different lengths, the blocks around it decide what is wrong. Times
are ns since 1970, rounded down; one that int64 cannot hold is NOT_A_TIME. Unknown blocks are stepped over.
"""
