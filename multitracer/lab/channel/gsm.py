"""A GSM circuit-switched data call: PPP over the relay (L2R) and RLP, one frame every 20 ms.

Input: IP packets at two sides, a `LinkConfig`, a script and a seed. Output: packets, events of each end, and
the true fate of each frame on the air. Read `GsmLink` first: it joins two ends (`GsmEnd`) by a radio for each
direction and plays the script. An end has an interface queue, PPP, relay and RLP, one above the other;
`Drain` is the terminal that reads at a fixed rate. The protocols are in packages beside `channel/`.

What must hold: time passes in slots, and a driver calls `tick` once for each, in order, in virtual or in real
time. Whether a frame is lost is decided in the slot in which it arrives. For each direction a
`DirectionLedger` counts every character: delivered, discarded by a reset, or still inside; nothing vanishes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.shared.frame_errors import ErrorConfig, FadingErrors, TwoStateBitErrors, error_process
from multitracer.lab.channel.shared.interface import LinkInterface, ip_facts
from multitracer.lab.channel.shared.packet_link import FAR, SIDES, LinkDelivery, RadioReading, Side, one_of_two
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.lab.ppp import PppDamage, PppDeframer, PppFramer
from multitracer.lab.rlp.acknowledged import HEADER_OCTETS, AcknowledgedMode, AmConfig
from multitracer.lab.rlp.entity import RlpEntity
from multitracer.lab.rlp.l2r import L2rConfig, L2rEntity
from multitracer.lab.rlp.xid import Parameters, RlpConfig, RlpState
from multitracer.lab.vj import VjCompressor, VjDecompressor, VjError
from multitracer.protocols.l2r import PppProtocol, pack, unpack, usable, user_octets
from multitracer.protocols.link_events import (
    Flushed,
    FrameSent,
    LinkEvent,
    PieceSent,
    PppDamaged,
    PppReceived,
    PppSent,
    ResetDone,
    VjTossed,
)
from multitracer.protocols.rlp import FRAME_OCTETS
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from multitracer.lab.channel.shared.interface import QueueEvent
    from multitracer.lab.channel.shared.packet_link import HostName
    from multitracer.lab.channel.shared.scheduler import ScriptEvent
    from multitracer.lab.ppp import PppPacket
    from multitracer.lab.rlp.xid import Role

# The codes of a GSM data call: how many wrong paths a decoder may take, and how far from the sent one.
#
# All are made from GSM's convolutional code of half rate, G0 = 1 + D3 + D4 and G1 = 1 + D + D3 + D4 (TS
# 45.003, from memory), by leaving bits out. tests/lab/channel/test_bit_errors.py computes them from the
# trellis.


CodeName = Literal["9.6", "14.4", "3/4", "none"]
Weights = tuple[tuple[int, float], ...]
"""Pairs of path distance and mean number of wrong paths of that distance per bit; nearest first."""

WEIGHTS: Mapping[CodeName, Weights] = {
    "9.6": ((6, 17 / 15), (7, 10 / 3), (8, 19 / 3), (9, 236 / 15)),
    "14.4": ((5, 2.0), (6, 46 / 7), (7, 135 / 7), (8, 430 / 7)),
    "3/4": ((3, 2 / 3), (4, 2.0), (5, 12.0), (6, 175 / 3)),
    "none": ((1, 1.0),),
}
"""Distances of the codes' wrong paths, by code.

