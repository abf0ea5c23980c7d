"""The QUIC connections of a capture: datagrams of UDP whose flow has a long header of QUIC (RFC 9000, 9001, 9369).

Without keys the handshake can be read (Initial packets are protected by what the wire itself shows) and of all further
packets their sizes, times and the spin bit. With the secrets of TLS all frames are read, also of packets that the
capture cut, as far as they are there. Long headers are few and are taken one by one, short ones all at a time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.captured import IpProtocol, SourceFile
from multitracer.endpoints import Endpoints, address_text
from multitracer.protocols.quic import (
    SAMPLE_BYTES,
    SUITES,
    TAG_BYTES,
    VERSION_1,
    CryptoStream,
    Frames,
    LongHeader,
    PacketKeys,
    Space,
    Suite,
    TlsHello,
    can_open,
    encrypted_extensions,
    hello,
    initial_keys,
    long_headers,
    read_frames,
    unwrapped,
)
from multitracer.tables import NA
from parsers._contents import EndPairs
from parsers._packets.decode import Decoder, by_link_type
from parsers._packets.layers import PacketCounts, u16, u32
from parsers._read import format_of_capture
from parsers._stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from multitracer.tables import Array, Mask, Numbers, Times
    from parsers._packets.ip import Datagrams

    Bytes = NDArray[np.uint8]
    Secrets = Mapping[bytes, Mapping[str, bytes]]
    """Secrets of TLS by their label, by the client's random number."""

MOST_CONNECTIONS = 4096
"""Connections of a capture point that are read; the others are counted. Not measured."""
_MOST_BYTES = 1 << 30
"""Bytes of datagrams that are kept whole; beyond them only their begin is, as if the capture had cut it."""
_BEGIN_BYTES = 192
_MOST_LONG = 512
"""Long headers of a connection that are opened, each way; a handshake has some ten."""
_NAME_BYTES = 40
"""Begin of a datagram that names it: encrypted bytes that no second datagram has."""
_HEADER_BYTES = 8
_VN_OR_LONG = 0x80
_NO_ROWS = np.empty(0, np.int64)
NO_KEYS = "no keys were given: the payload is encrypted (a key log, --keylog, or a qlog would tell)"
NO_PACKAGE = "the package cryptography is not installed (pip install multitracer[quic])"
WRONG_KEYS = "the keys of this connection do not open its packets"
OTHER_KEYS = "the key log has no secrets of this connection"
HALF_OF_KEYS = "the key log has only some secrets of this connection: both traffic secrets are needed"
NO_RANDOM = "the ClientHello was cut or not captured, so that no key can be matched"


class _Udp(NamedTuple):
    """The datagrams of flows with QUIC, in capture order; arrays of shape (n,)."""

    data: Bytes
    at: Numbers
    """Where the payload begins in `data`."""
    present: Numbers
    """Captured bytes of the payload."""
    length: Numbers
    """Bytes of the payload, by UDP's header."""
    time_ns: Times
    frame: Numbers
    file: Numbers
    flow: Numbers
    """Number of the flow, with the same one for both directions."""
    swapped: Mask
    """Whether it comes from the end that sorts second."""
    ends: list[tuple[int, ...]]
    """High half, low half and port of both ends of each flow, the one that sorts first before the other."""


