"""From packet records to the tables of a capture, one block at a time.

Later fragments of an IP datagram are credited to the segment that its first fragment began, which keeps place and time.
Its payload is what the fragments carry without a gap from the start on (RFC 791, 3.2; RFC 8200, 4.5). Fragments are
few, so they are taken one by one; the number of datagrams that are open at a time is bounded.

Copies of packets that were captured more than once are left out in the end (`duplicates.py`), and flows in several
VLANs are joined. A switch that mirrors a port often tags one direction and not the other: two flows between the same
endpoints, each seen one way only and in opposite directions, are then one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.capture import CaptureTables
from multitracer.captured import GSMTAP, WTCP_SYN, CaptureMark, IpProtocol, SourceFile
from multitracer.native import kernel
from multitracer.tables import NOT_A_TIME, SACK_BLOCKS, SEGMENTS, SYN_OPTIONS
from parsers._forced import FORCED
from parsers._packets.chain import ip_packets, link
from parsers._packets.columns import GrowingTable
from parsers._packets.flows import FlowTable
from parsers._packets.ip import in_capture_order, ipv4, ipv6
from parsers._packets.layers import PAD_BYTES, UNTAGGED, LayerPackets, PacketCounts, PacketRecords, rows, u16
from parsers._packets.opening import opened
from parsers._packets.parts import in_order, numbered, of_kernel, of_segments
from parsers._packets.repeats import RepeatCounter
from parsers._packets.steps import STEPS
from parsers._packets.tcp import segments
from parsers._packets.tunnels_seen import note_tunnels, tunnels_are_closed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from multitracer.captured import SourceFile
    from multitracer.tables import Array, Mask, Numbers, Table
    from parsers._packets.ip import Datagrams
    from parsers._packets.parts import BlockSegments

    Flow = NDArray[np.int32]


# Where the segments were seen, as soon as packets seem to be captured more than once.


_ALWAYS = 1 << 11
"""Number of segments at the begin of a capture whose points are noted in any case: a pipe gives few packets at a time,
and the first copies may be in another block. It takes 0.1 ms."""


class Sights:
    """Notes where each segment was seen: of all that come after the first copies, at least."""

    def __init__(self) -> None:
        self._repeats = RepeatCounter()
        self._seen: list[tuple[int, Numbers | None]] = []
        """Of the segments that are in the tables, by block: their number, and where they were seen; None if unknown."""
        self._segments = 0
        self._keeps_duplicates = bool(FORCED) and FORCED[-1].get("keep_duplicates") is True
        self.has_repeats = False
        """Whether there were many repeats after any block so far; False if copies are to be kept."""

    def note(self, columns: Mapping[str, Array], records: PacketRecords, record: Numbers) -> None:
        """Take the next segments: their columns, and the indexes of their records in a block."""
        self._repeats.note(columns)
        self._segments += len(record)
        self.has_repeats = self.has_repeats or (self._repeats.are_many and not self._keeps_duplicates)
        if self.has_repeats or self._segments <= _ALWAYS:
            from parsers._packets.places import sights  # noqa: PLC0415  # most captures need it not

            self._seen.append((len(record), sights(records, record)))
        else:
            self._seen.append((len(record), None))

    def _all_seen(self) -> Numbers:
        """Return where each segment in the tables was seen; 0 if unknown."""
        parts = [np.zeros(size, np.int64) if seen is None else seen for size, seen in self._seen]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def without_duplicates(self, capture: CaptureTables) -> CaptureTables:
        """Return a complete capture without the copies of packets."""
        if self._keeps_duplicates or not self._repeats.are_many:
            return capture
        from parsers._packets.duplicates import without_duplicates  # noqa: PLC0415  # as above

        return without_duplicates(capture, self._all_seen())

    def next_without_duplicates(
        self, chunk: CaptureTables, *, is_last: bool
    ) -> tuple[CaptureTables, CaptureTables | None]:
        """Return the next segments of a stream without copies of packets, and those whose copies may still come.

        Flows are not joined. At most half of the segments are held back, so that memory is bounded: those after
        the longest time without a segment, where no copies lie on both sides.
        """
        if not self.has_repeats:
            self._seen.clear()
            return chunk, None
        from parsers._packets.duplicates import without_duplicates  # noqa: PLC0415  # as above

        seen, time_ns, later = self._all_seen(), chunk.segments["time_ns"], None
        self._seen.clear()
        if not is_last and len(time_ns) > 1:
            middle = len(time_ns) // 2
            is_late = np.arange(len(time_ns)) > middle + int(np.argmax(np.diff(time_ns[middle - 1 :]))) - 1
            later, chunk = chunk.where(is_late), chunk.where(~is_late)
            self._seen.append((int(np.count_nonzero(is_late)), seen[is_late]))
            seen = seen[~is_late]
        return without_duplicates(chunk, seen, joins=False), later


# Decoding of a block by the native kernel: plain segments; all other records are left to Python.


class DecodedBlock(NamedTuple):
    """The result of the native kernel for one block."""

    parts: list[BlockSegments]
    rest: Numbers
    """Indexes of the records that are left to Python, ascending."""
    segments: dict[int, int]
    """Number of segments by IP version."""
    udp: int = 0
    """Number of UDP datagrams, which are only counted."""


def decoded(records: PacketRecords) -> DecodedBlock | None:
    """Return the segments that the native kernel decodes in a block, and the indexes of the other records.

    None without a kernel, or if the kernel can decode no record of the block.
    """
    native = kernel()
    if native is None or not len(records):
        return None
    answer = native.decode(records.data, *record_columns(records))
    rest = np.concatenate([part["rest"] for part in answer])
    if len(rest) == len(records):
        return None
    ipv4, udp = (sum(part[what] for part in answer) for what in ("in_ipv4", "udp"))
    segments = {4: ipv4, 6: len(records) - len(rest) - udp - ipv4}
    return DecodedBlock([of_kernel(part) for part in answer], rest, segments, udp)


def record_columns(records: PacketRecords) -> list[Numbers]:
    """Return start, captured and original length, and link type of records, as the kernel takes them."""
    columns = (records.start, records.captured, records.original, np.atleast_1d(records.link_type))
    return [np.ascontiguousarray(column, np.int64) for column in columns]


_MOST_OPEN = 4096
_MOST_CHUNKS = 64

Key = tuple[int, ...]


@dataclass(slots=True)
class _Open:
    """A fragmented datagram of which fragments are still missing."""

    first: int | None = None
    """Number of the packet that brought the first fragment."""
    first_end: int = 0
    """Number of bytes in the first fragment."""
    total: int | None = None
    """Length of the datagram, by its last fragment; None before it arrives."""
    later: Counter[int] = field(default_factory=Counter)
    """Fragments other than the first, by the file that they are in."""
    chunks: list[tuple[int, int]] = field(default_factory=list)
    """Begin and end of the fragments other than the first."""

    def reach(self) -> int:
        """Return the number of bytes that are present from the start of the datagram without a gap."""
        end = self.first_end
        for begin, chunk_end in sorted(self.chunks):
            if begin > end:
                break
            end = max(end, chunk_end)
        return end


class Fragments:
    """The fragmented datagrams of a capture; their number is limited."""

    def __init__(self) -> None:
        self._open: dict[Key, _Open] = {}
        self.extra_bytes: dict[int, int] = {}
        """Payload bytes of later fragments, by the number of the packet with the first fragment."""
        self.without_first: Counter[int] = Counter()
        """Fragments without a first fragment (never seen or discarded), by file."""

    def add(self, datagrams: Datagrams, records_before: int, file: int) -> None:
        """Add fragments of a file, in capture order; `records_before` makes record numbers unique."""
        for key, record, begin, end, more in _rows(datagrams):
            datagram = self._open.setdefault(key, _Open())
            if begin == 0:
                if datagram.first is not None:  # the identification is used again
                    self._close(key)
                    datagram = self._open.setdefault(key, _Open())
                datagram.first, datagram.first_end = record + records_before, end
            else:
                datagram.later[file] += 1
                if len(datagram.chunks) < _MOST_CHUNKS:
                    datagram.chunks.append((begin, end))
            if not more:
                datagram.total = end
            if datagram.first is not None and datagram.reach() == datagram.total:
                self._close(key)
            elif len(self._open) > _MOST_OPEN:
                self._close(next(iter(self._open)))

    def _close(self, key: Key) -> None:
        datagram = self._open.pop(key)
        if datagram.first is None:
            self.without_first += datagram.later
        elif datagram.chunks:
            self.extra_bytes[datagram.first] = datagram.reach() - datagram.first_end

    def finish(self) -> None:
        """Process the end of the capture: missing fragments will not come."""
        for key in list(self._open):
            self._close(key)


def _rows(datagrams: Datagrams) -> Iterator[tuple[Key, int, int, int, bool]]:
    """Yield a tuple for each fragment.

    Its elements are the key of the datagram, the record number, begin and end in the datagram, and
    whether more fragments follow.
    """
    packets = datagrams.packets
    offset = datagrams.fragment_offset
    columns = (
        *datagrams.source,
        *datagrams.destination,
        datagrams.identification,
        datagrams.protocol,
        packets.vlan,
        packets.record,
        offset,
        offset + packets.stop - packets.at,
        datagrams.more_fragments,
    )
    for *key, record, begin, end, more in zip(*(c.tolist() for c in columns), strict=True):
        yield (datagrams.version, *key), record, begin, end, more


_ENDPOINT_BYTES = 19


def joined_across_vlans(flows: Table, directed: Flow) -> tuple[Table, Flow]:
    """Join flows that are the two directions of one connection with different VLAN tags.

    Return the remaining flows, and for each segment its directed flow in the new numbering. Two flows are
    joined if they have the same endpoints, and each has segments of one direction only.

    Parameters
    ----------
    flows : Table
        In order of first sight.
    directed : ndarray of int32, shape (n_segments,)
        2 x row in `flows`, + 1 if sent by endpoint b.
    """
    if (flows["vlan"] == UNTAGGED).all():
        return flows, directed
    sent = np.bincount(directed, minlength=2 * len(flows)).reshape(-1, 2)
    first, second = _opposite_pairs(flows, np.flatnonzero(sent[:, 1] == 0))
    if not len(first):
        return flows, directed
    kept = np.ones(len(flows), np.bool_)
    kept[second] = False
    row = np.cumsum(kept) - 1
    renumbered = np.stack([2 * row, 2 * row + 1], axis=1)
    renumbered[second, 0] = 2 * row[first] + 1  # the second is what the first's endpoint b sent
    return flows.take(kept), renumbered.ravel().astype(np.int32)[directed]


def _opposite_pairs(flows: Table, one_way: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rows of two flows for each pair that is joined: the first flows, and the second flows.

    A pair are the only two flows between the same endpoints, in opposite directions. `one_way` are
    the rows of the flows with packets in one direction only.
    """
    a, b = (_endpoints_that_sort(flows, side)[one_way] for side in "ab")
    swapped: Mask = a > b
    low, high = np.where(swapped, b, a), np.where(swapped, a, b)
    order = np.lexsort((one_way, high, low))
    low, high = low[order], high[order]
    same = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
    group = np.concatenate([[0], np.cumsum(~same)]) if len(order) else order
    alone = np.bincount(group)[group] == 2
    pair = np.flatnonzero(same & alone[1:])
    opposite = swapped[order[pair]] != swapped[order[pair + 1]]
    return one_way[order[pair[opposite]]], one_way[order[pair[opposite] + 1]]


