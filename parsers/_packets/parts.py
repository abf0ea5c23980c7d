"""The segments of one block in parts: those that Python decoded, by IP version, and the kernel's.

A part is rows of the tables whose flows have no number yet. `numbered` numbers the flows in the order of the
block, independent of the decoder; `in_order` merges interleaved parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.tables import FLOWS, Table
from parsers._packets.flows import FlowTable, PacketEndpoints, addresses

if TYPE_CHECKING:
    from multitracer.tables import Array, DecodedPart, Numbers
    from parsers._packets.flows import Flow
    from parsers._packets.tcp import TcpSegments

    Columns = dict[str, Array]


class AddressColumns(NamedTuple):
    """The endpoints of packets of one IP version, in the order of the block; arrays of shape (n,)."""

    ip_version: int
    source: PacketEndpoints
    destination: PacketEndpoints
    vlan: Numbers
    record: Numbers
    """Index of the packet's record in the block."""


@dataclass(slots=True)
class BlockSegments:
    """Segments of one block in the order of its records."""

    record: Numbers
    """Index of each segment's record in the block: shape (n,), ascending."""
    columns: Columns
    """The columns of SEGMENTS that depend only on the packet."""
    sack_blocks: Columns
    syn_options: Columns
    """SYN_OPTIONS; in this and the other side tables `row` counts within the part."""
    ends: list[AddressColumns]
    """Addresses of each segment; of the native kernel those of each flow's first segment, IPv4 first."""
    flow: Flow | None = None
    """Set by the native kernel: 2 x position in `ends`, + 1 if the other endpoint sent the segment."""


def of_segments(segments: TcpSegments) -> BlockSegments:
    """Return the segments that Python decoded, as a part."""
    packets, datagrams = segments.datagrams.packets, segments.datagrams
    source = PacketEndpoints(*datagrams.source, segments.source_port)
    destination = PacketEndpoints(*datagrams.destination, segments.destination_port)
    index, left, right = segments.sack
    syn, options = np.flatnonzero(segments.columns["flags"] & 0x02), segments.options
    names = ("mss_bytes", "window_scale", "sack_permitted", "mptcp", "fast_open")
    return BlockSegments(
        packets.record,
        segments.columns,
        {"row": index, "left": left, "right": right},
        {"row": syn, **{name: getattr(options, name)[syn] for name in names}},
        [AddressColumns(datagrams.version, source, destination, packets.vlan, packets.record)],
    )


def of_kernel(answer: DecodedPart) -> BlockSegments:
    """Return the segments of one part of the native kernel's result."""
    record, flow = answer["record"], answer["segments"].pop("flow")
    ends, place = _by_version(answer["flows"])
    flow = flow if place is None else place[flow >> 1] << 1 | flow & 1
    return BlockSegments(record, answer["segments"], answer["sack_blocks"], answer["syn_options"], ends, flow)


def _by_version(flows: Columns) -> tuple[list[AddressColumns], Flow | None]:
    """Return the endpoints of flows by IP version, and the new position of each flow.

    The second value is None if all flows have the same version, so that no position changes.
    """
    version = flows["version"]
    if (version == version[:1]).all():
        return [_of_flows(int(version[0]), flows)] if len(version) else [], None
    order = np.argsort(version, kind="stable")
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    by_version = [(v, np.flatnonzero(version == v)) for v in (4, 6)]
    return [_of_flows(v, {name: flows[name][here] for name in flows}) for v, here in by_version], place


def _of_flows(version: int, flows: Columns) -> AddressColumns:
    source, destination = (
        PacketEndpoints(flows[f"{side}_high"], flows[f"{side}_low"], flows[f"{side}_port"])
        for side in ("source", "destination")
    )
    return AddressColumns(version, source, destination, flows["vlan"], flows["record"])


def numbered(parts: list[BlockSegments], flows: FlowTable, *, records_before: int) -> None:
    """Add the column `flow`, the directed flow in the capture, to the segments of all parts of a block.

    `records_before` is the number of records of the capture before the block.
    """
    directed: dict[int, list[Flow]] = {}
    for version in (4, 6):
        same = [ends for part in parts for ends in part.ends if ends.ip_version == version]
        if same:
            directed[version] = _directed(same, flows, records_before)
    for part in parts:
        numbers = [directed[ends.ip_version].pop(0) for ends in part.ends]
        if part.flow is None:
            part.columns["flow"] = numbers[0]
        else:
            first = np.concatenate([*numbers, np.empty(0, np.int32)])
            part.columns["flow"] = first[part.flow >> 1] ^ (part.flow & 1)


