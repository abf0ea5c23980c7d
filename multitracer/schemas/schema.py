"""Columns with their units, schemas of tables, and the schemas of a capture; without NumPy.

Column names contain their unit. Time is int64 nanoseconds since 1970 UTC. A missing value is the `NA` of its column:
`NOT_A_TIME` in int64 columns whose unit is ns, `-1` in signed integer columns marked `na`, NaN in floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from multitracer.units import NOT_A_TIME as NOT_A_TIME  # of every time column  # noqa: PLC0414

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, Any]
"""One row of a table as Python values by column name; None where a value is missing."""
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
"""Any JSON value."""
Document = dict[str, Any]
"""A JSON object: content of a log, manifest or page, or the provenance of a table."""

NA = -1
"""The missing value in signed integer columns that are marked `na`."""


class Column(NamedTuple):
    """One column of a schema: name, NumPy dtype, unit, meaning, and whether values may be missing."""

    name: str
    dtype: str
    doc: str
    unit: str = ""
    na: bool = False

    @property
    def is_time(self) -> bool:
        """Whether the values are times (not durations)."""
        return self.unit == "ns since 1970"


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema: the name and the columns of a kind of table."""

    name: str
    columns: tuple[Column, ...]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(column.name for column in self.columns)

    def extended(self, name: str, *columns: Column) -> Schema:
        """Return a schema with the columns of this one, followed by `columns`."""
        return Schema(name, self.columns + columns)


_TIME = Column("time_ns", "int64", "when the capture point saw it", "ns since 1970")

SEGMENTS = Schema(
    "segments",
    (
        _TIME,
        Column("frame", "uint32", "packet number in its file, from 1 (as Wireshark counts)"),
        Column("file", "uint16", "index into Capture.files"),
        Column("flow", "int32", "2 x row in flows, + 1 if sent by the flow's endpoint b"),
        Column("seq", "uint32", "sequence number as on the wire"),
        Column("ack", "uint32", "acknowledgment number as on the wire"),
        Column("payload_bytes", "int32", "TCP payload, by the IP length where there is one", "bytes"),
        Column("flags", "uint16", "TCP flags, NS (0x100) to FIN (0x001)"),
        Column("window", "uint16", "window field, not scaled"),
        Column("ip_id", "uint16", "IPv4 identification; 0 for IPv6"),
        Column("tsval", "uint32", "timestamps option; valid where marks has HAS_TIMESTAMPS"),
        Column("tsecr", "uint32", "timestamps option; valid where marks has HAS_TIMESTAMPS"),
        Column("sack_blocks", "uint8", "number of SACK blocks; the blocks are in sack_blocks"),
        Column("marks", "uint16", "bits of Mark: what is special about how it was captured"),
    ),
)
"""A TCP segment at a capture point, in capture order, without derived values."""

FLOWS = Schema(
    "flows",
    (
        Column("ip_version", "uint8", "4 or 6"),
        Column("address_a", "V16", "address of the endpoint seen sending first; IPv4 in the first 4 bytes"),
        Column("address_b", "V16", "address of the other endpoint"),
        Column("port_a", "uint16", "TCP port of a"),
        Column("port_b", "uint16", "TCP port of b"),
        Column("vlan", "int64", "VLAN ids, outermost first, 12 bits each, + 1 << 12 n; -1 untagged", na=True),
    ),
)
"""An unordered pair of TCP endpoints within one VLAN; one pair may have several consecutive connections."""

SACK_BLOCKS = Schema(
    "sack_blocks",
    (
        Column("row", "int64", "row in segments"),
        Column("left", "uint32", "first byte of the block (RFC 2018)"),
        Column("right", "uint32", "byte after the block"),
    ),
)
"""SACK blocks in the order of the option; so a D-SACK is the first block of its row (RFC 2883)."""

SYN_OPTIONS = Schema(
    "syn_options",
    (
        Column("row", "int64", "row in segments"),
        Column("mss_bytes", "int32", "maximum segment size option", "bytes", na=True),
        Column("window_scale", "int16", "window scale shift as sent", na=True),
        Column("sack_permitted", "bool", "SACK-permitted option seen"),
        Column("mptcp", "bool", "any MPTCP option seen"),
        Column("fast_open", "bool", "TCP Fast Open option (34 or 254/0xF989) seen"),
    ),
)
"""Options that only SYN segments have."""