@dataclass(slots=True)
class QuicConnection:
    """One connection at one capture point, or in one qlog."""

    ends: Endpoints
    """Those of the client first."""
    version: int = VERSION_1
    hello: TlsHello = field(default_factory=TlsHello)
    chosen: TlsHello = field(default_factory=TlsHello)
    """The server's EncryptedExtensions."""
    client_cid: bytes = b""
    server_cid: bytes = b""
    suite: int | None = None
    has_retry: bool = False
    has_negotiation: bool = False
    absent: str = NO_KEYS
    """Why payloads of 1-RTT packets were not read; "" if they were."""
    source: str = "capture"
    columns: dict[str, Array] = field(default_factory=dict)
    """By packet: time_ns, frame, file, reverse, space, number, bytes, datagram, spin, key_phase, eliciting, is_read."""
    names: Array = field(default_factory=lambda: np.empty(0, f"V{_NAME_BYTES + 4}"))
    """What names each datagram: its encrypted begin and its length."""
    datagram_bytes: Numbers = field(default_factory=lambda: _NO_ROWS)
    frames: Frames = field(default_factory=Frames)
    """Frames of the packets whose payload was read; rows are those of `columns`."""
    unread: Counter[str] = field(default_factory=Counter)
    """Packets of which nothing inside was read, by reason."""
    state: dict[str, Array] = field(default_factory=dict)
    """Of a qlog: the sender's own state."""
    is_server: bool | None = None
    """Of a qlog: whether the server wrote it."""

    @property
    def packets(self) -> int:
        """Number of packets."""
        return len(self.columns["time_ns"]) if self.columns else 0


@dataclass(slots=True)
class QuicCapture:
    """The QUIC connections of one capture point."""

    connections: list[QuicConnection] = field(default_factory=list)
    left_out: int = 0
    """Datagrams of QUIC that belong to no connection whose begin was captured, or are beyond the bound."""


def read_quic(files: Iterable[SourceFile], secrets: Secrets) -> QuicCapture:
    """Return the QUIC connections in the capture files of one point, of those packets that were read before.

    Parameters
    ----------
    files : iterable of SourceFile
        As `read_capture` made them, in order.
    secrets : mapping
        Secrets of TLS; they are used and not kept.

    Raises
    ------
    InputError, FormatError
        If a file cannot be read.
    """
    gathered = _Gathered()
    for number, file in enumerate(files):
        gathered.read(file, number)
    udp = gathered.gathered()
    return QuicCapture() if udp is None else _connections(udp, secrets)


# --- from records to datagrams ---


class _Gathered(Decoder):
    """Collects the datagrams of flows that have shown a long header of QUIC."""

    def __init__(self) -> None:
        super().__init__()
        self._proven: dict[tuple[int, ...], int] = {}
        self._parts: list[tuple[Array, ...]] = []
        self._stored: list[Bytes] = []
        self._bytes = 0

    def read(self, file: SourceFile, number: int) -> None:
        """Take the packets of a file that were read before."""
        before = 0
        self.files.append(SourceFile("", ""))
        with open_stream(file.path) as stream:
            blocks = format_of_capture(stream).blocks
            for records in () if blocks is None else blocks(stream, SourceFile(file.path, "")):
                kept = records.first(file.packets - before)
                if len(kept):
                    ledger = PacketCounts({}, {})
                    parts = [p for p in self._datagrams(by_link_type(kept), ledger) if len(p)]
                    for part in parts:
                        self._take(part, kept.time_ns, (before + 1, number))
                before += len(records)
                self._records += len(records)
                if before >= file.packets:
                    break

    def _take(self, datagrams: Datagrams, time_ns: Times, place: tuple[int, int]) -> None:
        packets = datagrams.packets
        is_udp = (datagrams.protocol == IpProtocol.UDP) & (packets.end - packets.at >= _HEADER_BYTES + 1)
        if not is_udp.any():
            return
        chosen = datagrams.keep(is_udp)
        packets = chosen.packets
        at = packets.at + _HEADER_BYTES
        ports = u16(packets.data, packets.at), u16(packets.data, packets.at + 2)
        length = np.maximum(u16(packets.data, packets.at + 4) - _HEADER_BYTES, 0)
        present = np.minimum(packets.end - at, length)
        keys, of, swapped = EndPairs.of(chosen, ports)
        begins = _begins(packets.data, at, present, length)
        for flow in np.unique(of[begins]).tolist():
            if keys[flow] not in self._proven and len(self._proven) < 1 << 16:
                self._proven[keys[flow]] = len(self._proven)
        number = np.array([self._proven.get(key, -1) for key in keys], np.int64)[of]
        kept = np.flatnonzero((number >= 0) & (present > 0))
        if not len(kept):
            return
        size = present[kept] if self._bytes < _MOST_BYTES else np.minimum(present[kept], _BEGIN_BYTES)
        starts = self._bytes + np.cumsum(size) - size
        view = packets.data
        self._stored.append(
            np.concatenate([view[a : a + n] for a, n in zip(at[kept].tolist(), size.tolist(), strict=True)])
        )
        self._bytes += int(size.sum())
        record = packets.record[kept]
        self._parts.append(
            (starts, size, length[kept], time_ns[record], record + place[0],
             np.full(len(kept), place[1], np.int64), number[kept], swapped[kept])
        )  # fmt: skip

    def gathered(self) -> _Udp | None:
        """Return all datagrams; None if there are none."""
        if not self._parts:
            return None
        columns = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        order = np.lexsort((columns[4], columns[5]))
        padded = np.concatenate([*self._stored, np.zeros(64, np.uint8)])
        at, present, length, time_ns, frame, file, flow, swapped = (column[order] for column in columns)
        return _Udp(padded, at, present, length, time_ns, frame, file, flow, swapped, list(self._proven))


