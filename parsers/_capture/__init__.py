"""From the bytes of a capture to its packets: the common part of pcap, pcapng, ERF and snoop.

In comes a stream; `window.py` shows a piece of it at a time. A format yields records, batch by batch: it
finds them with `lanes.py`, many at once, or with `record_file.py` where a file is nothing but records.
`capture_file.py` hands them to the decoder of `parsers/_packets/` and notes the facts of the file in its
`SourceFile`: damage with its place, its span of time, times that step back. Out comes one `Capture`.

What must hold: memory is one window and the tables, whatever a length says, and a pipe is read as a file is.
Walking in lanes finds exactly the records that walking one by one would find. Reading goes on behind damage
where it can; what was lost is noted as a range of bytes, never left out silently.
"""
