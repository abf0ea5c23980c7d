"""The two windows of RLP: frames sent and not acknowledged, frames received and not delivered.

Source: 3GPP TS 24.022, clauses 5.2.3 and 5.3. Inside, frames are numbered without wrapping from the last
reset on; on the wire N(S) and N(R) are these numbers modulo 62.

A window of 61 with numbers modulo 62 is safe only if a frame that has arrived is never sent again: the
receiver would take it for the frame that bears the same number 62 later. Hence three rules of this file:

1. A poll (checkpoint) makes the receiver forget what it stored out of order, and the sender sends no
   information until the answer, so that going back to N(R) repeats nothing that the receiver still holds.
2. The receiver repeats a SREJ only after T1, which must exceed the round trip.
3. A SREJ or REJ that comes less than one round trip after the frame was last sent was written before that
   copy could arrive, and is ignored.
"""

from __future__ import annotations

from bisect import insort
from typing import NamedTuple

from multitracer.protocols.rlp.frame import MODULUS


class Sdu(NamedTuple):
    """A unit of user data, one information field."""

    info: bytes
    offset_bytes: int | None
    """Position of its first user octet in the sender's stream."""
    user_bytes: int


class _Slot:
    """A frame that was sent and is not acknowledged."""

    __slots__ = ("attempts", "cause", "sdu", "sent_tick")

    def __init__(self, sdu: Sdu, tick: int) -> None:
        self.sdu = sdu
        self.sent_tick = tick
        self.attempts = 1
        self.cause = ""


class SendWindow:
    """V(A), V(S) and the frames between them."""

    def __init__(self, *, size: int) -> None:
        self.size = size
        self.v_a = 0
        self.v_s = 0
        self.resend: list[int] = []
        """Numbers of the frames to send again, ascending."""
        self.round_trip_ticks = 0
        """Shortest time seen from a frame to its acknowledgment, 0 before the first; it survives resets."""
        self._slots: dict[int, _Slot] = {}

    def clear(self) -> int:
        """Forget all frames and number from 0; return how many user octets they held."""
        lost = self.unacked_bytes
        self.v_a = self.v_s = 0
        self.resend.clear()
        self._slots.clear()
        return lost

    @property
    def unacked_bytes(self) -> int:
        """User octets sent and not acknowledged."""
        return sum(slot.sdu.user_bytes for slot in self._slots.values())

    @property
    def is_open(self) -> bool:
        """Whether a new frame may be sent."""
        return self.v_s - self.v_a < self.size

    def outstanding(self, n_r: int) -> int | None:
        """Return the full number of N(R), or None if it lies outside V(A) to V(S) (clause 5.2.3.3)."""
        ahead = (n_r - self.v_a) % MODULUS
        return self.v_a + ahead if ahead <= self.v_s - self.v_a else None

    def time(self, number: int, *, tick: int) -> None:
        """Take the acknowledgment of all before `number` as a sample of the round trip (Karn's rule)."""
        newest = self._slots[number - 1]
        if newest.attempts == 1:
            sample = tick - newest.sent_tick
            self.round_trip_ticks = min(self.round_trip_ticks or sample, sample)

    def acknowledge(self, number: int) -> None:
        """Remove all frames before `number`: they were received."""
        for acknowledged in range(self.v_a, number):
            del self._slots[acknowledged]
        self.v_a = number
        while self.resend and self.resend[0] < number:
            del self.resend[0]

    def reject(self, number: int, *, tick: int) -> bool:
        """Mark one frame for retransmission (SREJ); return whether the request was followed."""
        slot = self._slots.get(number)
        if slot is None or slot.cause or self._is_premature(slot, tick):
            return False
        slot.cause = "srej"
        insort(self.resend, number)
        return True

    def reject_from(self, number: int, *, tick: int) -> bool:
        """Mark `number`, the oldest frame, and all later ones (REJ); return whether that was followed."""
        slot = self._slots.get(number)
        if slot is None or slot.cause or self._is_premature(slot, tick):
            return False
        self.go_back(cause="rej")
        return True

    def _is_premature(self, slot: _Slot, tick: int) -> bool:
        return tick - slot.sent_tick < self.round_trip_ticks

    def go_back(self, *, cause: str) -> None:
        """Mark every frame for retransmission."""
        self.resend = list(range(self.v_a, self.v_s))
        for slot in self._slots.values():
            slot.cause = cause

    def oldest_sent_tick(self) -> int | None:
        """Return when the oldest frame was last sent; None if there is none or it is to be sent again."""
        slot = self._slots.get(self.v_a)
        return None if slot is None or slot.cause else slot.sent_tick

    def attempts(self, number: int) -> int:
        """Return how often a frame was sent so far."""
        return self._slots[number].attempts

    def next_retransmission(self, *, busy: bool) -> int | None:
        """Return the frame to send again now; a busy peer gets only frames that it requested by SREJ."""
        if not self.resend:
            return None
        if busy:
            return next((n for n in self.resend if self._slots[n].cause == "srej"), None)
        return self.resend[0]

    def retransmit(self, number: int, *, tick: int) -> tuple[Sdu, int, str]:
        """Count a retransmission; return the data, the number of the attempt, and its cause."""
        slot = self._slots[number]
        self.resend.remove(number)
        cause, slot.cause = slot.cause, ""
        slot.attempts += 1
        slot.sent_tick = tick
        return slot.sdu, slot.attempts, cause

    def send_new(self, sdu: Sdu, *, tick: int) -> int:
        """Take a new frame into the window and return its number."""
        number = self.v_s
        self._slots[number] = _Slot(sdu, tick)
        self.v_s = number + 1
        return number


class ReceiveWindow:
    """V(R), the frames received beyond it, and those that were requested again.

    Parameters
    ----------
    size : int
        k, the most frames the peer may have outstanding, 1 to 61.
    selective : bool
        True to store frames out of order and ask for missing ones by SREJ, False to discard them and ask
        to go back by REJ.
    """

    def __init__(self, *, size: int, selective: bool) -> None:
        self.size = size
        self.v_r = 0
        self._selective = selective
        self._stored: dict[int, bytes] = {}
        self._frontier = 0
        self._due: dict[int, int] = {}

    def clear(self) -> int:
        """Forget everything and expect 0; return how many stored frames were thrown away."""
        self.v_r = 0
        return self.forget_stored()

    def forget_stored(self) -> int:
        """Discard frames out of order and requests; return how many frames were discarded."""
        lost = len(self._stored)
        self._stored.clear()
        self._due.clear()
        self._frontier = self.v_r
        return lost

    def accept(self, n_s: int, info: bytes, *, tick: int, deliver: list[bytes]) -> str:
        """Take a frame; append what is now in order to `deliver` and return how the frame was handled."""
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
        """Return the number to request now, if any; it is requested again `repeat_ticks` later."""
        for number, due in self._due.items():
            if due <= tick:
                self._due[number] = tick + repeat_ticks
                return number
        return None
