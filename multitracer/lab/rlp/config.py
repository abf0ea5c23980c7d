"""The configuration of an RLP entity: role, parameters, and choices that the standard leaves open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from multitracer.errors import LocalProtocolError
from multitracer.lab.rlp.xid import Parameters
from multitracer.protocols.rlp.frame import FRAME_OCTETS
from multitracer.units import NS_PER_MS

Role = Literal["mobile", "fixed"]


@dataclass(frozen=True, slots=True)
class RlpConfig:
    """Options of an `RlpEntity`."""

    role: Role = "mobile"
    """Which end this is: the mobile station, or the interworking function (IWF) of the fixed network."""
    parameters: Parameters = field(default_factory=Parameters)
    """Window sizes, T1, T2, N2 and version: as wished for, if they are negotiated."""
    negotiate: bool = True
    """Whether `connect` begins with an XID exchange."""
    frame_octets: int = 30
    """30 (240 bits) or 72 (576 bits); in studies 42, 144 or 288."""
    slot_ns: int = 20 * NS_PER_MS
    """Time between two frames of one direction, in link time: 20 ms for 30 octets, 40 ms for 72."""
    recovery: Literal["srej", "rej"] = "srej"
    """How this side asks for missing frames. The peer's choice is followed whatever it is."""
    when_exhausted: Literal["reset", "drop-call"] = "reset"
    """What follows N2 attempts in vain: a link reset, or the end of the call, which the standard also
    allows and the field has shown."""
    backlog_frames: int = 124
    """Delivered frames that may wait for `read`; beyond, frames are refused. Two windows: what arrives
    before a peer feels RNR always fits."""

    def __post_init__(self) -> None:
        if self.frame_octets not in FRAME_OCTETS:
            raise LocalProtocolError(
                f"RLP: frames of {self.frame_octets} octets; choose 30 or 72, in studies 42, 144 or 288"
            )
        if self.slot_ns <= 0 or self.parameters.t1_ms * NS_PER_MS < self.slot_ns:
            raise LocalProtocolError(f"RLP: slot of {self.slot_ns} ns; choose 1 ns up to T1")
        if self.backlog_frames < 1:
            raise LocalProtocolError(f"RLP: backlog of {self.backlog_frames} frames; choose at least 1")

    @property
    def info_octets(self) -> int:
        """Octets of information in one frame: 25 or 67; in studies 37, 139 or 283."""
        return self.frame_octets - 5