def _begins(data: Bytes, at: Numbers, present: Numbers, length: Numbers) -> Mask:
    """Return which datagrams begin with a long header of a known version, or negotiate one (RFC 9000, 17.2)."""
    version = u32(data, at + 1)
    known = (version <= 1) | (version == 0x6B3343CF)
    return np.asarray((data[at] & 0x80 != 0) & known & (data[at + 5] <= 20) & (length >= 20) & (present >= 20))


# --- from datagrams to connections ---


class _Opening:
    """A connection while its long headers are read."""

    def __init__(self, ends: Endpoints, first: int, client_is_second: bool, header: LongHeader) -> None:
        self.known = QuicConnection(ends, header.version, client_cid=header.source)
        self.first = first
        self.client_is_second = client_is_second
        self.initial: tuple[PacketKeys, PacketKeys] | None = None
        self.crypto = {(space, side): CryptoStream() for space in (Space.INITIAL, Space.HANDSHAKE) for side in (0, 1)}
        self.largest: dict[tuple[Space, int], int] = {}
        self.handshake: tuple[PacketKeys, PacketKeys] | None = None
        self.secrets: Mapping[str, bytes] = {}
        self.opened = [0, 0]
        self.long: list[tuple[int, ...]] = []
        """Datagram, offset, side (0 client), space, number, bytes, key phase, eliciting, read."""
        self.short: list[tuple[int, int]] = []
        """Datagram and offset of short headers behind long ones."""
        self.frames = Frames()


def _connections(udp: _Udp, secrets: Secrets) -> QuicCapture:
    """Return the connections of all flows."""
    collected = QuicCapture()
    order = np.argsort(udp.flow, kind="stable")
    edges = np.searchsorted(udp.flow[order], np.arange(len(udp.ends) + 1))
    parts: list[tuple[_Opening, Numbers]] = []
    for flow, ends in enumerate(udp.ends):
        rows = order[edges[flow] : edges[flow + 1]]
        openings = _openings(udp, rows, ends, secrets)
        begins = [opening.first for opening in openings]
        collected.left_out += int(np.searchsorted(rows, begins[0])) if begins else len(rows)
        for opening, begin, end in zip(openings, begins, [*begins[1:], None], strict=True):
            mine = rows[np.searchsorted(rows, begin) : None if end is None else np.searchsorted(rows, end)]
            parts.append((opening, mine))
    parts.sort(key=lambda part: part[0].first)
    for opening, mine in parts[:MOST_CONNECTIONS]:
        collected.connections.append(_finished(udp, opening, mine, has_secrets=bool(secrets)))
    collected.left_out += sum(len(mine) for _, mine in parts[MOST_CONNECTIONS:])
    return collected


