"""Numbers the flows of a capture in order of their first packet, and finds each segment's direction.

Numbers keys of several 64-bit words: equal keys get the same number, new ones the next.

A hash table in NumPy arrays with linear probing, which looks up a whole block at once. Complete keys are
compared, so a collision costs time but never gives a wrong number; the multipliers of the hash are random, so
that an attacker cannot prepare collisions. The cost stays linear for millions of keys.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.tables import FLOWS
from parsers._packets.columns import GrowingArray, GrowingTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from multitracer.tables import Mask, Numbers, Table

    Words = NDArray[np.uint64]
    Flow = NDArray[np.int32]

_FIRST_SLOTS = 1 << 12
_EMPTY = -1


class KeyIndex:
    """A hash table that numbers different keys from 0 on, in the order of their first occurrence.

    A key has `width` 64-bit words.
    """

    def __init__(self, width: int) -> None:
        self._multipliers: list[np.uint64] = list(np.frombuffer(os.urandom(8 * width + 8), np.uint64) | np.uint64(1))
        self._keys = [GrowingArray("u8") for _ in range(width)]
        self._number = np.full(_FIRST_SLOTS, _EMPTY, np.int32)

    def __len__(self) -> int:
        return len(self._keys[0])

    def numbers(self, words: Sequence[Words]) -> tuple[NDArray[np.int32], Numbers]:
        """Return the number of each key, and the positions at which new keys occur first.

        Parameters
        ----------
        words : sequence of ndarray of uint64, shape (n,)
            Word i of each key.

        Returns
        -------
        number : ndarray of int32, shape (n,)
            From 0; never NA.
        first : ndarray of int64, shape (n_new,), ascending
        """
        number = np.full(len(words[0]), _EMPTY, np.int32)
        unknown = self._look_up(words, number)
        if not len(unknown):
            return number, unknown
        words = [word[unknown] for word in words]
        first = _first_of_each(words)
        self._add([word[first] for word in words])
        numbers = np.empty(len(unknown), np.int32)
        self._look_up(words, numbers)
        number[unknown] = numbers
        return number, unknown[first]

    def _slots(self, words: Sequence[Words]) -> Numbers:
        """Return the hash of each key: the first slot of the table to look at."""
        mixed = words[0] * self._multipliers[0]
        for word, multiplier in zip(words[1:], self._multipliers[1:], strict=False):
            mixed ^= mixed >> np.uint64(29)
            mixed += word
            mixed *= multiplier
        mixed ^= mixed >> np.uint64(32)
        mixed *= self._multipliers[-1]
        bits = len(self._number).bit_length() - 1
        return (mixed >> np.uint64(64 - bits)).astype(np.int64)

    def _is_key(self, number: NDArray[np.int32], words: Sequence[Words]) -> Mask:
        """Return a mask: whether the stored key with each number equals the key in `words`."""
        same: Mask = number != _EMPTY
        if len(self):
            for key, word in zip(self._keys, words, strict=True):
                same &= key.values[number] == word
        return same

    def _look_up(self, words: Sequence[Words], numbers: NDArray[np.int32]) -> Numbers:
        """Write the numbers of known keys into `numbers`; return the positions of unknown keys, ascending."""
        slot = self._slots(words)
        number = self._number[slot]
        same = self._is_key(number, words)
        if same.all():
            numbers[:] = number
            return np.empty(0, np.int64)
        np.copyto(numbers, number, where=same)
        ended = number == _EMPTY
        further = np.flatnonzero(~(same | ended))
        unknown = [np.flatnonzero(ended), self._look_further(words, numbers, further, slot[further])]
        return np.sort(np.concatenate(unknown))

    def _look_further(
        self, words: Sequence[Words], numbers: NDArray[np.int32], todo: Numbers, slot: Numbers
    ) -> Numbers:
        """Look at the next slots for the keys at the positions `todo`; write the numbers that are found.

        Return the positions of unknown keys.
        """
        unknown = [todo[:0]]
        while len(todo):
            slot = (slot + 1) & (len(self._number) - 1)
            number = self._number[slot]
            same = self._is_key(number, [word[todo] for word in words])
            ended = number == _EMPTY
            numbers[todo[same]] = number[same]
            unknown.append(todo[ended])
            on = ~(same | ended)
            todo, slot = todo[on], slot[on]
        return np.concatenate(unknown)

    def _add(self, words: Sequence[Words]) -> None:
        """Add new, distinct keys; the table grows so that at most half of the slots are used."""
        before = len(self)
        for key, word in zip(self._keys, words, strict=True):
            key.append(word)
        if 2 * len(self) > len(self._number):
            self._number = np.full(1 << (2 * len(self) - 1).bit_length() + 1, _EMPTY, np.int32)
            before = 0
        self._place([key.values[before:] for key in self._keys], before)

    def _place(self, words: Sequence[Words], first: int) -> None:
        """Write the keys with numbers from `first` on into their slots of the table."""
        slot = self._slots(words)
        todo = np.arange(first, len(self), dtype=np.int32)
        while len(todo):
            free = self._number[slot] == _EMPTY
            self._number[slot[free]] = todo[free]  # of several keys one stays
            missed = self._number[slot] != todo
            todo, slot = todo[missed], (slot[missed] + 1) & (len(self._number) - 1)


def _first_of_each(words: Sequence[Words]) -> Numbers:
    """Return the positions at which each distinct key occurs first, ascending."""
    order = np.lexsort(words)
    differs = np.zeros(len(order), bool)
    differs[0] = True
    for word in words:
        ordered = word[order]
        differs[1:] |= ordered[1:] != ordered[:-1]
    first: Numbers = np.minimum.reduceat(order, np.flatnonzero(differs))
    first.sort()
    return first


def addresses(high: Words, low: Words, ip_version: NDArray[np.uint8] | np.uint8) -> NDArray[np.void]:
    """Return addresses as 16 bytes in network order; the arguments are as in `PacketEndpoints`."""
    halves = np.zeros((len(high), 2), ">u8")
    np.left_shift(high, np.where(np.equal(ip_version, 4), np.uint64(32), np.uint64(0)), out=halves[:, 0])
    halves[:, 1] = low
    return halves.view("V16")[:, 0]


class PacketEndpoints(NamedTuple):
    """One endpoint (source or destination) of each of n packets; all arrays have shape (n,)."""

    high: Words
    """IPv4 address, or the first half of an IPv6 address."""
    low: Words
    """The second half of an IPv6 address; 0 for IPv4."""
    port: Words

    def pick(self, which: Numbers) -> PacketEndpoints:
        """Return the endpoints at the given positions: int64, shape (m,)."""
        return PacketEndpoints(self.high[which], self.low[which], self.port[which])

    def addresses(self, ip_version: int) -> NDArray[np.void]:
        """Return each address as 16 bytes in network order; an IPv4 address is in the first 4 bytes."""
        return addresses(self.high, self.low, np.uint8(ip_version))


class FlowTable:
    """All flows seen so far, with their numbers."""

    def __init__(self) -> None:
        self._ipv4 = KeyIndex(3)
        self._ipv6 = KeyIndex(6)
        self._numbers = {4: GrowingArray("i4"), 6: GrowingArray("i4")}
        """Number of the flow, by the number of its key."""
        self._table = GrowingTable(FLOWS)
        self._seen = GrowingArray("i8")
        self._opened_by_higher = GrowingArray("?")

    def directed(
        self, source: PacketEndpoints, destination: PacketEndpoints, vlan: Numbers, seen: Numbers, *, ip_version: int
    ) -> Flow:
        """Return the directed flow of each packet: 2 x flow number, + 1 if endpoint b sent the packet.

        `seen` is the number of each packet in the capture; flows are sorted by it at the end.
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

    def _remember(self, a: PacketEndpoints, b: PacketEndpoints, vlan: Numbers, ip_version: int) -> None:
        """Add new flows; endpoint a is the sender of their first packet."""
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
        """Return the table of the flows, in the order of their current numbers."""
        return self._table.finish()

    def without_others(self, kept: Numbers) -> tuple[FlowTable, Flow]:
        """Return a flow table with only the flows `kept` (int64, ascending), and the new number of each."""
        fewer, table, number = FlowTable(), self.table().take(kept), np.empty(len(kept), np.int32)
        for version in (4, 6):
            here = np.flatnonzero(table["ip_version"] == version)
            if len(here):
                source, destination = (_endpoints(table.take(here), side) for side in "ab")
                vlan, seen = table["vlan"][here], self._seen.values[kept[here]]
                number[here] = fewer.directed(source, destination, vlan, seen, ip_version=version) >> 1
        return fewer, number

    def finish(self) -> tuple[Table, Flow | None]:
        """Return the flows in order of their first packets, and the new number of each old flow number.

        The second value is None if no number changes.
        """
        table, seen = self._table.finish(), self._seen.values
        if not np.any(seen[1:] < seen[:-1]):
            return table, None
        order = np.argsort(seen, kind="stable")
        renumbered = np.empty(len(order), np.int32)
        renumbered[order] = np.arange(len(order), dtype=np.int32)
        return table.take(order), renumbered


