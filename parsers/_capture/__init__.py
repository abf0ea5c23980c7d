"""From the bytes of a capture to its packets: the common part of pcap, pcapng, ERF and snoop.

In comes a stream; `window.py` holds a part of it at a time. A format yields records, batch by batch: it
finds them with `lanes.py`, many at once, or with `record_file.py` where a file is nothing but records.
`capture_file.py` hands them to the decoder of `parsers/_packets/` and notes the facts of the file in its
`SourceFile`: damage with its place, its time span, times that step backwards. Out comes one `Capture`.

What must hold: memory is one window and the tables, whatever a length field states, and a pipe is read like a
file. Walking in lanes finds exactly the records that walking one by one finds. Reading continues after damage
where possible; lost bytes are noted as a range, never left out silently.
"""
