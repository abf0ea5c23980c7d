"""QUIC packets whose frames are known: what was acknowledged, lost, repeated, in flight; and their image as TCP.

The rules that find what limited a transfer are those of TCP (`multitracer.diagnosis.limits`). They need data in one
order, cumulative and selective acknowledgements, and a window: `as_segments` gives a connection of QUIC this form. New
stream data get the next places, whatever their stream; data that are sent again keep theirs; an ACK of packets
becomes one of the places that they carried; the smaller credit of flow control becomes the window.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.capture import CaptureTables
from multitracer.captured import Flag, SourceFile
from multitracer.protocols.quic import FrameType, Parameter, Space
from multitracer.tables import FLOWS, NA, NOT_A_TIME, SACK_BLOCKS, SEGMENTS, SYN_OPTIONS, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.tables import Array, Mask, Numbers, Times
    from parsers._quic import QuicConnection

PACKET_THRESHOLD = 3
"""Numbers behind an acknowledged one from which on a packet is taken for lost (RFC 9002, 6.1.1)."""
_UNLIMITED = 1 << 30
"""Window, in bytes, while the peer's limit is not known: the largest of TCP (RFC 7323)."""
_FULL = 0.97
"""Share of the largest packet from which on a packet counts as full: varints in its header have 1 to 8 bytes."""
_SMALL = 0.1
"""Share of a full packet below which one is small. QUIC counts its windows in bytes, so that a window that ends within
a packet leaves one of any length: unlike a TCP segment, it does not show that nothing more waits."""
_REACTION_MS = 4
"""Longest time, in ms, that a sender in a program takes to answer an ACK: of aioquic's the third quartile is 0.9 to
3 ms on ten recordings. A kernel takes below 0.5 ms, which the rules of TCP count on."""
_AT_ONCE_NS = 300_000  # below the 0.5 ms that TCP rules allow for a reaction
_MOST_BLOCKS = 4  # as TCP has room for (RFC 2018, 3)
_ACKS = (FrameType.ACK.value, FrameType.ACK_ECN.value)
_MOST_SEGMENTS = 4_000_000  # some GB of memory. Not measured


class SentPackets(NamedTuple):
    """The 1-RTT packets of one direction, in order of their numbers; arrays of shape (n,)."""

    row: Numbers
    """Rows in the connection's columns."""
    number: Numbers
    time_ns: Times
    acked_ns: Times
    """Time of the first ACK; NOT_A_TIME without one."""
    rtt_ns: Times
    ack_delay_ns: Times
    lost: Numbers
    """1: never acknowledged, though PACKET_THRESHOLD numbers later one was; 0: acknowledged; NA: not decided."""
    lost_ns: Times
    """When so high a number was acknowledged first; NOT_A_TIME if it was acknowledged before."""
    flight_bytes: Numbers


def sent_packets(known: QuicConnection, *, reverse: bool) -> SentPackets:
    """Return the 1-RTT packets of one direction with what the ACKs of the other one say of them."""
    columns = known.columns
    is_mine = (columns["reverse"] == reverse) & (columns["space"] == Space.ONE_RTT.value) & (columns["number"] >= 0)
    row = np.flatnonzero(is_mine)
    row = row[np.argsort(columns["number"][row], kind="stable")]
    number, first = np.unique(columns["number"][row], return_index=True)
    row = row[first]
    time_ns = columns["time_ns"][row]
    eliciting = columns["eliciting"][row] != 0
    acked, rtt, delay, largest = _acknowledged(known, (number, time_ns, eliciting), reverse=reverse)
    lost, lost_ns = _lost(number, acked, *largest)
    lost[~eliciting & (acked == NOT_A_TIME)] = NA
    flight = _flight(columns["bytes"][row] * eliciting, time_ns, acked, lost_ns)
    return SentPackets(row, number, time_ns, acked, rtt, delay, lost, lost_ns, flight)


