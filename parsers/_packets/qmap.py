"""QMAP: how a modem of Qualcomm multiplexes IP packets towards its host; several may share one frame.

Source: Documentation/networking/device_drivers/cellular/qualcomm/rmnet.rst of Linux, and its rmnet driver: a header
of 4 bytes (command bit, next-header bit and padding; mux id; length with the padding), with version 5 a checksum
header of 4 bytes behind it, with version 4 such a header (uplink) or a trailer of 8 bytes (downlink).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from parsers._packets.chain import RAW_IP
from parsers._packets.ip import holds_ip
from parsers._packets.layers import u16
from parsers._packets.tunnels_seen import SeenTunnel

if TYPE_CHECKING:
    from multitracer.tables import Mask, Numbers
    from parsers._packets.layers import Bytes, LayerPackets, PacketCounts

NUMBER = 0x00F9
"""ETH_P_MAP of Linux (if_ether.h)."""
_HEADER_BYTES, _CHECKSUM_BYTES, _TRAILER_BYTES = 4, 4, 8
_COMMAND = 0x80
_PADDING = 0x3F
_MOST_SHARED = 256
"""Maximum number of packets that are counted in one frame: modems aggregate some ten, the driver up to 64."""


class _Frames(NamedTuple):
    """Frames of QMAP at some positions; arrays of shape (n,)."""

    is_data: Mask
    """Whether a frame begins here that holds an IP packet."""
    is_command: Mask
    ip_at: Numbers
    next_at: Numbers
    """Position behind the frame; a trailer may follow."""


def _frames(data: Bytes, at: Numbers, end: Numbers, stop: Numbers) -> _Frames:
    here = np.minimum(at, end)
    flags, length = data[here].astype(np.int64), u16(data, here + 2)
    is_command = (flags & _COMMAND != 0) & (at + _HEADER_BYTES + length <= stop) & (at + _HEADER_BYTES <= end)
    ip_at, next_at = at + _HEADER_BYTES, at + _HEADER_BYTES + length
    is_data = np.zeros(len(at), bool)
    for extra in (0, _CHECKSUM_BYTES):
        begin, behind = at + _HEADER_BYTES + extra, at + _HEADER_BYTES + extra + length
        payload_end = behind - (flags & _PADDING)
        fits = (flags & _COMMAND == 0) & (behind <= stop) & ~is_data
        fits &= holds_ip(data, begin, end, payload_end, exact=True) | holds_ip(data, begin, end, behind, exact=True)
        ip_at, next_at = np.where(fits, begin, ip_at), np.where(fits, behind, next_at)
        is_data |= fits
    return _Frames(is_data, is_command, ip_at, next_at)


def begins(packets: LayerPackets, *, with_commands: bool) -> Mask:
    """Return which packets begin with a frame of QMAP whose lengths fit: bool, shape (n,)."""
    frames = _frames(packets.data, packets.at, packets.end, packets.stop)
    return np.asarray(frames.is_data | frames.is_command) if with_commands else frames.is_data


def qmap(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the header of the first frame, whose packet is read; further ones in the same record are counted.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, _HEADER_BYTES, "QMAP header"))
    frames = _frames(packets.data, packets.at, packets.end, packets.stop)
    ledger.count_protocol("qmap command", int(np.count_nonzero(frames.is_command)))
    ledger.drop(~frames.is_data & ~frames.is_command, "QMAP without an IP packet that fits")
    inside = packets.pick(frames.is_data)
    if len(inside):
        mux = inside.data[inside.at + 1].astype(np.int64)
        unread = _further(inside, frames.next_at[frames.is_data])
        ledger.tunnels.append(SeenTunnel("QMAP", inside.record, identifier=mux, unread=unread))
    inside.stop = np.minimum(inside.stop, frames.next_at[frames.is_data])
    inside.end = np.minimum(inside.end, inside.stop)
    inside.at = frames.ip_at[frames.is_data]
    return inside, np.full(len(inside), RAW_IP)


def _further(packets: LayerPackets, at: Numbers) -> int:
    """Return the number of further frames with an IP packet behind the first ones, which end at `at`."""
    data, end, stop, further = packets.data, packets.end, packets.stop, 0
    for _ in range(_MOST_SHARED):
        is_inside = at < end
        if not is_inside.any():
            break
        at, end, stop = at[is_inside], end[is_inside], stop[is_inside]
        frames, behind = _frames(data, at, end, stop), _frames(data, at + _TRAILER_BYTES, end, stop)
        by_trailer = ~(frames.is_data | frames.is_command) & (behind.is_data | behind.is_command)
        further += int(np.count_nonzero(frames.is_data | by_trailer & behind.is_data))
        known = frames.is_data | frames.is_command | by_trailer
        at = np.where(by_trailer, behind.next_at, frames.next_at)[known]
        end, stop = end[known], stop[known]
    return further
