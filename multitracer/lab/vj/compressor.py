"""The compressor (RFC 1144, section 3.2.3 and appendix A.2)."""

from __future__ import annotations

from collections import OrderedDict

from multitracer.captured import Flag
from multitracer.errors import LocalProtocolError
from multitracer.lab.vj.header import (
    MOST_SLOTS,
    PUSHED_OR_URGENT,
    SLOTS,
    SPECIAL_D,
    SPECIAL_I,
    Change,
    Fields,
    header_octets,
    read_fields,
)
from multitracer.protocols.ppp import PppProtocol

_NO_SLOT = -1  # slot ids are 0 to 255 (RFC 1144)
_FRAGMENT = 0x3FFF
"""More-fragments bit and fragment offset."""


class _NotCompressibleError(Exception):
    """The packet differs from the previous one in a way that the change mask cannot express."""


_OF_A_CONNECTION = int(Flag.SYN | Flag.FIN | Flag.RST | Flag.ACK)


class VjCompressor:
    """Turns IP packets into the packets of a link with VJ compression.

    Parameters
    ----------
    slots : int
        Connections remembered, 1 to 256; the one unused for longest gives way.
    compress_slot_id : bool
        Leave the slot id out where it is that of the packet before (RFC 1332, section 4).

    Notes
    -----
    Beyond the RFC, a change of ECE or CWR is sent uncompressed: the change mask has no bit for them, and
    they would be lost.
    """

    def __init__(self, *, slots: int = SLOTS, compress_slot_id: bool = True) -> None:
        if not 1 <= slots <= MOST_SLOTS:
            raise LocalProtocolError(f"VJ: {slots} slots; choose 1 to {MOST_SLOTS}")
        self._slots = slots
        self._compress_slot_id = compress_slot_id
        self._saved: OrderedDict[bytes, tuple[int, bytes]] = OrderedDict()
        self._last_slot = _NO_SLOT

    def compress(self, packet: bytes) -> tuple[int, bytes]:
        """Return the PPP protocol number and the octets to send for an IP packet, whatever it is."""
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

    def _compressed(self, saved: bytes, packet: bytes, new: Fields, slot: int) -> bytes:
        if _constant_part(saved) != _constant_part(packet[: new.header_octets]):
            raise _NotCompressibleError
        changes, deltas = _changes(read_fields(saved, len(saved)), new)
        named = b""
        if not self._compress_slot_id or slot != self._last_slot:
            changes |= Change.C
            named = bytes((slot,))
            self._last_slot = slot
        return bytes((changes,)) + named + new.checksum + deltas + packet[new.header_octets :]


def _constant_part(header: bytes) -> tuple[bytes, ...]:
    """Return what must not change: all but length, id, checksums and the TCP fields with a delta."""
    ip = (header[0] & 0x0F) * 4
    ece_cwr = header[ip + 13] & ~PUSHED_OR_URGENT
    return (
        header[:2],
        header[6:10],
        header[20:ip],
        header[ip + 12 : ip + 13] + bytes((ece_cwr,)),
        header[ip + 20 :],
    )


def _encoded(value: int) -> bytes:
    """Return an encoded delta: one octet from 1 to 255, otherwise zero and two octets."""
    return bytes((value,)) if 0 < value < 256 else b"\0" + value.to_bytes(2)


def _changes(old: Fields, new: Fields) -> tuple[Change, bytes]:
    """Return the change mask without C, and the encoded deltas."""
    changes, deltas = _urgent(old, new)
    window = new.window - old.window & 0xFFFF
    ack = new.ack - old.ack & 0xFFFFFFFF
    seq = new.seq - old.seq & 0xFFFFFFFF
    if ack > 0xFFFF or seq > 0xFFFF:  # also a step back: a retransmission
        raise _NotCompressibleError
    for bit, delta in ((Change.W, window), (Change.A, ack), (Change.S, seq)):
        if delta:
            changes |= bit
            deltas += _encoded(delta)
    if changes in (SPECIAL_I, SPECIAL_D) or (not changes and not _is_first_data(old, new)):
        raise _NotCompressibleError
    if changes == Change.S | Change.A and seq == ack == old.data_octets:
        changes, deltas = SPECIAL_I, b""
    elif changes == Change.S and seq == old.data_octets:
        changes, deltas = SPECIAL_D, b""
    ip_id = new.ip_id - old.ip_id & 0xFFFF
    if ip_id != 1:
        changes |= Change.I
        deltas += _encoded(ip_id)
    return changes | (Change.P if new.flags & Flag.PSH else Change.NONE), deltas


def _urgent(old: Fields, new: Fields) -> tuple[Change, bytes]:
    if new.flags & Flag.URG:
        return Change.U, _encoded(new.urgent)
    if new.urgent != old.urgent:
        raise _NotCompressibleError
    return Change.NONE, b""


def _is_first_data(old: Fields, new: Fields) -> bool:
    """Whether new data follow an empty packet; otherwise nothing changed and this is a repetition."""
    return new.data_octets != old.data_octets and old.data_octets == 0