def _acknowledged(
    known: QuicConnection, sent: tuple[Numbers, Times, Mask], *, reverse: bool
) -> tuple[Times, Times, Times, tuple[Numbers, Times]]:
    """Return when each packet was acknowledged, its round trip and stated delay; and the largest numbers with times.

    `sent` are numbers, ascending, times, and which packets ask for an acknowledgement.
    """
    number, time_ns, eliciting = sent
    acked = np.full(len(number), NOT_A_TIME, np.int64)
    rtt, delay = acked.copy(), acked.copy()
    largest: list[tuple[int, int]] = []
    left = _Unacknowledged(len(number))
    exponent = _exponent(known, reverse=reverse)
    scale = known.source != "qlog"
    for at_ns, top, waited, ranges in _acks(known, reverse=reverse):
        newest = -1
        lows = np.searchsorted(number, [low for low, _ in ranges])
        highs = np.searchsorted(number, [high for _, high in ranges], side="right")
        for low, high in zip(lows.tolist(), highs.tolist(), strict=True):
            for index in left.take(low, high):
                acked[index] = at_ns
                newest = max(newest, index)
        if newest >= 0 and number[newest] == top:
            if eliciting[newest]:
                rtt[newest] = at_ns - time_ns[newest]
            if waited != NOT_A_TIME:
                delay[newest] = (waited << exponent) * 1000 if scale else waited
        if not largest or top > largest[-1][0]:
            largest.append((top, at_ns))
    tops = np.array(largest, np.int64).reshape(-1, 2)
    return acked, rtt, delay, (tops[:, 0], tops[:, 1])


class _Unacknowledged:
    """The packets that no ACK named yet; each is taken once, however often its range is repeated."""

    def __init__(self, count: int) -> None:
        self._following = list(range(count + 1))

    def take(self, low: int, high: int) -> Iterator[int]:
        """Yield the packets from `low` on and below `high`, and remove them."""
        index = self._first(low)
        while index < high:
            yield index
            self._following[index] = index + 1
            index = self._first(index)

    def _first(self, at: int) -> int:
        following, root = self._following, at
        while following[root] != root:
            root = following[root]
        while following[at] != root:
            following[at], at = root, following[at]
        return root


def _exponent(known: QuicConnection, *, reverse: bool) -> int:
    """Return the exponent of the delays in ACKs of one direction's packets (RFC 9000, 18.2); 3 if not known."""
    message = known.hello if reverse else known.chosen
    return min(message.parameters.get(Parameter.ACK_DELAY_EXPONENT, 3), 20)


def _acks(known: QuicConnection, *, reverse: bool) -> list[tuple[int, int, int, list[tuple[int, int]]]]:
    """Return the ACKs of one direction's packets in order: time, largest number, delay as sent, ranges."""
    columns, collected = known.columns, []
    is_theirs = (columns["reverse"] != reverse) & (columns["space"] == Space.ONE_RTT.value)
    ranges: dict[int, list[tuple[int, int]]] = {}
    for row, low, high in known.frames.ranges:
        ranges.setdefault(row, []).append((low, high))
    time_ns = columns["time_ns"]
    for row, top, waited in known.frames.acks:
        if is_theirs[row]:
            collected.append((int(time_ns[row]), top, waited, ranges.get(row, [])))
    return sorted(collected, key=lambda each: each[0])


def _lost(number: Numbers, acked: Times, largest: Numbers, largest_ns: Times) -> tuple[Numbers, Times]:
    lost = np.where(acked != NOT_A_TIME, 0, NA)
    lost_ns = np.full(len(number), NOT_A_TIME, np.int64)
    if not len(largest):
        return lost, lost_ns
    place = np.searchsorted(largest, number + PACKET_THRESHOLD)
    passed = place < len(largest)
    when = np.where(passed, largest_ns[np.minimum(place, len(largest) - 1)], NOT_A_TIME)
    lost[passed & (acked == NOT_A_TIME)] = 1
    is_late = passed & ((acked == NOT_A_TIME) | (acked > when))
    lost_ns[is_late] = when[is_late]
    return lost, lost_ns