def _endpoints_that_sort(flows: Table, side: str) -> NDArray[np.bytes_]:
    """Return IP version, port and address of the endpoint a or b (`side`) of each flow, as sortable bytes.

    Returns
    -------
    ndarray of bytes (S19), shape (n_flows,)
    """
    joined = np.empty((len(flows), _ENDPOINT_BYTES), np.uint8)
    joined[:, 0] = flows["ip_version"]
    joined[:, 1:3] = flows[f"port_{side}"].astype(">u2").view(np.uint8).reshape(-1, 2)
    joined[:, 3:] = np.ascontiguousarray(flows[f"address_{side}"]).view(np.uint8).reshape(-1, 16)
    return joined.view(f"S{_ENDPOINT_BYTES}")[:, 0]


_TCP = IpProtocol.TCP.value
_MOST_TUNNELS = 4
_PROBED_RECORDS, _PROBED_SEGMENTS = 4000, 1000
_MOST_UNCLEAR = 20_000
"""Maximum number of packets that are examined for TCP lengths."""
_FEWEST_SEGMENTS = 10
"""Minimum segments to recognise that all lengths of a file are overwritten."""
_NEARLY_ALL = 0.9
_NAMES = {each.value: each.name.lower() for each in IpProtocol}


OVERWRITTEN = "original lengths overwritten"
"""End of the variant's name for such a file; Python decodes all of it."""
GSMTAP_LINKTYPES = frozenset({217, 218})
"""Packets that begin with the GSMTAP header: LINKTYPE_GSMTAP_UM and _ABIS (IANA link types)."""
_GSMTAP_PORT = 4729  # IANA: gsmtap, 4729/udp
_SYN_OCTETS = np.frombuffer(bytes([0x11, 0]) + bytes(8), "V10")  # docs/wtcp.md: SYN, no flags, no identity
_SYN_UDP_BYTES = 30  # docs/wtcp.md: 22 octets behind UDP's header of 8
_UDP = IpProtocol.UDP.value


