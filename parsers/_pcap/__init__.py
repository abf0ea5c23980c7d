"""The records of a classic pcap file, a window of it at a time; `parsers/pcap.py` calls it.

In comes the head of a file, then windows of its bytes. `dialect.py` lists how files of each magic number may
be laid out; where several share one, `dialect_choice.py` asks the first records which it is. `walk.py`
follows the records by the lengths that they state, many lanes at once, and finds its way over damage with
`plausibility.py`, which tells how likely bytes are a record. Out come records for the decoder, in the order
of the file, and what is damaged.

What must hold: a record has no mark, so a chain of plausible records is all that proves one. A strange
length is believed only if what follows speaks for it; bytes between two chains count as lost, with their
place. Memory is one window, whatever a length says. The usual dialect holds unless the evidence is clear.
"""