def _flight(size: Numbers, time_ns: Times, acked: Times, lost_ns: Times) -> Numbers:
    """Return the bytes in flight behind each packet."""
    never = np.iinfo(np.int64).max
    ends = np.minimum(np.where(acked == NOT_A_TIME, never, acked), np.where(lost_ns == NOT_A_TIME, never, lost_ns))
    order = np.argsort(ends, kind="stable")
    gone = np.cumsum(size[order])
    begun = np.argsort(time_ns, kind="stable")
    there = np.empty(len(size), np.int64)
    there[begun] = np.cumsum(size[begun])
    left = np.searchsorted(ends[order], time_ns, side="right")
    return np.maximum(there - np.where(left > 0, gone[np.maximum(left - 1, 0)], 0), 0) if len(size) else there


# --- stream data ---


@dataclass(slots=True)
class Places:
    """The place of each byte of all streams of one direction in one order."""

    full_bytes: int = 1200
    """Length of the data in a full packet."""
    end: int = 0
    """Place behind all data so far."""
    frontier: dict[int, int] = field(default_factory=dict)
    """Offset behind the data of each stream."""
    _offsets: dict[int, list[int]] = field(default_factory=dict)
    _parts: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    """By stream, of each piece: length, place, and length in the order."""

    def take(self, stream: int, offset: int, length: int, *, is_full: bool) -> tuple[int, int, int]:
        """Return begin and end of data in the order, and how many bytes of them are repeated."""
        known = self.frontier.get(stream, 0)
        repeated = max(min(known, offset + length) - offset, 0)
        if offset > known:  # not seen: lost before the capture, or cut off
            self._add(stream, known, offset - known, round((offset - known) * self._ratio(length, is_full=is_full)))
            known = offset
        if offset + length > known:
            new = offset + length - known
            self._add(stream, known, new, self.full_bytes if is_full and not repeated else new)
        return self.place(stream, offset), self.place(stream, offset + length), repeated

    def _ratio(self, length: int, *, is_full: bool) -> float:
        return self.full_bytes / length if is_full and length else 1.0

    def _add(self, stream: int, offset: int, length: int, size: int) -> None:
        self._offsets.setdefault(stream, []).append(offset)
        self._parts.setdefault(stream, []).append((length, self.end, size))
        self.end += size
        self.frontier[stream] = offset + length

    def place(self, stream: int, offset: int) -> int:
        """Return the place of an offset that was seen; of the end of a piece, the place behind it."""
        offsets = self._offsets.get(stream, [])
        index = bisect_right(offsets, max(offset - 1, 0)) - 1
        if index < 0:
            return self.end
        length, at, size = self._parts[stream][index]
        return at + (offset - offsets[index]) * size // length if length else at

    def next_place(self, stream: int, offset: int) -> int:
        """Return the place of the byte at an offset: of two pieces that meet there, in the later one."""
        offsets = self._offsets.get(stream, [])
        index = bisect_right(offsets, offset) - 1
        if index < 0:
            return self.end
        length, at, size = self._parts[stream][index]
        return at + min(offset - offsets[index], length) * size // length if length else at


def full_sizes(known: QuicConnection, *, reverse: bool) -> tuple[int, int]:
    """Return the length of a full packet of one direction, and of the stream data in most of them."""
    columns = known.columns
    rows = np.array([each[0] for each in known.frames.streams], np.int64)
    length = np.array([each[3] for each in known.frames.streams], np.int64)
    mine = columns["reverse"][rows] == reverse if len(rows) else np.zeros(0, bool)
    rows, length = rows[mine], length[mine]
    if not len(rows):
        return 1200, 1160
    sizes = columns["bytes"][rows]
    largest = int(np.percentile(sizes, 98))
    full = length[sizes >= _FULL * largest]
    values, counts = np.unique(full, return_counts=True)
    return largest, max(int(values[counts.argmax()]), 1)


# --- the image as TCP ---


class Segments(NamedTuple):
    """A connection of QUIC in the form of TCP segments."""

    tables: CaptureTables
    row: Numbers
    """Row of the packet of each segment: int64, shape (n_segments,)."""
    places: tuple[Places, Places]
    """Of the client's data, of the server's."""