9.6: one bit in 15 is punctured, as in TCH/F9.6. 14.4: 3 in 14, nearly the share of TCH/F14.4, with the best pattern of
this period. 3/4: 2 in 6, likewise. Only the four nearest distances: the others matter where nearly every frame fails.
"""


# The parameters of a GSM data call in a scenario.


_FRAME_BITS = frozenset(octets * BITS_PER_BYTE for octets in FRAME_OCTETS)
_OVERHEAD_OCTETS = 6  # TS 24.022, clause 4: header 2, FCS 3; TS 27.002: status 1
_AM_OVERHEAD_OCTETS = HEADER_OCTETS + 1  # the CRC of UMTS is below RLC


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConfig:
    """A GSM circuit-switched data call that carries PPP; both ends have the same parameters."""

    frame_bits: int = 240
    """Bits of an RLP frame: 240 or 576 (TS 24.022), in studies also 336, 1152 or 2304.

    48 of them are header, status octet and check sequence; the others carry characters."""
    slot_ns: int = 20 * NS_PER_MS
    """Duration of one RLP frame: 24 user octets in 20 ms are 1200 B/s."""
    code: CodeName = "9.6"
    """The channel's code (`WEIGHTS`), which decides whether a frame survives errors of kind "bits"."""
    pipe_slots: int = 9
    """Slots between a frame's start at one end and its end at the other: interleaving and the network."""
    queue: QueueConfig = field(default_factory=QueueConfig)
    """The interface queue above PPP."""
    queue_at: Literal["both", "mobile", "fixed"] = "both"
    """Ends that have the queue above; the other end has a drop-tail queue of 50 packets."""
    header_compression: Literal["none", "vj", "vj-slot-id"] = "none"
    """Van Jacobson header compression: without the slot id where possible, or always with it (RFC 1332, section 4)."""
    accm: int = 0
    """Control characters that PPP escapes, as a bit map (RFC 1662)."""
    refill_below_bytes: int = 512
    """The next packet leaves the interface queue when fewer characters than this wait for the link."""
    drain_bytes_per_s: int = 960
    """Rate at which each end's terminal takes characters: 9.6 kb/s asynchronous."""
    xoff_at_bytes: int = 1300
    xon_at_bytes: int = 480
    """Characters in the receive buffer below which the terminal sends XON.

    Must be above the RLP round trip times the drain rate, or the terminal has no data for a time after each XOFF."""
    stop_by: Literal["x-bit", "rnr"] = "x-bit"
    """Means of flow control: the relay's status octet, or RLP."""
    rlp_version: int = 0
    t1_ms: int = 480
    n2: int = 6
    """Retransmissions of one frame before the link is reset."""
    recovery: Literal["srej", "rej", "am"] = "srej"
    """How missing frames are recovered: by RLP, or as RLC does in acknowledged mode, in studies of UMTS.

    Then t1_ms is the time of its timers, and n2 is MaxDAT."""
    when_exhausted: Literal["reset", "drop-call"] = "reset"
    error_control: Literal["reliable", "by-protocol"] = "reliable"
    """Which packets RLP repeats: all; or those of TCP, and all others are sent once, in UI frames and first.

    by-protocol is the flow-adaptive link that paper 004 proposes (section 5.3, reference 14)."""
    up: ErrorConfig = field(default_factory=ErrorConfig)
    down: ErrorConfig = field(default_factory=ErrorConfig)

    @property
    def payload_bytes(self) -> int:
        """Number of characters that one frame carries."""
        overhead = _AM_OVERHEAD_OCTETS if self.recovery == "am" else _OVERHEAD_OCTETS
        return self.frame_bits // BITS_PER_BYTE - overhead

    @property
    def rate_bytes_per_s(self) -> float:
        """Characters per second of the link, without errors and flow control."""
        return self.payload_bytes * NS_PER_S / self.slot_ns

    def queue_of(self, side: Literal["mobile", "fixed"]) -> QueueConfig:
        """Return the configuration of a side's interface queue."""
        is_typical = self.queue_at not in ("both", side)
        return QueueConfig(local_drops=self.queue.local_drops) if is_typical else self.queue

    def __post_init__(self) -> None:
        if self.frame_bits not in _FRAME_BITS:
            known = ", ".join(map(str, sorted(_FRAME_BITS)))
            raise LocalProtocolError(f'GSM link: "frame_bits" must be one of {known}, but is {self.frame_bits}')
        if not NS_PER_MS <= self.slot_ns <= min(NS_PER_S, self.t1_ms * NS_PER_MS):
            wrong = f"but is {self.slot_ns:,} ns"
            raise LocalProtocolError(
                f'GSM link: "slot_ns" must be 1,000,000 to {NS_PER_S:,} ns and not longer than "t1_ms", {wrong}'
            )
        if self.pipe_slots < 1 or self.refill_below_bytes < 1:
            raise LocalProtocolError('GSM link: "pipe_slots" and "refill_below_bytes" must each be at least 1')
        others = self.error_control, self.stop_by, self.when_exhausted
        if self.recovery == "am" and others != ("reliable", "x-bit", "drop-call"):
            raise LocalProtocolError(
                'GSM link: recovery = "am" is modelled only with error_control = "reliable", stop_by = "x-bit" and '
                f'when_exhausted = "drop-call", but these are {", ".join(others)}'
            )


