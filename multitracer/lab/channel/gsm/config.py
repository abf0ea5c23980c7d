"""The parameters of a GSM data call in a scenario."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.gsm.codes import CodeName  # noqa: TC001  read while running
from multitracer.lab.channel.shared.frame_errors import ErrorConfig
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.protocols.rlp.frame import FRAME_OCTETS
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S

_FRAME_BITS = frozenset(octets * BITS_PER_BYTE for octets in FRAME_OCTETS)
_OVERHEAD_OCTETS = 6  # TS 24.022, clause 4: header 2, FCS 3; TS 27.002: status 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConfig:
    """A GSM circuit-switched data call that carries PPP; both ends have the same parameters."""

    frame_bits: int = 240
    """One RLP frame: 240 or 576 (TS 24.022), in studies also 336, 1152 or 2304. 48 bits of it are header,
    status octet and check sequence, the others characters."""
    slot_ns: int = 20 * NS_PER_MS
    """Time of one RLP frame: 24 user octets in 20 ms are 1200 B/s."""
    code: CodeName = "9.6"
    """The channel's code (`codes.py`): whether a frame survives errors of kind "bits"."""
    pipe_slots: int = 9
    """Slots between a frame's start at one end and its end at the other: interleaving and the network."""
    queue: QueueConfig = field(default_factory=QueueConfig)
    """The interface queue above PPP."""
    queue_at: Literal["both", "mobile", "fixed"] = "both"
    """Which end has that queue; the other one drops from the tail, at 50 packets."""
    header_compression: Literal["none", "vj", "vj-slot-id"] = "none"
    """Van Jacobson: with the slot id left out where it may be, or always sent (RFC 1332, section 4)."""
    accm: int = 0
    """Control characters that PPP escapes."""
    refill_below_bytes: int = 512
    """The next packet leaves the interface queue when fewer characters wait for the link."""
    drain_bytes_per_s: int = 960
    """Rate at which each end's terminal takes characters: 9.6 kb/s asynchronous."""
    xoff_at_bytes: int = 1300
    xon_at_bytes: int = 480
    """Above the RLP round trip times the drain rate, else the terminal starves after each XOFF."""
    stop_by: Literal["x-bit", "rnr"] = "x-bit"
    """Flow control by the relay's status octet or by RLP."""
    rlp_version: int = 0
    t1_ms: int = 480
    n2: int = 6
    """Retransmissions of one frame before the link is reset."""
    recovery: Literal["srej", "rej"] = "srej"
    when_exhausted: Literal["reset", "drop-call"] = "reset"
    up: ErrorConfig = field(default_factory=ErrorConfig)
    down: ErrorConfig = field(default_factory=ErrorConfig)

    @property
    def payload_bytes(self) -> int:
        """Characters that one frame carries."""
        return self.frame_bits // BITS_PER_BYTE - _OVERHEAD_OCTETS

    @property
    def rate_bytes_per_s(self) -> float:
        """Characters that the link carries in a second, without errors and if nobody stops it."""
        return self.payload_bytes * NS_PER_S / self.slot_ns

    def queue_of(self, side: Literal["mobile", "fixed"]) -> QueueConfig:
        """Return the interface queue of one end."""
        is_usual = self.queue_at not in ("both", side)
        return QueueConfig(local_drops=self.queue.local_drops) if is_usual else self.queue

    def __post_init__(self) -> None:
        if self.frame_bits not in _FRAME_BITS:
            known = ", ".join(map(str, sorted(_FRAME_BITS)))
            raise LocalProtocolError(f"GSM link: frame_bits is {self.frame_bits}; choose one of {known}")
        if not NS_PER_MS <= self.slot_ns <= min(NS_PER_S, self.t1_ms * NS_PER_MS):
            wrong = f"slot_ns is {self.slot_ns:,}"
            raise LocalProtocolError(
                f"GSM link: {wrong}; choose 1,000,000 to {NS_PER_S:,}, and at most t1_ms"
            )
        if self.pipe_slots < 1 or self.refill_below_bytes < 1:
            raise LocalProtocolError("GSM link: pipe_slots and refill_below_bytes are at least 1")
