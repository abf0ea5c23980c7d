"""What a packet reader hands over: tables of TCP segments, and the facts of the files they came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import FLOWS, SACK_BLOCKS, SEGMENTS, SYN_OPTIONS, Table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from multitracer.tables import Mask, Numbers, Times


class Flag(IntFlag):
    """TCP flags as in the header (RFC 9293, section 3.1; RFC 3540 for NS)."""

    FIN = 0x01
    SYN = 0x02
    RST = 0x04
    PSH = 0x08
    ACK = 0x10
    URG = 0x20
    ECE = 0x40
    CWR = 0x80
    NS = 0x100

    # A number, not a set: asked six times for each packet, and ten times faster.
    __and__ = __rand__ = int.__and__  # type: ignore[assignment]


class IpProtocol(IntEnum):
    """Protocol numbers of IP (IANA, Assigned Internet Protocol Numbers), of those that are named here."""

    ICMP = 1
    IGMP = 2
    TCP = 6
    UDP = 17
    GRE = 47
    ESP = 50
    ICMPV6 = 58
    OSPF = 89
    SCTP = 132


class OptionKind(IntEnum):
    """Kinds of TCP options (RFC 9293, section 3.1; RFC 7323, 2018, 8684, 7413 and 4727)."""

    END = 0
    NOP = 1
    MSS = 2
    WINDOW_SCALE = 3
    SACK_PERMITTED = 4
    SACK = 5
    TIMESTAMPS = 8
    MPTCP = 30
    FAST_OPEN = 34
    EXPERIMENTAL = 254


class Mark(IntFlag):
    """How a segment was captured, where that limits what can be said of it."""

    HAS_TIMESTAMPS = 0x001
    HEADER_CUT = 0x002
    """The snap length cut the TCP header: options may be missing."""
    PAYLOAD_CUT = 0x004
    """The snap length cut the payload (the usual case with -s 96)."""
    LENGTH_FROM_CAPTURE = 0x008
    """The IP length is 0 (TSO): the payload length comes from the record's original length."""
    FRAGMENT = 0x010
    """First fragment of a fragmented IP packet; payload is what all its fragments carry."""
    TUNNELLED = 0x020
    """Found inside GRE or IP-in-IP."""
    MPTCP = 0x040
    """An MPTCP option is present."""
    BAD_LENGTH = 0x080
    """Header lengths contradict each other; payload is the part that is there."""
    URGENT = 0x100
    """URG is set with a non-zero pointer."""
    LENGTH_OVERWRITTEN = 0x200
    """The file's original lengths were overwritten by the captured ones; the IP length gives the payload."""


@dataclass(slots=True)
class Interface:
    """A capture interface as the file describes it."""

    link_type: int
    snap_length: int | None = None
    name: str | None = None
    description: str | None = None
    filter: str | None = None
    resolution_ns: float = 1000.0
    dropped_packets: int | None = None
    """`isb_ifdrop` + `isb_osdrop` of the interface statistics block, where present."""


@dataclass(slots=True)
class SourceFile:
    """The facts of one input file, whatever was or was not decoded in it."""

    path: str
    format: str
    """As `multitracer formats` names it: pcap, pcapng."""
    compression: str | None = None
    variant: str | None = None
    """Byte order, resolution and dialect, for example "little-endian, ns"."""
    packets: int = 0
    """Whole packet records, decoded or not."""
    bytes: int = 0
    """Decompressed bytes read."""
    link_types: dict[int, int] = field(default_factory=dict)
    """LINKTYPE number -> packets."""
    protocols: dict[str, int] = field(default_factory=dict)
    """What lies in the packets, for example {"tcp": 90, "udp": 8, "arp": 2}."""
    not_decoded: dict[str, int] = field(default_factory=dict)
    """Reason -> packets that could not be taken apart down to the transport."""
    first_ns: int | None = None
    """Smallest packet time."""
    last_ns: int | None = None
    """Largest packet time."""
    time_steps_back: int = 0
    """Packets stamped earlier than the packet before them."""
    largest_step_back_ns: int = 0
    without_time: int = 0
    """Packets with no time stamp, or with one that cannot be."""
    time_faults: dict[str, int] = field(default_factory=dict)
    """Why a stamp cannot be -> packets of those without a time; the others have no stamp."""
    damaged: str | None = None
    """What is wrong, with its offset, if reading stopped early or bytes were lost; None for a whole file."""
    lost_ranges: list[tuple[int, int]] = field(default_factory=list)
    """First byte and end of each part of the (decompressed) file that tells nothing while packets follow."""
    stopped: bool = False
    """Whether reading stopped at the number of packets that was asked for, whether or not more followed."""
    interfaces: list[Interface] = field(default_factory=list)
    comments: list[tuple[int | None, str]] = field(default_factory=list)
    """(packet number or None for the section or interface, text)."""
    hardware: str | None = None
    operating_system: str | None = None
    application: str | None = None
    expansion_ratio: float | None = None
    """Decompressed over compressed size; above 200 warns."""
    warnings: list[str] = field(default_factory=list)

    @property
    def untimed(self) -> str:
        """Why packets carry no time, in words; "" if all do."""
        faults = dict(self.time_faults)
        faults["pcapng's simple packets"] = self.without_time - sum(faults.values())
        return ", ".join(f"{reason}: {n:,}" for reason, n in faults.items() if n > 0)

    def no_time(self, reason: str, packets: int) -> None:
        """Count packets whose stamp cannot be."""
        if packets:
            self.time_faults[reason] = self.time_faults.get(reason, 0) + packets