def _openings(udp: _Udp, rows: Numbers, ends: tuple[int, ...], secrets: Secrets) -> list[_Opening]:
    """Return the connections that begin in a flow, with what their long headers show."""
    openings: list[_Opening] = []
    is_long = udp.data[udp.at[rows]] & 0x80 != 0
    for row in rows[is_long].tolist():
        data = udp.data[udp.at[row] : udp.at[row] + udp.present[row]].tobytes()
        length, end = int(udp.length[row]), 0
        second = bool(udp.swapped[row])
        for header in long_headers(data, length):
            current = _opening_of(openings, header, row, second, ends)
            if current is None:
                end = length
                break
            side = int(second != current.client_is_second)
            _take_long(current, header, (row, end, side), data, secrets)
            end = header.end
        if openings and end < min(len(data), length) and not data[end] & 0x80 and data[end] & 0x40:
            openings[-1].short.append((row, end))
    return openings


def _opening_of(
    openings: list[_Opening], header: LongHeader, row: int, second: bool, ends: tuple[int, ...]
) -> _Opening | None:
    """Return the connection of a long header; a new one if it is the first Initial of a client; None: of none."""
    current = openings[-1] if openings else None
    if header.space is not Space.INITIAL:
        return current
    if current is not None:
        known = current.known
        mine = known.client_cid if second == current.client_is_second else known.server_cid
        if not known.server_cid or header.source in (mine, known.client_cid, known.server_cid):
            return current
        if second != current.client_is_second or not header.destination:
            return current
    hosts = [address_text((ends[0], ends[1])), address_text((ends[3], ends[4]))]
    client, server = (1, 0) if second else (0, 1)
    ports = int(ends[2]), int(ends[5])
    named = Endpoints(hosts[client], ports[client], hosts[server], ports[server])
    openings.append(_Opening(named, row, second, header))
    return openings[-1]


def _take_long(
    current: _Opening, header: LongHeader, place: tuple[int, int, int], data: bytes, secrets: Secrets
) -> None:
    """Note a long header, and read what is in it if it can be opened."""
    row, offset, side = place
    known, space = current.known, header.space
    number, eliciting, is_read = NA, NA, 0
    if space is Space.NEGOTIATION:
        known.has_negotiation = True
    elif space is Space.RETRY:
        known.has_retry, current.initial = True, None  # the client begins again, with keys by the server's id
        current.crypto = {key: CryptoStream() for key in current.crypto}
    elif space in (Space.INITIAL, Space.HANDSHAKE):
        if side == 1 and not known.server_cid:
            known.server_cid = header.source
        if known.version != header.version:
            known.version, current.initial = header.version, None
        if space is Space.INITIAL and side == 0 and current.initial is None:
            current.initial = initial_keys(header.destination, header.version)
        current.opened[side] += 1
        keys = _keys(current, space, secrets)
        if keys is not None and current.opened[side] <= _MOST_LONG and can_open():
            number, eliciting, is_read = _open_long(current, keys[side], header, (offset, side), data)
    current.long.append((row, offset, side, space.value, number, header.end - offset, eliciting, is_read))


def _keys(current: _Opening, space: Space, secrets: Secrets) -> tuple[PacketKeys, PacketKeys] | None:
    if space is Space.INITIAL:
        return current.initial
    if current.handshake is None and secrets:
        _hellos(current, secrets)
        mine, suite = current.secrets, SUITES.get(current.known.suite or 0)
        names = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET")
        if suite is not None and all(name in mine for name in names):
            one, two = (PacketKeys.of(mine[name], suite, current.known.version) for name in names)
            current.handshake = one, two
    return current.handshake


def _hellos(current: _Opening, secrets: Secrets) -> None:
    """Read the messages of TLS as far as they are there, and choose the secrets by them."""
    known = current.known
    known.hello = hello(current.crypto[Space.INITIAL, 0].begin())
    server = hello(current.crypto[Space.INITIAL, 1].begin())
    known.suite = server.suite if server.suite is not None else known.suite
    known.chosen = encrypted_extensions(current.crypto[Space.HANDSHAKE, 1].begin())
    if known.hello.random is not None:
        current.secrets = secrets.get(known.hello.random, {})


