"""Reads many records of an rlpdump log at once: those with the layout that rlpdump writes.

That is: little-endian blocks with stamps in nanoseconds, IPv4 without options, at most one comment, and a
frame that can be. `RlpTotals.packet` reads all others, one at a time; both make the same rows.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.captured import IpProtocol
from multitracer.protocols.gsmtap import PORT, GsmtapType
from multitracer.protocols.l2r import Address
from multitracer.protocols.pcap_file import OptionCode
from multitracer.protocols.rlp import (
    FCS_OCTETS,
    FRAME_OCTETS,
    MODULUS,
    POLL_FINAL,
    S_FRAME,
    U_FRAME,
    FrameKind,
    Supervisory,
    Unnumbered,
    position_tables,
)
from multitracer.schemas.link import LINK_FRAMES
from multitracer.tables import NA, NOT_A_TIME
from parsers._packets.layers import rows, u16, u32
from parsers._pcapng.blocks import text
from parsers._rlpdump.log import (
    GSMTAP_OCTETS,
    IP_OCTETS,
    MOST_ATTEMPTS,
    UDP_OCTETS,
    RlpRecord,
    number,
    payload_bytes,
    words_in,
)
from parsers._text.times import MOST

if TYPE_CHECKING:
    from multitracer.tables import Array, Document, Mask, Numbers
    from parsers._packets.layers import Bytes
    from parsers._pcapng.blocks import Resolution
    from parsers._rlpdump.log import RlpTotals

_PACKET_AT = 28
"""Position of a packet in its block."""
_HEADERS = IP_OCTETS + UDP_OCTETS + GSMTAP_OCTETS
_LONGEST_COMMENT = 64
_MOST_DIGITS = len(str(MOST))
_NANOSECONDS = (False, 9, 0)
_FULL, _NONE = Address.FULL.value, [each.value for each in (Address.EMPTY, Address.BREAK, Address.BREAK_ACK)]
"""Address values for a field full of characters, and for one without characters."""


class RlpPackets(NamedTuple):
    """Packets with the standard layout; all arrays have the same length."""

    data: Bytes
    """The window that contains the packets."""
    number: Numbers
    time_ns: Numbers
    kind: Numbers
    """Type of GSMTAP."""
    uplink: Mask
    tick: Numbers
    at: Numbers
    """Position of the frame or line."""
    kept: Numbers
    """Number of octets of the frame that are in the log."""
    length: Numbers
    """Number of octets of the complete frame."""
    comment: Numbers
    """Position of the comment."""
    comment_bytes: Numbers

    def where(self, chosen: Array) -> RlpPackets:
        """Return the packets that a mask (bool, shape (n,)) or positions (int64) select."""
        columns: list[Array] = [column[chosen] for column in self[1:]]
        return RlpPackets(self.data, *columns)


def take(log: RlpTotals, data: Bytes, starts: list[int], first: int) -> None:
    """Add packet blocks to the log: those with the standard layout together, the others one by one.

    Parameters
    ----------
    log : RlpTotals
    data : ndarray of uint8
        Followed by `PAD_BYTES` of padding after the last block.
    starts : list of int
        Positions of the blocks in it; each is complete and long enough for a packet.
    first : int
        Number of the first block in the file.
    """
    at, place = np.array(starts, dtype=np.int64), first + np.arange(len(starts))
    typical = np.zeros(len(at), dtype=bool)
    if log.order == "<":
        packets, typical = _laid_out(data, at, place, log.resolutions)
        typical[np.flatnonzero(typical)[~_taken(log, packets)]] = False
    for begin, its_place in zip(at[~typical].tolist(), place[~typical].tolist(), strict=True):
        (length,) = struct.unpack(log.order + "I", data[begin + 4 : begin + 8].tobytes())
        log.packet(its_place, data[begin + 8 : begin + length - 4].tobytes())


def _taken(log: RlpTotals, packets: RlpPackets) -> Mask:
    """Add those packets that are frames or log lines to the log; return a mask of them."""
    is_line = packets.kind == GsmtapType.LOG
    for line in zip(*(column[is_line].tolist() for column in _of_lines(packets)), strict=True):
        time_ns, tick, place, uplink, at, kept = line
        log.line(RlpRecord(time_ns, tick, place, uplink, {}), packets.data[at : at + kept].tobytes())
    taken: Mask = is_line.copy()
    for length in FRAME_OCTETS:
        this = np.flatnonzero((packets.kind == GsmtapType.GSM_RLP) & (packets.length == length))
        columns, can_be = _frames(log, packets.where(this), length)
        log.frames.extend({name: values[can_be] for name, values in columns.items()})
        taken[this[can_be]] = True
    return taken


def _of_lines(packets: RlpPackets) -> tuple[Array, ...]:
    return packets.time_ns, packets.tick, packets.number, packets.uplink, packets.at, packets.kept


# --- how a packet is laid out ---


def _little(data: Bytes, dtype: str) -> Array:
    """Return a view with the little-endian number at each octet of the data."""
    size = np.dtype(dtype).itemsize
    return np.ndarray((len(data) - size + 1,), dtype, data, strides=(1,))


def _laid_out(data: Bytes, at: Numbers, place: Numbers, resolutions: list[Resolution]) -> tuple[RlpPackets, Mask]:
    """Return the packets with the standard layout, and a mask over all blocks: which of them have it.

    In this layout a packet with a log line has no comment.
    """
    u4 = _little(data, "<u4")
    size, interface, kept = (u4[at + where].astype(np.int64) for where in (4, 8, 20))
    padded = kept + 3 & ~3
    counts_ns = np.array([each.key == _NANOSECONDS for each in resolutions] or [False])
    typical = counts_ns[np.minimum(interface, len(counts_ns) - 1)] & (interface < len(resolutions))
    typical &= (kept >= _HEADERS) & (_PACKET_AT + padded + 4 <= size)
    typical &= _is_gsmtap(data, at + _PACKET_AT)
    behind = at + _PACKET_AT + np.minimum(padded, size)
    comment_bytes, plain = _comment(data, behind, at + size - 4)
    is_line = data[at + _PACKET_AT + IP_OCTETS + UDP_OCTETS + 2] == GsmtapType.LOG
    typical &= plain & ~(is_line & (comment_bytes > 0))
    chosen = np.flatnonzero(typical)
    at, kept = at[chosen], kept[chosen]
    tap = at + _PACKET_AT + IP_OCTETS + UDP_OCTETS
    stamp = u4[at + 12].astype(np.uint64) << np.uint64(32) | u4[at + 16]
    carriers = RlpPackets(
        data,
        place[chosen],
        np.where(stamp < 1 << 63, stamp.astype(np.int64), NOT_A_TIME),
        data[tap + 2].astype(np.int64),
        (data[tap + 4] & 0x40) != 0,
        u32(data, tap + 8),
        tap + GSMTAP_OCTETS,
        kept - _HEADERS,
        u16(data, at + _PACKET_AT + IP_OCTETS + 4) - UDP_OCTETS - GSMTAP_OCTETS,
        behind[chosen] + 4,
        comment_bytes[chosen],
    )
    return carriers, typical


def _is_gsmtap(data: Bytes, packet: Numbers) -> Mask:
    """Return a mask of the packets with IPv4, UDP and GSMTAP headers of the standard lengths."""
    udp, tap = packet + IP_OCTETS, packet + IP_OCTETS + UDP_OCTETS
    to_port = (u16(data, udp) == PORT) | (u16(data, udp + 2) == PORT)
    is_gsmtap: Mask = (data[packet] == 0x45) & (data[packet + 9] == IpProtocol.UDP.value) & to_port
    is_gsmtap &= (data[tap] == 2) & (data[tap + 1] * 4 == GSMTAP_OCTETS)
    return is_gsmtap


def _comment(data: Bytes, at: Numbers, end: Numbers) -> tuple[Numbers, Mask]:
    """Return the length of each block's comment (0 without one), and a mask: no other option is there."""
    u2 = _little(data, "<u2")
    has_none = (end - at < 4) | (u2[at] == 0)
    length = np.where(has_none, 0, u2[at + 2].astype(np.int64))
    behind = at + 4 + (np.minimum(length, _LONGEST_COMMENT) + 3 & ~3)
    has_one = (u2[at] == OptionCode.COMMENT.value) & (length <= _LONGEST_COMMENT) & (at + 4 + length <= end)
    has_one &= (end - behind < 4) | (u2[np.minimum(behind, len(u2) - 1)] == 0)
    return length, has_none | has_one


