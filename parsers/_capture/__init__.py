"""From the bytes of a capture to its packets: the common part of pcap, pcapng, ERF and snoop.

The input is a stream; `window.py` keeps one part of it in memory. A format yields records, batch by batch: it
finds them with `lanes.py`, many at once, or with `of_records` where a file is nothing but records.
`capture_file.py` hands them to the decoder of `parsers/_packets/` and notes the facts of the file in its
`SourceFile`: damage with its place, its time span, times that step backwards. The output is one `Capture`.

Rules: memory is one window and the tables, for any value of a length field, and a pipe is read like a file.
The search in lanes finds exactly the same records as a sequential search. Reading continues after damage
where possible; lost bytes are noted as a range, never left out silently.
"""
