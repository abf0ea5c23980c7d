"""What a link delivered, as its receiver saw it, as a capacity trace: kind *derived*.

A capture shows what arrived, not what could have. While the sender paused, other users held the link, or
other protocols than TCP were on it, the trace has less capacity than the link had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Flag, Mark
from multitracer.errors import InputError
from multitracer.protocols.capacity_trace import OPPORTUNITY_BYTES, CapacityTrace
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_MS, NS_PER_S
from multitracer.words import rate

if TYPE_CHECKING:
    from multitracer.capture import Capture
    from multitracer.tables import Array, Numbers, Table, Times

_TUN_BYTES = 4
"""Mahimahi counts the header of its TUN device with each packet."""
_TCP_BYTES = 20
"""Header without options (RFC 9293, section 3.1)."""
_TIMESTAMPS_BYTES, _SYN_OPTION_BYTES = 12, 20
"""Options in whole words: timestamps (RFC 7323); of a SYN also MSS, SACK permitted and window scale."""
_SACK_BYTES, _BLOCK_BYTES = 4, 8
"""RFC 2018, section 3, with two NOPs before it."""


@dataclass(frozen=True)
class Delivered:
    """A capacity trace made of a capture, and what is to be said of it."""

    trace: CapacityTrace
    segments: int
    """TCP segments that it was made of."""
    longest_gap_s: float
    """Longest time between two of them: the link may have been idle then, or away."""

    @property
    def sentence(self) -> str:
        """What it is, and what it cannot know."""
        trace = self.trace
        return (
            f"derived from {self.segments:,} TCP segments as the receiver saw them: {len(trace):,} "
            f"opportunities in {trace.lasts_ms / 1000:.1f} s ({rate(trace.mean_bits_per_s)}); "
            f"where the sender paused (at most {self.longest_gap_s:.2f} s) or others used the link, "
            "it could have carried more"
        )


def delivered_to(capture: Capture, address: bytes, *, speed: float = 1.0) -> Delivered:
    """Return the capacity that the TCP segments to one host used.

    Parameters
    ----------
    capture : Capture
        Made at that host, or close to it.
    address : bytes
        Its address, 16 bytes as in FLOWS.
    speed : float
        Link seconds in a recorded second.

    Returns
    -------
    Delivered
        An opportunity of 1504 octets whenever that many more had arrived, in ms since the first segment.

    Raises
    ------
    InputError
        If fewer octets arrived than one opportunity has, or all within a millisecond.
    """
    segments, flows = capture.segments, capture.flows
    flow = segments["flow"]
    to = np.where(flow & 1, flows["address_a"][flow >> 1], flows["address_b"][flow >> 1])
    rows = np.flatnonzero((to == np.void(address)) & (segments["time_ns"] != NOT_A_TIME))
    version = flows["ip_version"][flow[rows] >> 1]
    return _delivered(segments["time_ns"][rows], _ip_bytes(segments, rows, version), speed)


def _delivered(time_ns: Times, ip_bytes: Numbers, speed: float) -> Delivered:
    order = np.argsort(time_ns, kind="stable")
    link_ns = np.round((time_ns[order] - time_ns[order[:1]]) * speed).astype(np.int64)
    octets = np.cumsum(ip_bytes[order] + _TUN_BYTES)
    full = np.arange(OPPORTUNITY_BYTES, (octets[-1] if len(octets) else 0) + 1, OPPORTUNITY_BYTES)
    stamps_ms = link_ns[np.searchsorted(octets, full)] // NS_PER_MS
    if not len(stamps_ms) or stamps_ms[-1] == 0:
        raise InputError(
            "capacity: fewer than 1504 octets reached the receiver, or all in one ms; give a longer recording"
        )
    gap_s = float(np.diff(link_ns).max(initial=0)) / NS_PER_S
    return Delivered(CapacityTrace(stamps_ms), len(order), gap_s)


def _ip_bytes(segments: Table, rows: Array, version: Numbers) -> Numbers:
    """Return the lengths of the IP packets: payload, headers, and the options that the table tells of."""
    ip = np.where(version == 4, 20, 40)
    has_stamps = segments["marks"][rows] & Mark.HAS_TIMESTAMPS.value != 0
    is_syn = segments["flags"][rows] & Flag.SYN.value != 0
    blocks = segments["sack_blocks"][rows].astype(np.int64)
    options = np.where(is_syn, _SYN_OPTION_BYTES, _TIMESTAMPS_BYTES * has_stamps)
    options += np.where(blocks > 0, _SACK_BYTES + _BLOCK_BYTES * blocks, 0)
    return segments["payload_bytes"][rows].astype(np.int64) + ip + _TCP_BYTES + options
