"""The types that decoders of one layer pass to the next: many packets at once, as arrays of positions.

A block is a part of the capture in memory, with `PAD_BYTES` of padding after its last packet, so a header can
be read before its length is checked. Gathering rows of bytes as `void` and viewing them as header fields is
many times faster than gathering with the structured dtype itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from multitracer.tables import Mask, Numbers
    from parsers._packets.tunnels_seen import SeenTunnel

    Bytes = NDArray[np.uint8]


@dataclass(slots=True)
class PacketRecords:
    """Packet records of one block; arrays of shape (n,), in capture order."""

    data: Bytes
    """The block, with padding after the last packet (see `layers.PAD_BYTES`)."""
    start: Numbers
    """Position of the first captured byte of each packet."""
    captured: Numbers
    """Number of captured bytes of each packet."""
    original: Numbers
    """Length of each packet on the wire, bytes."""
    time_ns: Numbers
    link_type: Numbers | int
    """Link type: one value for all packets, or one for each."""
    offset: int | None = None
    """Position of the block in the file; None if the format does not show it."""
    interface: Numbers | None = None
    """Number of each packet's interface in the file; None if the format has none."""

    def __len__(self) -> int:
        return len(self.start)

    def first(self, count: int) -> PacketRecords:
        """Return the first `count` records."""
        link_type = self.link_type if isinstance(self.link_type, int) else self.link_type[:count]
        return PacketRecords(
            self.data,
            self.start[:count],
            self.captured[:count],
            self.original[:count],
            self.time_ns[:count],
            link_type,
            self.offset,
            None if self.interface is None else self.interface[:count],
        )


PAD_BYTES = 256
"""Padding after a block, bytes: no header is read farther than this beyond the end of a packet."""

UNTAGGED = -1
"""`vlan` of a packet without a VLAN tag."""


def rows(data: Bytes, at: Numbers, width: int) -> NDArray[np.void]:
    """Return `width` bytes from each position in `at`.

    Parameters
    ----------
    data : ndarray of uint8, shape (n_bytes,)
    at : ndarray of int64, shape (n,)
        From 0 to n_bytes - width.

    Returns
    -------
    ndarray of void (V`width`), shape of `at`
    """
    windows = np.ndarray((len(data) - width + 1,), _bytes(width), data, strides=(1,))
    gathered: NDArray[np.void] = windows[at]
    return gathered


@cache
def _bytes(width: int) -> np.dtype[np.void]:
    return np.dtype(f"V{width}")  # to read the name takes as long as to gather a few rows


