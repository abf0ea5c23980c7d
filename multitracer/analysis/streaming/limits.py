"""How long the segments of open connections wait, and how many."""

from __future__ import annotations

from dataclasses import dataclass

from multitracer.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How long and how many segments wait."""

    closed_ns: int = 240 * NS_PER_S
    """RFC 5382, REQ-5: what is closing or not yet established may be forgotten after 4 minutes, twice the
    lifetime of a segment (RFC 9293, 3.4.2)."""
    idle_ns: int = 124 * 60 * NS_PER_S
    """RFC 5382, REQ-5: what is established may be forgotten after 2 hours 4 minutes, past a keep-alive."""
    rows: int = 1 << 16
    """Segments that wait together, and as many in a piece: 3 MB each. With four times as many, a pipe of 1 GB
    took 151 MB in place of 78, and 12 % less processor time."""
    own_rows: int = 256
    closed_rows: int = 24
    """Fewer would hardly become less: some 10 stand for the past, and the latest stay. Not measured."""
    context_rows: int = 64
    """The latest segments of a connection, which stay as they are: what a repeated ACK repeats is there."""
    most_context_rows: int = 8192
    """What is outstanding stays up to here: 11 MB of usual segments. Not measured."""