class Decoder:
    """Decodes the packets of the files of one capture point, and collects the segments."""

    def __init__(self) -> None:
        self.files: list[SourceFile] = []
        self._flows = FlowTable()
        self._empty_tables()
        self._fragments = Fragments()
        self._sights = Sights()
        self._records = 0
        self._overwritten: tuple[SourceFile, bool] | None = None
        """The last examined file, and whether the original lengths in it were overwritten; None at the start."""

    def _empty_tables(self) -> None:
        self._segments = GrowingTable(SEGMENTS)
        self._sack_blocks = GrowingTable(SACK_BLOCKS)
        self._syn_options = GrowingTable(SYN_OPTIONS)

    def add(self, records: PacketRecords, source: SourceFile, *, share: float | None = None) -> None:
        """Decode one block of `source`, the last of `files`, and update the counts in it.

        `share` is the fraction of the file that has been read, 0 to 1; None if unknown.
        """
        ledger = PacketCounts(source.protocols, source.not_decoded)
        overwritten = self._is_overwritten(records, source)
        native = None if overwritten else self._by_kernel(records, source)
        rest = by_link_type(records, None if native is None else native.rest)
        _count_links(records, source)
        if overwritten:
            _mark_overwritten(packets for _, packets in rest)
        datagrams = self._datagrams(rest, ledger)
        ledger.count_protocol(_NAMES[_UDP], 0 if native is None else native.udp)
        parts = [] if native is None else list(native.parts)
        for version in (4, 6):
            same = [d for d in datagrams if d.version == version and len(d)]
            parts += self._segments_of(same, ledger, 0 if native is None else native.segments[version])
        if ledger.tunnels:
            note_tunnels(source, ledger.tunnels, np.concatenate([[], *(part.record for part in parts)]))
        self._append([p for p in parts if len(p.record)], records, source.packets + 1, share)
        source.packets += len(records)
        self._records += len(records)

    def _by_kernel(self, records: PacketRecords, source: SourceFile) -> DecodedBlock | None:
        """Return the result of the native kernel for a block; None if the kernel cannot decode the block."""
        del source
        return decoded(records)

    def _datagrams(self, frames: list[tuple[int, LayerPackets]], ledger: PacketCounts) -> list[Datagrams]:
        """Return the IP datagrams in frames; from a tunnel, the datagrams inside it.

        `frames` are pairs of a link type and its packets.
        """
        pending = []
        for link_type, packets in frames:
            pending += ip_packets(packets, link(link_type), STEPS, ledger)
        complete: list[Datagrams] = []
        for level in range(_MOST_TUNNELS + 1):
            datagrams = [(ipv4 if v == 4 else ipv6)(packets, ledger) for packets, v in pending]
            datagrams = [self._without_fragments(d, ledger) for d in datagrams]
            if level == _MOST_TUNNELS:
                return complete + datagrams
            if tunnels_are_closed():
                return datagrams
            pending = []
            for outer in datagrams:
                plain, inner = opened(outer, ledger)
                complete.append(plain)
                pending += inner
            if not pending:
                break
        return complete

    def _is_overwritten(self, records: PacketRecords, source: SourceFile) -> bool:
        """Return whether a file's field for the original length has the captured length instead.

        This is decided by its first TCP packets: more than half are longer by their IP header than by this field.
        """
        if self._overwritten is None or self._overwritten[0] is not source:
            share = _share_cut(records.first(_PROBED_RECORDS))
            if share is None and source.packets < _MOST_UNCLEAR:
                return False
            self._overwritten = source, (share or 0) > 0.5
            if self._overwritten[1]:
                source.variant = ", ".join(filter(None, (source.variant, OVERWRITTEN)))
        return self._overwritten[1]

    def _without_fragments(self, datagrams: Datagrams, ledger: PacketCounts) -> Datagrams:
        """Count later fragments of datagrams, store them, and return the datagrams without them."""
        later = datagrams.fragment_offset > 0
        fragment = later | datagrams.more_fragments
        if not fragment.any():
            return datagrams
        self._fragments.add(datagrams.keep(fragment), self._records, len(self.files) - 1)
        ledger.count_protocol("ip fragment", int(np.count_nonzero(later)))
        return datagrams.keep(~later)

    def _segments_of(self, parts: list[Datagrams], ledger: PacketCounts, native: int) -> list[BlockSegments]:
        """Return the segments in datagrams of one IP version.

        `native` is the number of segments of this version that the native kernel has decoded in the
        block.
        """
        if not parts:
            ledger.count_protocol("tcp", native)
            return []
        datagrams = in_capture_order(parts)
        is_tcp = datagrams.protocol == _TCP
        is_gsmtap, is_syn = _is_gsmtap(datagrams), _is_wtcp_syn(datagrams)
        ledger.count_protocol(GSMTAP, int(np.count_nonzero(is_gsmtap)))
        ledger.count_protocol(WTCP_SYN, int(np.count_nonzero(is_syn)))
        ledger.count_each(datagrams.protocol[~(is_tcp | is_gsmtap | is_syn)], _NAMES, "ip protocol {}")
        tcp = segments(datagrams.keep(is_tcp), ledger)
        ledger.count_protocol("tcp", len(tcp.datagrams) + native)
        return [of_segments(tcp)]

    def _append(
        self, parts: list[BlockSegments], records: PacketRecords, first_frame: int, share: float | None
    ) -> None:
        """Append the segments of one block to the tables, in capture order."""
        numbered(parts, self._flows, records_before=self._records)
        for part in in_order(parts):
            before = len(self._segments)
            for table, columns in ((self._sack_blocks, part.sack_blocks), (self._syn_options, part.syn_options)):
                table.append({**columns, "row": columns["row"] + before}, share=share)
            columns = {
                "time_ns": records.time_ns[part.record],
                "frame": part.record + first_frame,
                "file": np.full(len(part.record), len(self.files) - 1, np.uint16),
                **part.columns,
            }
            self._segments.append(columns, share=share)
            self._sights.note(columns, records, part.record)

    def _credit_fragments(self, table: Table) -> None:
        """Add the payload bytes of later fragments to the segments that their first fragments began."""
        if not self._fragments.extra_bytes:
            return
        first_record = np.cumsum([0, *(f.packets for f in self.files)])
        record = first_record[table["file"]] + table["frame"].astype(np.int64) - 1
        wanted = np.array(sorted(self._fragments.extra_bytes), np.int64)
        row = np.searchsorted(record, wanted)
        row, wanted = row[row < len(record)], wanted[row < len(record)]
        there = record[row] == wanted  # what the first fragment began may not be TCP
        extra = [self._fragments.extra_bytes[w] for w in wanted[there].tolist()]
        table["payload_bytes"][row[there]] += np.array(extra, np.int32)

    def finish_fragments(self) -> None:
        """Process the end of the capture: count fragments whose first fragment is missing."""
        self._fragments.finish()
        for file, count in self._fragments.without_first.items():
            ledger = PacketCounts(self.files[file].protocols, self.files[file].not_decoded)
            ledger.moved("ip fragment", "IP fragment without its first", count)

    def keep_times(self, first_ns: int, last_ns: int) -> None:
        """In the last file, set times before `first_ns` or after `last_ns` to NOT_A_TIME."""
        begin = int(np.searchsorted(self._segments.values("file"), len(self.files) - 1))
        time_ns = self._segments.values("time_ns")[begin:]
        time_ns[(time_ns < first_ns) | (time_ns > last_ns)] = NOT_A_TIME

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def may_hold_duplicates(self) -> bool:
        """Whether packets seem to be captured more than once."""
        return self._sights.has_repeats

    def take(self, *, is_last: bool = False) -> CaptureTables:
        """Return the segments decoded since the last call of this method, and remove them from the decoder.

        Flows keep their numbers. Steps that need all packets are left out: flows are not joined, and a late
        fragment does not change a segment that was already returned. Segments whose copies may still come are
        kept for the next call, unless this is the last one (`is_last`).
        """
        segments_table = self._segments.finish()
        self._credit_fragments(segments_table)
        self._fragments.extra_bytes.clear()
        sides = self._sack_blocks.finish(), self._syn_options.finish()
        self._empty_tables()
        tables = CaptureTables(self.files, segments_table, self._flows.table(), *sides)
        tables, later = self._sights.next_without_duplicates(tables, is_last=is_last)
        if later is not None:
            self._segments.append(later.segments.columns)
            self._sack_blocks.append(later.sack_blocks.columns)
            self._syn_options.append(later.syn_options.columns)
        return tables

    def keep_flows(self, kept: Numbers) -> tuple[Table, Numbers]:
        """Remove all flows except `kept` (int64, ascending) and those of segments that `take` did not return.

        Return the table of the remaining flows, and the new number of each of `kept`.
        """
        directed = self._segments.values("flow")  # of segments whose copies may still come
        needed = np.union1d(kept, directed >> 1)
        self._flows, number = self._flows.without_others(needed)
        directed[:] = number[np.searchsorted(needed, directed >> 1)] << 1 | directed & 1
        return self._flows.table(), number[np.searchsorted(needed, kept)].astype(np.int64)

    def flows_in_order(self) -> tuple[Table, Numbers]:
        """Return the flows in order of their first packets, and the row in this table of each flow number."""
        flows, renumbered = self._flows.finish()
        return flows, np.arange(len(flows)) if renumbered is None else renumbered.astype(np.int64)

    def finish(self) -> CaptureTables:
        """Return the decoded capture; the decoder must not be used afterwards."""
        self.finish_fragments()
        segments_table = self._segments.finish()
        self._credit_fragments(segments_table)
        flows, renumbered = self._flows.finish()
        if renumbered is not None:
            flow = segments_table["flow"]
            segments_table.columns["flow"] = renumbered[flow >> 1] << 1 | flow & 1
        sides = self._sack_blocks.finish(), self._syn_options.finish()
        tables = self._sights.without_duplicates(CaptureTables(self.files, segments_table, flows, *sides))
        directed = tables.segments.columns["flow"]
        tables.flows, tables.segments.columns["flow"] = joined_across_vlans(tables.flows, directed)
        return tables