def headers(data: Bytes, at: Numbers, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """Return the header of type `dtype` at each position in `at`; access to its fields makes no copy.

    Parameters
    ----------
    data : ndarray of uint8, shape (n_bytes,)
    at : ndarray of int64, shape (n,)
        Positions in `data`, each followed by a complete header.

    Returns
    -------
    ndarray of `dtype`, shape of `at`
    """
    return rows(data, at, dtype.itemsize).view(dtype)


def u16(data: Bytes, at: Numbers) -> Numbers:
    """Return the big-endian 16-bit number at each of `at`.

    Parameters
    ----------
    data : ndarray of uint8, shape (n_bytes,)
    at : ndarray of int64, shape (n,)
        Positions in `data`.

    Returns
    -------
    ndarray of int64, shape of `at`
        From 0 to 2^16 - 1.
    """
    return rows(data, at, 2).view(">u2").astype(np.int64)


def u32(data: Bytes, at: Numbers) -> Numbers:
    """Return the big-endian 32-bit number at each of `at`.

    Parameters
    ----------
    data : ndarray of uint8, shape (n_bytes,)
    at : ndarray of int64, shape (n,)
        Positions in `data`.

    Returns
    -------
    ndarray of int64, shape of `at`
        From 0 to 2^32 - 1.
    """
    return rows(data, at, 4).view(">u4").astype(np.int64)


@dataclass(slots=True)
class LayerPackets:
    """Packets of one block that reached the same layer; all arrays have shape (n,).

    Always `at <= end <= stop`; bytes at and after `end` were not captured.
    """

    data: Bytes
    """The block."""
    record: Numbers
    """Index of the packet's record in the block."""
    at: Numbers
    """Position of the header of this layer."""
    end: Numbers
    """End of the captured bytes."""
    stop: Numbers
    """End of the packet on the wire."""
    vlan: Numbers
    """VLAN ids as in the table of flows; `UNTAGGED` if none."""
    marks: NDArray[np.uint16]
    """Bits of `multitracer.captured.Mark` so far."""

    def __len__(self) -> int:
        return len(self.record)

    def pick(self, which: Mask | Numbers) -> LayerPackets:
        """Return the packets that a mask (bool, shape (n,)) or positions (int64) select."""
        return LayerPackets(
            self.data,
            self.record[which],
            self.at[which],
            self.end[which],
            self.stop[which],
            self.vlan[which],
            self.marks[which],
        )

    def keep(self, mask: Mask) -> LayerPackets:
        """Return the packets that the mask (bool, shape (n,)) selects; if it selects all, no copy is made."""
        return self if mask.all() else self.pick(mask)

    def advanced(self, length: Numbers | int) -> LayerPackets:
        """Return the packets with `at` increased by `length` bytes: an int, or int64 of shape (n,).

        At least 0.
        """
        at = self.at + length
        return LayerPackets(self.data, self.record, at, self.end, self.stop, self.vlan, self.marks)


def members(numbers: Iterable[int]) -> Mask:
    """Return a mask over the 256 byte values, True for those in `numbers`: bool, shape (256,)."""
    mask: Mask = np.zeros(256, np.bool_)
    mask[list(numbers)] = True
    return mask


def joined(parts: list[LayerPackets], order: Numbers) -> LayerPackets:
    """Return the packets of several parts of one block, one after the other, in the given order.

    Parameters
    ----------
    parts : list of LayerPackets
        At least one, all of the same data.
    order : ndarray of int64, shape (n_packets,)
        Positions among the packets of all parts.
    """
    return LayerPackets(
        parts[0].data,
        np.concatenate([p.record for p in parts])[order],
        np.concatenate([p.at for p in parts])[order],
        np.concatenate([p.end for p in parts])[order],
        np.concatenate([p.stop for p in parts])[order],
        np.concatenate([p.vlan for p in parts])[order],
        np.concatenate([p.marks for p in parts])[order],
    )


@dataclass(slots=True)
class PacketCounts:
    """Counts of packets: each is counted once, by its protocol or by the reason why it was not decoded."""

    protocols: dict[str, int]
    not_decoded: dict[str, int]
    tunnels: list[SeenTunnel] = field(default_factory=list)
    """Tunnels whose packets are read inside; these packets are counted by what is there."""

    def count_protocol(self, protocol: str, count: int) -> None:
        """Count packets of a protocol."""
        if count:
            self.protocols[protocol] = self.protocols.get(protocol, 0) + count

    def count_each(self, numbers: Numbers, names: dict[int, str], other: str) -> None:
        """Count a packet for each of `numbers` (int64, shape (n,)), by the name of the number in `names`.

        A number without a name is counted as `other`, a format string with a placeholder for the number.
        """
        if len(numbers):
            distinct, counts = np.unique(numbers, return_counts=True)
            for number, count in zip(distinct.tolist(), counts.tolist(), strict=True):
                self.count_protocol(names.get(number) or other.format(number), count)

    def dropped(self, reason: str, count: int) -> None:
        """Count `count` packets that were not decoded, by reason."""
        if count:
            self.not_decoded[reason] = self.not_decoded.get(reason, 0) + count

    def moved(self, protocol: str, reason: str, count: int) -> None:
        """Count packets as not decoded instead of under a protocol, where they were counted before."""
        if count:
            self.dropped(reason, count)
            self.protocols[protocol] -= count
            if not self.protocols[protocol]:
                del self.protocols[protocol]

    def drop(self, mask: Mask, reason: str) -> None:
        """Count the packets that the mask (bool, shape (n,)) selects as not decoded, by reason."""
        self.dropped(reason, int(np.count_nonzero(mask)))

    def complete(self, packets: LayerPackets, length: Numbers | int, header: str) -> Mask:
        """Return a mask of the packets of which `length` bytes from `at` on were captured; count the others.

        `length` is one number of bytes, or int64 of shape (n,); the mask is bool, shape (n,).
        """
        mask: Mask = packets.at + length <= packets.end
        self.drop(~mask, f"{header} cut short")
        return mask
