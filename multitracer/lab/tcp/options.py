"""The options that the handshake offers and agrees: MSS, SACK, timestamps, window scaling, ECN.

RFC 9293, section 3.7.1; RFC 2018; RFC 7323; RFC 3168, section 6.1.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.captured import Flag
from multitracer.lab.tcp.packet import IP_HEADER_BYTES, TCP_HEADER_BYTES, sack_blocks_that_fit

if TYPE_CHECKING:
    from multitracer.lab.tcp.packet import Segment
    from multitracer.lab.tcp.profile import TcpProfile

DEFAULT_MSS_BYTES = 536
"""What a peer takes that says nothing."""
_TIMESTAMP_BYTES = 12  # RFC 7323, appendix A: with two NOPs
_MAX_WINDOW_SHIFT = 14  # RFC 7323, 2.3


class Options:
    """The options of one end; before `settle`, those that it offers.

    Parameters
    ----------
    profile : TcpProfile
        What this end may offer.
    """

    def __init__(self, profile: TcpProfile) -> None:
        self._profile = profile
        self._own_shift = _window_shift(profile.receive_buffer_bytes)
        self.timestamps = profile.timestamps
        self.sack = profile.sack
        self.scaling = profile.window_scaling
        self.ecn = False
        """Both ends do ECN; never so before `settle`."""
        self.peer_shift = 0
        """By how much the peer's window field is to be shifted."""
        self.mss_bytes = DEFAULT_MSS_BYTES
        """Payload of a full segment."""

    @property
    def _announced_mss_bytes(self) -> int:
        return self._profile.mtu_bytes - IP_HEADER_BYTES - TCP_HEADER_BYTES

    @property
    def most_sack_blocks(self) -> int:
        """How many SACK blocks a segment has room for."""
        return sack_blocks_that_fit(timestamps=self.timestamps)

    def window_shift(self, *, syn: bool) -> int:
        """Return by how much our window field is shifted; on a SYN it never is."""
        return self._own_shift if self.scaling and not syn else 0

    def settle(self, syn: Segment) -> None:
        """Agree on options from the peer's SYN, the first one or the answer to ours."""
        self.timestamps = self.timestamps and syn.timestamps is not None
        self.sack = self.sack and syn.sack_permitted
        self.scaling = self.scaling and syn.window_scale is not None
        if self.scaling:
            self.peer_shift = min(syn.window_scale or 0, _MAX_WINDOW_SHIFT)
        wanted = Flag.ECE if syn.flags & Flag.ACK else Flag.ECE | Flag.CWR
        self.ecn = self._profile.ecn and syn.flags & (Flag.ECE | Flag.CWR) == wanted
        most = min(syn.mss_bytes or DEFAULT_MSS_BYTES, self._announced_mss_bytes)
        self.mss_bytes = max(1, most - (_TIMESTAMP_BYTES if self.timestamps else 0))

    def put(self, syn: Segment, *, first: bool) -> None:
        """Write the options into our SYN: the `first` of the connection, or the answer to the peer's."""
        syn.flags |= Flag.SYN
        syn.mss_bytes = self._announced_mss_bytes
        syn.sack_permitted = self.sack
        syn.window_scale = self._own_shift if self.scaling else None
        if first and self._profile.ecn:
            syn.flags |= Flag.ECE | Flag.CWR
        elif self.ecn:
            syn.flags |= Flag.ECE


def _window_shift(buffer_bytes: int) -> int:
    shift = 0
    while buffer_bytes >> shift > 0xFFFF and shift < _MAX_WINDOW_SHIFT:
        shift += 1
    return shift