@dataclass(slots=True)
class Capture:
    """The TCP segments of one or more files of one capture point, with their provenance."""

    files: list[SourceFile]
    segments: Table = field(default_factory=lambda: Table.empty(SEGMENTS))
    flows: Table = field(default_factory=lambda: Table.empty(FLOWS))
    sack_blocks: Table = field(default_factory=lambda: Table.empty(SACK_BLOCKS))
    syn_options: Table = field(default_factory=lambda: Table.empty(SYN_OPTIONS))

    @property
    def first_ns(self) -> int | None:
        """Smallest packet time of all files; None without a packet that carries a time."""
        return min((f.first_ns for f in self.files if f.first_ns is not None), default=None)

    def where(self, chosen: Mask) -> Capture:
        """Return the segments that a mask chooses (bool, shape (n_segments,)), with SACK blocks and options.

        The files, and therefore the index `file`, stay as they are; so do the flows.
        """
        row = np.cumsum(chosen) - 1
        return Capture(
            self.files,
            self.segments.take(chosen),
            self.flows,
            _follow(self.sack_blocks, chosen, row),
            _follow(self.syn_options, chosen, row),
        )

    def between(self, begin_ns: int | None, end_ns: int | None) -> Capture:
        """Return the segments with begin <= time < end; None leaves a side open."""
        time_ns = self.segments["time_ns"]
        chosen = np.ones(len(time_ns), dtype=bool)
        if begin_ns is not None:
            chosen &= time_ns >= begin_ns
        if end_ns is not None:
            chosen &= time_ns < end_ns
        return self if chosen.all() else self.where(chosen)

    def of_files(self, indexes: list[int]) -> Capture:
        """Return what the files at `indexes` hold, as if only they had been read."""
        number = np.full(len(self.files), -1, dtype=np.int64)
        number[indexes] = np.arange(len(indexes))
        renumbered = number[self.segments["file"]]
        part = self.where(renumbered >= 0)
        part.segments.columns["file"] = renumbered[renumbered >= 0].astype(np.uint16)
        part.files = [self.files[i] for i in indexes]
        return part


def of_kernel(time_ns: Times, part: Mapping[str, Any], before: Capture) -> Capture:
    """Return segments of one file that the native kernel decoded, with the files and flows of `before`.

    `part` is a `DecodedPart` whose records are frames.
    """
    columns = {
        "time_ns": time_ns,
        "frame": part["record"].astype(np.uint32),
        "file": np.zeros(len(time_ns), dtype=np.uint16),
        **part["segments"],
    }
    return Capture(
        before.files,
        Table(SEGMENTS, columns),
        before.flows,
        Table(SACK_BLOCKS, part["sack_blocks"]),
        Table(SYN_OPTIONS, part["syn_options"]),
    )


def joined(captures: list[Capture]) -> Capture:
    """Return captures of the same files as one, in this order, with the flows of the last."""
    rows = np.cumsum([0, *(len(capture.segments) for capture in captures)]).tolist()
    sides = {}
    for name, schema in (("sack_blocks", SACK_BLOCKS), ("syn_options", SYN_OPTIONS)):
        tables = [getattr(capture, name) for capture in captures]
        sides[name] = Table.concatenate(schema, tables)
        shifted = [table["row"] + before for table, before in zip(tables, rows, strict=False)]
        sides[name].columns["row"] = np.concatenate(shifted)
    segments = Table.concatenate(SEGMENTS, [capture.segments for capture in captures])
    return Capture(captures[-1].files, segments, captures[-1].flows, **sides)


def _follow(table: Table, chosen: Mask, row: Numbers) -> Table:
    """Return the rows of a side table whose segment was chosen, with the new row of that segment."""
    kept = table.take(chosen[table["row"]])
    kept.columns["row"] = row[kept["row"]]
    return kept
