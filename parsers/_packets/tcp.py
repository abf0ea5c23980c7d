"""TCP headers. Source: RFC 9293, section 3.1.

Options: RFC 7323, RFC 2018, RFC 8684 (MPTCP), RFC 7413 (Fast Open). Segments of the two layouts that fill a
capture (padded timestamps, and those followed by SACK) are read straight away; all others are walked option
by option, all of them in step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import CaptureMark, Flag, OptionKind
from parsers._packets.layers import headers, rows, u16, u32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multitracer.tables import Array, Mask, Numbers
    from parsers._packets.ip import Datagrams
    from parsers._packets.layers import Bytes, PacketCounts

_PADDED_TIMESTAMPS = 0x0101080A
_PADDED_SACK = 0x010105
_FAST_OPEN_MAGIC = 0xF989
_MOST_OPTIONS = 40


@dataclass(slots=True)
class TcpOptionColumns:
    """The option values of n segments; arrays of shape (n,), -1 if a segment does not have the option."""

    has_timestamps: Mask
    tsval: NDArray[np.uint32]
    tsecr: NDArray[np.uint32]
    sack_at: Numbers
    """Position of the first SACK block in the data."""
    sack_blocks: Numbers
    mptcp: Mask
    mss_bytes: NDArray[np.int32]
    window_scale: NDArray[np.int16]
    sack_permitted: Mask
    fast_open: Mask

    @classmethod
    def none(cls, n: int) -> TcpOptionColumns:
        """Return the columns for `n` segments without options."""
        return cls(
            has_timestamps=np.zeros(n, np.bool_),
            tsval=np.zeros(n, np.uint32),
            tsecr=np.zeros(n, np.uint32),
            sack_at=np.zeros(n, np.int64),
            sack_blocks=np.zeros(n, np.int64),
            mptcp=np.zeros(n, np.bool_),
            mss_bytes=np.full(n, -1, np.int32),
            window_scale=np.full(n, -1, np.int16),
            sack_permitted=np.zeros(n, np.bool_),
            fast_open=np.zeros(n, np.bool_),
        )


def read_options(data: Bytes, at: Numbers, length: Numbers, *, unexpected: Mask) -> TcpOptionColumns:
    """Return the options that begin at `at` and are `length` bytes long.

    Parameters
    ----------
    data : ndarray of uint8, shape (n_bytes,)
    at, length : ndarray of int64, shape (n_segments,)
        Positions in `data`, and bytes (0 without options).
    unexpected : ndarray of bool, shape (n_segments,)
        Segments to walk option by option in any case (SYN, or cut by the snap length).
    """
    options = TcpOptionColumns.none(len(at))
    words = rows(data, at, 16).view(">u4").reshape(-1, 4)
    timed = (words[:, 0] == _PADDED_TIMESTAMPS) & (length >= 12) & ~unexpected
    sack_word = np.where(timed, words[:, 3], words[:, 0])
    sack_at = at + np.where(timed, 16, 4)
    blocks = ((sack_word & 0xFF).astype(np.int64) - 2) >> 3
    sacked = (sack_word >> 8 == _PADDED_SACK) & (sack_at + 8 * blocks == at + length) & ~unexpected
    sacked &= (sack_word & 0x07 == 2) & (blocks > 0)
    plain = (timed & ((length == 12) | sacked)) | sacked | (length <= 0)
    timed &= plain
    np.copyto(options.has_timestamps, timed)
    np.copyto(options.tsval, words[:, 1], where=timed)
    np.copyto(options.tsecr, words[:, 2], where=timed)
    np.copyto(options.sack_at, sack_at, where=sacked)
    np.copyto(options.sack_blocks, blocks, where=sacked)
    if not plain.all():
        _walk(data, at, at + length, np.flatnonzero(~plain), options)
    return options


def _walk(data: Bytes, first: Numbers, stop: Numbers, row: Numbers, options: TcpOptionColumns) -> None:
    """Read the options of the segments `row` into `options`, one option of all segments at a time."""
    at = first[row]
    for _ in range(_MOST_OPTIONS):
        inside = at < stop[row]
        kind = data[at]
        inside &= kind != OptionKind.END.value
        row, at, kind = row[inside], at[inside], kind[inside]
        if not len(row):
            return
        single = kind == OptionKind.NOP.value
        length = np.where(single, 1, data[at + 1])
        good = single | ((length >= 2) & (at + length <= stop[row]))
        row, at, kind, length = row[good], at[good], kind[good], length[good]
        _note(data, at, kind, length, row, options)
        at = at + length


def _note(data: Bytes, at: Numbers, kind: Numbers, length: Numbers, row: Numbers, options: TcpOptionColumns) -> None:
    """Store an option of each segment in `row` into `options`.

    The option begins at `at` and has the number `kind` and the length `length`.
    """
    for code in np.flatnonzero(np.bincount(kind, minlength=256)).tolist():
        here = kind == code
        which, position, size = row[here], at[here], length[here]
        if code == OptionKind.TIMESTAMPS:
            _note_timestamps(data, position[size == 10], which[size == 10], options)
        elif code == OptionKind.SACK:
            good = (size >= 10) & (size & 7 == 2)
            options.sack_at[which[good]] = position[good] + 2
            options.sack_blocks[which[good]] = (size[good] - 2) >> 3
        elif code == OptionKind.MSS:
            good = size == 4
            options.mss_bytes[which[good]] = u16(data, position[good] + 2)
        elif code == OptionKind.WINDOW_SCALE:
            good = size == 3
            options.window_scale[which[good]] = data[position[good] + 2]
        elif code == OptionKind.SACK_PERMITTED:
            options.sack_permitted[which] = True
        elif code == OptionKind.MPTCP:
            options.mptcp[which] = True
        elif code == OptionKind.FAST_OPEN:
            options.fast_open[which] = True
        elif code == OptionKind.EXPERIMENTAL:
            good = size >= 4
            options.fast_open[which[good]] |= u16(data, position[good] + 2) == _FAST_OPEN_MAGIC


def _note_timestamps(data: Bytes, position: Numbers, which: Numbers, options: TcpOptionColumns) -> None:
    options.has_timestamps[which] = True
    options.tsval[which] = u32(data, position + 2)
    options.tsecr[which] = u32(data, position + 6)


def sack_pairs(data: Bytes, options: TcpOptionColumns) -> tuple[Numbers, NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the index of the segment, left and right edge of each SACK block, in the order of the option.

    Returns
    -------
    index : ndarray of int64, shape (n_blocks,)
    left, right : ndarray of uint32, shape (n_blocks,)
        Sequence numbers; they wrap around at 2^32.
    """
    row = np.flatnonzero(options.sack_blocks)
    count = options.sack_blocks[row]
    of = np.repeat(np.arange(len(row)), count)
    number = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    edges = rows(data, options.sack_at[row][of] + 8 * number, 8).view(">u4").reshape(-1, 2)
    return row[of], edges[:, 0].astype(np.uint32), edges[:, 1].astype(np.uint32)