def _is_gsmtap(datagrams: Datagrams) -> Mask:
    """Return a mask of the datagrams that go to the UDP port of GSMTAP.

    It is False where the ports were not captured.
    """
    packets = datagrams.packets
    mask: Mask = (datagrams.protocol == _UDP) & (packets.end - packets.at >= 4)
    if mask.any():
        mask[mask] = u16(packets.data, packets.at[mask] + 2) == _GSMTAP_PORT
    return np.asarray(mask)


def _is_wtcp_syn(datagrams: Datagrams) -> Mask:
    """Return a mask of the datagrams that are a SYN of WTCP, by their length and ten fixed octets."""
    packets = datagrams.packets
    mask: Mask = (datagrams.protocol == _UDP) & (packets.end - packets.at >= 18)
    if mask.any():
        mask[mask] = u16(packets.data, packets.at[mask] + 4) == _SYN_UDP_BYTES
    if mask.any():
        mask[mask] = rows(packets.data, packets.at[mask] + 8, 10) == _SYN_OCTETS
    return np.asarray(mask)


def _share_cut(records: PacketRecords) -> float | None:
    """Return the fraction of TCP packets whose IP length is above captured and original length.

    None if unknown.

    Such a packet was cut, although its record says that it is complete.
    """
    if len(records) < _FEWEST_SEGMENTS:
        return None
    cut, lengths, ledger = [np.empty(0, np.bool_)], [np.empty(0, np.int64)], PacketCounts({}, {})
    for link_type, packets in by_link_type(records):
        for part, version in ip_packets(packets, link(link_type), STEPS, ledger):
            headers = (ipv4 if version == 4 else ipv6)(part, ledger)
            of_tcp = headers.packets.pick(headers.protocol == _TCP)
            lengths.append(records.captured[of_tcp.record])
            complete = lengths[-1] == records.original[of_tcp.record]
            cut.append(complete & (of_tcp.marks & CaptureMark.BAD_LENGTH != 0))
    segments = np.concatenate(cut)[:_PROBED_SEGMENTS]
    if len(segments) < _FEWEST_SEGMENTS:
        return None
    return _share(segments, np.concatenate(lengths)[:_PROBED_SEGMENTS])


