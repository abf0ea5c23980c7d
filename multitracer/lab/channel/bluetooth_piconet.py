"""Bluetooth's radio and baseband, and RFCOMM above it; `bluetooth.py` sends the octets of packets over them.

`RfcommEnd` puts octets into frames, under credits; `Piconet` alternates between the ends and repeats each
baseband packet until it arrives; `PiconetBitErrors` computes the bit error rate, the probability that a
packet fails, and the link quality that the modem reports. The configurations give the source of each number.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.shared.packet_link import FAR
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from multitracer.lab.channel.shared.frame_errors import ErrorProcess, FadingErrors
    from multitracer.lab.channel.shared.outages import Signal
    from multitracer.lab.channel.shared.packet_link import Side
    from multitracer.lab.channel.shared.scheduler import Agenda

# The parameters of a Bluetooth 1.1 link with PPP over RFCOMM in a scenario.
#
# Where a number comes from stands beside it. *Baseband*: the packet table of Bluetooth 1.1, checked.
# *Memory*: of the specification 1.1, whose text was not at hand. *Ours*: chosen, low confidence.


SLOT_NS = 625 * NS_PER_US
"""Duration of a Bluetooth slot in ns (baseband specification)."""


class BasebandPacketType(NamedTuple):
    """A type of ACL packet (data packet) of the baseband: its slots, its capacity, and its error code."""

    name: str
    slots: int
    payload_octets: int
    """Maximum number of user octets, without payload header and CRC."""
    coded: bool
    """Whether a (15,10) Hamming code corrects one bit in each 15 bits."""


PACKET_TYPES = (
    BasebandPacketType("DM1", 1, 17, True),
    BasebandPacketType("DH1", 1, 27, False),
    BasebandPacketType("DM3", 3, 121, True),
    BasebandPacketType("DH3", 3, 183, False),
    BasebandPacketType("DM5", 5, 224, True),
    BasebandPacketType("DH5", 5, 339, False),
)
"""Baseband packet types.

