"""The records of a classic pcap file, a window of it at a time; `parsers/pcap.py` calls it.

In comes the head of a file, then windows of its bytes. `dialect.py` lists how files of each magic number may
be laid out; where several share one, `dialect_choice.py` chooses by the first records. `walk.py`
follows the records by the lengths that they state, many lanes at once, and finds its way over damage with
`plausibility.py`, which judges how likely bytes are a record. Out come records for the decoder, in the order
of the file, and what is damaged.

What must hold: a record has no magic number, so only a chain of plausible records proves one. An unexpected length is
accepted only if the next records confirm it; bytes between two chains count as lost, with their position. Memory is one
window, whatever a length field states. The standard dialect is assumed unless the evidence is clear.
"""