def _share(cut: Mask, captured: Numbers) -> float:
    """Return the fraction of cut packets.

    It is 1 if nearly all packets that are longer than the shortest cut packet are cut.
    """
    if np.count_nonzero(cut) >= _FEWEST_SEGMENTS:
        longer = cut[cut | (captured > captured[cut].min())]
        if longer.mean() > _NEARLY_ALL:
            return 1.0
    return float(cut.mean())


def _mark_overwritten(frames: Iterable[LayerPackets]) -> None:
    """Mark the packets whose captured and original length are equal, because they may be cut nevertheless."""
    for packets in frames:
        cut = packets.end == packets.stop
        packets.marks |= np.where(cut, np.uint16(CaptureMark.LENGTH_OVERWRITTEN), np.uint16(0))


def _count_links(records: PacketRecords, source: SourceFile) -> None:
    """Count the packets of a block by link type in the facts of its file."""
    link_type = np.atleast_1d(records.link_type)
    if (link_type == link_type[0]).all():
        counts = {int(link_type[0]): len(records)}
    else:
        counts = dict(zip(*(part.tolist() for part in np.unique(link_type, return_counts=True)), strict=True))
    for kind, count in counts.items():
        source.link_types[kind] = source.link_types.get(kind, 0) + count


def by_link_type(records: PacketRecords, chosen: Numbers | None = None) -> list[tuple[int, LayerPackets]]:
    """Return the packets of a block in groups, each with its link type; `at` is where the frame begins.

    `chosen` are the indexes of the records to use: int64, ascending; None means all.
    """
    record = np.arange(len(records)) if chosen is None else chosen
    of = slice(None) if chosen is None else chosen
    start, captured = records.start[of], records.captured[of]
    packets = LayerPackets(
        records.data,
        record,
        start,
        start + captured,
        start + np.maximum(records.original[of], captured),
        np.full(len(record), UNTAGGED, np.int64),
        np.zeros(len(record), np.uint16),
    )
    if not len(record):
        return []
    link_type = np.broadcast_to(records.link_type, len(records))[of]
    if (link_type == link_type[0]).all():
        return [(int(link_type[0]), packets)]
    return [(kind, packets.keep(link_type == kind)) for kind in np.unique(link_type).tolist()]


