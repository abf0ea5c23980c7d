"""One end of a link with UMTS' recovery: RLC in acknowledged mode (3GPP TS 25.322), for one study.

The receiver lists all that is missing in one STATUS PDU, and the sender repeats just that. It asks for a STATUS by
the polling bit: with the last PDU that waits, and again when Timer_Poll expires; the receiver sends one, too, when it
sees a gap. Timer_Status_Prohibit and Timer_Poll_Prohibit keep a round trip between two of each, so that nothing is
requested again while it is under way.

Apart from the standard: one PDU each slot and direction, an entity that begins established, no RESET (a PDU that was
sent MaxDAT times without success ends the link), and no piggybacked STATUS. It stands in the place of an `RlpEntity`
below the relay, and has its methods. From memory, without the standard at hand.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from multitracer.errors import LocalProtocolError
from multitracer.lab.rlp.balanced import Sdu
from multitracer.lab.rlp.xid import RlpState, SlotJournal
from multitracer.protocols.link_events import CallDropped, Flushed, PieceSent
from multitracer.units import NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.protocols.link_events import LinkEvent

HEADER_OCTETS = 2
"""Of a data PDU: D/C, sequence number of 12 bits, polling bit, extension (clause 9.2.1.4)."""
_MODULUS = 1 << 12
_WINDOW = 512
"""PDUs; at most half of the modulus. Far more than are under way here (not measured)."""
_MOST_LISTED = 15
"""Pairs of a LIST (clause 9.2.2.11.4): LENGTH has four bits."""
_LONGEST_RUN = 16
"""PDUs of one pair: the first, and up to 15 more."""
_DATA, _POLL = 0x80, 0x04


@dataclass(frozen=True, slots=True, kw_only=True)
class AmConfig:
    """Options of an `AcknowledgedMode`."""

    frame_octets: int
    slot_ns: int
    timer_ticks: int
    """Timer_Poll_Prohibit and Timer_Status_Prohibit in slots, longer than the round trip; Timer_Poll is twice as long,
    since the answer to a poll may have to wait."""
    most_transmissions: int
    """MaxDAT."""
    backlog_frames: int = _WINDOW

    @property
    def info_octets(self) -> int:
        """Octets of information in one PDU."""
        return self.frame_octets - HEADER_OCTETS


@dataclass(slots=True)
class _Pdu:
    """A PDU that was sent and is not acknowledged."""

    sdu: Sdu
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class _Status:
    """What a STATUS PDU says, by sequence numbers modulo 4096."""

    before: int
    """All before this number has arrived, unless it is listed (LSN of the ACK)."""
    missing: tuple[tuple[int, int], ...]
    """First number and length of each run."""

    def encode(self, octets: int) -> bytes:
        """Return the PDU: type, LIST with a pair for each run, ACK, padding (clause 9.2.2.11)."""
        nibbles = [0x0, 0x3, len(self.missing)]
        for first, count in self.missing:
            nibbles += [*_nibbles(first), count - 1]
        nibbles += [0x2, *_nibbles(self.before)]
        nibbles += [0] * (2 * octets - len(nibbles))
        return bytes(high << 4 | low for high, low in zip(nibbles[::2], nibbles[1::2], strict=True))

    @classmethod
    def decode(cls, data: bytes) -> _Status:
        """Return what `encode` has written."""
        nibbles = [nibble for octet in data for nibble in (octet >> 4, octet & 0xF)]
        listed, at = nibbles[2], 3
        pairs = [nibbles[at + 4 * pair : at + 4 * pair + 4] for pair in range(listed)]
        missing = tuple((_number(pair), pair[3] + 1) for pair in pairs)
        return cls(_number(nibbles[at + 4 * listed + 1 :]), missing)


def _nibbles(number: int) -> tuple[int, int, int]:
    return number >> 8 & 0xF, number >> 4 & 0xF, number & 0xF


def _number(nibbles: list[int]) -> int:
    return nibbles[0] << 8 | nibbles[1] << 4 | nibbles[2]


class _Timer:
    """A time until which something must wait, in slots."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: int | None = None

    def start(self, until: int) -> None:
        self._until = until

    def stop(self) -> None:
        self._until = None

    def is_over(self, tick: int) -> bool:
        """Whether the timer is not running; it then is stopped, or has expired."""
        return self._until is None or tick >= self._until

    def has_expired(self, tick: int) -> bool:
        """Whether the timer was started, and has expired."""
        return self._until is not None and tick >= self._until


