"""From packet records to the tables of a capture, one block at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.capture import Capture, IpProtocol, Mark, SourceFile
from multitracer.tables import NOT_A_TIME, SACK_BLOCKS, SEGMENTS, SYN_OPTIONS
from parsers._packets.chain import ip_packets, link
from parsers._packets.columns import GrowingTable
from parsers._packets.flows import Endpoints, Flows
from parsers._packets.fragments import Fragments
from parsers._packets.ip import in_capture_order, ipv4, ipv6
from parsers._packets.layers import UNTAGGED, Ledger, Packets, rows, u16
from parsers._packets.one_way import endpoints_that_sort, joined_across_vlans
from parsers._packets.steps import STEPS
from parsers._packets.tcp import segments
from parsers._packets.trunk import joined_on_trunk
from parsers._packets.tunnel import INSIDE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multitracer.tables import Array, Mask, Numbers, Table
    from parsers._packets.ip import Datagrams
    from parsers._packets.layers import Bytes
    from parsers._packets.tcp import Segments

_TCP = IpProtocol.TCP.value
_MOST_TUNNELS = 4
_PROBED_RECORDS, _PROBED_SEGMENTS = 4000, 1000
_MOST_UNCLEAR = 20_000
"""Packets after which no more TCP is waited for."""
_FEWEST_SEGMENTS = 10
"""So many tell a file's rule from an odd packet."""
_NEARLY_ALL = 0.9
_NAMES = {each.value: each.name.lower() for each in IpProtocol}


GSMTAP = "gsmtap"
"""What datagrams to its port are counted as in place of UDP: they may hold a phone's signalling."""
_GSMTAP_PORT = 4729  # IANA: gsmtap, 4729/udp
WTCP_SYN = "wtcp syn"
"""What a datagram that begins a connection of WTCP is counted as in place of UDP."""
_SYN_OCTETS = np.frombuffer(bytes([0x11, 0]) + bytes(8), "V10")  # docs/wtcp.md: SYN, no flags, no identity
_SYN_UDP_BYTES = 30  # docs/wtcp.md: 22 octets behind UDP's header of 8
_UDP = IpProtocol.UDP.value


@dataclass(slots=True)
class Records:
    """Packet records of one block; arrays of shape (n,), in capture order."""

    data: Bytes
    """The block, with slack behind the last packet (see `layers.PAD_BYTES`)."""
    start: Numbers
    """First captured byte of the packet."""
    captured: Numbers
    """Bytes captured."""
    original: Numbers
    """Bytes on the wire."""
    time_ns: Numbers
    link_type: Numbers | int
    """One for all, or one each."""

    def __len__(self) -> int:
        return len(self.start)

    def first(self, count: int) -> Records:
        """Return the first `count` records."""
        link_type = self.link_type if isinstance(self.link_type, int) else self.link_type[:count]
        return Records(
            self.data,
            self.start[:count],
            self.captured[:count],
            self.original[:count],
            self.time_ns[:count],
            link_type,
        )


