"""Asynchronous balanced mode: numbered information in both directions, and its recovery.

Source: 3GPP TS 24.022, clauses 5.2.3 and 5.3. There are three kinds of recovery. SREJ requests one frame; REJ
requests a frame and all after it. If both are lost, or the last frame of a burst is, T1 expires and a poll
requests the peer's V(R) (checkpoint recovery). N2 limits the transmissions of a frame and of a poll.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from multitracer.protocols.link_events import PeerBusy, PeerReady, T1Expired
from multitracer.protocols.rlp import (
    COMMAND,
    MODULUS,
    POLL_FINAL,
    S_FRAME,
    FrameKind,
    Supervisory,
    seal,
    sealed_without_info,
)
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.lab.rlp.xid import Parameters, RlpConfig, SlotJournal
    from multitracer.protocols.rlp import RlpFrame

# The two windows of RLP: frames sent and not acknowledged, frames received and not delivered.
#
# Source: 3GPP TS 24.022, clauses 5.2.3 and 5.3. Inside, frames are numbered without wrapping from the last
# reset on; on the wire N(S) and N(R) are these numbers modulo 62.
#
# A window of 61 with numbers modulo 62 is safe only if a frame that has arrived is never sent again: the
# receiver would take it for the frame that bears the same number 62 later. Hence three rules of this file:
#
# 1. A poll (checkpoint) makes the receiver forget what it stored out of order, and the sender sends no
#    information until the answer, so that going back to N(R) repeats nothing that the receiver still holds.
# 2. The receiver repeats a SREJ only after T1, which must exceed the round trip.
# 3. A SREJ or REJ that comes less than one round trip after the frame was last sent was written before that
#    copy could arrive, and is ignored.


class Sdu(NamedTuple):
    """A unit of user data, one information field."""

    info: bytes
    offset_bytes: int | None
    """Position of the unit's first user octet in the sender's stream."""
    user_bytes: int


class _Slot:
    """A frame that was sent and is not acknowledged, with its last slot and its number of transmissions."""

    __slots__ = ("attempts", "cause", "sdu", "sent_tick")

    def __init__(self, sdu: Sdu, tick: int) -> None:
        self.sdu = sdu
        self.sent_tick = tick
        self.attempts = 1
        self.cause = ""


class SendWindow:
    """V(A), V(S) and the unacknowledged frames between them."""

    def __init__(self, *, size: int) -> None:
        self.size = size
        self.v_a = 0
        self.v_s = 0
        self.resend: list[int] = []
        """Numbers of the frames to retransmit, ascending."""
        self.round_trip_ticks = 0
        """Shortest time from a frame to its acknowledgment in slots, 0 before the first.

        It is kept after resets."""
        self._slots: dict[int, _Slot] = {}

    def clear(self) -> int:
        """Discard all frames and restart at number 0; return how many user octets were discarded."""
        lost = self.unacked_bytes
        self.v_a = self.v_s = 0
        self.resend.clear()
        self._slots.clear()
        return lost

    @property
    def unacked_bytes(self) -> int:
        """Number of user octets that were sent and are not acknowledged."""
        return sum(slot.sdu.user_bytes for slot in self._slots.values())

    @property
    def is_open(self) -> bool:
        """Whether a new frame may be sent."""
        return self.v_s - self.v_a < self.size

    def outstanding(self, n_r: int) -> int | None:
        """Return the full sequence number for N(R); None if it lies outside V(A) to V(S) (clause 5.2.3.3)."""
        ahead = (n_r - self.v_a) % MODULUS
        return self.v_a + ahead if ahead <= self.v_s - self.v_a else None

    def time(self, number: int, *, tick: int) -> None:
        """Sample the round-trip time from an acknowledgement of all frames before `number` (Karn's rule)."""
        newest = self._slots[number - 1]
        if newest.attempts == 1:
            sample = tick - newest.sent_tick
            self.round_trip_ticks = min(self.round_trip_ticks or sample, sample)

    def acknowledge(self, number: int) -> None:
        """Remove all frames before `number`, which the peer has received."""
        for acknowledged in range(self.v_a, number):
            del self._slots[acknowledged]
        self.v_a = number
        while self.resend and self.resend[0] < number:
            del self.resend[0]

    def reject(self, number: int, *, tick: int) -> bool:
        """Mark the frame `number` for retransmission (SREJ); return False if the request is ignored."""
        slot = self._slots.get(number)
        if slot is None or slot.cause or self._is_premature(slot, tick):
            return False
        slot.cause = "srej"
        insort(self.resend, number)
        return True

    def reject_from(self, number: int, *, tick: int) -> bool:
        """Mark `number`, the oldest unacknowledged frame, and all later frames for retransmission (REJ).

        Return False if the request is ignored.
        """
        slot = self._slots.get(number)
        if slot is None or slot.cause or self._is_premature(slot, tick):
            return False
        self.go_back(cause="rej")
        return True

    def _is_premature(self, slot: _Slot, tick: int) -> bool:
        return tick - slot.sent_tick < self.round_trip_ticks

    def go_back(self, *, cause: str) -> None:
        """Mark all unacknowledged frames for retransmission, with this cause for the log."""
        self.resend = list(range(self.v_a, self.v_s))
        for slot in self._slots.values():
            slot.cause = cause

    def oldest_sent_tick(self) -> int | None:
        """Return the slot in which the oldest unacknowledged frame was last sent.

        None if there is no such frame, or it is marked for retransmission.
        """
        slot = self._slots.get(self.v_a)
        return None if slot is None or slot.cause else slot.sent_tick

    def attempts(self, number: int) -> int:
        """Return how often the frame `number` was sent so far."""
        return self._slots[number].attempts

    def next_retransmission(self, *, busy: bool) -> int | None:
        """Return the number of the frame to retransmit now; None if there is none.

        With `busy`, only a frame that the peer requested is returned.
        """
        if not self.resend:
            return None
        if busy:
            return next((n for n in self.resend if self._slots[n].cause == "srej"), None)
        return self.resend[0]

    def retransmit(self, number: int, *, tick: int) -> tuple[Sdu, int, str]:
        """Record a retransmission; return the data, the count of transmissions so far, and the cause."""
        slot = self._slots[number]
        self.resend.remove(number)
        cause, slot.cause = slot.cause, ""
        slot.attempts += 1
        slot.sent_tick = tick
        return slot.sdu, slot.attempts, cause

    def send_new(self, sdu: Sdu, *, tick: int) -> int:
        """Add a new frame to the window and return its number."""
        number = self.v_s
        self._slots[number] = _Slot(sdu, tick)
        self.v_s = number + 1
        return number


class ReceiveWindow:
    """V(R), the stored frames after it, and the frames that were requested again.

    Parameters
    ----------
    size : int
        k, the maximum number of the peer's unacknowledged frames, 1 to 61.
    selective : bool
        True to store frames out of order and request missing ones by SREJ; False to discard them and
        request a retransmission from the missing one on by REJ.
    """

    def __init__(self, *, size: int, selective: bool) -> None:
        self.size = size
        self.v_r = 0
        self._selective = selective
        self._stored: dict[int, bytes] = {}
        self._frontier = 0
        self._due: dict[int, int] = {}

    def clear(self) -> int:
        """Discard all state and expect frame 0 next; return how many stored frames were discarded."""
        self.v_r = 0
        return self.forget_stored()

    def forget_stored(self) -> int:
        """Discard stored frames and pending requests; return how many frames were discarded."""
        lost = len(self._stored)
        self._stored.clear()
        self._due.clear()
        self._frontier = self.v_r
        return lost

    def accept(self, n_s: int, info: bytes, *, tick: int, deliver: list[bytes]) -> str:
        """Process an information frame; append the octets that are now in order to `deliver`.

        Return how the frame was handled: `delivered`, `stored`, `duplicate` or `refused`.
        """
        ahead = (n_s - self.v_r) % MODULUS
        if ahead == 0:
            self._deliver(info, deliver)
            return "delivered"
        if ahead >= self.size:
            return "duplicate"
        if not self._selective:
            self._due.setdefault(self.v_r, tick)
            return "refused"
        return self._store(self.v_r + ahead, info, tick)

    def _deliver(self, info: bytes, deliver: list[bytes]) -> None:
        stored, number = self._stored, self.v_r
        deliver.append(info)
        if self._due:
            self._due.pop(number, None)
        number += 1
        while stored and number in stored:
            deliver.append(stored.pop(number))
            number += 1
        self.v_r = number
        self._frontier = max(self._frontier, number)

    def _store(self, number: int, info: bytes, tick: int) -> str:
        if number in self._stored:
            return "duplicate"
        self._stored[number] = info
        self._due.pop(number, None)
        for missing in range(self._frontier, number):
            self._due[missing] = tick
        self._frontier = max(self._frontier, number + 1)
        return "stored"

    def rejected(self, *, tick: int, repeat_ticks: int) -> int | None:
        """Return the number of the frame to request now; None if no request is due.

        A frame is requested again after `repeat_ticks` slots.
        """
        for number, due in self._due.items():
            if due <= tick:
                self._due[number] = tick + repeat_ticks
                return number
        return None


_ACKNOWLEDGES = (Supervisory.RR, Supervisory.RNR)


class ExhaustedError(Exception):
    """A frame or a poll was sent N2 times without success; raised only within `RlpEntity`.

    `n_s` is the number of the frame that failed, `attempts` how often the frame or the poll was
    sent.
    """

    def __init__(self, n_s: int | None, attempts: int) -> None:
        super().__init__(n_s, attempts)
        self.n_s = n_s
        self.attempts = attempts


class ResetLoss(NamedTuple):
    """Number of octets and frames that a reset discards."""

    unacked_bytes: int
    unsent_bytes: int
    stored_frames: int


class BalancedMode:
    """State of the transfer of numbered frames, from one set-up or reset to the next."""

    def __init__(self, config: RlpConfig, journal: SlotJournal) -> None:
        self._config = config
        self._journal = journal
        self._send = SendWindow(size=MODULUS - 1)
        self._receive = ReceiveWindow(size=MODULUS - 1, selective=config.recovery == "srej")
        self._queue: deque[Sdu] = deque()
        self.delivered: list[bytes] = []
        """Delivered information fields, in order, until the user reads them."""
        self.local_busy = False
        self.use(config.parameters)
        self.clear()

    def use(self, parameters: Parameters) -> None:
        """Use the agreed parameters."""
        sizes = parameters.window_ms_to_iwf, parameters.window_iwf_to_ms
        self._send.size, self._receive.size = sizes if self._config.role == "mobile" else sizes[::-1]
        self.window = self._send.size
        """Window size k of the direction in which this side sends."""
        self.t1_ticks = max(1, parameters.t1_ms * NS_PER_MS // self._config.slot_ns)
        self._n2 = parameters.n2

    def clear(self) -> ResetLoss:
        """Discard data that are not delivered, and restart at frame 0; return how much was discarded."""
        loss = ResetLoss(self._send.clear(), self.unsent_bytes, self._receive.clear())
        self._queue.clear()
        self._polls = 0
        self._poll_tick = 0
        self._final_due = False
        self._peer_busy = False
        self._announced = Supervisory.RR
        self._held_since: int | None = None
        self._has_received = False
        return loss

    def hold(self) -> None:
        """Send no information frame until a frame of the peer arrives, because our UA may have been lost.

        If it was lost, the peer repeats its SABM, and no data are lost. If the peer received the UA
        but sends nothing, this side polls it.
        """
        self._held_since = self._journal.tick

    @property
    def is_held(self) -> bool:
        """Whether this side waits for the first frame of the peer after our UA."""
        return self._held_since is not None and not self._has_received

    # -- sending ---------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether a unit that is written now is sent in the next slot, unless a U frame must be answered."""
        return (
            not self._queue
            and not self._polls
            and not self._peer_busy
            and self._send.is_open
            and not self._send.resend
            and not self.is_held
        )

    @property
    def can_queue(self) -> bool:
        """Whether the queue of units to send is shorter than the window."""
        return len(self._queue) < self._send.size

    def queue(self, sdu: Sdu) -> None:
        """Queue a unit of user data."""
        self._queue.append(sdu)

    @property
    def unacked_bytes(self) -> int:
        """Number of user octets that were sent and are not acknowledged."""
        return self._send.unacked_bytes

    @property
    def unsent_bytes(self) -> int:
        """Number of user octets that were accepted and not sent yet."""
        return sum(sdu.user_bytes for sdu in self._queue)

    def outgoing(self) -> bytes:
        """Return the frame of this slot.

        Raises
        ------
        ExhaustedError
            If N2 is used up.
        """
        if self._t1_expired():
            return self._poll()
        header = self._supervisory_header()
        number = None if self._polls else self._send.next_retransmission(busy=self._peer_busy)
        if number is not None:
            return self._retransmit(header, number)
        return self._send_new(header) if self._may_send_new() else self._send_alone(header)

    def _may_send_new(self) -> bool:
        if not self._queue or self._polls or self._peer_busy:
            return False
        return self._send.is_open and not self.is_held

    def _t1_expired(self) -> bool:
        since = self._held_since if self.is_held else self._send.oldest_sent_tick()
        since = self._poll_tick if self._polls else since
        return since is not None and self._journal.tick - since >= self.t1_ticks

    def _poll(self) -> bytes:
        if self._polls >= self._n2:
            raise ExhaustedError(self._send.v_a % MODULUS, self._polls)
        self._polls += 1
        self._poll_tick = self._journal.tick
        self._journal.note(T1Expired, self._polls)
        header = self._readiness() << 1 | S_FRAME | self._n_r_bits() | COMMAND | POLL_FINAL
        frame = sealed_without_info(header, self._config.frame_octets)
        return self._journal.sent(frame, attempt=self._polls, cause="t1")

    def _readiness(self) -> Supervisory:
        return Supervisory.RNR if self.local_busy else Supervisory.RR

    def _n_r_bits(self) -> int:
        return self._receive.v_r % MODULUS << 10

    def _supervisory_header(self) -> int:
        """Return the header bits other than N(S): the answer to a poll, else a rejection, else RR or RNR."""
        if self._final_due:
            self._final_due = False
            return self._readiness() << 1 | self._n_r_bits() | POLL_FINAL
        missing = self._receive.rejected(tick=self._journal.tick, repeat_ticks=self.t1_ticks)
        if missing is None:
            return self._readiness() << 1 | self._n_r_bits() | COMMAND
        code = Supervisory.SREJ if self._config.recovery == "srej" else Supervisory.REJ
        return code << 1 | missing % MODULUS << 10 | COMMAND

    def _retransmit(self, header: int, number: int) -> bytes:
        if self._send.attempts(number) > self._n2:
            raise ExhaustedError(number % MODULUS, self._send.attempts(number))
        sdu, attempt, cause = self._send.retransmit(number, tick=self._journal.tick)
        frame = seal(header | number % MODULUS << 3, sdu.info, octets=self._config.frame_octets)
        return self._journal.sent(frame, sdu.offset_bytes, attempt, cause)

    def _send_new(self, header: int) -> bytes:
        sdu = self._queue.popleft()
        number = self._send.send_new(sdu, tick=self._journal.tick)
        frame = seal(header | number % MODULUS << 3, sdu.info, octets=self._config.frame_octets)
        return self._journal.sent(frame, sdu.offset_bytes)

    def _send_alone(self, header: int) -> bytes:
        frame = sealed_without_info(header | S_FRAME, self._config.frame_octets)
        announced, self._announced = self._announced, self._readiness()
        if header & POLL_FINAL or header >> 1 & 3 != announced:
            return self._journal.sent(frame)
        return self._journal.idle_sent(frame)

    # -- receiving -------------------------------------------------------------------------------------

    def receive(self, frame: RlpFrame, octets: bytes) -> None:
        """Process an S or I+S frame."""
        self._has_received = True
        polled = frame.command and frame.poll_final
        number = self._send.outstanding(frame.n_r or 0)
        if number is None or (polled and frame.kind is FrameKind.IS):  # a poll travels without information
            self._journal.received(octets, "ignored")
            return
        fate = self._information(frame) if frame.kind is FrameKind.IS else ""
        if polled:
            self._final_due = True
            self._receive.forget_stored()
        is_new = self._supervision(frame, number)
        self._note(frame, octets, fate, is_new=is_new)

    def _note(self, frame: RlpFrame, octets: bytes, fate: str, *, is_new: bool) -> None:
        if is_new or fate or frame.poll_final or frame.function not in _ACKNOWLEDGES:
            self._journal.received(octets, fate)
        else:
            self._journal.idle_received()

    def _information(self, frame: RlpFrame) -> str:
        if len(self.delivered) >= self._config.backlog_frames:
            return "refused"
        return self._receive.accept(frame.n_s or 0, frame.info, tick=self._journal.tick, deliver=self.delivered)

    def _supervision(self, frame: RlpFrame, number: int) -> bool:
        """Process the S bits; return whether the peer has changed between busy and ready."""
        code = frame.function
        tick = self._journal.tick
        if code is Supervisory.SREJ:  # acknowledges nothing
            if not self._polls and not frame.poll_final:
                self._send.reject(number, tick=tick)
            return False
        if number != self._send.v_a:
            if code is not Supervisory.REJ:  # which comes later than it could, one frame at least
                self._send.time(number, tick=tick)
            self._send.acknowledge(number)
        if code is Supervisory.REJ:
            if not self._polls and not frame.poll_final:
                self._send.reject_from(number, tick=tick)
        elif self._polls and frame.poll_final and not frame.command:
            self._polls = 0
            self._send.go_back(cause="checkpoint")
        return self._note_readiness(busy=code is Supervisory.RNR)

    def _note_readiness(self, *, busy: bool) -> bool:
        if busy == self._peer_busy:
            return False
        self._peer_busy = busy
        kind = PeerBusy if busy else PeerReady
        self._journal.note(kind)
        return True
