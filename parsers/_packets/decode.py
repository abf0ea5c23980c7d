"""From packet records to the tables of a capture, one block at a time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from multitracer.capture import Capture
from multitracer.captured import GSMTAP, WTCP_SYN, IpProtocol, Mark, SourceFile
from multitracer.tables import NOT_A_TIME, SACK_BLOCKS, SEGMENTS, SYN_OPTIONS
from parsers._packets.chain import ip_packets, link
from parsers._packets.columns import GrowingTable
from parsers._packets.flows import Flows
from parsers._packets.fragments import Fragments
from parsers._packets.ip import in_capture_order, ipv4, ipv6
from parsers._packets.kernel import decoded
from parsers._packets.layers import UNTAGGED, Ledger, Packets, members, rows, u16
from parsers._packets.one_way import endpoints_that_sort, joined_across_vlans
from parsers._packets.parts import in_order, numbered, of_segments
from parsers._packets.steps import STEPS
from parsers._packets.tcp import segments
from parsers._packets.trunk import joined_on_trunk
from parsers._packets.tunnel import INSIDE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.tables import Mask, Numbers, Table
    from parsers._packets.ip import Datagrams
    from parsers._packets.kernel import Decoded
    from parsers._packets.parts import Part
    from parsers._packets.records import Records

_TCP = IpProtocol.TCP.value
_MOST_TUNNELS = 4
_PROBED_RECORDS, _PROBED_SEGMENTS = 4000, 1000
_MOST_UNCLEAR = 20_000
"""Packets after which no more TCP is waited for."""
_FEWEST_SEGMENTS = 10
"""So many tell a file's rule from an odd packet."""
_NEARLY_ALL = 0.9
_NAMES = {each.value: each.name.lower() for each in IpProtocol}


OVERWRITTEN = "original lengths overwritten"
"""What the variant of such a file ends in: Python decodes all of it."""
GSMTAP_LINKTYPES = frozenset({217, 218})
"""Packets that begin with the GSMTAP header: LINKTYPE_GSMTAP_UM and _ABIS (IANA link types)."""
_GSMTAP_PORT = 4729  # IANA: gsmtap, 4729/udp
_SYN_OCTETS = np.frombuffer(bytes([0x11, 0]) + bytes(8), "V10")  # docs/wtcp.md: SYN, no flags, no identity
_SYN_UDP_BYTES = 30  # docs/wtcp.md: 22 octets behind UDP's header of 8
_UDP = IpProtocol.UDP.value
_IS_TUNNEL = members(INSIDE)