def _open_long(
    current: _Opening, keys: PacketKeys, header: LongHeader, place: tuple[int, int], data: bytes
) -> tuple[int, int, int]:
    """Return packet number, whether it asks for an ACK, and whether its payload was read; NA, NA, 0 if not."""
    offset, side = place
    sample_at, end = header.number_at + 4, min(header.end, len(data))
    if sample_at + SAMPLE_BYTES > len(data):
        return NA, NA, 0
    sample = np.frombuffer(data[sample_at : sample_at + SAMPLE_BYTES], np.uint8)[None]
    mask = keys.masks(sample)[0].tobytes()
    first = data[offset] ^ mask[0] & 0x0F
    size = (first & 3) + 1
    raw = bytes(a ^ b for a, b in zip(data[header.number_at : header.number_at + size], mask[1:], strict=False))
    largest = current.largest.get((header.space, side), -1)
    number = unwrapped(int.from_bytes(raw, "big"), size, largest)
    at, complete = header.number_at + size, header.end - header.number_at - size - TAG_BYTES
    if complete <= 0:
        return NA, NA, 0
    if len(data) >= header.end:
        plain = keys.opened(number, bytes([first]) + data[offset + 1 : header.number_at] + raw, data[at : header.end])
        if plain is None:
            return NA, NA, 0
    else:
        sealed = np.frombuffer(data[at : min(end, at + complete)], np.uint8)
        plain = (sealed ^ keys.keystream(np.array([number]), len(sealed))[0]).tobytes()
    inside = Frames()
    read = read_frames(len(current.long), plain, complete, inside)
    if not read.is_valid:
        return NA, NA, 0
    current.largest[header.space, side] = max(largest, number)
    for _, at_byte, part in inside.crypto:
        current.crypto[header.space, side].add(at_byte, part)
    for name in ("acks", "ranges", "closes", "others"):
        getattr(current.frames, name).extend(getattr(inside, name))
    return number, int(read.is_eliciting), 1


# --- short headers, all at a time ---


class _Short(NamedTuple):
    """Short headers of one direction: datagram (row in the file), offset in it; int64, shape (n,)."""

    row: Numbers
    at: Numbers
    """Position in the data."""
    present: Numbers
    """Captured bytes from there on."""
    length: Numbers
    """Bytes of the packet."""


def _finished(udp: _Udp, current: _Opening, rows: Numbers, *, has_secrets: bool) -> QuicConnection:
    """Return a connection with all its packets in order."""
    known = current.known
    _hellos(current, {known.hello.random: current.secrets} if known.hello.random and current.secrets else {})
    is_short = udp.data[udp.at[rows]] & 0x80 == 0
    alone = rows[is_short]
    joined = np.array([row for row, _ in current.short], np.int64)
    skip = np.array([at for _, at in current.short], np.int64)
    row = np.concatenate([alone, joined])
    skipped = np.concatenate([np.zeros(len(alone), np.int64), skip])
    short = _Short(row, udp.at[row] + skipped, udp.present[row] - skipped, udp.length[row] - skipped)
    order = np.argsort(short.row, kind="stable")
    short = _Short(*(column[order] for column in short))
    side = (udp.swapped[short.row] != current.client_is_second).astype(np.int64)

    long = np.array(current.long, np.int64).reshape(-1, 8)
    total = len(long) + len(short.row)
    datagram = np.concatenate([long[:, 0], short.row])
    offset = np.concatenate([long[:, 1], short.at - udp.at[short.row]])
    place = np.empty(total, np.int64)
    in_order = np.lexsort((offset, datagram))
    place[in_order] = np.arange(total)
    columns = {
        "datagram": datagram,
        "reverse": np.concatenate([long[:, 2], side]) == 1,
        "space": np.concatenate([long[:, 3], np.full(len(side), Space.ONE_RTT.value)]),
        "number": np.concatenate([long[:, 4], np.full(len(side), NA)]),
        "bytes": np.concatenate([long[:, 5], short.length]),
        "eliciting": np.concatenate([long[:, 6], np.full(len(side), NA)]),
        "is_read": np.concatenate([long[:, 7], np.zeros(len(side), np.int64)]),
        "spin": np.concatenate([np.full(len(long), NA), udp.data[short.at] >> 5 & 1]),
        "key_phase": np.full(total, NA, np.int64),
    }
    known.columns = {name: values[in_order] for name, values in columns.items()}
    own = known.columns["datagram"]
    known.columns |= {"time_ns": udp.time_ns[own], "frame": udp.frame[own], "file": udp.file[own]}
    known.frames = _renumbered(current.frames, place)
    distinct, number = np.unique(own, return_inverse=True)
    known.columns["datagram"] = number.ravel()
    known.names, known.datagram_bytes = _names(udp, distinct), udp.length[distinct]
    _read_short(known, udp, short, (side, place[len(long) :]), current.secrets, has_secrets=has_secrets)
    return known


