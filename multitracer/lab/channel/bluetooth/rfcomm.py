"""RFCOMM with credits above L2CAP, as one end of a Bluetooth link sends and receives octets.

A frame carries at most N1 octets, has address, control, length and check, and a credit octet when it grants
credits; it needs a credit unless it is empty. L2CAP puts four octets before it, and each of its packets
begins a baseband packet, so that an N1 that does not fill baseband packets wastes slots.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from multitracer.lab.channel.bluetooth.config import RfcommConfig

_L2CAP_OCTETS = 4
_FRAME_OCTETS = 4
"""Address, control, length, check."""
_SHORT_LENGTH = 127
"""Above it the length takes a second octet."""


class Octets(NamedTuple):
    """A piece of the stream, and its offset in the stream."""

    offset: int
    data: bytes


@dataclass(slots=True)
class RfcommFrame:
    """A frame in transit through L2CAP; the baseband has not yet acknowledged `octets_left` of it."""

    octets: Octets
    credits: int
    octets_left: int


class Fragment(NamedTuple):
    """The part of a frame that one baseband packet carries."""

    frame: RfcommFrame
    octets: int
    number: int
    """Counts fragments; its lowest bit is SEQN."""

    @property
    def is_last(self) -> bool:
        """Whether the frame ends with it."""
        return self.octets == self.frame.octets_left


class RfcommEnd:
    """One end of the channel.

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
        """Put octets at the end of the stream."""
        self._stream.append(Octets(self.written_bytes, data))
        self.written_bytes += len(data)
        self.unsent_bytes += len(data)

    def fragment(self, most_octets: int) -> Fragment | None:
        """Return what the next baseband packet carries: the same fragment until it is acknowledged."""
        if self._fragment is None:
            self._frame = self._frame or self._next_frame()
            if self._frame is not None:
                self._numbers += 1
                octets = min(most_octets, self._frame.octets_left)
                self._fragment = Fragment(self._frame, octets, self._numbers)
        return self._fragment

    def acknowledged(self) -> None:
        """Note that the fragment has arrived."""
        if self._fragment is not None:
            self._fragment.frame.octets_left -= self._fragment.octets
            if self._fragment.frame.octets_left == 0:
                self._frame = None
            self._fragment = None

    @property
    def has_work(self) -> bool:
        """Whether something is to be sent now."""
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
        """Return whether a fragment has not arrived before: SEQN distinguishes it from a repetition."""
        is_new = fragment.number != self._last_heard
        self._last_heard = fragment.number
        return is_new

    def receive(self, frame: RfcommFrame) -> bytes:
        """Take a frame that is complete; return its octets."""
        self._credits += frame.credits
        if frame.octets.data:
            self._taken += 1
        return frame.octets.data