class Decoder:
    """Collects the segments of one or more files of one capture point."""

    def __init__(self) -> None:
        self.files: list[SourceFile] = []
        self._flows = Flows()
        self._empty_tables()
        self._fragments = Fragments()
        self._records = 0
        self._overwritten: tuple[SourceFile, bool] | None = None
        """A file, and whether the original lengths in it were overwritten."""

    def _empty_tables(self) -> None:
        self._segments = GrowingTable(SEGMENTS)
        self._sack_blocks = GrowingTable(SACK_BLOCKS)
        self._syn_options = GrowingTable(SYN_OPTIONS)

    def add(self, records: Records, source: SourceFile, *, share: float | None = None) -> None:
        """Decode one block of `source`, which is `files[-1]`; its facts are brought up to date.

        `share` is how much of the file has been read, from 0 to 1, if that is known.
        """
        ledger = Ledger(source.protocols, source.not_decoded)
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
        self._append([p for p in parts if len(p.record)], records, source.packets + 1, share)
        source.packets += len(records)
        self._records += len(records)

    def _by_kernel(self, records: Records, source: SourceFile) -> Decoded | None:
        """Return what the native kernel decodes of a block."""
        del source
        return decoded(records)

    def _datagrams(self, frames: list[tuple[int, Packets]], ledger: Ledger) -> list[Datagrams]:
        """Return the IP datagrams in frames, by their link type, that carry no further IP packets."""
        pending = []
        for link_type, packets in frames:
            pending += ip_packets(packets, link(link_type), STEPS, ledger)
        whole: list[Datagrams] = []
        for level in range(_MOST_TUNNELS + 1):
            datagrams = [(ipv4 if v == 4 else ipv6)(packets, ledger) for packets, v in pending]
            datagrams = [self._without_fragments(d, ledger) for d in datagrams]
            if level == _MOST_TUNNELS:
                return whole + datagrams
            pending = []
            for outer in datagrams:
                plain, inner = _opened(outer, ledger)
                whole.append(plain)
                pending += inner
            if not pending:
                break
        return whole

    def _is_overwritten(self, records: Records, source: SourceFile) -> bool:
        """Return whether the original lengths of a file were overwritten, as its first TCP packets show."""
        if self._overwritten is None or self._overwritten[0] is not source:
            share = _share_cut(records.first(_PROBED_RECORDS))
            if share is None and source.packets < _MOST_UNCLEAR:
                return False
            self._overwritten = source, (share or 0) > 0.5
            if self._overwritten[1]:
                source.variant = ", ".join(filter(None, (source.variant, OVERWRITTEN)))
        return self._overwritten[1]

    def _without_fragments(self, datagrams: Datagrams, ledger: Ledger) -> Datagrams:
        """Count the bytes of later fragments, and return the datagrams without them."""
        later = datagrams.fragment_offset > 0
        fragment = later | datagrams.more_fragments
        if not fragment.any():
            return datagrams
        self._fragments.add(datagrams.keep(fragment), self._records, len(self.files) - 1)
        ledger.count_protocol("ip fragment", int(np.count_nonzero(later)))
        return datagrams.keep(~later)

    def _segments_of(self, parts: list[Datagrams], ledger: Ledger, native: int) -> list[Part]:
        """Return the segments in datagrams of one IP version; `native` is how many more the kernel read."""
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

    def _append(self, parts: list[Part], records: Records, first_frame: int, share: float | None) -> None:
        """Append the segments of one block in capture order."""
        numbered(parts, self._flows, records_before=self._records)
        for part in in_order(parts):
            before = len(self._segments)
            for table, columns in (
                (self._sack_blocks, part.sack_blocks),
                (self._syn_options, part.syn_options),
            ):
                table.append({**columns, "row": columns["row"] + before}, share=share)
            columns = {
                "time_ns": records.time_ns[part.record],
                "frame": part.record + first_frame,
                "file": np.full(len(part.record), len(self.files) - 1, np.uint16),
                **part.columns,
            }
            self._segments.append(columns, share=share)

    def _credit_fragments(self, table: Table) -> None:
        """Add what later fragments carry to the payload of their segments."""
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
        """Stop waiting for fragments, and count those without a first one."""
        self._fragments.finish()
        for file, count in self._fragments.without_first.items():
            ledger = Ledger(self.files[file].protocols, self.files[file].not_decoded)
            ledger.moved("ip fragment", "IP fragment without its first", count)

    def _without_trunk(self, flows: Table, segments_table: Table) -> Table:
        """Join the flows that two VLANs of a trunk show twice, and note it."""
        if not len(flows) or (flows["vlan"] == UNTAGGED).all():
            return flows
        ends = np.stack([endpoints_that_sort(flows, side) for side in "ab"], axis=1)
        flows, segments_table.columns["flow"], joined = joined_on_trunk(flows, segments_table, ends)
        for file, count in Counter(segments_table["file"][joined].tolist()).items():
            many = "1 connection was" if count == 1 else f"{count:,} connections were"
            self.files[file].warnings.append(
                f"{many} captured on two VLANs of a trunk: nearly all packets of one are on the other, too"
            )
        return flows

    def keep_times(self, first_ns: int, last_ns: int) -> None:
        """Remove the times of those segments of the last file that are not between these two."""
        begin = int(np.searchsorted(self._segments.values("file"), len(self.files) - 1))
        time_ns = self._segments.values("time_ns")[begin:]
        time_ns[(time_ns < first_ns) | (time_ns > last_ns)] = NOT_A_TIME

    def __len__(self) -> int:
        return len(self._segments)

    def take(self) -> Capture:
        """Return what was collected since the last call, and go on empty; flows keep their numbers.

        What needs all packets is left out: flows of several VLANs are not joined, and a fragment is credited
        to no segment that was taken before it came.
        """
        segments_table = self._segments.finish()
        self._credit_fragments(segments_table)
        self._fragments.extra_bytes.clear()
        sides = self._sack_blocks.finish(), self._syn_options.finish()
        self._empty_tables()
        return Capture(self.files, segments_table, self._flows.table(), *sides)

    def keep_flows(self, kept: Numbers) -> tuple[Table, Numbers]:
        """Forget all flows but these (int64, ascending); return those left, and the new number of each."""
        self._flows, number = self._flows.without_others(kept)
        return self._flows.table(), number.astype(np.int64)

    def flows_in_order(self) -> tuple[Table, Numbers]:
        """Return the flows in order of first sight, and the row in it of each by their present numbers."""
        flows, renumbered = self._flows.finish()
        return flows, np.arange(len(flows)) if renumbered is None else renumbered.astype(np.int64)

    def finish(self) -> Capture:
        """Return the capture; the decoder must not be used afterwards."""
        self.finish_fragments()
        segments_table = self._segments.finish()
        self._credit_fragments(segments_table)
        flows, renumbered = self._flows.finish()
        if renumbered is not None:
            flow = segments_table["flow"]
            segments_table.columns["flow"] = renumbered[flow >> 1] << 1 | flow & 1
        flows, segments_table.columns["flow"] = joined_across_vlans(flows, segments_table["flow"])
        flows = self._without_trunk(flows, segments_table)
        return Capture(
            self.files, segments_table, flows, self._sack_blocks.finish(), self._syn_options.finish()
        )


