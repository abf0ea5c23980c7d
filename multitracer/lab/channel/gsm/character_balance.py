"""The balance of one direction of the link: every character that went in is accounted for.

Counted independently of each other: what the sender's relay took, where the frames on the air said their
characters stand in its stream, what a reset threw away before it was ever sent, and what the receiver's
relay gave to its terminal.
"""

from __future__ import annotations

from dataclasses import dataclass

from multitracer.protocols.l2r import user_octets
from multitracer.protocols.link_events import (
    Flushed,
    FrameSent,
    LinkEvent,
    ResetDone,
)

_INFO_BEGIN, _FCS_OCTETS = 2, 3


@dataclass(frozen=True, slots=True)
class Balance:
    """Characters of one or more directions; `bytes_in` is the sum of the others."""

    bytes_in: int
    delivered: int
    """Taken by the far terminal."""
    flushed: int
    """Thrown away by link resets or the end of the call."""
    queued: int
    """In buffers and on the air."""

    def __add__(self, other: Balance) -> Balance:
        return Balance(
            self.bytes_in + other.bytes_in,
            self.delivered + other.delivered,
            self.flushed + other.flushed,
            self.queued + other.queued,
        )

    @property
    def is_even(self) -> bool:
        """Whether no character is missing or counted twice."""
        least = min(self.delivered, self.flushed, self.queued)
        return least >= 0 and self.bytes_in == self.delivered + self.flushed + self.queued


class Ledger:
    """Follows one direction by the sender's events and the receiver's counts."""

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
            What happened.
        received : int
            Characters that the far relay has got in order so far.
        is_over : bool
            Whether the call is dropped: what is on the air may still arrive, what is not is lost.
        """
        self._is_over = is_over
        if isinstance(event, FrameSent):
            self._note_frame(event)
        elif isinstance(event, Flushed):
            self._unsent_flushed += event.unsent_bytes
        elif isinstance(event, ResetDone):
            self._close_epoch(received)

    def _note_frame(self, event: FrameSent) -> None:
        if event.attempt == 1 and event.offset_bytes is not None:
            count = user_octets(event.octets[_INFO_BEGIN:-_FCS_OCTETS])
            self._on_air_end = max(self._on_air_end, event.offset_bytes + count)

    def _close_epoch(self, received: int) -> None:
        """Count as lost what the far relay lacks: both ends have forgotten the frames in transit."""
        self._flushed += self._on_air_end - self._epoch_begin - (received - self._received_before)
        self._flushed += self._unsent_flushed
        self._on_air_end += self._unsent_flushed
        self._unsent_flushed = 0
        self._epoch_begin = self._on_air_end
        self._received_before = received

    def balance(self, *, written: int, unsent: int, received: int, unread: int) -> Balance:
        """Return the balance now.

        Parameters
        ----------
        written : int
            Characters that the sender's relay has taken.
        unsent : int
            Of these, still waiting in its buffers.
        received : int
            Characters that the far relay has got in order.
        unread : int
            Of these, not yet taken by its terminal.
        """
        on_air = self._on_air_end - self._epoch_begin - (received - self._received_before)
        gone = on_air if self._is_over else 0
        return Balance(
            bytes_in=written,
            delivered=received - unread,
            flushed=self._flushed + self._unsent_flushed + gone,
            queued=on_air - gone + unsent + unread,
        )
