"""`struct tcp_info`: one layout for every kernel, because fields were only ever added at the end.

The oldest kernels return 104 bytes, 6.18 returns 280. Any length decodes, and a field that is not wholly
there is absent. Source: linux/tcp.h (include/uapi).
"""

from __future__ import annotations

import functools
import struct
import sys
from typing import TYPE_CHECKING, Literal

import numpy as np

from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.tables import Document, Numbers

ByteOrder = Literal["little", "big"]

_FIELDS = (
    "B state ca_state retransmits probes backoff options wscale flags",
    "I rto ato snd_mss rcv_mss unacked sacked lost retrans fackets last_data_sent last_ack_sent",
    "I last_data_recv last_ack_recv pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd advmss reordering",
    "I rcv_rtt rcv_space total_retrans",
    "Q pacing_rate max_pacing_rate bytes_acked bytes_received",
    "I segs_out segs_in notsent_bytes min_rtt data_segs_in data_segs_out",
    "Q delivery_rate busy_time rwnd_limited sndbuf_limited",
    "I delivered delivered_ce",
    "Q bytes_sent bytes_retrans",
    "I dsack_dups reord_seen rcv_ooopack snd_wnd rcv_wnd rehash",
    "H total_rto total_rto_recoveries",
    "I total_rto_time",
    "I received_ce delivered_e1_bytes delivered_e0_bytes delivered_ce_bytes",
    "I received_e1_bytes received_e0_bytes received_ce_bytes accecn",
)
"""Type code (as in `struct`), then field names without `tcpi_`, in order and without gaps."""

LAYOUT = tuple((name, line[0]) for line in _FIELDS for name in line[2:].split())
"""(field, `struct` code) in the order of the struct; `wscale` and `flags` are bit fields."""

TCP_INFO_BYTES = struct.calcsize("=" + "".join(code for _, code in LAYOUT))
"""Length of the longest struct known here; what follows is ignored."""

_PARTS = {"wscale": ("snd_wscale", "rcv_wscale"), "flags": ("app_limited", "fastopen_client_fail")}

INFINITE_SSTHRESH = 0x7FFFFFFF
"""tcpi_snd_ssthresh before the first loss."""

_ORDER = {"little": "<", "big": ">"}


@functools.lru_cache(maxsize=1024)
def _prefix(length: int, byte_order: ByteOrder) -> tuple[struct.Struct, tuple[str, ...]]:
    codes, names = "", []
    for name, code in LAYOUT:
        if struct.calcsize("=" + codes + code) > length:
            break
        codes += code
        names.append(name)
    return struct.Struct(_ORDER[byte_order] + codes), tuple(names)


def decode_tcp_info(blob: bytes, *, byte_order: ByteOrder = sys.byteorder) -> dict[str, int]:
    """Return the fields that `blob` holds, by the kernel's names without `tcpi_`, in the kernel's units.

    The bit fields `wscale` and `flags` appear as `snd_wscale`, `rcv_wscale`, `app_limited` and
    `fastopen_client_fail`. Bytes after the known struct are ignored.
    """
    packed, names = _prefix(min(len(blob), TCP_INFO_BYTES), byte_order)
    fields = dict(zip(names, packed.unpack_from(blob), strict=True))
    _split(fields, byte_order)
    return fields


def _split(fields: Document, byte_order: ByteOrder) -> None:
    """Replace the two bit fields by their parts; a little-endian machine has the first part lowest."""
    little = byte_order == "little"
    if "wscale" in fields:
        both = fields.pop("wscale")
        low, high = both & 0xF, both >> 4
        fields["snd_wscale"], fields["rcv_wscale"] = (low, high) if little else (high, low)
    if "flags" in fields:
        flags = fields.pop("flags")
        fields["app_limited"] = flags & 1 if little else flags >> 7
        fields["fastopen_client_fail"] = flags >> 1 & 3 if little else flags >> 5 & 3


def tcp_info_columns(blobs: Sequence[bytes], *, byte_order: ByteOrder = "little") -> dict[str, Numbers]:
    """Return the fields of many structs at once.

    Returns
    -------
    dict of str to ndarray of int64, each of shape (n_blobs,)
        The names are those of `decode_tcp_info`. A field that a struct is too short for, and a rate that is
        unlimited (all bits set), is NA.
    """
    padded = b"".join(blob[:TCP_INFO_BYTES].ljust(TCP_INFO_BYTES, b"\0") for blob in blobs)
    rows = np.frombuffer(padded, dtype=np.uint8).reshape(-1, TCP_INFO_BYTES)
    lengths = np.fromiter(map(len, blobs), dtype=np.int64, count=len(blobs))
    columns: Document = {}
    end = 0
    for name, code in LAYOUT:
        dtype = np.dtype(_ORDER[byte_order] + code)
        begin, end = end, end + dtype.itemsize
        values = np.ascontiguousarray(rows[:, begin:end]).view(dtype).reshape(-1).astype(np.int64)
        columns[name] = np.where(lengths >= end, np.maximum(values, NA), NA)
    gone = {part: columns[whole] == NA for whole, parts in _PARTS.items() for part in parts}
    _split(columns, byte_order)
    return columns | {part: np.where(gone[part], NA, columns[part]) for part in gone}