def _renumbered(frames: Frames, place: Numbers) -> Frames:
    rows = place.tolist()
    return Frames(
        acks=[(rows[each[0]], *each[1:]) for each in frames.acks],
        ranges=[(rows[each[0]], *each[1:]) for each in frames.ranges],
        closes=[(rows[each[0]], *each[1:]) for each in frames.closes],
        others=[(rows[each[0]], each[1]) for each in frames.others],
    )


def _names(udp: _Udp, rows: Numbers) -> Array:
    """Return what names each datagram: void, shape (n,)."""
    out = np.zeros((len(rows), _NAME_BYTES + 4), np.uint8)
    begin = np.arange(_NAME_BYTES)
    for at in range(0, len(rows), 1 << 16):
        part = rows[at : at + (1 << 16)]
        there = begin < udp.present[part][:, None]
        out[at : at + len(part), :_NAME_BYTES] = np.where(
            there, udp.data[np.minimum(udp.at[part][:, None] + begin, len(udp.data) - 1)], 0
        )
    out[:, _NAME_BYTES:] = udp.length[rows].astype(">u4").view(np.uint8).reshape(-1, 4)
    return np.ascontiguousarray(out).view(f"V{_NAME_BYTES + 4}")[:, 0]


def _read_short(
    known: QuicConnection,
    udp: _Udp,
    short: _Short,
    places: tuple[Numbers, Numbers],
    secrets: Mapping[str, bytes],
    *,
    has_secrets: bool,
) -> None:
    """Read the payload of short headers by the secrets of the connection, or note why it is not read."""
    side, place = places
    names = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")
    known.absent = _why_not(known, secrets, has_secrets=has_secrets)
    if known.absent:
        return
    suites = [SUITES[known.suite]] if known.suite in SUITES else _suites(secrets[names[0]])
    known.source = "capture+keys"
    for number, name in enumerate(names):
        mine = side == number
        chosen = _Short(*(column[mine] for column in short))
        cid_bytes = len(known.server_cid if number == 0 else known.client_cid)
        for suite in suites:
            keys = PacketKeys.of(secrets[name], suite, known.version)
            reader = _ShortReader(known, udp, chosen, place[mine], cid_bytes)
            if reader.read(keys) or suite is suites[-1]:
                break
    one_rtt = known.columns["space"] == Space.ONE_RTT.value
    if len(one_rtt) and known.unread[_NOT_OPENED] > _MOST_NOT_OPENED * np.count_nonzero(one_rtt):
        known.absent, known.source, known.frames = WRONG_KEYS, "capture", Frames()
        for name in ("number", "eliciting", "key_phase"):
            known.columns[name][one_rtt] = NA
        known.columns["is_read"][one_rtt] = 0


def _suites(secret: bytes) -> list[Suite]:
    return [suite for suite in SUITES.values() if (48 if suite.hash_name == "sha384" else 32) == len(secret)]