class Decoder:
    """Collects the segments of one or more files of one capture point."""

    def __init__(self) -> None:
        self.files: list[SourceFile] = []
        self._flows = Flows()
        self._segments = GrowingTable(SEGMENTS)
        self._sack_blocks = GrowingTable(SACK_BLOCKS)
        self._syn_options = GrowingTable(SYN_OPTIONS)
        self._fragments = Fragments()
        self._records = 0
        self._overwritten: tuple[SourceFile, bool] | None = None
        """A file, and whether the original lengths in it were overwritten."""

    def add(self, records: Records, source: SourceFile, *, share: float | None = None) -> None:
        """Decode one block of `source`, which is `files[-1]`; its facts are brought up to date.

        `share` is how much of the file has been read, from 0 to 1, if that is known.
        """
        ledger = Ledger(source.protocols, source.not_decoded)
        datagrams = self._datagrams(records, source, ledger)
        versions = [[d for d in datagrams if d.version == v and len(d)] for v in (4, 6)]
        parts = [self._segments_of(in_capture_order(same), ledger) for same in versions if same]
        self._append([p for p in parts if len(p.datagrams)], records, source.packets + 1, share)
        source.packets += len(records)
        self._records += len(records)

    def _datagrams(self, records: Records, source: SourceFile, ledger: Ledger) -> list[Datagrams]:
        """Return the IP datagrams of a block that carry no further IP packets."""
        pending = []
        overwritten = self._is_overwritten(records, source)
        for link_type, packets in by_link_type(records):
            if overwritten:
                _mark_overwritten(packets)
            source.link_types[link_type] = source.link_types.get(link_type, 0) + len(packets)
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
                source.variant = ", ".join(filter(None, (source.variant, "original lengths overwritten")))
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

    def _segments_of(self, datagrams: Datagrams, ledger: Ledger) -> Segments:
        is_tcp = datagrams.protocol == _TCP
        is_gsmtap, is_syn = _is_gsmtap(datagrams), _is_wtcp_syn(datagrams)
        ledger.count_protocol(GSMTAP, int(np.count_nonzero(is_gsmtap)))
        ledger.count_protocol(WTCP_SYN, int(np.count_nonzero(is_syn)))
        ledger.count_each(datagrams.protocol[~(is_tcp | is_gsmtap | is_syn)], _NAMES, "ip protocol {}")
        tcp = segments(datagrams.keep(is_tcp), ledger)
        ledger.count_protocol("tcp", len(tcp.datagrams))
        return tcp

    def _append(self, parts: list[Segments], records: Records, first_frame: int, share: float | None) -> None:
        """Append the segments of one block in capture order."""
        if not parts:
            return
        record = np.concatenate([p.datagrams.packets.record for p in parts])
        order = np.argsort(record, kind="stable") if len(parts) > 1 else None
        record = record if order is None else record[order]
        columns: dict[str, Array] = {
            "time_ns": records.time_ns[record],
            "frame": record + first_frame,
            "file": np.full(len(record), len(self.files) - 1, np.uint16),
            "flow": _joined([self._directed(p) for p in parts], order),
        }
        for name in parts[0].columns:
            columns[name] = _joined([p.columns[name] for p in parts], order)
        self._append_options(parts, order, share)
        self._segments.append(columns, share=share)

    def _directed(self, part: Segments) -> NDArray[np.int32]:
        d = part.datagrams
        return self._flows.directed(
            Endpoints(*d.source, part.source_port),
            Endpoints(*d.destination, part.destination_port),
            d.packets.vlan,
            d.packets.record + self._records,
            ip_version=d.version,
        )

    def _append_options(self, parts: list[Segments], order: Numbers | None, share: float | None) -> None:
        """Append the values of the rare options, with the rows of their segments."""
        before, n = len(self._segments), sum(len(p.datagrams) for p in parts)
        row_of = np.arange(before, before + n)
        if order is not None:
            row_of[order] = row_of.copy()
        rows = np.split(row_of, np.cumsum([len(p.datagrams) for p in parts])[:-1])
        for table, columns in (
            (self._sack_blocks, [_sack_blocks(p, r) for p, r in zip(parts, rows, strict=True)]),
            (self._syn_options, [_syn_options(p, r) for p, r in zip(parts, rows, strict=True)]),
        ):
            table.append(_sorted_by_row(columns), share=share)

    def _credit_fragments(self, table: Table) -> None:
        """Add what later fragments carry to the payload of their segments."""
        self._fragments.finish()
        for file, count in self._fragments.without_first.items():
            ledger = Ledger(self.files[file].protocols, self.files[file].not_decoded)
            ledger.moved("ip fragment", "IP fragment without its first", count)
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

    def finish(self) -> Capture:
        """Return the capture; the decoder must not be used afterwards."""
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
    tunnel = np.isin(datagrams.protocol, tuple(INSIDE))
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


def _mark_overwritten(packets: Packets) -> None:
    """Mark the packets whose two lengths are equal: whether they were cut cannot be seen."""
    cut = packets.end == packets.stop
    packets.marks |= np.where(cut, np.uint16(Mark.LENGTH_OVERWRITTEN), np.uint16(0))


def by_link_type(records: Records) -> list[tuple[int, Packets]]:
    """Return the packets of a block by their link type: `at` is where the frame begins."""
    end = records.start + records.captured
    packets = Packets(
        records.data,
        np.arange(len(records)),
        records.start,
        end,
        records.start + np.maximum(records.original, records.captured),
        np.full(len(records), UNTAGGED, np.int64),
        np.zeros(len(records), np.uint16),
    )
    link_type = np.broadcast_to(records.link_type, len(records))
    if (link_type == link_type[0]).all():
        return [(int(link_type[0]), packets)]
    return [(kind, packets.keep(link_type == kind)) for kind in np.unique(link_type).tolist()]


def _joined(pieces: list[Array], order: Numbers | None) -> Array:
    return pieces[0] if order is None else np.concatenate(pieces)[order]


def _sack_blocks(part: Segments, rows: Numbers) -> dict[str, Array]:
    index, left, right = part.sack
    return {"row": rows[index], "left": left, "right": right}


def _syn_options(part: Segments, rows: Numbers) -> dict[str, Array]:
    syn = np.flatnonzero(part.columns["flags"] & 0x02)
    options = part.options
    return {
        "row": rows[syn],
        "mss_bytes": options.mss_bytes[syn],
        "window_scale": options.window_scale[syn],
        "sack_permitted": options.sack_permitted[syn],
        "mptcp": options.mptcp[syn],
        "fast_open": options.fast_open[syn],
    }


def _sorted_by_row(pieces: list[dict[str, Array]]) -> dict[str, Array]:
    if len(pieces) == 1:
        return pieces[0]
    whole = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    order = np.argsort(whole["row"], kind="stable")
    return {name: values[order] for name, values in whole.items()}
