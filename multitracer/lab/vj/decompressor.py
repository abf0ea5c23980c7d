"""The decompressor (RFC 1144, section 3.2.4 and appendix A.3)."""

from __future__ import annotations

from multitracer.captured import Flag, IpProtocol
from multitracer.errors import LocalProtocolError, RemoteProtocolError
from multitracer.lab.vj.header import (
    DELTAS,
    MOST_SLOTS,
    PUSHED_OR_URGENT,
    SLOTS,
    SPECIAL_D,
    SPECIAL_I,
    Change,
    header_octets,
    read_fields,
)
from multitracer.protocols.ppp import PppProtocol

_LONGEST_PACKET = 0xFFFF  # RFC 791, 3.1: the total length has 16 bits


class VjError(RemoteProtocolError):
    """Octets that no compressor sends, or that name a slot never filled; the toss flag is now set."""


class _Reader:
    """Reads a compressed header from its start."""

    __slots__ = ("at", "octets")

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.at = 0

    def take(self, count: int) -> bytes:
        piece = self.octets[self.at : self.at + count]
        if len(piece) < count:
            raise VjError("VJ: the compressed header is cut; drop the packet")
        self.at += count
        return piece

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
            raise LocalProtocolError(f"VJ: {slots} slots; choose 1 to {MOST_SLOTS}")
        self._slots = slots
        self._saved: dict[int, bytes] = {}
        self._last_slot = -1
        self.tossing = True
        """Whether compressed packets without a slot id are discarded."""
        self.tossed = 0
        """How many were."""

    def line_error(self) -> None:
        """Note that the framer lost a frame: the slot of the next packet is unknown."""
        self.tossing = True

    def decompress(self, protocol: int, octets: bytes) -> bytes | None:
        """Return the IP packet, or None if it was tossed.

        Parameters
        ----------
        protocol : int
            PPP protocol number: 0x21, 0x2d or 0x2f.
        octets : bytes
            The information of the PPP frame.

        Raises
        ------
        VjError
            If the octets cannot have come from a compressor, or the slot was never filled.
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
        raise VjError(f"VJ: protocol {protocol:#06x} is none of 0x21, 0x2d, 0x2f; drop the packet")

    def _refresh(self, octets: bytes) -> bytes:
        slot = octets[9] if len(octets) > 9 else self._slots
        packet = octets[:9] + bytes((IpProtocol.TCP,)) + octets[10:]
        header = header_octets(packet)
        if slot >= self._slots or header is None:
            raise VjError(f"VJ: uncompressed packet of {len(octets)} octets for slot {slot}; drop it")
        self._saved[slot] = packet[:header]
        self._last_slot = slot
        self.tossing = False
        return packet

    def _rebuild(self, octets: bytes) -> bytes | None:
        reader = _Reader(octets)
        changes = Change(reader.take(1)[0] & 0x7F)
        if changes & Change.C:
            slot = reader.take(1)[0]
            if slot >= self._slots:
                raise VjError(f"VJ: slot {slot} of {self._slots}; drop the packet")
            self._last_slot = slot
            self.tossing = False
        elif self.tossing:
            self.tossed += 1
            return None
        saved = self._saved.get(self._last_slot)
        if saved is None:
            raise VjError(f"VJ: slot {self._last_slot} was never filled; drop the packet")
        header = _updated(saved, changes, reader)
        data = octets[reader.at :]
        if len(header) + len(data) > _LONGEST_PACKET:
            raise VjError(f"VJ: {len(data)} octets of data do not fit an IP packet; drop it")
        self._saved[self._last_slot] = header = _with_lengths(header, len(data))
        return header + data


def _updated(saved: bytes, changes: Change, reader: _Reader) -> bytes:
    """Return the next header of a slot; lengths and IP checksum are still those of the previous packet."""
    old = read_fields(saved, len(saved))
    checksum = reader.take(2)
    seq, ack, window, urgent, flags = old.seq, old.ack, old.window, old.urgent, old.flags & ~PUSHED_OR_URGENT
    deltas = changes & DELTAS
    if deltas == SPECIAL_I:
        seq, ack = seq + old.data_octets, ack + old.data_octets
    elif deltas == SPECIAL_D:
        seq += old.data_octets
    else:
        if deltas & Change.U:
            flags, urgent = flags | Flag.URG, reader.delta()
        window += reader.delta() if deltas & Change.W else 0
        ack += reader.delta() if deltas & Change.A else 0
        seq += reader.delta() if deltas & Change.S else 0
    ip_id = old.ip_id + (reader.delta() if changes & Change.I else 1)
    flags |= Flag.PSH if changes & Change.P else 0
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
