"""Snoop at a base station: it keeps TCP data that the mobile has not acknowledged, and sends them again itself.

Source: H. Balakrishnan, S. Seshan, R. H. Katz: "Improving reliable transport and handoff performance in cellular
wireless networks" (Wireless Networks 1, 1995), section 3; reference 21 of paper 002 applies it to GPRS. Input: packets
of the fixed host before the radio, and of the mobile behind it. Output: packets to send again, and whether an
acknowledgment goes on to the fixed host. Only data to the mobile are kept; the other direction passes unchanged.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from multitracer.captured import Flag, IpProtocol
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.channel.shared.scheduler import Agenda

_MIN_WAIT_NS = 40 * NS_PER_MS
"""Minimum of the local timer (our choice: six packets of 1500 bytes at 2 Mbit/s)."""
_FIRST_WAIT_NS = 100 * NS_PER_MS
"""Local timer before the first sample (our choice)."""
_LONGEST_NS = 64 * NS_PER_S
"""Time after which a packet is forgotten: TCP's largest timeout; then the connection has ended."""
_MODULUS = 1 << 32
_IP, _TCP = struct.Struct("!B8xB2x8s"), struct.Struct("!4sIIBB")
_TCP_NUMBER, _ACK, _SYN, _FIN = IpProtocol.TCP.value, Flag.ACK.value, Flag.SYN.value, Flag.FIN.value


class _TcpFields(NamedTuple):
    """What Snoop reads of a packet."""

    flow: bytes
    """Addresses and ports in the direction from the fixed host to the mobile."""
    seq: int
    ack: int
    flags: int
    payload_bytes: int


def _fields(packet: bytes, *, to_mobile: bool) -> _TcpFields | None:
    """Return the fields of a TCP packet; None for other packets."""
    if len(packet) < 40 or packet[0] >> 4 != 4:
        return None
    first, protocol, addresses = _IP.unpack_from(packet)
    header = (first & 0x0F) * 4
    if protocol != _TCP_NUMBER or len(packet) < header + 20:
        return None
    ports, seq, ack, offset, flags = _TCP.unpack_from(packet, header)
    if not to_mobile:
        addresses, ports = addresses[4:] + addresses[:4], ports[2:] + ports[:2]
    return _TcpFields(addresses + ports, seq, ack, flags, len(packet) - header - (offset >> 4) * 4)


class _Kept(NamedTuple):
    """A packet that waits for its acknowledgment."""

    packet: bytes
    sent_ns: int
    """When the fixed host sent it."""
    is_repeated: bool
    """Whether it was sent more than once, so that its acknowledgment gives no sample (Karn)."""


class _Flow:
    """The kept packets of one connection, by the sequence number of their first byte, the oldest one first."""

    def __init__(self) -> None:
        self.kept: dict[int, _Kept] = {}
        self.last_ack = -1
        """Latest acknowledgment; -1 before the first one."""
        self.is_repaired = False
        """Whether the oldest packet was sent again for a duplicate acknowledgment of `last_ack`."""
        self.from_sender: set[int] = set()
        """Packets that the fixed host has repeated: their duplicate acknowledgments go on to it."""
        self.srtt_ns: int | None = None
        self.due_ns: int | None = None
        """When the local timer expires."""

    @property
    def wait_ns(self) -> int:
        """Duration of the local timer: twice the smoothed round trip over the radio, without back-off."""
        return _FIRST_WAIT_NS if self.srtt_ns is None else max(_MIN_WAIT_NS, 2 * self.srtt_ns)


class SnoopAgent:
    """Snoop for all connections between the fixed host and the mobile.

    Parameters
    ----------
    agenda : Agenda
        Of the link.
    resend : callable
        Called with a packet to send to the mobile again, and the time in ns.
    """

    def __init__(self, agenda: Agenda, resend: Callable[[bytes, int], object]) -> None:
        self._agenda = agenda
        self._resend = resend
        self._flows: dict[bytes, _Flow] = {}

    def note_data(self, packet: bytes, now_ns: int) -> None:
        """Keep a packet of the fixed host, which goes on to the radio in any case."""
        fields = _fields(packet, to_mobile=True)
        if fields is None or not fields.payload_bytes or fields.flags & (_SYN | _FIN):
            return
        flow = self._flows.setdefault(fields.flow, _Flow())
        is_known = fields.seq in flow.kept
        if is_known:
            flow.from_sender.add(fields.seq)
        sent_ns = flow.kept[fields.seq].sent_ns if is_known else now_ns
        flow.kept[fields.seq] = _Kept(packet, sent_ns, is_known)
        if flow.due_ns is None:
            self._start(flow, now_ns)

    def passes(self, packet: bytes, now_ns: int) -> bool:
        """Process a packet of the mobile; return whether it goes on to the fixed host.

        A duplicate acknowledgment of which the next packet is kept does not.
        """
        fields = _fields(packet, to_mobile=False)
        flow = None if fields is None else self._flows.get(fields.flow)
        if fields is None or flow is None or not fields.flags & _ACK:
            return True
        is_new = flow.last_ack < 0 or 0 < (fields.ack - flow.last_ack) % _MODULUS < _MODULUS // 2
        if is_new:
            self._acknowledged(flow, fields.ack, now_ns)
            return True
        is_duplicate = fields.ack == flow.last_ack and not fields.payload_bytes and not fields.flags & (_SYN | _FIN)
        if not is_duplicate or fields.ack not in flow.kept or fields.ack in flow.from_sender:
            return True
        if not flow.is_repaired:
            flow.is_repaired = True
            self._retransmit(flow, fields.ack, now_ns)
        return False

    def _acknowledged(self, flow: _Flow, ack: int, now_ns: int) -> None:
        flow.last_ack, flow.is_repaired = ack, False
        covered = [seq for seq in flow.kept if (ack - seq - 1) % _MODULUS < _MODULUS // 2]
        for seq in covered:
            kept = flow.kept.pop(seq)
            flow.from_sender.discard(seq)
            if not kept.is_repeated:
                rtt_ns = now_ns - kept.sent_ns
                flow.srtt_ns = rtt_ns if flow.srtt_ns is None else (7 * flow.srtt_ns + rtt_ns) // 8
        self._start(flow, now_ns)

    def _start(self, flow: _Flow, now_ns: int) -> None:
        """Start the local timer anew, or stop it if nothing is kept."""
        flow.due_ns = now_ns + flow.wait_ns if flow.kept else None
        if flow.due_ns is not None:
            self._agenda.at(flow.due_ns, lambda at_ns: self._ring(flow, at_ns))

    def _ring(self, flow: _Flow, now_ns: int) -> None:
        if flow.due_ns != now_ns:
            return  # it was set anew meanwhile
        for seq in [seq for seq, kept in flow.kept.items() if now_ns - kept.sent_ns > _LONGEST_NS]:
            del flow.kept[seq]
        if flow.kept:
            self._retransmit(flow, next(iter(flow.kept)), now_ns)
        self._start(flow, now_ns)

    def _retransmit(self, flow: _Flow, seq: int, now_ns: int) -> None:
        flow.kept[seq] = flow.kept[seq]._replace(is_repeated=True)
        self._resend(flow.kept[seq].packet, now_ns)