_TCP = np.dtype(
    [
        ("source_port", ">u2"),
        ("destination_port", ">u2"),
        ("seq", ">u4"),
        ("ack", ">u4"),
        ("offset_flags", ">u2"),
        ("window", ">u2"),
        ("checksum", ">u2"),
        ("urgent", ">u2"),
    ]
)
_MIN_CAPTURED = 16
"""Minimum captured bytes of a header: up to the window field."""


@dataclass(slots=True)
class TcpSegments:
    """TCP segments of one block; see the schemas in `multitracer.tables`."""

    datagrams: Datagrams
    source_port: NDArray[np.uint64]
    destination_port: NDArray[np.uint64]
    columns: dict[str, Array]
    """The columns of SEGMENTS that the header alone decides."""
    options: TcpOptionColumns
    sack: tuple[Numbers, NDArray[np.uint32], NDArray[np.uint32]]
    """Index of the segment, left, right."""


def segments(datagrams: Datagrams, ledger: PacketCounts) -> TcpSegments:
    """Return the TCP segments in datagrams, with headers and options decoded.

    Cut or invalid segments are counted in `ledger` and left out.
    """
    packets = datagrams.packets
    header = headers(packets.data, packets.at, _TCP)
    offset_flags = header["offset_flags"].astype(np.int64)
    header_bytes = offset_flags >> 12 << 2
    captured = packets.at + _MIN_CAPTURED <= packets.end
    good = captured & (header_bytes >= 20)
    if not good.all():
        ledger.drop(~captured & datagrams.more_fragments, "TCP header split over IP fragments")
        ledger.drop(~captured & ~datagrams.more_fragments, "TCP header cut short")
        ledger.drop(captured & ~good, "TCP header not valid")
        return segments(datagrams.keep(good), ledger)
    payload_at = packets.at + header_bytes
    marks = _marks(datagrams, payload_at, urgent=(offset_flags & Flag.URG != 0) & (header["urgent"] != 0))
    cut = payload_at > packets.end
    syn = offset_flags & Flag.SYN != 0
    length = np.minimum(payload_at, packets.end) - packets.at - 20
    options = read_options(packets.data, packets.at + 20, length, unexpected=syn | cut)
    marks |= np.where(options.has_timestamps, np.uint16(CaptureMark.HAS_TIMESTAMPS), np.uint16(0))
    marks |= np.where(options.mptcp, np.uint16(CaptureMark.MPTCP), np.uint16(0))
    columns: dict[str, Array] = {
        "seq": header["seq"],
        "ack": header["ack"],
        "payload_bytes": np.maximum(packets.stop - payload_at, 0),
        "flags": (offset_flags & 0x1FF).astype(np.uint16),
        "window": header["window"].astype(np.uint16),
        "ip_id": (datagrams.identification if datagrams.version == 4 else 0 * datagrams.identification).astype(
            np.uint16
        ),
        "tsval": options.tsval,
        "tsecr": options.tsecr,
        "sack_blocks": options.sack_blocks,
        "marks": marks,
    }
    return TcpSegments(
        datagrams,
        header["source_port"].astype(np.uint64),
        header["destination_port"].astype(np.uint64),
        columns,
        options,
        sack_pairs(packets.data, options),
    )


def _marks(datagrams: Datagrams, payload_at: Numbers, *, urgent: Mask) -> NDArray[np.uint16]:
    packets = datagrams.packets
    marks = packets.marks.copy()
    for mask, mark in (
        ((payload_at > packets.end) & (payload_at <= packets.stop), CaptureMark.HEADER_CUT),
        ((packets.end < packets.stop) & (payload_at < packets.stop), CaptureMark.PAYLOAD_CUT),
        (payload_at > packets.stop, CaptureMark.BAD_LENGTH),
        (datagrams.more_fragments, CaptureMark.FRAGMENT),
        (urgent, CaptureMark.URGENT),
    ):
        marks |= mask.astype(np.uint16) * np.uint16(mark)
    return marks