# A reader with a fixed rate: how many bytes may leave a buffer in each slot.


class Drain:
    """Reads at a constant rate, slot by slot; fractions of a byte carry over exactly.

    Parameters
    ----------
    bytes_per_s : int
        The rate at which the far end's terminal reads.
    slot_ns : int
        Time between two calls of `allowance`.
    """

    def __init__(self, *, bytes_per_s: int, slot_ns: int) -> None:
        if bytes_per_s < 1 or slot_ns < 1:
            raise LocalProtocolError(
                "drain: the rate must be at least 1 byte/s, and the slot at "
                f"least 1 ns, but they are {bytes_per_s} byte/s and {slot_ns} ns"
            )
        self._per_slot = bytes_per_s * slot_ns
        self._credit = 0
        self.paused = False
        """Set to True to read nothing."""

    def allowance(self) -> int:
        """Begin the next slot; return how many bytes may be read in it."""
        if self.paused:
            return 0
        self._credit += self._per_slot
        return self._credit // NS_PER_S

    def spend(self, taken: int) -> None:
        """Record how many bytes were read in this slot; an unused allowance does not carry over."""
        if not self.paused:
            self._credit = min(self._credit - taken * NS_PER_S, NS_PER_S - 1)


# The balance of one direction of the link: every character that went in is accounted for.
#
# Counted independently of each other: what the sender's relay took, where the frames on the air said their
# characters stand in its stream, what a reset threw away before it was ever sent, and what the receiver's
# relay gave to its terminal.


_INFO_BEGIN, _FCS_OCTETS = 2, 3


@dataclass(frozen=True, slots=True)
class Balance:
    """Counts of characters, of one direction or of both; `bytes_in` must be the sum of the other counts."""

    bytes_in: int
    delivered: int
    """Characters that the far terminal has read."""
    flushed: int
    """Characters discarded by link resets or the end of the call."""
    queued: int
    """Characters in buffers and on the air."""

    def __add__(self, other: Balance) -> Balance:
        return Balance(
            self.bytes_in + other.bytes_in,
            self.delivered + other.delivered,
            self.flushed + other.flushed,
            self.queued + other.queued,
        )

    @property
    def is_even(self) -> bool:
        """Whether the counts agree, so that no character is missing or counted twice."""
        minimum = min(self.delivered, self.flushed, self.queued)
        return minimum >= 0 and self.bytes_in == self.delivered + self.flushed + self.queued


