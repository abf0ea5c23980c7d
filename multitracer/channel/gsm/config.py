"""The parameters of a GSM data call in a scenario."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from multitracer.channel.shared.frame_errors import ErrorConfig
from multitracer.channel.shared.queue import QueueConfig
from multitracer.errors import LocalProtocolError
from multitracer.units import NS_PER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConfig:
    """A GSM circuit-switched data call that carries PPP; both ends have the same parameters."""

    slot_ns: int = 20 * NS_PER_MS
    """Time of one RLP frame: 24 user octets in 20 ms are 1200 B/s."""
    pipe_slots: int = 9
    """Slots between a frame's start at one end and its end at the other: interleaving and the network."""
    queue: QueueConfig = field(default_factory=QueueConfig)
    """The interface queue above PPP."""
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

    def __post_init__(self) -> None:
        if self.pipe_slots < 1 or self.refill_below_bytes < 1:
            raise LocalProtocolError("GSM link: pipe_slots and refill_below_bytes are at least 1")
