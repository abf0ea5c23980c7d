"""Van Jacobson's TCP/IP header compression (RFC 1144): a compressor and a decompressor.

IP packets come in at `compressor.py`; out comes each with its type for PPP (IP, compressed or uncompressed
TCP). `decompressor.py` is the inverse, `header.py` what both know of headers.

A lost compressed packet makes the decompressor's next headers wrong until an uncompressed one comes. How that
shows depends on the slot id. If it may be left out (`compress_slot_id`), the decompressor tosses what comes
after a framing error until a packet names its slot: the loss is seen at PPP. If it is always sent, wrong
packets go up and fail the TCP checksum: the loss is seen at the receiver.

What must hold: without loss every packet comes out as it went in, octet by octet.
"""

from __future__ import annotations

from multitracer.lab.vj.compressor import VjCompressor
from multitracer.lab.vj.decompressor import VjDecompressor, VjError

__all__ = ["VjCompressor", "VjDecompressor", "VjError"]