class DirectionLedger:
    """Counts the sent, delivered and discarded characters of one direction."""

    def __init__(self) -> None:
        self._on_air_end = 0
        self._received_before = 0
        self._epoch_begin = 0
        self._flushed = 0
        self._unsent_flushed = 0
        self._is_over = False

    def note(self, event: LinkEvent, *, received: int, is_over: bool) -> None:
        """Count one event of the sender.

        Parameters
        ----------
        event : LinkEvent
            The event.
        received : int
            Characters that the far relay has received in order so far.
        is_over : bool
            Whether the call is dropped: frames on the air may still arrive, all others are lost.
        """
        self._is_over = is_over
        if isinstance(event, FrameSent):
            self._note_frame(event)
        elif isinstance(event, PieceSent):
            self._on_air_end = max(self._on_air_end, event.offset_bytes + event.wire_bytes)
        elif isinstance(event, Flushed):
            self._unsent_flushed += event.unsent_bytes
        elif isinstance(event, ResetDone):
            self._close_epoch(received)

    def _note_frame(self, event: FrameSent) -> None:
        if event.attempt == 1 and event.offset_bytes is not None:
            count = user_octets(event.octets[_INFO_BEGIN:-_FCS_OCTETS])
            self._on_air_end = max(self._on_air_end, event.offset_bytes + count)

    def _close_epoch(self, received: int) -> None:
        """Count sent characters that the far relay has not received as lost, because both ends have reset."""
        self._flushed += self._on_air_end - self._epoch_begin - (received - self._received_before)
        self._flushed += self._unsent_flushed
        self._on_air_end += self._unsent_flushed
        self._unsent_flushed = 0
        self._epoch_begin = self._on_air_end
        self._received_before = received

    def balance(self, *, written: int, unsent: int, received: int, unread: int) -> Balance:
        """Return the counts of this direction up to now.

        Parameters
        ----------
        written : int
            Characters that the sender's relay has accepted.
        unsent : int
            Number of these characters that are still in the sender's buffers.
        received : int
            Characters that the far relay has received in order.
        unread : int
            Number of these characters that the far terminal has not read yet.
        """
        on_air = self._on_air_end - self._epoch_begin - (received - self._received_before)
        gone = on_air if self._is_over else 0
        return Balance(
            bytes_in=written,
            delivered=received - unread,
            flushed=self._flushed + self._unsent_flushed + gone,
            queued=on_air - gone + unsent + unread,
        )


# One end of a GSM data call: from IP packets to RLP frames and back.
#
# Down: interface queue → [VJ] → PPP → relay (L2R) → RLP. Up: RLP → relay, drained at the terminal's rate →
# PPP → [VJ] → IP. The driver calls `outgoing` and `incoming` once in each slot.


_RELAY_BYTES = 8192
"""Size of the relay's transmit buffer: the longest PPP frame always fits above `refill_below_bytes`."""


