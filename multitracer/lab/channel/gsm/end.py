"""One end of a GSM data call: from IP packets to RLP frames and back.

Down: interface queue → [VJ] → PPP → relay (L2R) → RLP. Up: RLP → relay, drained at the terminal's rate →
PPP → [VJ] → IP. The driver calls `outgoing` and `incoming` once in each slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from multitracer.lab.channel.gsm.drain import Drain
from multitracer.lab.channel.shared.interface import Interface
from multitracer.lab.channel.shared.ip_fields import ip_facts
from multitracer.lab.ppp import PppDamage, PppDeframer, PppFramer
from multitracer.lab.rlp import Parameters, RlpConfig, RlpEntity, RlpState
from multitracer.lab.rlp.l2r import L2rConfig, L2rEntity
from multitracer.lab.vj import VjCompressor, VjDecompressor, VjError
from multitracer.protocols.link_events import (
    PppDamaged,
    PppReceived,
    PppSent,
    VjTossed,
)
from multitracer.protocols.ppp import PppProtocol
from multitracer.units import BITS_PER_BYTE

if TYPE_CHECKING:
    from multitracer.lab.channel.gsm.config import LinkConfig
    from multitracer.lab.channel.shared.interface import QueueEvent
    from multitracer.lab.ppp import PppPacket
    from multitracer.lab.rlp.config import Role
    from multitracer.protocols.link_events import LinkEvent

_RELAY_BYTES = 8192
"""Room of the relay's transmit buffer: the longest PPP frame always fits above `refill_below_bytes`."""


class GsmEnd:
    """The protocol stack of one side.

    Parameters
    ----------
    role : {"mobile", "fixed"}
        Which end this is.
    config : LinkConfig
        The call's parameters.
    """

    def __init__(self, role: Role, config: LinkConfig) -> None:
        self.role = role
        self.config = config
        self.rlp = RlpEntity(_rlp_config(role, config))
        self.l2r = L2rEntity(self.rlp, _l2r_config(config))
        self.interface = Interface(config.queue_of(role), self._tell)
        self.queue = self.interface.queue
        self.drain = Drain(bytes_per_s=config.drain_bytes_per_s, slot_ns=config.slot_ns)
        self.received_bytes = 0
        """Characters that the terminal has taken."""
        self._framer = PppFramer(accm=config.accm)
        self._deframer = PppDeframer(accm=config.accm)
        compressed = config.header_compression != "none"
        self._compressor = (
            VjCompressor(compress_slot_id=config.header_compression == "vj") if compressed else None
        )
        self._decompressor = VjDecompressor() if compressed else None
        self._epoch = self.rlp.epoch

    # --- packets in, frames out ---

    def send(self, packet: bytes, *, now_ns: int) -> bool:
        """Offer an IP packet to the interface queue; False if the queue refused it and reports that."""
        is_closed = self.rlp.state is RlpState.DROPPED
        return self.interface.offer(packet, now_ns=now_ns, is_closed=is_closed)

    def _tell(self, kind: QueueEvent, now_ns: int, *facts: Any) -> None:
        journal = self.rlp.journal
        journal.add(kind(now_ns, journal.tick, *facts))

    def lose_packets(self, count: int) -> None:
        """Lose the next `count` packets without notice to the sender."""
        self.interface.lose_packets(count)

    def outgoing(self, now_ns: int) -> bytes | None:
        """Begin the next slot and return its frame, None once the call is over."""
        self._fill_relay(now_ns)
        frame = self.l2r.outgoing(now_ns)
        self._notice_reset()
        return frame

    @property
    def wants_packet(self) -> bool:
        """Whether the next packet would leave the interface queue now."""
        return (
            self.rlp.state is RlpState.ESTABLISHED and self.l2r.unsent_bytes < self.config.refill_below_bytes
        )

    def _fill_relay(self, now_ns: int) -> None:
        while self.wants_packet:
            packet = self.interface.take(now_ns)
            if packet is None:
                return
            self._write_packet(packet, now_ns)

    def _write_packet(self, packet: bytes, now_ns: int) -> None:
        facts = ip_facts(packet)
        protocol: int = PppProtocol.IP
        information = packet
        if self._compressor is not None:
            protocol, information = self._compressor.compress(packet)
        if self.l2r.unsent_bytes == 0:
            self._framer.idle()
        frame = self._framer.frame(protocol, information)
        offset = self.l2r.written_bytes
        self.l2r.write(frame)
        journal = self.rlp.journal
        sizes = len(packet), len(frame), offset
        journal.add(PppSent(now_ns, journal.tick, protocol, *sizes, facts.ip_id, facts.seq))

    def _notice_reset(self) -> None:
        if self.rlp.epoch != self._epoch:
            self._epoch = self.rlp.epoch
            self._framer.idle()

    # --- frames in, packets out ---

    def incoming(self, frame: bytes | None, now_ns: int) -> list[bytes]:
        """Take the slot's frame, None if the radio destroyed it; return the packets that are complete."""
        self.l2r.receive(frame, now_ns)
        self._notice_reset()
        return self.read(now_ns)

    def read(self, now_ns: int) -> list[bytes]:
        """Let the terminal read its share of this slot; return the packets that are complete."""
        data = self.l2r.read(self.drain.allowance())
        self.drain.spend(len(data))
        self.received_bytes += len(data)
        if not data:
            return []
        packets = (self._take_ppp(outcome, now_ns) for outcome in self._deframer.feed(data))
        return [packet for packet in packets if packet is not None]

    def _take_ppp(self, outcome: PppPacket | PppDamage, now_ns: int) -> bytes | None:
        journal = self.rlp.journal
        if isinstance(outcome, PppDamage):
            if self._decompressor is not None:
                self._decompressor.line_error()
            journal.add(PppDamaged(now_ns, journal.tick, outcome.cause, outcome.wire_bytes))
            return None
        packet = self._decompressed(outcome)
        facts = ip_facts(packet or b"")
        size = None if packet is None else len(packet)
        journal.add(
            PppReceived(
                now_ns, journal.tick, outcome.protocol, size, outcome.wire_bytes, facts.ip_id, facts.seq
            )
        )
        if packet is None:
            journal.add(VjTossed(now_ns, journal.tick))
        return packet

    def _decompressed(self, outcome: PppPacket) -> bytes | None:
        if self._decompressor is None:
            return outcome.information if outcome.protocol == PppProtocol.IP else None
        try:
            return self._decompressor.decompress(outcome.protocol, outcome.information)
        except VjError:
            return None

    # --- what it tells ---

    def events(self) -> list[LinkEvent]:
        """Return what happened at this end since the last call, in order."""
        return self.l2r.events()

    @property
    def is_quiet(self) -> bool:
        """Whether no user data wait at this end."""
        return not (
            len(self.queue)
            or self.l2r.unsent_bytes
            or self.rlp.unsent_bytes
            or self.rlp.unacked_bytes
            or self.l2r.unread_bytes
        )


def _rlp_config(role: Role, config: LinkConfig) -> RlpConfig:
    return RlpConfig(
        role=role,
        parameters=Parameters(version=config.rlp_version, t1_ms=config.t1_ms, n2=config.n2),
        frame_octets=config.frame_bits // BITS_PER_BYTE,
        slot_ns=config.slot_ns,
        recovery=config.recovery,
        when_exhausted=config.when_exhausted,
    )


def _l2r_config(config: LinkConfig) -> L2rConfig:
    return L2rConfig(
        transmit_bytes=_RELAY_BYTES,
        xoff_at_bytes=config.xoff_at_bytes,
        xon_at_bytes=config.xon_at_bytes,
        stop_by=config.stop_by,
    )