# Of a file that the native kernel reads by itself: the packets that it does not know.


class RestDecoder(Decoder):
    """Counts the packets that the native kernel did not decode in a file, by protocol."""

    def __init__(self, source: SourceFile) -> None:
        super().__init__()
        self.files.append(source)
        self._segments_by_version = {4: 0, 6: 0}
        """Segments of the block that the kernel decoded, by IP version."""

    def count(
        self, data: bytes, captured: list[int], original: list[int], time_ns: list[int], segments: list[int]
    ) -> None:
        """Count the packets of one block, which lie one after the other in `data`.

        `segments` are the numbers of segments in IPv4 and IPv6 that the kernel has decoded.
        """
        lengths = np.array(captured, np.int64)
        source, self._segments_by_version = self.files[0], dict(zip((4, 6), segments, strict=True))
        records = PacketRecords(
            np.frombuffer(data + bytes(PAD_BYTES), np.uint8),
            np.cumsum(lengths) - lengths,
            lengths,
            np.array(original, np.int64),
            np.array(time_ns, np.int64),
            source.interfaces[0].link_type,
        )
        self.add(records, source)

    def _by_kernel(self, records: PacketRecords, source: SourceFile) -> DecodedBlock:
        del source
        return DecodedBlock([], np.arange(len(records)), self._segments_by_version)

    def _is_overwritten(self, records: PacketRecords, source: SourceFile) -> bool:
        del records, source
        return False  # the kernel saw no length that contradicts another

    def holds_segments(self) -> bool:
        """Return whether some of these packets are TCP segments; call it after the last block."""
        self.finish_fragments()
        return len(self) > 0