# --- frames ---


def _frames(log: RlpTotals, packets: RlpPackets, length: int) -> tuple[dict[str, Array], Mask]:
    """Return the columns of LINK_FRAMES for frames of one length, and a mask of the valid frames."""
    words = _Words(packets)
    complete = np.flatnonzero(packets.kept == length)
    lost = words.text("fate") == "lost"
    lost[complete[~_is_intact(packets.data, packets.at[complete], length)]] = True
    facts, can_be = _facts(packets, length)
    can_be = (packets.kept >= 2) & (packets.kept <= length) & (can_be | lost)
    sent = packets.uplink == log.is_mobile
    attempt = words.number("try", MOST_ATTEMPTS, NA if log.is_overheard else 1)
    arrived = (facts["kind"] == FrameKind.IS.name) & ~lost & ~sent & (not log.is_overheard)
    fate = words.text("fate")
    fate[arrived & (fate == "")] = "delivered"
    fate[lost] = "lost"
    columns = {
        "time_ns": packets.time_ns,
        "tick": np.where(log.is_overheard, NA, packets.tick),
        "frame": packets.number,
        "sent": sent,
        "uplink": packets.uplink,
        "fcs_ok": ~lost,
        **{name: np.where(lost, _NOTHING[name], values) for name, values in facts.items()},
        "offset_bytes": words.offset,
        "attempt": np.where(sent, attempt, NA),
        "cause": words.text("cause"),
        "fate": fate,
    }
    return columns, can_be


