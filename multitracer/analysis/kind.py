"""The class of a segment."""

from __future__ import annotations

from enum import IntFlag


class SegmentKind(IntFlag):
    """Bits of the column `kind` in tcp_segments; docs/analysis.md defines them.

    Examples
    --------
    >>> segments = session.tcp_segments()
    >>> int(((segments["kind"] & mt.SegmentKind.RETRANSMISSION) > 0).sum())
    83
    """

    __iter__ = None  # type: ignore[assignment]  # pandas takes what iterates for a column, not for a number

    DATA = 0x0001
    RETRANSMISSION = 0x0002
    PARTIAL_RETRANSMISSION = 0x0004
    """A retransmission that also carries new sequence numbers."""
    OUT_OF_ORDER = 0x0008
    CAPTURE_DUPLICATE = 0x0010
    """The same packet, captured twice; not a retransmission."""
    DUPLICATE_ACK = 0x0020
    ZERO_WINDOW = 0x0040
    ZERO_WINDOW_PROBE = 0x0080
    KEEP_ALIVE = 0x0100
    WINDOW_UPDATE = 0x0200
    SACK = 0x0400
    DSACK = 0x0800
    ACK_OF_UNSEEN = 0x1000