def _why_not(known: QuicConnection, secrets: Mapping[str, bytes], *, has_secrets: bool) -> str:
    if not can_open():
        return NO_PACKAGE
    if not has_secrets:
        return NO_KEYS
    if known.hello.random is None:
        return NO_RANDOM
    if not all(f"{side}_TRAFFIC_SECRET_0" in secrets for side in ("CLIENT", "SERVER")):
        return HALF_OF_KEYS if secrets else OTHER_KEYS
    return ""


_MOST_NOT_OPENED = 0.5
"""Share of packets above which the keys are wrong: a cut packet has no tag, and some garbage looks like a frame."""
_CUT_HEADER = "the capture cut the header"
_NOT_OPENED = "not opened by the keys: damaged, or of another connection"


class _ShortReader:
    """Opens the short headers of one direction of a connection."""

    def __init__(self, known: QuicConnection, udp: _Udp, short: _Short, place: Numbers, cid_bytes: int) -> None:
        self.known, self.udp, self.place = known, udp, place
        self.number_at = short.at + 1 + cid_bytes
        self.header_bytes = 1 + cid_bytes
        self.short = short

    def read(self, keys: PacketKeys) -> bool:
        """Read numbers and frames; return whether any packet was opened."""
        short, data = self.short, self.udp.data
        room = short.present - self.header_bytes
        usable = np.flatnonzero((room >= 4 + SAMPLE_BYTES) & (short.length - self.header_bytes >= 4 + SAMPLE_BYTES))
        self.known.unread[_CUT_HEADER] += len(short.at) - len(usable)
        if not len(usable):
            return False
        samples = data[self.number_at[usable][:, None] + 4 + np.arange(SAMPLE_BYTES)]
        masks = keys.masks(samples)
        first: Bytes = data[short.at[usable]] ^ (masks[:, 0] & np.uint8(0x1F))
        size = (first & 3).astype(np.int64) + 1
        raw: Bytes = data[self.number_at[usable][:, None] + np.arange(4)] ^ masks[:, 1:]
        weights = raw.astype(np.int64) @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
        truncated = weights >> (8 * (4 - size))
        phases = (first >> 2 & 1).tolist()
        opener = _Opener(self, keys, usable, first, raw)
        opener.run(truncated.tolist(), size.tolist(), phases)
        return opener.opened > 0


