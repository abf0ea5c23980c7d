"""The GSM radio link protocol (3GPP TS 24.022), versions 0 and 1; begin with `entity.py`.

`RlpEntity` is one end of a link: once per slot of the channel it gives a frame and takes one, or None for a
frame that the radio destroyed. `RlpConfig` and `Parameters` are its options; `decode` and `RlpFrame` are the
frames, for whoever only reads them. What an entity reports is in `multitracer.protocols.link_events`.

What must hold: octets come out in the order in which they went in, none twice; a reset or a disconnection is
the only way to lose some, and both ends report it. The slot is the clock: timers count slots, not time. What
arrives never raises.
"""

from __future__ import annotations

from multitracer.protocols.rlp.config import RlpConfig
from multitracer.protocols.rlp.entity import RlpEntity
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
from multitracer.protocols.rlp.state import RlpState
from multitracer.protocols.rlp.xid import Parameters, decode_parameters

__all__ = [
    "MODULUS",
    "FcsError",
    "FrameError",
    "FrameKind",
    "FrameReader",
    "Parameters",
    "RlpConfig",
    "RlpEntity",
    "RlpFrame",
    "RlpState",
    "Supervisory",
    "Unnumbered",
    "decode",
    "decode_parameters",
]