def _endpoints(flows: Table, side: str) -> PacketEndpoints:
    """Return the endpoint a or b (`side`) of each flow; all flows must have the same IP version."""
    address = np.ascontiguousarray(flows[f"address_{side}"]).view(">u8").reshape(-1, 2).astype(np.uint64)
    shift = np.where(flows["ip_version"] == 4, np.uint64(32), np.uint64(0))
    return PacketEndpoints(address[:, 0] >> shift, address[:, 1], flows[f"port_{side}"].astype(np.uint64))


def _is_higher(source: PacketEndpoints, destination: PacketEndpoints) -> Mask:
    """Return a mask of the packets whose source endpoint sorts after the destination endpoint."""
    above: Mask = source.port > destination.port
    for one, two in ((source.low, destination.low), (source.high, destination.high)):
        above = (one > two) | ((one == two) & above)
    return above


def _ipv6_words(source: PacketEndpoints, destination: PacketEndpoints, swapped: Mask, vlan: Numbers) -> list[Words]:
    ends = [(source.high, destination.high), (source.low, destination.low)]
    words = [np.where(swapped, two, one) for one, two in ends]
    words += [np.where(swapped, one, two) for one, two in ends]
    low_port = np.where(swapped, destination.port, source.port)
    high_port = np.where(swapped, source.port, destination.port)
    return [*words, low_port << np.uint64(16) | high_port, vlan.view(np.uint64)]
