"""TCP headers. Source: RFC 9293, section 3.1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Flag, Mark
from parsers._packets.layers import headers
from parsers._packets.options import Options, read_options, sack_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multitracer.tables import Array, Mask, Numbers
    from parsers._packets.ip import Datagrams
    from parsers._packets.layers import Ledger


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
_LEAST_CAPTURED = 16
"""Up to the window field; with less a segment says too little."""


@dataclass(slots=True)
class Segments:
    """TCP segments of one block; see the schemas in `multitracer.tables`."""

    datagrams: Datagrams
    source_port: NDArray[np.uint64]
    destination_port: NDArray[np.uint64]
    columns: dict[str, Array]
    """The columns of SEGMENTS that the header alone decides."""
    options: Options
    sack: tuple[Numbers, NDArray[np.uint32], NDArray[np.uint32]]
    """Index of the segment, left, right."""


def segments(datagrams: Datagrams, ledger: Ledger) -> Segments:
    """Decode TCP headers and options; what is cut or not valid is counted and left out."""
    packets = datagrams.packets
    header = headers(packets.data, packets.at, _TCP)
    offset_flags = header["offset_flags"].astype(np.int64)
    header_bytes = offset_flags >> 12 << 2
    captured = packets.at + _LEAST_CAPTURED <= packets.end
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
    options = read_options(packets.data, packets.at + 20, length, odd=syn | cut)
    marks |= np.where(options.has_timestamps, np.uint16(Mark.HAS_TIMESTAMPS), np.uint16(0))
    marks |= np.where(options.mptcp, np.uint16(Mark.MPTCP), np.uint16(0))
    columns: dict[str, Array] = {
        "seq": header["seq"],
        "ack": header["ack"],
        "payload_bytes": np.maximum(packets.stop - payload_at, 0),
        "flags": (offset_flags & 0x1FF).astype(np.uint16),
        "window": header["window"].astype(np.uint16),
        "ip_id": (
            datagrams.identification if datagrams.version == 4 else 0 * datagrams.identification
        ).astype(np.uint16),
        "tsval": options.tsval,
        "tsecr": options.tsecr,
        "sack_blocks": options.sack_blocks,
        "marks": marks,
    }
    return Segments(
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
        ((payload_at > packets.end) & (payload_at <= packets.stop), Mark.HEADER_CUT),
        ((packets.end < packets.stop) & (payload_at < packets.stop), Mark.PAYLOAD_CUT),
        (payload_at > packets.stop, Mark.BAD_LENGTH),
        (datagrams.more_fragments, Mark.FRAGMENT),
        (urgent, Mark.URGENT),
    ):
        marks |= mask.astype(np.uint16) * np.uint16(mark)
    return marks