DH5 in both directions carries 433.9 kb/s each; DH5 and DH1 carry 723.2 and 57.6 kb/s."""

MaxType = Literal["DM1", "DH1", "DM3", "DH3", "DM5", "DH5"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BitErrorConfig:
    """Bit errors in both directions, from two states with exponential durations or from a recording."""

    kind: Literal["two-states", "replay"] = "two-states"
    """two-states: computed from the keys below. replay: a packet is lost if one of its slots failed in a recording; the
    other keys then have no effect."""
    good_s: float = 30.0
    bad_s: float = 0.5
    """Mean time in the bad state (our choice: interference of another device now and then)."""
    good_ber: float = 1e-6
    """Bit error rate in the good state (our choice).

    A receiver must reach 0.1 % at its sensitivity; devices on one desk are far better (from memory)."""
    bad_ber: float = 1e-4
    """Bit error rate in the bad state (our choice: every fourth DH5 packet fails)."""
    replayed_up: tuple[tuple[int, int], ...] = ()
    """Replay: pairs of first failed slot and number of failed slots, from the mobile, ascending, as in an error trace.
    """
    replayed_down: tuple[tuple[int, int], ...] = ()
    """Replay: the same pairs for packets to the mobile."""
    repeat_slots: int = 0
    """Replay: number of slots after which the recording repeats; 0: no errors after its end."""

    def __post_init__(self) -> None:
        last = max((sum(runs[-1]) for runs in (self.replayed_up, self.replayed_down) if runs), default=0)
        if self.repeat_slots < 0 or 0 < self.repeat_slots < last:
            raise LocalProtocolError(
                'Bluetooth errors: "repeat_slots" must be 0 (no repetition) or larger than the '
                "number of the last failed slot"
            )
        if min(self.good_s, self.bad_s) <= 0 or not 0 <= self.good_ber <= self.bad_ber < 0.5:
            raise LocalProtocolError(
                "Bluetooth errors: all durations must be above 0 s, and the bit error rates must "
                'satisfy 0 <= "good_ber" <= "bad_ber" < 0.5'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RfcommConfig:
    """Parameters of RFCOMM with credit-based flow control, and of PPP in it."""

    n1_octets: int = 127
    """N1: maximum number of octets of information in a frame (RFCOMM 1.1's default)."""
    credits: int = 7
    """Frames that the other end may send before it gets more credits (from memory: 7 is the maximum at set-up)."""
    grant_at: int = 3
    """Number of received frames after which credits are granted (our choice)."""
    accm: int = 0
    """Control characters that PPP escapes, as a bit map (RFC 1662)."""

    def __post_init__(self) -> None:
        if not 1 <= self.n1_octets <= 32_767 or not 1 <= self.grant_at <= self.credits <= 255:
            raise LocalProtocolError(
                'RFCOMM: "n1" must be 1 to 32,767 bytes, and the credits must '
                'satisfy 1 <= "grant_at" <= "credits" <= 255'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BluetoothSignalConfig:
    """Received power at the mobile: a mean, and slow fading in dB that is correlated in time."""

    mean_dbm: float = -55.0
    """Mean received power (our choice: the same room, class 2)."""
    deviation_db: float = 3.0
    """Standard deviation of the slow fading (our choice)."""
    correlation_ns: int = 10 * NS_PER_S
    """Correlation time of the slow fading (our choice)."""
    sensitivity_dbm: float = -70.0
    """Power at which the bit error rate is 0.1 % (baseband: required at -70 dBm)."""
    zero_dbm: float = -113.0
    """Lowest reported power."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BluetoothConfig:
    """A piconet of two devices: the fixed end (access point) is the master, the mobile is its slave."""

    queue: QueueConfig = field(default_factory=QueueConfig)
    """Interface queue above PPP, at each end."""
    up: MaxType = "DH5"
    """Longest packet type from the mobile.

    Packets use the shortest type of its family that holds their data."""
    down: MaxType = "DH5"
    """Longest packet type to the mobile. DH5 in both directions: 432 kb/s each; DH1 up and DH5 down: 57.6 and 721 kb/s.
    """
    poll_slots: int = 40
    """Interval at which the master polls an idle slave, in slots (from memory: 40 slots, 25 ms, by default)."""
    sniff_slots: int = 0
    """Sniff mode: interval in slots at which an idle slave listens; 0: active mode."""
    sniff_after_ns: int = 1 * NS_PER_S
    """Idle time after which sniff mode begins (our choice)."""
    host_ns: int = 2 * NS_PER_MS
    """Delay of each packet in controller, driver and stack, at each end (our choice)."""
    supervision_ns: int = 20 * NS_PER_S
    """Time without reception after which the connection is lost (default of the baseband, 20 s)."""
    reconnect_ns: int = 3 * NS_PER_S
    """Time to set up paging, RFCOMM and PPP again after radio contact returns (our choice)."""
    errors: BitErrorConfig = field(default_factory=BitErrorConfig)
    rfcomm: RfcommConfig = field(default_factory=RfcommConfig)
    signal: BluetoothSignalConfig = field(default_factory=BluetoothSignalConfig)
    report_ns: int = 1 * NS_PER_S
    """Interval over which the packet error rate of a reading is computed (our choice)."""

    def __post_init__(self) -> None:
        if self.poll_slots < 2 or self.sniff_slots < 0:
            raise LocalProtocolError('Bluetooth: "poll_slots" must be at least 2, and "sniff_slots" must be at least 0')


# Bit errors of a Bluetooth radio over time, and their effect on packets.


_HEADER_TRIPLES = 18
"""Number of bits in a packet header; each is sent three times."""
_CODE_BITS, _CODED_BITS = 15, 10
_PAYLOAD_OVERHEAD_OCTETS = {1: 3, 3: 4, 5: 4}
"""Octets of payload header (1, or 2 in long packets) and CRC, by the packet's number of slots."""
_QUALITY_STEP, _QUALITY_STEP_BAD, _QUALITY_KNEE = 2.5e-5, 8e-4, 215


class PiconetBitErrors:
    """Bit error rate over time: two states, good and bad, with exponential durations.

    Parameters
    ----------
    config : BitErrorConfig
    luck : Random
        Random generator for the durations.
    """

    def __init__(self, config: BitErrorConfig, *, luck: Random) -> None:
        self._config = config
        self._luck = luck
        self._is_bad = True
        self._until_ns = 0

    def ber(self, now_ns: int) -> float:
        """Return the bit error rate, 0 to 1, at a time; times must not decrease from call to call."""
        while now_ns >= self._until_ns:
            self._is_bad = not self._is_bad
            mean_s = self._config.bad_s if self._is_bad else self._config.good_s
            self._until_ns += 1 + round(self._luck.expovariate(1 / mean_s) * NS_PER_S)
        return self._config.bad_ber if self._is_bad else self._config.good_ber


def header_error(ber: float) -> float:
    """Return the probability that a packet header cannot be decoded (code 1/3, majority of three)."""
    return 1 - (1 - 3 * ber**2 + 2 * ber**3) ** _HEADER_TRIPLES


def payload_error(ber: float, kind: BasebandPacketType, octets: int) -> float:
    """Return the probability that a payload of `octets` user octets fails its CRC.

    `kind` is the type of the packet that carries the payload.
    """
    bits = (octets + _PAYLOAD_OVERHEAD_OCTETS[kind.slots]) * BITS_PER_BYTE
    if not kind.coded:
        return 1 - (1 - ber) ** bits
    word_ok = (1 - ber) ** _CODE_BITS + _CODE_BITS * ber * (1 - ber) ** (_CODE_BITS - 1)
    return 1 - word_ok ** -(-bits // _CODED_BITS)


def link_quality(ber: float) -> int:
    """Return the link quality, 0 to 255, that controllers of CSR report for a bit error rate.

    The scale is from memory.
    """
    quality = 255 - ber / _QUALITY_STEP
    if quality < _QUALITY_KNEE:
        quality = _QUALITY_KNEE - (ber - (255 - _QUALITY_KNEE) * _QUALITY_STEP) / _QUALITY_STEP_BAD
    return max(0, round(quality))


# RFCOMM with credits above L2CAP, as one end of a Bluetooth link sends and receives octets.
#
# A frame carries at most N1 octets, has address, control, length and check, and a credit octet when it grants
# credits; it needs a credit unless it is empty. L2CAP puts four octets before it, and each of its packets
# begins a baseband packet, so that an N1 that does not fill baseband packets wastes slots.


_L2CAP_OCTETS = 4
_FRAME_OCTETS = 4
"""Octets of address, control, length and check sequence of an RFCOMM frame."""
_SHORT_LENGTH = 127
"""Maximum length that fits a one-octet length field; longer frames have a length field of two octets."""


class Octets(NamedTuple):
    """Consecutive octets of the stream, and the stream offset of their first octet."""

    offset: int
    data: bytes


@dataclass(slots=True)
class RfcommFrame:
    """A frame in transit through L2CAP; `octets_left` of its octets are not acknowledged by the baseband."""

    octets: Octets
    credits: int
    octets_left: int


class Fragment(NamedTuple):
    """The part of a frame that one baseband packet carries."""

    frame: RfcommFrame
    octets: int
    number: int
    """Number of the fragment; its lowest bit is SEQN."""

    @property
    def is_last(self) -> bool:
        """Whether the fragment is the last one of its frame."""
        return self.octets == self.frame.octets_left


class RfcommEnd:
    """One end of the RFCOMM channel.

    Parameters
    ----------
    config : RfcommConfig
    """

    def __init__(self, config: RfcommConfig) -> None:
        self._config = config
        self._stream: deque[Octets] = deque()
        self.unsent_bytes = 0
        """Octets of the stream that are in no frame yet."""
        self.written_bytes = 0
        self._credits = config.credits
        self._taken = 0
        self._frame: RfcommFrame | None = None
        self._fragment: Fragment | None = None
        self._numbers = 0
        self._last_heard = -1

    # --- sending ---

    def write(self, data: bytes) -> None:
        """Append octets to the stream that this end sends."""
        self._stream.append(Octets(self.written_bytes, data))
        self.written_bytes += len(data)
        self.unsent_bytes += len(data)

    def fragment(self, most_octets: int) -> Fragment | None:
        """Return the data of the next baseband packet, at most `most_octets`.

        None if there is nothing to send.

        The result is the same fragment until it is acknowledged.
        """
        if self._fragment is None:
            self._frame = self._frame or self._next_frame()
            if self._frame is not None:
                self._numbers += 1
                octets = min(most_octets, self._frame.octets_left)
                self._fragment = Fragment(self._frame, octets, self._numbers)
        return self._fragment

    def acknowledged(self) -> None:
        """Process the acknowledgement of the fragment that was sent last."""
        if self._fragment is not None:
            self._fragment.frame.octets_left -= self._fragment.octets
            if self._fragment.frame.octets_left == 0:
                self._frame = None
            self._fragment = None

    @property
    def has_work(self) -> bool:
        """Whether there are a partly sent frame, data with a credit for them, or credits to return."""
        can_send = self.unsent_bytes > 0 and self._credits > 0
        return self._frame is not None or can_send or self._taken >= self._config.grant_at

    @property
    def is_sending_data(self) -> bool:
        """Whether a frame with data is in transit."""
        return self._frame is not None and bool(self._frame.octets.data)

    def _next_frame(self) -> RfcommFrame | None:
        if not self.has_work:
            return None
        octets = Octets(self.written_bytes - self.unsent_bytes, b"")
        if self._credits and self._stream:
            self._credits -= 1
            octets = self._cut(self._config.n1_octets)
        granted, self._taken = self._taken, 0
        length = _FRAME_OCTETS + len(octets.data) + (granted > 0) + (len(octets.data) > _SHORT_LENGTH)
        return RfcommFrame(octets, granted, _L2CAP_OCTETS + length)

    def _cut(self, most: int) -> Octets:
        offset, parts, size = self._stream[0].offset, [], 0
        while self._stream and size < most:
            begin, data = self._stream.popleft()
            part, rest = data[: most - size], data[most - size :]
            if rest:
                self._stream.appendleft(Octets(begin + len(part), rest))
            parts.append(part)
            size += len(part)
        self.unsent_bytes -= size
        return Octets(offset, b"".join(parts))

    # --- receiving ---

    def is_new(self, fragment: Fragment) -> bool:
        """Return whether a fragment arrives for the first time.

        A repeated fragment has the same number as the fragment before it.
        """
        is_new = fragment.number != self._last_heard
        self._last_heard = fragment.number
        return is_new

    def receive(self, frame: RfcommFrame) -> bytes:
        """Process a complete frame and its credits; return its data octets."""
        self._credits += frame.credits
        if frame.octets.data:
            self._taken += 1
        return frame.octets.data


# The baseband of a Bluetooth master and its one slave: turns, polls, and a stop-and-wait ARQ.
#
# The master begins in an even slot; the slave answers in the slot after the master's packet, with data or
# with NULL. Each packet's header says whether the last payload was understood; what was not is sent again,
# and what was received twice is recognised by its number. While there are data, the turns follow each other;
# an idle slave is polled once in a while, and until then its data wait.


_SENSITIVITY_BER = 1e-3


@dataclass(frozen=True, slots=True)
class BasebandPacket:
    """A packet of the baseband; without a fragment (data) it is a POLL or NULL packet of one slot."""

    side: Side
    """Side that sends the packet."""
    kind: BasebandPacketType
    fragment: Fragment | None
    began_ns: int
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Air:
    """The processes that decide whether a packet arrives.

    They are bit errors, received power, scripted fades, and recorded errors.
    """

    errors: PiconetBitErrors
    signal: Signal
    fades: dict[Side, FadingErrors]
    luck: Random
    replayed: dict[Side, ErrorProcess]
    """Recorded errors by sending side, which replace `errors` and `signal`; empty if nothing is replayed."""


class Piconet:
    """Exchanges packets between two ends of RFCOMM.

    Parameters
    ----------
    config : BluetoothConfig
    ends : dict
        The RFCOMM end of each side.
    air : Air
    agenda : Agenda
    arrived : callable
        Called with a packet that carries a fragment, its end time, and its fate: arrived, duplicate or lost.
    """

    def __init__(
        self,
        config: BluetoothConfig,
        ends: dict[Side, RfcommEnd],
        air: Air,
        *,
        agenda: Agenda,
        arrived: Callable[[BasebandPacket, int, str], None],
    ) -> None:
        self._config = config
        self._ends = ends
        self._air = air
        self._agenda = agenda
        self._arrived = arrived
        self._types = {side: _family(name) for side, name in (("mobile", config.up), ("fixed", config.down))}
        self._attempts: dict[Side, tuple[int, int]] = dict.fromkeys(("mobile", "fixed"), (0, 0))
        self._turns = 0  # a turn that was planned before the latest plan does nothing
        self._planned_ns: int | None = None
        self._is_busy = False
        self._idle_since_ns = 0
        self._is_away = False
        self.receptions: deque[tuple[int, bool]] = deque()
        """Arrival times of payloads at the mobile, and whether they were lost; the caller removes old ones."""

    # --- when ---

    def kick(self, side: Side, now_ns: int) -> None:
        """Schedule the next transmission of a side that has data, unless the link is busy or out of range."""
        if self._is_busy or self._is_away or not self._ends[side].has_work:
            return
        due_ns = self._next_turn(side, now_ns)
        if self._planned_ns is None or due_ns < self._planned_ns:
            self._plan(due_ns)

    def _next_turn(self, side: Side, now_ns: int) -> int:
        """Return the time in ns at which an idle link can carry data of a side.

        The master can send at the next even slot; the slave can send only when the master polls it next.
        """
        config = self._config
        step_ns = 2 * SLOT_NS if side == "fixed" else config.poll_slots * SLOT_NS
        since_ns = self._idle_since_ns
        if config.sniff_slots and now_ns - since_ns >= config.sniff_after_ns:
            step_ns, since_ns = config.sniff_slots * SLOT_NS, 0
        turns = max(1, -(-(now_ns - since_ns) // step_ns))
        return _even(since_ns + turns * step_ns)

    def _plan(self, time_ns: int) -> None:
        self._turns += 1
        turn = self._turns
        self._planned_ns = time_ns
        self._agenda.at(time_ns, lambda now_ns: self._turn(turn, now_ns))

    def set_away(self, now_ns: int, *, is_away: bool) -> None:
        """Record that the two devices have lost radio contact (True) or have it again (False)."""
        self._is_away = is_away
        self._turns += 1  # what is on the air is lost
        self._planned_ns = None
        self._is_busy = False
        if not is_away:
            self._idle_since_ns = _even(now_ns)
            self._plan(self._idle_since_ns)

    # --- an exchange ---

    def _turn(self, turn: int, now_ns: int) -> None:
        if turn != self._turns:
            return
        self._planned_ns = None
        self._is_busy = True
        packet = self._packet("fixed", now_ns)
        end_ns = now_ns + packet.kind.slots * SLOT_NS
        self._agenda.at(end_ns, lambda then_ns: self._master_ended(turn, packet, then_ns))

    def _packet(self, side: Side, now_ns: int) -> BasebandPacket:
        types = self._types[side]
        fragment = self._ends[side].fragment(types[-1].payload_octets)
        if fragment is None:
            return BasebandPacket(side, types[0], None, now_ns)
        kind = next(kind for kind in types if kind.payload_octets >= fragment.octets)
        number, attempts = self._attempts[side]
        attempts = attempts + 1 if number == fragment.number else 1
        self._attempts[side] = fragment.number, attempts
        return BasebandPacket(side, kind, fragment, now_ns, attempts)

    def _master_ended(self, turn: int, packet: BasebandPacket, now_ns: int) -> None:
        if turn != self._turns:
            return
        is_understood, is_complete = self._fate(packet, now_ns)
        if not is_understood:
            self._agenda.at(now_ns + SLOT_NS, lambda then_ns: self._over(turn, True, then_ns))
            return
        answer = self._packet("mobile", now_ns)
        end_ns = now_ns + answer.kind.slots * SLOT_NS
        self._agenda.at(end_ns, lambda then_ns: self._slave_ended(turn, answer, is_complete, then_ns))

    def _slave_ended(self, turn: int, answer: BasebandPacket, is_masters_complete: bool, now_ns: int) -> None:
        if turn != self._turns:
            return
        is_understood, is_complete = self._fate(answer, now_ns)
        if is_understood and is_masters_complete:
            self._ends["fixed"].acknowledged()
        if is_understood and is_complete:
            # ARQN of the master's next packet tells the slave; that it may be missed is left out
            self._ends["mobile"].acknowledged()
        self._over(turn, answer.fragment is not None, now_ns)

    def _over(self, turn: int, was_used: bool, now_ns: int) -> None:
        if turn != self._turns:
            return
        self._is_busy = False
        self._idle_since_ns = now_ns
        if was_used or self._ends["fixed"].has_work:
            self._plan(now_ns)
        else:
            self.kick("mobile", now_ns)

    def _fate(self, packet: BasebandPacket, now_ns: int) -> tuple[bool, bool]:
        """Return two booleans: whether a packet's header is decoded, and whether its payload is correct.

        Also record whether the payload was received, for the packet error rate.
        """
        ber = 0.0 if self._air.replayed else self._ber(now_ns)
        fades = self._air.fades[packet.side].lost(now_ns // SLOT_NS)
        is_understood = self._air.luck.random() >= header_error(ber) and not fades
        if packet.fragment is None:
            return is_understood, True
        error = payload_error(ber, packet.kind, packet.fragment.octets)
        is_complete = self._air.luck.random() >= error and is_understood and not self._failed_then(packet, now_ns)
        if packet.side == "fixed":
            self.receptions.append((now_ns, not is_complete))
        is_new = is_complete and self._ends[FAR[packet.side]].is_new(packet.fragment)
        self._arrived(packet, now_ns, "new" if is_new else "duplicate" if is_complete else "lost")
        return is_understood, is_complete

    def _failed_then(self, packet: BasebandPacket, now_ns: int) -> bool:
        """Return whether the recorded errors destroy one of the packet's slots; False without a recording."""
        if packet.side not in self._air.replayed:
            return False
        return any(self._air.replayed[packet.side].lost_slots(packet.began_ns // SLOT_NS, now_ns // SLOT_NS))

    def _ber(self, now_ns: int) -> float:
        return self.ber_at(self._air.errors.ber(now_ns), self._air.signal.dbm(now_ns))

    def ber_at(self, ber: float, dbm: float) -> float:
        """Return the bit error rate at a received power in dBm.

        This is `ber`, but at or below the receiver's sensitivity it is at least the rate that the
        specification allows there.
        """
        return max(ber, _SENSITIVITY_BER) if dbm <= self._config.signal.sensitivity_dbm else ber


def _family(longest: str) -> list[BasebandPacketType]:
    """Return the allowed packet types, in ascending length.

    They have the same code as the longest allowed type, and are not longer.
    """
    last = next(kind for kind in PACKET_TYPES if kind.name == longest)
    return [kind for kind in PACKET_TYPES if kind.coded == last.coded and kind.slots <= last.slots]


def _even(time_ns: int) -> int:
    """Return the start of the next even slot, in ns."""
    return -(-time_ns // (2 * SLOT_NS)) * 2 * SLOT_NS