_NOTHING: Document = {
    "kind": "", "function": "", "command": False, "poll_final": False, "n_s": NA, "n_r": NA,
    "payload_bytes": 0,
}  # fmt: skip
"""Values of a slot without a frame."""


def _is_intact(data: Bytes, at: Numbers, length: int) -> Mask:
    """Return a mask of the frames whose FCS is correct (3GPP TS 24.022, clause 4.4)."""
    octets = rows(data, at, length).view(np.uint8).reshape(len(at), length)
    zeros, tables = _position_tables(length - FCS_OCTETS)
    fcs = np.full(len(at), zeros, dtype=np.int64)
    for position, shares in enumerate(tables):
        fcs ^= shares[octets[:, position]]
    received = octets[:, -FCS_OCTETS:] @ np.array([1, 1 << 8, 1 << 16])
    return np.asarray(fcs == received)


@cache
def _position_tables(length: int) -> tuple[int, Numbers]:
    """Return `position_tables` with the tables as an array: int64, shape (length, 256)."""
    zeros, tables = position_tables(length)
    return zeros, np.array(tables)


def _facts(packets: RlpPackets, length: int) -> tuple[dict[str, Array], Mask]:
    """Return the columns of the fields in the frames' headers, and a mask of the valid headers.

    They are equal to those of `read_header`.
    """
    header = _little(packets.data, "<u2")[packets.at].astype(np.int64)
    n_s, n_r = header >> 3 & 0x3F, header >> 10
    is_u, is_s = n_s == U_FRAME >> 3, n_s == S_FRAME >> 3
    function = np.where(is_u, _UNNUMBERED[n_r & 0x1F], _SUPERVISORY[header >> 1 & 3])
    informs = np.flatnonzero(~is_u & ~is_s & (packets.kept >= 2))
    characters = np.zeros(len(header), dtype=np.int32)
    characters[informs] = _characters(packets.where(informs), length)
    columns = {
        "kind": np.where(is_u, FrameKind.U.name, np.where(is_s, FrameKind.S.name, FrameKind.IS.name)),
        "function": function,
        "command": (header & 1) != 0,
        "poll_final": (header & POLL_FINAL) != 0,
        "n_s": np.where(is_u | is_s, NA, n_s),
        "n_r": np.where(is_u, NA, n_r),
        "payload_bytes": characters,
    }
    return columns, np.where(is_u, function != "", n_r < MODULUS)