@dataclass(slots=True)
class _Side:
    """One direction while its packets are taken in order."""

    places: Places
    full_packet: int
    max_data: int
    max_stream: int
    stream_limits: dict[int, int] = field(default_factory=dict)
    carried: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Places that a packet number carried."""
    acked: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of places that are acknowledged, ascending, apart."""
    used: int = 0
    """Stream data that flow control counted."""
    seen: dict[int, int] = field(default_factory=dict)
    """Offset behind the data of each stream that were seen so far."""
    end: int = 0
    """Place behind the data that were seen so far."""
    last_stream: int = 0

    def credit(self) -> int:
        """Return how many bytes more flow control allows, of the connection and of the stream that sent last."""
        own = self.stream_limits.get(self.last_stream, self.max_stream)
        stream = own - self.seen.get(self.last_stream, 0)
        return max(min(self.max_data - self.used, stream), 0)

    @property
    def cumulative(self) -> int:
        """Place up to which all is acknowledged."""
        return self.acked[0][1] if self.acked and self.acked[0][0] == 0 else 0

    def take_ack(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Acknowledge packets; return the blocks above the cumulative place, the newest first."""
        fresh: list[tuple[int, int]] = []
        for low, high in ranges:
            numbers = (
                range(low, high + 1)
                if high - low < len(self.carried)
                else [each for each in self.carried if low <= each <= high]
            )
            for number in numbers:
                fresh += self.carried.pop(number, [])
        for begin, end in fresh:
            self._cover(begin, end)
        above = [each for each in self.acked if each[0] > 0]
        if not above:
            return []
        newest = max((end for _, end in fresh), default=0)
        first = [each for each in above if each[0] < newest <= each[1]]
        return [*first, *(each for each in reversed(above) if each not in first)][:_MOST_BLOCKS]

    def _cover(self, begin: int, end: int) -> None:
        kept = self.acked
        index = bisect_right(kept, (begin, begin))
        if index and kept[index - 1][1] >= begin:
            index -= 1
        last = index
        while last < len(kept) and kept[last][0] <= end:
            begin, end = min(begin, kept[last][0]), max(end, kept[last][1])
            last += 1
        kept[index:last] = [(begin, end)]


def as_segments(
    known: QuicConnection,
    *,
    name: str,
    limits: tuple[dict[int, int], dict[int, int]] | None = None,
    places: tuple[Places, Places] | None = None,
) -> Segments:
    """Return a connection whose frames are known in the form of TCP segments.

    Parameters
    ----------
    known : QuicConnection
    name : str
        Of the file that shows it.
    limits : tuple of dict, optional
        Transport parameters of the client and of the server; by default those of the handshake.
    places : tuple of Places, optional
        The order of the data, if another capture has shown it: where data are sent, none are missing.
    """
    return _Image(known, limits, places).segments(name)


class _Image:
    """Makes the segments of one connection."""

    def __init__(
        self,
        known: QuicConnection,
        limits: tuple[dict[int, int], dict[int, int]] | None,
        places: tuple[Places, Places] | None,
    ) -> None:
        self.known = known
        client, server = limits or (known.hello.parameters, known.chosen.parameters)
        self.sides = []
        for reverse, peer in ((False, server), (True, client)):
            packet, data = full_sizes(known, reverse=reverse)
            order = places[reverse] if places is not None else Places(data)
            streams = [peer[each] for each in (Parameter.MAX_STREAM_DATA_BIDI_REMOTE,
                       Parameter.MAX_STREAM_DATA_BIDI_LOCAL) if each in peer]  # fmt: skip
            self.sides.append(
                _Side(order, packet, peer.get(Parameter.MAX_DATA, 1 << 61), max(streams, default=1 << 61))
            )
        self.by_row: dict[int, list[tuple[int, int, int]]] = {}
        for row, stream, offset, length, _ in known.frames.streams:
            self.by_row.setdefault(row, []).append((stream, offset, length))
        self.ranges: dict[int, list[tuple[int, int]]] = {}
        for row, low, high in known.frames.ranges:
            self.ranges.setdefault(row, []).append((low, high))
        self.numbers: dict[int, list[tuple[int, int, int]]] = {}
        for row, kind, first, last in known.frames.numbers:
            self.numbers.setdefault(row, []).append((kind, first, last))
        self.pings = {row for row, kind in known.frames.others if kind == FrameType.PING.value}
        self.out: list[tuple[int, ...]] = []
        """Row, time, reverse, seq, ack, payload, flags, window, ip_id, blocks."""
        self.blocks: list[tuple[int, int, int]] = []

    def segments(self, name: str) -> Segments:
        """Return all segments."""
        columns = self.known.columns
        time_ns = columns["time_ns"].tolist()
        self._open(columns)
        one_rtt = (columns["space"] == Space.ONE_RTT.value) & (columns["is_read"] != 0)
        for row in np.flatnonzero(one_rtt).tolist():
            self._take(row, time_ns[row], reverse=bool(columns["reverse"][row]), number=int(columns["number"][row]))
            if len(self.out) > _MOST_SEGMENTS:
                break
        return self._tables(name)

    def _open(self, columns: dict[str, Array]) -> None:
        """Add the handshake as SYN, SYN-ACK and ACK: data can be sent once the client sends a 1-RTT packet."""
        time_ns, reverse, space = columns["time_ns"], columns["reverse"], columns["space"]
        early = np.flatnonzero(space < Space.ONE_RTT.value)
        client = early[~reverse[early]]
        done = np.flatnonzero((space == Space.ONE_RTT.value) & ~reverse)
        if not len(client) or not len(done):
            return
        server = early[reverse[early] & (early < done[0])]
        if not len(server):
            return
        numbers = columns["number"]
        for row, is_server, flags in (
            (int(client[0]), 0, Flag.SYN), (int(server[0]), 1, Flag.SYN | Flag.ACK), (int(done[0]), 0, Flag.ACK)
        ):  # fmt: skip
            is_last = flags == Flag.ACK
            name = (int(space[row]) + 1) << 12 | int(
                numbers[row]
            ) & 0xFFF  # another packet is another one elsewhere, too
            self.out.append((row, int(time_ns[row]), is_server, int(is_last), int(flags != Flag.SYN), 0,
                             int(flags), 65535, name, 0))  # fmt: skip

    def _take(self, row: int, at_ns: int, *, reverse: bool, number: int) -> None:
        mine, theirs = self.sides[reverse], self.sides[not reverse]
        blocks: list[tuple[int, int]] = []
        answers = row in self.ranges
        for kind, first, last in self.numbers.get(row, ()):
            if kind == FrameType.MAX_DATA:
                theirs.max_data = max(theirs.max_data if theirs.max_data < 1 << 61 else 0, last)
                answers = True
            elif kind == FrameType.MAX_STREAM_DATA:
                theirs.stream_limits[first] = max(theirs.stream_limits.get(first, 0), last)
                answers = True
        if row in self.ranges:
            blocks = theirs.take_ack(self.ranges[row])
        parts = self._parts(mine, row, number)
        if not parts and row in self.pings and mine.end > mine.cumulative:
            parts = [(mine.cumulative, mine.cumulative + 1)]  # a probe: it asks as a retransmission does
        if not parts and not answers:
            return
        window = self._window(theirs)
        ack = theirs.cumulative + 1
        for begin, end in parts or [(mine.end, mine.end)]:
            place = len(self.out)
            self.out.append((row, at_ns, int(reverse), begin + 1, ack, end - begin, int(Flag.ACK), window,
                             number & 0xFFFF, len(blocks)))  # fmt: skip
            self.blocks += [(place, left + 1, right + 1) for left, right in blocks]
            blocks = []

    def _parts(self, mine: _Side, row: int, number: int) -> list[tuple[int, int]]:
        """Return the places of the data in a packet, joined where they meet."""
        parts: list[tuple[int, int]] = []
        frames = [each for each in self.by_row.get(row, ()) if each[2] > 0]
        is_full = len(frames) == 1 and self.known.columns["bytes"][row] >= _SMALL * mine.full_packet
        for stream, offset, length in frames:
            if offset + length > mine.places.frontier.get(stream, 0):
                mine.places.take(stream, offset, length, is_full=is_full)
            begin, end = mine.places.next_place(stream, offset), mine.places.place(stream, offset + length)
            before = mine.seen.get(stream, 0)
            mine.used += max(offset + length - before, 0)
            mine.seen[stream], mine.end = max(before, offset + length), max(mine.end, end)
            mine.last_stream = stream
            if parts and parts[-1][1] == begin:
                parts[-1] = (parts[-1][0], end)
            elif end > begin:
                parts.append((begin, end))
        if parts and number >= 0:
            mine.carried[number] = parts
        return parts

    def _window(self, side: _Side) -> int:
        """Return the window that one side may still use, from what is acknowledged on."""
        if side.max_data >= 1 << 61 and not side.stream_limits and side.max_stream >= 1 << 61:
            return _UNLIMITED
        return min(side.end - side.cumulative + side.credit(), _UNLIMITED)

    def _tables(self, name: str) -> Segments:
        rows = np.array(self.out, np.int64).reshape(-1, 10)
        columns = self.known.columns
        largest = int(rows[:, 7].max(initial=65535))
        shift = max((largest >> 16).bit_length(), 0)
        is_syn = rows[:, 6] & int(Flag.SYN) != 0
        window = np.where(is_syn, 65535, np.minimum(rows[:, 7] >> shift, 65535))
        source = SourceFile(name, "quic", packets=len(rows), protocols={"tcp": len(rows)})
        rows[:, 1] = _without_reaction(rows)
        timed = rows[:, 1]
        source.first_ns, source.last_ns = int(timed.min(initial=0)), int(timed.max(initial=0))
        table = Table(SEGMENTS, {
            "time_ns": rows[:, 1], "frame": columns["frame"][rows[:, 0]].astype(np.uint32),
            "file": np.zeros(len(rows), np.uint16), "flow": rows[:, 2].astype(np.int32),
            "seq": (rows[:, 3] & 0xFFFFFFFF).astype(np.uint32), "ack": (rows[:, 4] & 0xFFFFFFFF).astype(np.uint32),
            "payload_bytes": rows[:, 5].astype(np.int32), "flags": rows[:, 6].astype(np.uint16),
            "window": window.astype(np.uint16), "ip_id": rows[:, 8].astype(np.uint16),
            "tsval": np.zeros(len(rows), np.uint32), "tsecr": np.zeros(len(rows), np.uint32),
            "sack_blocks": rows[:, 9].astype(np.uint8), "marks": np.zeros(len(rows), np.uint16),
        })  # fmt: skip
        blocks = np.array(self.blocks, np.int64).reshape(-1, 3)
        sacks = Table(SACK_BLOCKS, {
            "row": blocks[:, 0], "left": (blocks[:, 1] & 0xFFFFFFFF).astype(np.uint32),
            "right": (blocks[:, 2] & 0xFFFFFFFF).astype(np.uint32),
        })  # fmt: skip
        syns = np.flatnonzero(is_syn)
        largest_data = max(side.places.full_bytes for side in self.sides)  # one end's requests may be a few bytes
        sizes = [largest_data for _ in syns]
        options = Table(SYN_OPTIONS, {
            "row": syns, "mss_bytes": np.array(sizes, np.int32), "window_scale": np.full(len(syns), shift, np.int16),
            "sack_permitted": np.ones(len(syns), bool), "mptcp": np.zeros(len(syns), bool),
            "fast_open": np.zeros(len(syns), bool),
        })  # fmt: skip
        tables = CaptureTables([source], table, _flows(self.known), sacks, options)
        return Segments(tables, rows[:, 0], (self.sides[0].places, self.sides[1].places))


def _without_reaction(rows: Numbers) -> Times:
    """Return the times of segments, in which data that answer an ACK follow it at once."""
    time_ns = rows[:, 1].copy()
    for way in (0, 1):
        data = np.flatnonzero((rows[:, 2] == way) & (rows[:, 5] > 0))
        acks = rows[rows[:, 2] != way, 1]
        if not len(data) or not len(acks):
            continue
        last = np.searchsorted(acks, time_ns[data], side="right") - 1
        came = acks[np.maximum(last, 0)]
        answers = (last >= 0) & (time_ns[data] - came <= _REACTION_MS * 1_000_000)
        time_ns[data[answers]] = np.minimum(time_ns[data], came + _AT_ONCE_NS)[answers]
    return time_ns


def _flows(known: QuicConnection) -> Table:
    from ipaddress import ip_address  # noqa: PLC0415  # only here

    def packed(host: str) -> tuple[bytes, int]:
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:  # a qlog names no addresses: any two that differ
            address = ip_address(1 + (host == "server"))
        return address.packed.ljust(16, b"\0"), address.version

    (one, version), (two, _) = packed(known.ends.src), packed(known.ends.dst)
    return Table(FLOWS, {
        "ip_version": np.array([version], np.uint8), "address_a": np.array([one], "V16"),
        "address_b": np.array([two], "V16"), "port_a": np.array([known.ends.sport], np.uint16),
        "port_b": np.array([known.ends.dport], np.uint16), "vlan": np.array([-1], np.int64),
    })  # fmt: skip


def repeated_bytes(known: QuicConnection) -> tuple[Numbers, Array, Mask]:
    """Return by packet: repeated stream bytes (int64), first STREAM frame (n, 3), and whether it has one."""
    count = known.packets
    repeated = np.zeros(count, np.int64)
    first = np.full((count, 3), NA, np.int64)
    has_one = np.zeros(count, bool)
    places = (Places(), Places())
    reverse = known.columns["reverse"].tolist() if count else []
    for row, stream, offset, length, _ in known.frames.streams:
        repeated[row] += places[reverse[row]].take(stream, offset, length, is_full=False)[2]
        if not has_one[row]:
            first[row], has_one[row] = (stream, offset, length), True
    return repeated, first, has_one


def datagram_segments(several: Sequence[QuicConnection], name: str) -> CaptureTables:
    """Return datagrams in the form of segments that name them by their encrypted bytes: no key is needed.

    What relates the clocks of two captures compares their segments; so it can compare datagrams.
    """
    parts: list[dict[str, Array]] = []
    for flow, known in enumerate(several):
        columns = known.columns
        first = np.unique(columns["datagram"], return_index=True)[1]
        words = np.ascontiguousarray(known.names).view(np.uint8).reshape(len(first), -1)[:, :40].copy().view(">u4")
        mixed = words.astype(np.uint64) * np.array([2654435761 + 2 * i for i in range(10)], np.uint64)
        mixed ^= mixed >> np.uint64(29)
        high, low = mixed[:, ::2].sum(axis=1), mixed[:, 1::2].sum(axis=1)
        parts.append({
            "time_ns": columns["time_ns"][first], "frame": columns["frame"][first].astype(np.uint32),
            "file": np.zeros(len(first), np.uint16),
            "flow": (2 * flow + columns["reverse"][first]).astype(np.int32),
            "seq": (high & np.uint64(0xFFFFFFFF)).astype(np.uint32),
            "ack": (low & np.uint64(0xFFFFFFFF)).astype(np.uint32),
            "payload_bytes": known.datagram_bytes.astype(np.int32),
            "flags": np.full(len(first), int(Flag.ACK), np.uint16), "window": np.zeros(len(first), np.uint16),
            "ip_id": np.zeros(len(first), np.uint16), "tsval": np.zeros(len(first), np.uint32),
            "tsecr": np.zeros(len(first), np.uint32), "sack_blocks": np.zeros(len(first), np.uint8),
            "marks": np.zeros(len(first), np.uint16),
        })  # fmt: skip
    joined = Table.concatenate(SEGMENTS, [Table(SEGMENTS, part) for part in parts])
    flows = Table.concatenate(FLOWS, [_flows(known) for known in several])
    order = np.argsort(joined["frame"], kind="stable")
    source = SourceFile(name, "quic", packets=len(joined), protocols={"tcp": len(joined)})
    return CaptureTables([source], joined.take(order), flows)
