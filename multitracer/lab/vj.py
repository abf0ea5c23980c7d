"""Van Jacobson's TCP/IP header compression (RFC 1144): a compressor and a decompressor.

`VjCompressor` receives IP packets and returns each with its type for PPP (IP, compressed or uncompressed
TCP). `VjDecompressor` is the inverse.

After a lost compressed packet the decompressor's headers are wrong until an uncompressed packet arrives. The
effect depends on the slot id. If it may be left out (`compress_slot_id`), the decompressor discards packets
after a framing error until a packet contains its slot: the loss is visible at PPP. If it is always sent,
wrong packets are delivered and fail the TCP checksum: the loss is visible at the receiver.

What must hold: without loss every packet is restored exactly, octet by octet.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import IntFlag
from typing import NamedTuple

from multitracer.captured import Flag, IpProtocol
from multitracer.errors import LocalProtocolError, RemoteProtocolError
from multitracer.protocols.l2r import PppProtocol

# The fields of a TCP/IP header that compression uses, and the change mask (RFC 1144, section 3.2).


PUSHED_OR_URGENT = int(Flag.PSH | Flag.URG)
IP_OCTETS = 20  # RFC 791, 3.1, without options
TCP_OCTETS = 20  # RFC 9293, 3.1, without options
SLOTS = 16
"""Number of slots: MAX_STATES of the reference implementation."""
MOST_SLOTS = 256  # RFC 1144: the connection number has 8 bits


class ChangeMask(IntFlag):
    """Bits of the change mask, the first octet of a compressed packet (RFC 1144, section 3.2.2)."""

    NONE = 0x00
    U = 0x01
    """The urgent pointer follows, and URG is set."""
    W = 0x02
    """The change of the window follows."""
    A = 0x04
    """The change of the acknowledgment number follows."""
    S = 0x08
    """The change of the sequence number follows."""
    P = 0x10
    """PSH is set."""
    I = 0x20  # noqa: E741 - the letter that the RFC gives the bit
    """The change of the IP identification follows, because it is not 1."""
    C = 0x40
    """The connection number (slot id) follows."""


DELTAS = ChangeMask.S | ChangeMask.A | ChangeMask.W | ChangeMask.U
SPECIAL_I = ChangeMask.S | ChangeMask.W | ChangeMask.U
"""Echoed interactive traffic: sequence number and acknowledgment advance by the previous data."""
SPECIAL_D = DELTAS
"""One-way transfer: the sequence number advances by the previous data."""


class ChangingFields(NamedTuple):
    """The header fields that a compressed packet encodes as differences to the previous packet."""

    header_octets: int
    """Octets of the IP and TCP headers with their options."""
    data_octets: int
    ip_id: int
    seq: int
    ack: int
    flags: int
    window: int
    checksum: bytes
    urgent: int


def header_octets(packet: bytes) -> int | None:
    """Return the length of the TCP/IP header; None if the packet is not a complete IPv4 packet with TCP."""
    if len(packet) < IP_OCTETS + TCP_OCTETS or packet[0] >> 4 != 4 or packet[9] != IpProtocol.TCP:
        return None
    ip = (packet[0] & 0x0F) * 4
    if ip < IP_OCTETS or len(packet) < ip + TCP_OCTETS:
        return None
    tcp = (packet[ip + 12] >> 4) * 4
    fits = tcp >= TCP_OCTETS and ip + tcp <= len(packet) == int.from_bytes(packet[2:4])
    return ip + tcp if fits else None


def read_fields(packet: bytes, header: int) -> ChangingFields:
    """Return the fields that compression encodes as differences; the TCP/IP header has `header` octets."""
    tcp = (packet[0] & 0x0F) * 4
    return ChangingFields(
        header_octets=header,
        data_octets=int.from_bytes(packet[2:4]) - header,
        ip_id=int.from_bytes(packet[4:6]),
        seq=int.from_bytes(packet[tcp + 4 : tcp + 8]),
        ack=int.from_bytes(packet[tcp + 8 : tcp + 12]),
        flags=packet[tcp + 13],
        window=int.from_bytes(packet[tcp + 14 : tcp + 16]),
        checksum=bytes(packet[tcp + 16 : tcp + 18]),
        urgent=int.from_bytes(packet[tcp + 18 : tcp + 20]),
    )


# The compressor (RFC 1144, section 3.2.3 and appendix A.2).


_NO_SLOT = -1  # slot ids are 0 to 255 (RFC 1144)
_FRAGMENT = 0x3FFF
"""Mask of the more-fragments bit and the fragment offset."""


class _NotCompressibleError(Exception):
    """The packet differs from the previous one in a way that the change mask cannot express."""


_OF_A_CONNECTION = int(Flag.SYN | Flag.FIN | Flag.RST | Flag.ACK)


class VjCompressor:
    """Turns IP packets into the packets of a link with VJ compression.

    Parameters
    ----------
    slots : int
        Number of stored connections, 1 to 256; a new one replaces the least recently used.
    compress_slot_id : bool
        Omit the slot id if it equals that of the previous packet (RFC 1332, section 4).

    Notes
    -----
    Beyond the RFC, a change of ECE or CWR is sent uncompressed: the change mask has no bit for them, and
    they would be lost.
    """

    def __init__(self, *, slots: int = SLOTS, compress_slot_id: bool = True) -> None:
        if not 1 <= slots <= MOST_SLOTS:
            raise LocalProtocolError(f"VJ: the number of slots must be 1 to {MOST_SLOTS}, but is {slots}")
        self._slots = slots
        self._compress_slot_id = compress_slot_id
        self._saved: OrderedDict[bytes, tuple[int, bytes]] = OrderedDict()
        self._last_slot = _NO_SLOT

    def compress(self, packet: bytes) -> tuple[int, bytes]:
        """Return the PPP protocol number and the octets to send for any IP packet."""
        header = header_octets(packet)
        if header is None or int.from_bytes(packet[6:8]) & _FRAGMENT:
            return PppProtocol.IP, packet
        fields = read_fields(packet, header)
        if fields.flags & _OF_A_CONNECTION != Flag.ACK:
            return PppProtocol.IP, packet
        ip = (packet[0] & 0x0F) * 4
        key = packet[12:20] + packet[ip : ip + 4]
        known = self._saved.get(key)
        slot = self._free_slot() if known is None else known[0]
        self._saved[key] = slot, packet[:header]
        self._saved.move_to_end(key)
        if known is None:
            return self._uncompressed(packet, slot)
        try:
            return PppProtocol.VJ_COMPRESSED, self._compressed(known[1], packet, fields, slot)
        except _NotCompressibleError:
            return self._uncompressed(packet, slot)

    def _uncompressed(self, packet: bytes, slot: int) -> tuple[int, bytes]:
        self._last_slot = slot
        return PppProtocol.VJ_UNCOMPRESSED, packet[:9] + bytes((slot,)) + packet[10:]

    def _free_slot(self) -> int:
        if len(self._saved) < self._slots:
            return len(self._saved)
        return self._saved.popitem(last=False)[1][0]

    def _compressed(self, saved: bytes, packet: bytes, new: ChangingFields, slot: int) -> bytes:
        if _constant_part(saved) != _constant_part(packet[: new.header_octets]):
            raise _NotCompressibleError
        changes, deltas = _changes(read_fields(saved, len(saved)), new)
        named = b""
        if not self._compress_slot_id or slot != self._last_slot:
            changes |= ChangeMask.C
            named = bytes((slot,))
            self._last_slot = slot
        return bytes((changes,)) + named + new.checksum + deltas + packet[new.header_octets :]


def _constant_part(header: bytes) -> tuple[bytes, ...]:
    """Return the header fields that must be equal in consecutive packets for compression.

    All others are length, identification, checksums, and the fields that are sent as differences.
    """
    ip = (header[0] & 0x0F) * 4
    ece_cwr = header[ip + 13] & ~PUSHED_OR_URGENT
    return (header[:2], header[6:10], header[20:ip], header[ip + 12 : ip + 13] + bytes((ece_cwr,)), header[ip + 20 :])


def _encoded(value: int) -> bytes:
    """Return a difference as octets: one octet for 1 to 255, otherwise a zero octet and two octets."""
    return bytes((value,)) if 0 < value < 256 else b"\0" + value.to_bytes(2)


def _changes(old: ChangingFields, new: ChangingFields) -> tuple[ChangeMask, bytes]:
    """Return the change mask without its bit C (slot id), and the encoded differences."""
    changes, deltas = _urgent(old, new)
    window = new.window - old.window & 0xFFFF
    ack = new.ack - old.ack & 0xFFFFFFFF
    seq = new.seq - old.seq & 0xFFFFFFFF
    if ack > 0xFFFF or seq > 0xFFFF:  # also a step back: a retransmission
        raise _NotCompressibleError
    for bit, delta in ((ChangeMask.W, window), (ChangeMask.A, ack), (ChangeMask.S, seq)):
        if delta:
            changes |= bit
            deltas += _encoded(delta)
    if changes in (SPECIAL_I, SPECIAL_D) or (not changes and not _is_first_data(old, new)):
        raise _NotCompressibleError
    if changes == ChangeMask.S | ChangeMask.A and seq == ack == old.data_octets:
        changes, deltas = SPECIAL_I, b""
    elif changes == ChangeMask.S and seq == old.data_octets:
        changes, deltas = SPECIAL_D, b""
    ip_id = new.ip_id - old.ip_id & 0xFFFF
    if ip_id != 1:
        changes |= ChangeMask.I
        deltas += _encoded(ip_id)
    return changes | (ChangeMask.P if new.flags & Flag.PSH else ChangeMask.NONE), deltas


def _urgent(old: ChangingFields, new: ChangingFields) -> tuple[ChangeMask, bytes]:
    if new.flags & Flag.URG:
        return ChangeMask.U, _encoded(new.urgent)
    if new.urgent != old.urgent:
        raise _NotCompressibleError
    return ChangeMask.NONE, b""


def _is_first_data(old: ChangingFields, new: ChangingFields) -> bool:
    """Return whether data follow a packet without data; an unchanged packet is otherwise a retransmission."""
    return new.data_octets != old.data_octets and old.data_octets == 0


# The decompressor (RFC 1144, section 3.2.4 and appendix A.3).


_LONGEST_PACKET = 0xFFFF  # RFC 791, 3.1: the total length has 16 bits


class VjError(RemoteProtocolError):
    """Octets that no compressor sends, or that name an unused slot.

    The decompressor then discards packets.
    """


class _Reader:
    """Reads a compressed header from its start."""

    __slots__ = ("at", "octets")

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.at = 0

    def take(self, count: int) -> bytes:
        chunk = self.octets[self.at : self.at + count]
        if len(chunk) < count:
            raise VjError("VJ: the compressed header is truncated; drop the packet")
        self.at += count
        return chunk

    def delta(self) -> int:
        value = self.take(1)[0]
        return value or int.from_bytes(self.take(2))


class VjDecompressor:
    """Turns the packets of a link with VJ compression into IP packets.

    Parameters
    ----------
    slots : int
        Slots that the compressor may use, 1 to 256.
    """

    def __init__(self, *, slots: int = SLOTS) -> None:
        if not 1 <= slots <= MOST_SLOTS:
            raise LocalProtocolError(f"VJ: the number of slots must be 1 to {MOST_SLOTS}, but is {slots}")
        self._slots = slots
        self._saved: dict[int, bytes] = {}
        self._last_slot = -1
        self.tossing = True
        """Whether compressed packets without a slot id are discarded."""
        self.tossed = 0
        """Number of packets that were discarded."""

    def line_error(self) -> None:
        """Record that a frame was lost: packets are discarded until one contains its slot id."""
        self.tossing = True

    def decompress(self, protocol: int, octets: bytes) -> bytes | None:
        """Return the IP packet; None if it was discarded.

        Parameters
        ----------
        protocol : int
            PPP protocol number: 0x21, 0x2d or 0x2f.
        octets : bytes
            The information field of the PPP frame.

        Raises
        ------
        VjError
            If the octets cannot have come from a compressor, or the slot is unused.
        """
        if protocol == PppProtocol.IP:
            return octets
        try:
            if protocol == PppProtocol.VJ_UNCOMPRESSED:
                return self._refresh(octets)
            if protocol == PppProtocol.VJ_COMPRESSED:
                return self._rebuild(octets)
        except VjError:
            self.tossing = True
            raise
        self.tossing = True
        raise VjError(f"VJ: the PPP protocol must be 0x21, 0x2d or 0x2f, but is {protocol:#06x}; drop the packet")

    def _refresh(self, octets: bytes) -> bytes:
        slot = octets[9] if len(octets) > 9 else self._slots
        packet = octets[:9] + bytes((IpProtocol.TCP,)) + octets[10:]
        header = header_octets(packet)
        if slot >= self._slots or header is None:
            raise VjError(
                f"VJ: the uncompressed packet for slot {slot} has no valid TCP/IP header, "
                "or the slot does not exist; drop the packet"
            )
        self._saved[slot] = packet[:header]
        self._last_slot = slot
        self.tossing = False
        return packet

    def _rebuild(self, octets: bytes) -> bytes | None:
        reader = _Reader(octets)
        changes = ChangeMask(reader.take(1)[0] & 0x7F)
        if changes & ChangeMask.C:
            slot = reader.take(1)[0]
            if slot >= self._slots:
                raise VjError(
                    f"VJ: slot {slot} does not exist, because the slots are 0 to {self._slots - 1}; drop the packet"
                )
            self._last_slot = slot
            self.tossing = False
        elif self.tossing:
            self.tossed += 1
            return None
        saved = self._saved.get(self._last_slot)
        if saved is None:
            raise VjError(f"VJ: slot {self._last_slot} holds no header yet; drop the packet")
        header = _updated(saved, changes, reader)
        data = octets[reader.at :]
        if len(header) + len(data) > _LONGEST_PACKET:
            raise VjError(f"VJ: {len(data)} octets of data do not fit into an IP packet; drop the packet")
        self._saved[self._last_slot] = header = _with_lengths(header, len(data))
        return header + data


def _updated(saved: bytes, changes: ChangeMask, reader: _Reader) -> bytes:
    """Return the next header of a connection.

    Its lengths and IP checksum are still those of the previous packet.
    """
    old = read_fields(saved, len(saved))
    checksum = reader.take(2)
    seq, ack, window, urgent, flags = old.seq, old.ack, old.window, old.urgent, old.flags & ~PUSHED_OR_URGENT
    deltas = changes & DELTAS
    if deltas == SPECIAL_I:
        seq, ack = seq + old.data_octets, ack + old.data_octets
    elif deltas == SPECIAL_D:
        seq += old.data_octets
    else:
        if deltas & ChangeMask.U:
            flags, urgent = flags | Flag.URG, reader.delta()
        window += reader.delta() if deltas & ChangeMask.W else 0
        ack += reader.delta() if deltas & ChangeMask.A else 0
        seq += reader.delta() if deltas & ChangeMask.S else 0
    ip_id = old.ip_id + (reader.delta() if changes & ChangeMask.I else 1)
    flags |= Flag.PSH if changes & ChangeMask.P else 0
    header, tcp = bytearray(saved), (saved[0] & 0x0F) * 4
    header[4:6] = (ip_id & 0xFFFF).to_bytes(2)
    header[tcp + 4 : tcp + 12] = ((seq & 0xFFFFFFFF) << 32 | ack & 0xFFFFFFFF).to_bytes(8)
    header[tcp + 13] = flags
    header[tcp + 14 : tcp + 20] = (window & 0xFFFF).to_bytes(2) + checksum + urgent.to_bytes(2)
    return bytes(header)


def _with_lengths(header: bytes, data_octets: int) -> bytes:
    """Return the header with the IP total length and the IP checksum of this packet (RFC 791)."""
    new = bytearray(header)
    new[2:4] = (len(header) + data_octets).to_bytes(2)
    new[10:12] = b"\0\0"
    ip = (header[0] & 0x0F) * 4
    total = sum(int.from_bytes(new[i : i + 2]) for i in range(0, ip, 2))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    new[10:12] = (total ^ 0xFFFF).to_bytes(2)
    return bytes(new)
