"""Frames of the GSM radio link protocol (3GPP TS 24.022), versions 0 and 1, for whoever reads or writes them.

`decode` makes an `RlpFrame` of octets, `read_header` and the tables of `fcs.py` read many frames at once, as
a log needs. Frames have 240 bits or 576 (TS 24.022, 5.1), and for studies three sizes of no standard.

The protocol's entities, which exchange frames over slots, belong to the lab: `multitracer.lab.rlp`.

What must hold: octets from outside raise nothing but `FrameError`.
"""

from __future__ import annotations

from multitracer.protocols.rlp.frame import (
    MODULUS,
    FcsError,
    FrameError,
    FrameKind,
    FrameReader,
    RlpFrame,
    Supervisory,
    Unnumbered,
    decode,
)

__all__ = [
    "MODULUS",
    "FcsError",
    "FrameError",
    "FrameKind",
    "FrameReader",
    "RlpFrame",
    "Supervisory",
    "Unnumbered",
    "decode",
]