class GsmEnd:
    """The protocols of one side of the call: interface queue, PPP, relay and RLP.

    Parameters
    ----------
    role : {"mobile", "fixed"}
        The side.
    config : LinkConfig
        The call's parameters.
    """

    def __init__(self, role: Role, config: LinkConfig) -> None:
        self.role = role
        self.config = config
        rlp = None if config.recovery == "am" else RlpEntity(_rlp_config(role, config))
        self.rlp: RlpEntity | AcknowledgedMode = AcknowledgedMode(_am_config(config)) if rlp is None else rlp
        self.l2r = L2rEntity(self.rlp, _l2r_config(config))
        self.interface = LinkInterface(config.queue_of(role), self._tell)
        self.queue = self.interface.queue
        self.drain = Drain(bytes_per_s=config.drain_bytes_per_s, slot_ns=config.slot_ns)
        self.received_bytes = 0
        """Number of characters that the terminal has read."""
        self._framer = PppFramer(accm=config.accm)
        self._deframer = PppDeframer(accm=config.accm)
        is_by_protocol = config.error_control == "by-protocol"
        self._unrepeated = _Unrepeated(rlp) if rlp is not None and is_by_protocol else None
        compressed = config.header_compression != "none"
        self._compressor = VjCompressor(compress_slot_id=config.header_compression == "vj") if compressed else None
        self._decompressor = VjDecompressor() if compressed else None
        self._epoch = self.rlp.epoch

    # --- packets in, frames out ---

    def send(self, packet: bytes, *, now_ns: int) -> bool:
        """Offer an IP packet to the interface queue; return False if the queue refuses it."""
        is_closed = self.rlp.state is RlpState.DROPPED
        return self.interface.offer(packet, now_ns=now_ns, is_closed=is_closed)

    def _tell(self, kind: QueueEvent, now_ns: int, *facts: Any) -> None:
        journal = self.rlp.journal
        journal.add(kind(now_ns, journal.tick, *facts))

    def lose_packets(self, count: int) -> None:
        """Discard the next `count` packets; the host is not informed."""
        self.interface.lose_packets(count)

    def outgoing(self, now_ns: int) -> bytes | None:
        """Begin the next slot and return the frame that this side sends; None after the end of the call."""
        self._fill_relay(now_ns)
        frame = self.l2r.outgoing(now_ns)
        self._notice_reset()
        return frame

    @property
    def wants_packet(self) -> bool:
        """Whether this side would take a packet out of its interface queue now.

        It does so while few characters wait in its relay and the link is established.
        """
        waiting = self.l2r.unsent_bytes + (self._unrepeated.unsent_bytes if self._unrepeated is not None else 0)
        return self.rlp.state is RlpState.ESTABLISHED and waiting < self.config.refill_below_bytes

    def _fill_relay(self, now_ns: int) -> None:
        while self.wants_packet:
            packet = self.interface.take(now_ns)
            if packet is None:
                return
            self._write_packet(packet, now_ns)

    def _write_packet(self, packet: bytes, now_ns: int) -> None:
        facts = ip_facts(packet)
        if self._unrepeated is not None and not facts.flow:
            self._unrepeated.write(packet, now_ns)
            return
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
        """Process the frame that arrives in this slot, None if the radio destroyed it.

        Return the complete IP packets.
        """
        self.l2r.receive(frame, now_ns)
        self._notice_reset()
        packets = [] if self._unrepeated is None else self._unrepeated.read(now_ns)
        return [*packets, *self.read(now_ns)]

    def read(self, now_ns: int) -> list[bytes]:
        """Let the terminal read its characters of this slot; return the IP packets that are now complete."""
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
            PppReceived(now_ns, journal.tick, outcome.protocol, size, outcome.wire_bytes, facts.ip_id, facts.seq)
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
        """Return the events of this side since the last call of this method, in order of time."""
        return self.l2r.events()

    @property
    def is_drained(self) -> bool:
        """Whether no user data wait at this end."""
        return not (
            len(self.queue)
            or self.l2r.unsent_bytes
            or self.rlp.unsent_bytes
            or self.rlp.unacked_bytes
            or self.l2r.unread_bytes
            or (self._unrepeated is not None and self._unrepeated.unsent_bytes)
        )


class _Unrepeated:
    """Packets in UI frames, which nobody repeats: PPP of its own above an RLP entity.

    A packet of which a frame was lost has a wrong check sequence, and is discarded. The terminal's rate does not hold
    up these packets, which are few.
    """

    def __init__(self, rlp: RlpEntity) -> None:
        self._rlp = rlp
        self._framer, self._deframer = PppFramer(accm=0), PppDeframer(accm=0)

    @property
    def unsent_bytes(self) -> int:
        """Octets of frames that wait for a slot."""
        return self._rlp.unnumbered_waiting * self._rlp.config.info_octets

    def write(self, packet: bytes, now_ns: int) -> None:
        """Send a packet, in as many frames as it needs."""
        octets, journal, ip_id = self._rlp.config.info_octets, self._rlp.journal, ip_facts(packet).ip_id
        self._framer.idle()
        characters = self._framer.frame(PppProtocol.IP, packet)
        journal.add(PppSent(now_ns, journal.tick, PppProtocol.IP, len(packet), len(characters), None, ip_id))
        while characters:
            count = usable(len(characters), octets=octets)
            self._rlp.write_unnumbered(pack(characters[:count], octets=octets))
            characters = characters[count:]

    def read(self, now_ns: int) -> list[bytes]:
        """Return the packets that are now complete."""
        journal, packets = self._rlp.journal, []
        for info in self._rlp.read_unnumbered():
            for outcome in self._deframer.feed(b"".join(chunk.data for chunk in unpack(info))):
                if isinstance(outcome, PppDamage):
                    journal.add(PppDamaged(now_ns, journal.tick, outcome.cause, outcome.wire_bytes))
                elif outcome.protocol == PppProtocol.IP:
                    packet = outcome.information
                    sizes = len(packet), outcome.wire_bytes
                    journal.add(PppReceived(now_ns, journal.tick, outcome.protocol, *sizes, ip_facts(packet).ip_id))
                    packets.append(packet)
        return packets


