"""Protocol numbers of the point-to-point protocol (RFC 1661)."""

from __future__ import annotations

from enum import IntEnum


class PppProtocol(IntEnum):
    """Protocol numbers of PPP frames (IANA, Point-to-Point Protocol Field Assignments)."""

    IP = 0x0021
    VJ_COMPRESSED = 0x002D
    VJ_UNCOMPRESSED = 0x002F
    IPV6 = 0x0057
    LCP = 0xC021