class AcknowledgedMode:
    """One end of a link in acknowledged mode, in the place of an `RlpEntity`.

    Parameters
    ----------
    config : AmConfig
    """

    unnumbered_waiting: ClassVar[int] = 0

    def __init__(self, config: AmConfig) -> None:
        self.config = config
        self.state = RlpState.ESTABLISHED
        self.epoch = 0
        self.on_flush: Callable[[], int] | None = None
        self.journal = SlotJournal()
        self.local_busy = False
        """Set by the relay; flow control is its status octet."""
        # Numbers are not wrapped inside: VT(A) and VT(S) of the sender, VR(R) and VR(H) of the receiver.
        self._vt_a = self._vt_s = self._vr_r = self._vr_h = 0
        self._queue: deque[Sdu] = deque()
        self._sent: dict[int, _Pdu] = {}
        self._resend: list[int] = []
        self._stored: dict[int, bytes] = {}
        self._delivered: list[bytes] = []
        self._poll_wanted = self._status_wanted = False
        self._poll, self._poll_prohibit, self._status_prohibit = _Timer(), _Timer(), _Timer()
        self._polled = 0
        """Number of the last PDU that was sent with or before the last poll."""

    # -- what the relay and the link call ---------------------------------------------------------------

    def connect(self) -> None:
        """Do nothing: the link is established by the layers beside it."""

    def reset(self, *, now_ns: int) -> None:
        """Refuse the reset, which is not modelled."""
        raise LocalProtocolError(f'RLC at {now_ns} ns: a reset is not modelled with recovery = "am"; use another event')

    @property
    def ready(self) -> bool:
        """Whether a unit that is written now is sent in the next slot, unless something else is due."""
        return self.state is RlpState.ESTABLISHED and not self._queue and not self._resend and self._is_open

    def write(self, info: bytes, *, offset_bytes: int | None = None, user_bytes: int | None = None) -> None:
        """Queue one unit of user data; the parameters are those of `RlpEntity.write`."""
        if len(info) > self.config.info_octets:
            raise LocalProtocolError(f"RLC: a PDU holds {self.config.info_octets} octets, not {len(info)}")
        self._queue.append(Sdu(info, offset_bytes, len(info) if user_bytes is None else user_bytes))

    def read(self) -> list[bytes]:
        """Return the information fields that arrived since the last call of this method, in order."""
        delivered, self._delivered = self._delivered, []
        return delivered

    def events(self) -> list[LinkEvent]:
        """Return the events since the last call of this method, in order of time."""
        return self.journal.take()

    def count_idle(self) -> None:
        """Add an event with the number of idle slots since the last such event."""
        self.journal.count_idle()

    @property
    def tick(self) -> int:
        """Number of slots that have begun."""
        return self.journal.tick

    @property
    def unacked_bytes(self) -> int:
        """Number of user octets that were sent and are not acknowledged."""
        return sum(pdu.sdu.user_bytes for pdu in self._sent.values())

    @property
    def unsent_bytes(self) -> int:
        """Number of user octets that were written and not sent yet."""
        return sum(sdu.user_bytes for sdu in self._queue)

    @property
    def _is_open(self) -> bool:
        return self._vt_s - self._vt_a < _WINDOW

    # -- the channel: one PDU out, one PDU in per slot --------------------------------------------------

    def outgoing(self, now_ns: int) -> bytes | None:
        """Begin the next slot and return its PDU; None if nothing is to be sent."""
        journal = self.journal
        journal.tick += 1
        journal.now_ns = now_ns
        if self.state is not RlpState.ESTABLISHED:
            return None
        if self._status_wanted and self._status_prohibit.is_over(journal.tick):
            return self._status()
        number = self._next()
        if number is None:
            journal.idle_sent(b"")
            return None
        return self._data(number)

    def _next(self) -> int | None:
        """Return the number of the PDU to send: one to repeat, a new one, or the last one to ask for a STATUS."""
        if self._sent and self._poll.has_expired(self.tick):
            self._poll_wanted = True
        number = None
        if self._resend:
            number = self._resend.pop(0)
        elif self._queue and self._is_open:
            number = self._vt_s
            self._vt_s += 1
            self._sent[number] = _Pdu(self._queue.popleft())
        elif self._poll_wanted and self._sent and self._poll_prohibit.is_over(self.tick):
            number = max(self._sent)
        if not self._resend and (not self._queue or not self._is_open):
            self._poll_wanted |= number is not None
        return number

    def _data(self, number: int) -> bytes | None:
        pdu, tick = self._sent[number], self.tick
        if pdu.attempts >= self.config.most_transmissions:
            self._give_up()
            return None
        pdu.attempts += 1
        is_poll = self._poll_wanted and self._poll_prohibit.is_over(tick)
        if is_poll:
            self._poll_wanted = False
            self._polled = self._vt_s - 1
            self._poll.start(tick + 2 * self.config.timer_ticks)
            self._poll_prohibit.start(tick + self.config.timer_ticks)
        header = _DATA << 8 | number % _MODULUS << 3 | _POLL * is_poll
        sdu, air_us = pdu.sdu, self.config.slot_ns // NS_PER_US
        if sdu.offset_bytes is not None:
            self.journal.note(PieceSent, air_us, sdu.user_bytes, sdu.offset_bytes, pdu.attempts)
        return header.to_bytes(HEADER_OCTETS, "big") + sdu.info.ljust(self.config.info_octets, b"\0")

    def _give_up(self) -> None:
        """End the link: MaxDAT transmissions of a PDU failed."""
        unacked, unsent = self.unacked_bytes, self.unsent_bytes
        above = self.on_flush() if self.on_flush else 0
        self.journal.note(Flushed, unacked, unsent + above, len(self._stored))
        self._sent.clear()
        self._queue.clear()
        self._resend.clear()
        self.epoch += 1
        self.state = RlpState.DROPPED
        self.journal.note(CallDropped, "n2")

    def receive(self, octets: bytes | None, now_ns: int) -> None:
        """Process the PDU of this slot; None if the radio destroyed it, or nothing was sent."""
        self.journal.now_ns = now_ns
        if octets is None or self.state is not RlpState.ESTABLISHED:
            return
        if octets[0] & _DATA:
            self._take_data(int.from_bytes(octets[:HEADER_OCTETS], "big"), octets[HEADER_OCTETS:])
        else:
            self._take_status(_Status.decode(octets))

    # -- the receiver -----------------------------------------------------------------------------------

    def _take_data(self, header: int, info: bytes) -> None:
        ahead = ((header >> 3) - self._vr_r) % _MODULUS
        self._status_wanted |= bool(header & _POLL)
        if ahead >= _WINDOW:
            return  # delivered before
        number = self._vr_r + ahead
        self._status_wanted |= number > self._vr_h
        self._vr_h = max(self._vr_h, number + 1)
        self._stored.setdefault(number, info)
        while self._vr_r in self._stored:
            self._delivered.append(self._stored.pop(self._vr_r))
            self._vr_r += 1

    def _status(self) -> bytes:
        """Return a STATUS PDU that lists what is missing, the oldest first."""
        self._status_wanted = False
        self._status_prohibit.start(self.tick + self.config.timer_ticks)
        runs: list[tuple[int, int]] = []
        before = self._vr_h
        for number in (each for each in range(self._vr_r, self._vr_h) if each not in self._stored):
            if runs and sum(runs[-1]) == number and runs[-1][1] < _LONGEST_RUN:
                runs[-1] = runs[-1][0], runs[-1][1] + 1
            elif len(runs) < _MOST_LISTED:
                runs.append((number, 1))
            else:
                before = number
                break
        listed = tuple((first % _MODULUS, count) for first, count in runs)
        return _Status(before % _MODULUS, listed).encode(self.config.frame_octets)

    # -- the sender -------------------------------------------------------------------------------------

    def _take_status(self, status: _Status) -> None:
        before = self._vt_a + (status.before - self._vt_a) % _MODULUS
        missing = {
            self._vt_a + (first - self._vt_a) % _MODULUS + at for first, count in status.missing for at in range(count)
        }
        if before > self._vt_s or not missing <= self._sent.keys():
            return  # from before what is acknowledged
        for number in [number for number in self._sent if number < before and number not in missing]:
            del self._sent[number]
        self._vt_a = min(self._sent, default=self._vt_s)
        self._resend = sorted(missing)
        if before > self._polled:
            self._poll.stop()
