"""The configuration of an endpoint: timers, limits, key, and allowed extensions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag

from multitracer.errors import LocalProtocolError
from multitracer.units import NS_PER_MS, NS_PER_S

SEGMENT_BYTES = 512
"""Segment size without the extension: with all headers below the 576 bytes that every IPv4 host takes."""
MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES = 64, 1400
"""docs/centauruscomm.md; the largest fits the 1,500 of Ethernet with IPv6 and UDP."""
MAX_SLOTS = 4096
"""Segments of one message: the bitmap of a PROCEED, 512 bytes, then fits a datagram too."""


class Extension(IntFlag):
    """Extensions, one bit each as on the wire; a session uses one if both ends offer it."""

    NONE = 0
    EARLY_START = 1
    """The first segments leave with OBJ, before PROCEED."""
    SEVERAL = 2
    """A session lasts until neither end has a message left."""
    PATH_MTU = 4
    """Segments as long as the path and the receiver allow."""

    @property
    def names(self) -> list[str]:
        """The names of the extensions that are set, as a manifest has them: early-start, ..."""
        return [str(each.name).lower().replace("_", "-") for each in self]


@dataclass(frozen=True, slots=True)
class CentaurusConfig:
    """Options of a Level I; the limits bound the memory that peers can claim."""

    watchdog_ns: int = 10 * NS_PER_S
    """Silence that destroys a session; every valid packet and every SENT re-arms it."""
    cap_ns: int = 300 * NS_PER_S
    """Age that destroys a session whatever it does: 256 KiB at 9.6 kb/s take 220 s."""
    lifetime_ns: int = 600 * NS_PER_S
    """How long an outgoing object is tried, unless `send` says otherwise."""
    max_lifetime_ns: int = 3600 * NS_PER_S
    """How long a received part, or the memory that a message was received, is kept at most."""

    accepts: frozenset[int] | None = None
    """Classes of objects that are taken; None takes every class."""
    extensions: Extension = Extension.NONE
    early_segments: int = 16
    """Segments that may leave before PROCEED, with early start: 8192 bytes."""
    segment_bytes: int = MAX_SEGMENT_BYTES
    """With path-MTU-sized segments: what the path carries less 53 bytes (77 with a key) of headers."""
    key: bytes | None = None
    """Pre-shared key: every packet carries an HMAC, and packets without are dropped."""

    max_message_bytes: int = 256 << 10
    max_peers: int = 1024
    max_peers_per_host: int = 64
    """Peers with one IP address."""
    max_half_open: int = 1024
    """Sessions whose initiator's address is not proven; beyond, the oldest gives way."""
    max_classes: int = 32
    """Classes of objects that one peer may use."""
    max_partials: int = 4
    """Objects of one peer that are received in part; beyond, the one that waits longest gives way."""
    max_partial_bytes: int = 64 << 20
    """Bytes of all partial objects together; beyond, offers are not answered."""
    max_outgoing: int = 64
    """Objects that may wait for one peer."""
    max_outgoing_bytes: int = 64 << 20
    """Bytes of all outgoing objects together."""

    probe_ns: int = NS_PER_S
    """Serial: how long a polled slave may take for its first answer."""
    visit_ns: int = 200 * NS_PER_MS
    """Serial: the master's pause between two sessions when it has nothing to send."""

    def __post_init__(self) -> None:
        if not 0 < self.watchdog_ns <= self.cap_ns:
            raise LocalProtocolError("watchdog_ns: must be positive and no longer than cap_ns; check both")
        if not MIN_SEGMENT_BYTES <= self.segment_bytes <= MAX_SEGMENT_BYTES:
            limits = f"{MIN_SEGMENT_BYTES} to {MAX_SEGMENT_BYTES}"
            raise LocalProtocolError(
                f"segment_bytes: {self.segment_bytes} is outside {limits}; choose another"
            )
        if self.max_message_bytes > MAX_SLOTS * SEGMENT_BYTES:
            raise LocalProtocolError(f"max_message_bytes: over {MAX_SLOTS * SEGMENT_BYTES}; choose less")
        if self.key is not None and len(self.key) < 16:
            raise LocalProtocolError("key: shorter than 16 bytes can be guessed; choose a longer one")