def _is_gsmtap(datagrams: Datagrams) -> Mask:
    """Return which datagrams go to the UDP port of GSMTAP; both ports are captured of each."""
    packets = datagrams.packets
    mask: Mask = (datagrams.protocol == _UDP) & (packets.end - packets.at >= 4)
    if mask.any():
        mask[mask] = u16(packets.data, packets.at[mask] + 2) == _GSMTAP_PORT
    return np.asarray(mask)


def _is_wtcp_syn(datagrams: Datagrams) -> Mask:
    """Return which datagrams are a SYN of WTCP: its length, and ten octets that are always the same."""
    packets = datagrams.packets
    mask: Mask = (datagrams.protocol == _UDP) & (packets.end - packets.at >= 18)
    if mask.any():
        mask[mask] = u16(packets.data, packets.at[mask] + 4) == _SYN_UDP_BYTES
    if mask.any():
        mask[mask] = rows(packets.data, packets.at[mask] + 8, 10) == _SYN_OCTETS
    return np.asarray(mask)


def _opened(datagrams: Datagrams, ledger: Ledger) -> tuple[Datagrams, list[tuple[Packets, int]]]:
    """Return the datagrams that are no tunnels, and the IP packets inside those that are tunnels."""
    if (datagrams.protocol == _TCP).all():
        return datagrams, []
    tunnel = _IS_TUNNEL[datagrams.protocol]
    if not tunnel.any():
        return datagrams, []
    inner = []
    for protocol in np.unique(datagrams.protocol[tunnel]).tolist():
        here = datagrams.protocol == protocol
        packets = datagrams.packets.pick(here)
        packets.marks |= np.uint16(Mark.TUNNELLED)
        packets.marks |= datagrams.more_fragments[here].astype(np.uint16) * np.uint16(Mark.FRAGMENT)
        inner += ip_packets(packets, INSIDE[protocol], STEPS, ledger)
    return datagrams.keep(~tunnel), inner


def _share_cut(records: Records) -> float | None:
    """Return the share of TCP packets that are longer by IP than by both lengths of the record, if known."""
    if len(records) < _FEWEST_SEGMENTS:
        return None
    cut, lengths, ledger = [np.empty(0, np.bool_)], [np.empty(0, np.int64)], Ledger({}, {})
    for link_type, packets in by_link_type(records):
        for part, version in ip_packets(packets, link(link_type), STEPS, ledger):
            headers = (ipv4 if version == 4 else ipv6)(part, ledger)
            of_tcp = headers.packets.pick(headers.protocol == _TCP)
            lengths.append(records.captured[of_tcp.record])
            whole = lengths[-1] == records.original[of_tcp.record]
            cut.append(whole & (of_tcp.marks & Mark.BAD_LENGTH != 0))
    segments = np.concatenate(cut)[:_PROBED_SEGMENTS]
    if len(segments) < _FEWEST_SEGMENTS:
        return None
    return _share(segments, np.concatenate(lengths)[:_PROBED_SEGMENTS])


def _share(cut: Mask, captured: Numbers) -> float:
    """Return the share of cut packets; 1 if nearly all packets longer than the shortest cut one are cut."""
    if np.count_nonzero(cut) >= _FEWEST_SEGMENTS:
        longer = cut[cut | (captured > captured[cut].min())]
        if longer.mean() > _NEARLY_ALL:
            return 1.0
    return float(cut.mean())


def _mark_overwritten(frames: Iterable[Packets]) -> None:
    """Mark the packets whose two lengths are equal: whether they were cut cannot be seen."""
    for packets in frames:
        cut = packets.end == packets.stop
        packets.marks |= np.where(cut, np.uint16(Mark.LENGTH_OVERWRITTEN), np.uint16(0))


def _count_links(records: Records, source: SourceFile) -> None:
    """Count the packets of a block by their link type."""
    link_type = np.atleast_1d(records.link_type)
    if (link_type == link_type[0]).all():
        counts = {int(link_type[0]): len(records)}
    else:
        counts = dict(zip(*(part.tolist() for part in np.unique(link_type, return_counts=True)), strict=True))
    for kind, count in counts.items():
        source.link_types[kind] = source.link_types.get(kind, 0) + count


def by_link_type(records: Records, chosen: Numbers | None = None) -> list[tuple[int, Packets]]:
    """Return the packets of a block by their link type: `at` is where the frame begins.

    `chosen` says which records are meant: int64, ascending; None means all.
    """
    record = np.arange(len(records)) if chosen is None else chosen
    of = slice(None) if chosen is None else chosen
    start, captured = records.start[of], records.captured[of]
    packets = Packets(
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