class _Opener:
    """Goes through the packets of one direction in order: numbers and key updates follow from those before."""

    def __init__(self, reader: _ShortReader, keys: PacketKeys, usable: Numbers, first: Bytes, raw: Bytes) -> None:
        self.reader, self.keys = reader, [keys]
        self.begins = [0]
        """First packet number that each generation of keys opened."""
        self.usable, self.first, self.raw = usable, first.tolist(), raw
        self.opened = 0
        short = reader.short
        self._at = (reader.number_at[usable]).tolist()
        self._start = short.at[usable].tolist()
        self._complete = (short.length[usable] - reader.header_bytes).tolist()
        self._present = (short.present[usable] - reader.header_bytes).tolist()
        self._bytes = reader.udp.data.tobytes()
        self._streams: dict[int, int] = {}

    def run(self, truncated: list[int], sizes: list[int], phases: list[int]) -> None:
        """Open all packets; those that are cut by their keystream, made for all of a generation together."""
        largest, cut = -1, []
        known, place = self.reader.known, self.reader.place[self.usable].tolist()
        numbers, reads, eliciting, generations = (
            known.columns[n] for n in ("number", "is_read", "eliciting", "key_phase")
        )
        for i, (short, size, phase) in enumerate(zip(truncated, sizes, phases, strict=True)):
            number = unwrapped(short, size, largest)
            generation = self._generation(number, phase)
            if self._present[i] >= self._complete[i]:
                payload, size_inside = self._open(i, number, size, generation), self._complete[i] - size - TAG_BYTES
            elif generation >= len(self.keys) and not self._is_next(i, number, size, generation):
                payload = None
            else:
                cut.append((i, number, size, generation))
                largest = max(largest, number)
                continue
            read = None if payload is None else read_frames(place[i], payload, size_inside, known.frames)
            if read is None or not read.is_valid:
                known.unread[_NOT_OPENED] += 1
                continue
            self._note(number, generation)
            largest = max(largest, number)
            row = place[i]
            numbers[row], reads[row], eliciting[row], generations[row] = number, 1, int(read.is_eliciting), generation
        self._read_cut(cut, place)

    def _generation(self, number: int, phase: int) -> int:
        """Return the generation of keys by packet number and key phase (RFC 9001, 6.3)."""
        newest = len(self.keys) - 1
        if phase == newest & 1:
            return newest if number >= self.begins[newest] or newest < 2 else newest - 2
        return newest - 1 if newest and number < self.begins[newest] else newest + 1

    def _key(self, generation: int) -> PacketKeys:
        return self.keys[generation] if generation < len(self.keys) else self.keys[-1].updated()

    def _open(self, i: int, number: int, size: int, generation: int) -> bytes | None:
        at, start = self._at[i], self._start[i]
        header = bytes([self.first[i]]) + self._bytes[start + 1 : at] + self.raw[i, :size].tobytes()
        return self._key(generation).opened(number, header, self._bytes[at + size : at + self._complete[i]])

    def _note(self, number: int, generation: int) -> None:
        self.opened += 1
        if generation == len(self.keys):
            self.keys.append(self.keys[-1].updated())
            self.begins.append(number)

    def _is_next(self, i: int, number: int, size: int, generation: int) -> bool:
        """Return whether the next keys open a cut packet: what is there are frames by them, and not by the old ones."""
        verdicts = []
        for keys in (self._key(generation), self.keys[-1]):
            have = min(self._present[i], self._complete[i] - TAG_BYTES) - size
            sealed = np.frombuffer(self._bytes[self._at[i] + size : self._at[i] + size + have], np.uint8)
            plain = (sealed ^ keys.keystream(np.array([number]), len(sealed))[0]).tobytes()
            verdicts.append(read_frames(0, plain, self._complete[i] - size - TAG_BYTES, Frames()).is_valid)
        if verdicts == [True, False]:
            self.keys.append(self.keys[-1].updated())
            self.begins.append(number)
            return True
        return False

    def _read_cut(self, cut: list[tuple[int, int, int, int]], place: list[int]) -> None:
        """Read the packets that the capture cut, by the keystream of each generation of keys."""
        known = self.reader.known
        numbers, reads, eliciting, generations = (
            known.columns[n] for n in ("number", "is_read", "eliciting", "key_phase")
        )
        for generation in sorted({each[3] for each in cut}):
            mine = [each for each in cut if each[3] == generation and generation < len(self.keys)]
            for begin in range(0, len(mine), 1 << 14):
                part = mine[begin : begin + (1 << 14)]
                have = [max(min(self._present[i], self._complete[i] - TAG_BYTES) - size, 0) for i, _, size, _ in part]
                stream = self.keys[generation].keystream(np.array([each[1] for each in part]), max(have))
                at = np.array([self._at[i] + size for i, _, size, _ in part])
                index = np.minimum(at[:, None] + np.arange(max(have)), len(self.reader.udp.data) - 1)
                plain = self.reader.udp.data[index] ^ stream
                for row_of, (i, number, size, _), length in zip(plain, part, have, strict=True):
                    row, inside = place[i], self._complete[i] - size - TAG_BYTES
                    read = read_frames(row, row_of[:length].tobytes(), inside, known.frames)
                    if not read.is_valid:
                        known.unread[_NOT_OPENED] += 1
                        continue
                    self.opened += 1
                    numbers[row], generations[row] = number, generation
                    reads[row] = 1 if read.is_complete else 2
                    eliciting[row] = int(read.is_eliciting) if read.is_eliciting or read.is_complete else NA