_SUPERVISORY = np.array([each.name for each in Supervisory])
_UNNUMBERED = np.array([{each.value: each.name for each in Unnumbered}.get(bits, "") for bits in range(32)])
"""Names of functions by their bits; empty for unassigned ones."""


def _characters(packets: RlpPackets, length: int) -> Numbers:
    """Return the number of characters in the information field of each frame."""
    status = packets.data[packets.at + 2] & 0x1F
    characters = np.where(status == _FULL, length - 6, 0)
    has_header = packets.kept > 2
    characters[~has_header] = 0
    for i in np.flatnonzero(has_header & (status != _FULL) & ~np.isin(status, _NONE)).tolist():
        at, kept = int(packets.at[i]), int(packets.kept[i])
        characters[i] = payload_bytes(packets.data[at + 2 : at + min(kept, length)].tobytes(), length - 5)
    return characters


# --- comments ---


class _Words:
    """The `key=value` words in the comments of packets.

    Nearly every one is `off=` and a number, which is read separately; the other words seldom differ.
    """

    def __init__(self, packets: RlpPackets) -> None:
        size = packets.comment_bytes
        value, begin = _leading_offset(packets.data, packets.comment, size)
        rest = np.flatnonzero(begin < size)
        tails = _texts(packets.data, (packets.comment + begin)[rest], (size - begin)[rest])
        distinct, which = np.unique(tails, return_inverse=True)
        self._each: list[dict[str, str]] = [{}, *(words_in(text(bytes(each))) for each in distinct)]
        self._which = np.zeros(len(size), dtype=np.int64)
        self._which[rest] = which + 1
        is_stated = np.array(["off" in words for words in self._each])[self._which]
        self.offset: Numbers = np.where(is_stated, self.number("off", MOST, NA), value)

    def number(self, key: str, most: int, otherwise: int) -> Numbers:
        """Return the number after `key=` in each comment: int64, shape (n_packets,).

        `otherwise` where the key is absent; NA where the number is not valid or above `most`.
        """
        typical = None if otherwise == NA else str(otherwise)
        values = np.array([number(words.get(key, typical), most) for words in self._each])
        return np.asarray(values[self._which])

    def text(self, key: str) -> Array:
        """Return the text after `key=` in each comment: shape (n_packets,); empty where the key is absent."""
        dtype = next(column.dtype for column in LINK_FRAMES if column.name == key)
        values = np.array([words.get(key, "") for words in self._each], dtype=dtype)
        return np.asarray(values[self._which])


def _texts(data: Bytes, at: Numbers, size: Numbers) -> Array:
    """Return the `size` octets at each position as byte strings."""
    octets = rows(data, at, _LONGEST_COMMENT).view(np.uint8).reshape(len(at), _LONGEST_COMMENT).copy()
    octets[np.arange(_LONGEST_COMMENT) >= size[:, None]] = 0
    return octets.view(f"S{_LONGEST_COMMENT}").reshape(len(at))


def _leading_offset(data: Bytes, at: Numbers, size: Numbers) -> tuple[Numbers, Numbers]:
    """Return the number of each comment that begins with `off=NUMBER`, and where the rest of it begins.

    The number is NA for other comments.
    """
    width = 4 + _MOST_DIGITS + 1
    octets = rows(data, at, width).view(np.uint8).reshape(len(at), width)
    octets = np.where(np.arange(width) < size[:, None], octets, ord(" "))
    digits = octets[:, 4:].astype(np.int64) - ord("0")
    is_digit = (digits >= 0) & (digits <= 9)
    count = is_digit.argmin(axis=1)  # 0 if there are more than may be: then it is no number
    value = np.zeros(len(at), dtype=np.int64)
    for place in range(_MOST_DIGITS):
        value = np.where(place < count, value * 10 + digits[:, place], value)
    ends = octets[np.arange(len(at)), 4 + count] == ord(" ")
    has_offset = (octets[:, :4] == np.frombuffer(b"off=", np.uint8)).all(axis=1) & (count > 0) & ends
    return np.where(has_offset & (value <= MOST), value, NA), np.where(has_offset, 4 + count, 0)