def _am_config(config: LinkConfig) -> AmConfig:
    return AmConfig(
        frame_octets=config.frame_bits // BITS_PER_BYTE,
        slot_ns=config.slot_ns,
        timer_ticks=-(-config.t1_ms * NS_PER_MS // config.slot_ns),
        most_transmissions=config.n2,
    )


def _rlp_config(role: Role, config: LinkConfig) -> RlpConfig:
    return RlpConfig(
        role=role,
        parameters=Parameters(version=config.rlp_version, t1_ms=config.t1_ms, n2=config.n2),
        frame_octets=config.frame_bits // BITS_PER_BYTE,
        slot_ns=config.slot_ns,
        recovery="rej" if config.recovery == "rej" else "srej",
        when_exhausted=config.when_exhausted,
    )


def _l2r_config(config: LinkConfig) -> L2rConfig:
    return L2rConfig(
        transmit_bytes=_RELAY_BYTES,
        xoff_at_bytes=config.xoff_at_bytes,
        xon_at_bytes=config.xon_at_bytes,
        stop_by=config.stop_by,
    )


# A whole data call: two ends, the radio between them, and the scripted events.
#
# Rules of the file:
#
# - `tick` is one slot; a driver calls it at absolute times `start + n * slot_ns`, in real or virtual time.
# - A frame's fate is decided in the slot in which it arrives: slot n of the receiver's log, of an error trace
#   and of the error process are the same slot.
# - Times of the script are link seconds, counted from the first IP packet that enters an interface.


_REPORT_SLOTS = 250
"""Slots over which the error rate of a reading is computed: the last 5 s, as for our CDPD modem."""


class OnAir(NamedTuple):
    """A frame on the radio channel, and whether it was received; the two sides cannot know this truth."""

    side: Side
    """Side that sent the frame."""
    sent_slot: int
    arrival_slot: int
    octets: bytes
    lost: bool


class GsmLink:
    """A data call between a mobile and a fixed host.

    Parameters
    ----------
    config : LinkConfig
        The call's parameters.
    seed : int
        The same seed gives the same radio.
    script : sequence of ScriptEvent
        Scripted events of the link.
    on_air : callable, optional
        Called with an `OnAir` for each frame.
    """

    def __init__(
        self,
        config: LinkConfig,
        *,
        seed: int,
        script: Sequence[ScriptEvent] = (),
        on_air: Callable[[OnAir], None] | None = None,
    ) -> None:
        self.config = config
        self.slot = 0
        """Number of slots that have passed."""
        self.ends: dict[Side, GsmEnd] = {side: GsmEnd(side, config) for side in SIDES}
        self._radio: dict[Side, FadingErrors] = {
            "mobile": _radio(config.up, config, seed=f"{seed} up"),
            "fixed": _radio(config.down, config, seed=f"{seed} down"),
        }
        self._pipe: dict[Side, deque[tuple[int, bytes | None]]] = {side: deque() for side in SIDES}
        self._ledgers: dict[Side, DirectionLedger] = {side: DirectionLedger() for side in SIDES}
        self._on_air = on_air
        self._lost_down: deque[bool] = deque(maxlen=_REPORT_SLOTS)
        known = {"fade", "xoff", "drop"} | ({"reset"} if config.recovery != "am" else set())
        unknown = {event.kind for event in script} - known
        if unknown:
            raise LocalProtocolError(
                "GSM link: the script contains the event "
                f"{', '.join(sorted(unknown))}, which this link does not "
                'support; use only the event "fade"'
            )
        self._script = list(script)
        self._due: list[tuple[int, int, ScriptEvent]] = []
        self._resume: list[tuple[int, Side]] = []
        self._sent_up_to: dict[bytes, int] = {}
        self._retransmissions = 0
        self._first_packet_slot: int | None = None
        self.ends["mobile"].rlp.connect()

    # --- packets ---

    @property
    def hosts(self) -> tuple[HostName, ...]:
        """Names of the link's two hosts."""
        return SIDES

    @property
    def is_up(self) -> bool:
        """Whether both ends are connected."""
        return all(end.rlp.state is RlpState.ESTABLISHED for end in self.ends.values())

    @property
    def is_dropped(self) -> bool:
        """Whether the call is over."""
        return any(end.rlp.state is RlpState.DROPPED for end in self.ends.values())

    @property
    def is_drained(self) -> bool:
        """Whether no user data wait or are in transit at either side."""
        return all(end.is_drained for end in self.ends.values())

    def send(self, host: HostName, packet: bytes, *, now_ns: int) -> bool:
        """Offer an IP packet of a host; return False if the interface queue refuses it."""
        if self._first_packet_slot is None:
            self._first_packet_slot = self.slot
            self._schedule("first-packet", 1)
        self._watch_retransmissions(packet)
        self._play_script(now_ns)
        return self.ends[one_of_two(host)].send(packet, now_ns=now_ns)

    def _watch_retransmissions(self, packet: bytes) -> None:
        facts = ip_facts(packet)
        if facts.seq is None or facts.payload_bytes <= 0:
            return
        end = facts.seq + facts.payload_bytes
        known = self._sent_up_to.get(facts.flow)
        if known is not None and (facts.seq - known) % (1 << 32) >= 1 << 31:
            self._retransmissions += 1
            self._schedule("retransmission", self._retransmissions)
        if known is None or (end - known) % (1 << 32) < 1 << 31:
            self._sent_up_to[facts.flow] = end % (1 << 32)

    # --- slots ---

    @property
    def next_ns(self) -> int:
        """Link time at which the next slot begins."""
        return (self.slot + 1) * self.config.slot_ns

    def advance(self, now_ns: int) -> list[LinkDelivery]:
        """Run all slots up to `now_ns` of link time; return the packets that come out."""
        out: list[LinkDelivery] = []
        while self.next_ns <= now_ns:
            out += self.tick(self.next_ns)
        return out

    def tick(self, now_ns: int) -> list[LinkDelivery]:
        """Run one slot in both directions; return the packets that come out."""
        self.slot += 1
        self._play_script(now_ns)
        for side in SIDES:
            self._pipe[side].append((self.slot, self.ends[side].outgoing(now_ns)))
        return [LinkDelivery(FAR[side], packet) for side in SIDES for packet in self._arrive(side, now_ns)]

    def _arrive(self, side: Side, now_ns: int) -> list[bytes]:
        """Deliver to the far side the frame that `side` sent `pipe_slots` slots ago.

        Return the complete IP packets.
        """
        lost = self._radio[side].lost(self.slot)
        if side == "fixed":
            self._lost_down.append(lost)
        pipe = self._pipe[side]
        if len(pipe) <= self.config.pipe_slots:
            return []
        sent_slot, frame = pipe.popleft()
        if self._on_air is not None and frame is not None:
            self._on_air(OnAir(side, sent_slot, self.slot, frame, lost))
        return self.ends[FAR[side]].incoming(None if lost else frame, now_ns)

    # --- the script ---

    def _schedule(self, after: str, nth: int) -> None:
        for event in self._script:
            if event.after == after and (after == "first-packet" or event.nth == nth):
                slot = self.slot + self._slots(event.at_s)
                self._due.append((slot, len(self._due), event))
        self._due.sort(key=lambda due: due[:2])

    def _slots(self, seconds: float) -> int:
        return round(seconds * NS_PER_S / self.config.slot_ns)

    def _play_script(self, now_ns: int) -> None:
        while self._due and self._due[0][0] <= self.slot:
            self._play(self._due.pop(0)[2], now_ns)
        while self._resume and self._resume[0][0] <= self.slot:
            self.ends[self._resume.pop(0)[1]].drain.paused = False

    def _play(self, event: ScriptEvent, now_ns: int) -> None:
        for side in SIDES:
            if event.direction in ("both", "up" if side == "mobile" else "down"):
                self._play_at(side, event, now_ns)

    def _play_at(self, side: Side, event: ScriptEvent, now_ns: int) -> None:
        """Apply a scripted event to the frames or packets that `side` sends."""
        end, far = self.ends[side], FAR[side]
        slots = self._slots(event.duration_s)
        if event.kind == "fade":
            self._radio[side].fade(begin=self.slot, slots=slots, rate=event.rate)
        elif event.kind == "drop":
            end.lose_packets(event.packets)
        elif event.kind == "xoff":
            self.ends[far].drain.paused = True
            self._resume.append((self.slot + slots, far))
            self._resume.sort()
        elif end.rlp.state is RlpState.ESTABLISHED:
            end.rlp.reset(now_ns=now_ns)

    # --- what it tells ---

    def events(self, host: HostName) -> list[LinkEvent]:
        """Return the events at a host since the last call of this method, in order of time."""
        side = one_of_two(host)
        end, far = self.ends[side], self.ends[FAR[side]]
        events = end.events()
        received = far.received_bytes + far.l2r.unread_bytes
        is_over = end.rlp.state is RlpState.DROPPED
        for event in events:
            self._ledgers[side].note(event, received=received, is_over=is_over)
        return events

    def reading(self, now_ns: int, *, host: HostName | None = None) -> RadioReading:
        """Return the values that the modem reports: the frame errors; this model has no received power."""
        del now_ns, host
        lost = self._lost_down
        bler = 100 * sum(lost) / len(lost) if lost else None
        state = "dropped" if self.is_dropped else "connected" if self.is_up else "connecting"
        return RadioReading(None, bler, None, None, state)

    def count_idle(self) -> None:
        """Add an event to each log with the number of idle frames that no event has counted yet."""
        for end in self.ends.values():
            end.rlp.count_idle()

    def balance(self) -> Balance:
        """Return the sum of the character counts of both directions; call `events` of both hosts before."""
        up, down = (self._balance(side) for side in SIDES)
        return up + down

    def _balance(self, side: Side) -> Balance:
        near = self.ends[side]
        far = self.ends[FAR[side]]
        return self._ledgers[side].balance(
            written=near.l2r.written_bytes,
            unsent=near.l2r.unsent_bytes + near.rlp.unsent_bytes,
            received=far.received_bytes + far.l2r.unread_bytes,
            unread=far.l2r.unread_bytes,
        )


def _radio(errors: ErrorConfig, config: LinkConfig, *, seed: str) -> FadingErrors:
    luck = Random(f"{seed} errors")
    if errors.kind == "bits":
        bits, weights = config.frame_bits, WEIGHTS[config.code]
        coded = TwoStateBitErrors(errors, frame_bits=bits, weights=weights, slot_ns=config.slot_ns, luck=luck)
        return FadingErrors(coded, luck=Random(f"{seed} fades"))
    below = error_process(errors, slot_ns=config.slot_ns, luck=luck)
    return FadingErrors(below, luck=Random(f"{seed} fades"))