def _directed(ends: list[AddressColumns], flows: FlowTable, records_before: int) -> list[Flow]:
    """Return the directed flows for each element of `ends`; flows are numbered in the order of the block.

    All elements have the same IP version.
    """
    order = None
    if len(ends) > 1:
        order = np.argsort(np.concatenate([e.record for e in ends]), kind="stable")
    numbers = flows.directed(
        _joined_endpoints([e.source for e in ends], order),
        _joined_endpoints([e.destination for e in ends], order),
        _joined([e.vlan for e in ends], order),
        _joined([e.record for e in ends], order) + records_before,
        ip_version=ends[0].ip_version,
    )
    if order is None:
        return [numbers]
    back = np.empty(len(order), np.int32)
    back[order] = numbers
    return list(np.split(back, np.cumsum([len(e.record) for e in ends])[:-1]))


def _joined_endpoints(ends: list[PacketEndpoints], order: Numbers | None) -> PacketEndpoints:
    return PacketEndpoints(
        _joined([e.high for e in ends], order),
        _joined([e.low for e in ends], order),
        _joined([e.port for e in ends], order),
    )


def in_order(parts: list[BlockSegments]) -> list[BlockSegments]:
    """Return the parts in the order of the block; parts that overlap are merged into one."""
    if all(one.record[-1] < two.record[0] for one, two in pairwise(parts)):
        return parts
    order = np.argsort(np.concatenate([p.record for p in parts]), kind="stable")
    row_of = np.empty(len(order), np.int64)
    row_of[order] = np.arange(len(order))
    rows = np.split(row_of, np.cumsum([len(p.record) for p in parts])[:-1])
    return [
        BlockSegments(
            _joined([p.record for p in parts], order),
            {name: _joined([p.columns[name] for p in parts], order) for name in parts[0].columns},
            _sorted_by_row([_placed(p.sack_blocks, r) for p, r in zip(parts, rows, strict=True)]),
            _sorted_by_row([_placed(p.syn_options, r) for p, r in zip(parts, rows, strict=True)]),
            [],
        )
    ]


def _placed(columns: Columns, rows: Numbers) -> Columns:
    """Return the rows of an option table with new row numbers of their segments.

    `rows` has the new number of each segment: int64, shape (n_segments,).
    """
    return {**columns, "row": rows[columns["row"]]}


def _joined(chunks: list[Array], order: Numbers | None) -> Array:
    return chunks[0] if order is None else np.concatenate(chunks)[order]


def _sorted_by_row(chunks: list[Columns]) -> Columns:
    complete = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    order = np.argsort(complete["row"], kind="stable")
    return {name: values[order] for name, values in complete.items()}


def flows_of(columns: dict[str, Array]) -> tuple[Table, Numbers]:
    """Return the table FLOWS in order of first packets, and its row for each of the kernel's flows.

    The flows are those of a complete file, so that each is there once. `columns` is emptied.
    """
    record, version = columns.pop("record"), columns["version"]
    number, order = np.arange(len(record)), None
    if (record[1:] < record[:-1]).any():  # IPv4 and IPv6 are numbered apart
        order = np.argsort(record, kind="stable")
        number[order] = np.arange(len(record))
    del record
    table: dict[str, Array] = {"ip_version": version.astype(np.uint8)}
    vlan = columns.pop("vlan")
    table["vlan"] = np.broadcast_to(vlan[:1].copy(), len(vlan)) if (vlan == vlan[:1]).all() and len(vlan) else vlan
    del vlan
    for name, side in (("a", "source"), ("b", "destination")):  # the source of the first packet
        table[f"address_{name}"] = addresses(columns.pop(f"{side}_high"), columns.pop(f"{side}_low"), version)
        table[f"port_{name}"] = columns.pop(f"{side}_port").astype(np.uint16)
    flows = Table(FLOWS, table)
    return flows if order is None else flows.take(order), number
