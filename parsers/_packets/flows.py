"""Numbers the flows of a capture in order of their first packet, and finds each segment's direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.tables import FLOWS
from parsers._packets.columns import GrowingArray, GrowingTable
from parsers._packets.keys import KeyIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multitracer.tables import Mask, Numbers, Table

    Words = NDArray[np.uint64]
    Flow = NDArray[np.int32]


class Endpoints(NamedTuple):
    """One end of each of n packets: shape (n,) each."""

    high: Words
    """IPv4 address, or the first half of an IPv6 address."""
    low: Words
    """The second half of an IPv6 address; 0 for IPv4."""
    port: Words

    def pick(self, which: Numbers) -> Endpoints:
        """Return the endpoints at the given positions: int64, shape (m,)."""
        return Endpoints(self.high[which], self.low[which], self.port[which])

    def addresses(self, ip_version: int) -> NDArray[np.void]:
        """Return the addresses as 16 bytes in network order; IPv4 in the first 4."""
        halves = np.zeros((len(self.high), 2), ">u8")
        halves[:, 0] = self.high << np.uint64(32) if ip_version == 4 else self.high
        halves[:, 1] = self.low
        return halves.view("V16")[:, 0]


class Flows:
    """All flows seen so far."""

    def __init__(self) -> None:
        self._ipv4 = KeyIndex(3)
        self._ipv6 = KeyIndex(6)
        self._numbers = {4: GrowingArray("i4"), 6: GrowingArray("i4")}
        """By the number of its key: the number of the flow."""
        self._table = GrowingTable(FLOWS)
        self._seen = GrowingArray("i8")
        self._opened_by_higher = GrowingArray("?")

    def directed(
        self, source: Endpoints, destination: Endpoints, vlan: Numbers, seen: Numbers, *, ip_version: int
    ) -> Flow:
        """Return the directed flow of each packet: 2 x flow, + 1 if the flow's endpoint b sent it.

        `seen` grows with each packet of the capture: new flows are ordered by it in the end.
        """
        if ip_version == 4:
            one, two = (end.high << np.uint64(16) | end.port for end in (source, destination))
            swapped = one > two
            words = [np.minimum(one, two), np.maximum(one, two), vlan.view(np.uint64)]
            key, fresh = self._ipv4.numbers(words)
        else:
            swapped = _is_higher(source, destination)
            key, fresh = self._ipv6.numbers(_ipv6_words(source, destination, swapped, vlan))
        if len(fresh):
            before = len(self._seen)
            self._remember(source.pick(fresh), destination.pick(fresh), vlan[fresh], ip_version)
            self._seen.append(seen[fresh])
            self._opened_by_higher.append(swapped[fresh])
            self._numbers[ip_version].append(np.arange(before, len(self._seen)))
        flow: Flow = self._numbers[ip_version].values[key]
        directed: Flow = flow << 1 | (swapped ^ self._opened_by_higher.values[flow])
        return directed

    def _remember(self, a: Endpoints, b: Endpoints, vlan: Numbers, ip_version: int) -> None:
        """Note new flows; their first packet was sent by a."""
        columns = {
            "ip_version": np.full(len(vlan), ip_version, np.uint8),
            "address_a": a.addresses(ip_version),
            "address_b": b.addresses(ip_version),
            "port_a": a.port,
            "port_b": b.port,
            "vlan": vlan,
        }
        self._table.append(columns)

    def table(self) -> Table:
        """Return the flows seen so far, by their present numbers."""
        return self._table.finish()

    def without_others(self, kept: Numbers) -> tuple[Flows, Flow]:
        """Return only these flows (int64, ascending), and the new number of each."""
        fewer, table, number = Flows(), self.table().take(kept), np.empty(len(kept), np.int32)
        for version in (4, 6):
            here = np.flatnonzero(table["ip_version"] == version)
            if len(here):
                source, destination = (_endpoints(table.take(here), side) for side in "ab")
                vlan, seen = table["vlan"][here], self._seen.values[kept[here]]
                number[here] = fewer.directed(source, destination, vlan, seen, ip_version=version) >> 1
        return fewer, number

    def finish(self) -> tuple[Table, Flow | None]:
        """Return the table of flows in order of first sight, and new numbers by old where they differ."""
        table, seen = self._table.finish(), self._seen.values
        if not np.any(seen[1:] < seen[:-1]):
            return table, None
        order = np.argsort(seen, kind="stable")
        renumbered = np.empty(len(order), np.int32)
        renumbered[order] = np.arange(len(order), dtype=np.int32)
        return table.take(order), renumbered


def _endpoints(flows: Table, side: str) -> Endpoints:
    """Return one end of each flow, all of one IP version, as the packets gave it."""
    address = np.ascontiguousarray(flows[f"address_{side}"]).view(">u8").reshape(-1, 2).astype(np.uint64)
    shift = np.where(flows["ip_version"] == 4, np.uint64(32), np.uint64(0))
    return Endpoints(address[:, 0] >> shift, address[:, 1], flows[f"port_{side}"].astype(np.uint64))


def _is_higher(source: Endpoints, destination: Endpoints) -> Mask:
    """Return where the source is the greater endpoint."""
    above: Mask = source.port > destination.port
    for one, two in ((source.low, destination.low), (source.high, destination.high)):
        above = (one > two) | ((one == two) & above)
    return above


def _ipv6_words(source: Endpoints, destination: Endpoints, swapped: Mask, vlan: Numbers) -> list[Words]:
    ends = [(source.high, destination.high), (source.low, destination.low)]
    words = [np.where(swapped, two, one) for one, two in ends]
    words += [np.where(swapped, one, two) for one, two in ends]
    low_port = np.where(swapped, destination.port, source.port)
    high_port = np.where(swapped, source.port, destination.port)
    return [*words, low_port << np.uint64(16) | high_port, vlan.view(np.uint64)]
