"""The relay for characters above RLP (3GPP TS 27.002): buffers and flow control of one end of a link.

The X bit of `multitracer.protocols.l2r` stops the far end: out-of-band flow control. With in-band flow
control the relay removes XON and XOFF characters from the stream, transmits them as the X bit, and inserts
them again at the other end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from multitracer.errors import LocalProtocolError
from multitracer.protocols.l2r import Address, L2rError, X, pack, unpack, usable
from multitracer.protocols.link_events import XoffReceived, XoffSent, XonReceived, XonSent

if TYPE_CHECKING:
    from multitracer.lab.rlp.acknowledged import AcknowledgedMode
    from multitracer.lab.rlp.entity import RlpEntity
    from multitracer.protocols.link_events import LinkEvent

_XON, _XOFF = 0x11, 0x13  # ITU-T T.50: DC1 and DC3
_ROOM_ABOVE_XOFF_BYTES = 2 * 61 * 66
"""Bytes that may still arrive after the peer was stopped: two windows of the longest frames.

If the peer sends more, its frames are refused."""


@dataclass(frozen=True, slots=True)
class L2rConfig:
    """Options of an `L2rEntity`."""

    transmit_bytes: int = 1024
    """Maximum number of characters that wait for the link."""
    xoff_at_bytes: int = 1300
    """Number of received, unread characters above which the peer is stopped."""
    xon_at_bytes: int = 480
    """Number of unread characters below which the peer may continue.

    It should exceed the round trip time times the reading rate; otherwise the reader has no data until the
    peer's next character arrives."""
    stop_by: Literal["x-bit", "rnr"] = "x-bit"
    """How the peer is stopped: by the status octet, which can be lost with its frame, or by RLP."""
    in_band: bool = False
    """Whether XON and XOFF characters are flow control, or data.

    As flow control they are not transparent: PPP must escape them."""

    def __post_init__(self) -> None:
        if not 0 < self.xon_at_bytes <= self.xoff_at_bytes or self.transmit_bytes < 1:
            raise LocalProtocolError(
                'L2R: the thresholds must satisfy 0 < "xon_at" <= "xoff_at", and '
                f'"transmit_bytes" must be at least 1, but they are {self}'
            )


class L2rEntity:
    """One end of the character stream: buffers and flow control above one `RlpEntity`.

    Parameters
    ----------
    rlp : RlpEntity or AcknowledgedMode
        The link; from now on the driver must call this object instead.
    config : L2rConfig, optional
        Sizes and thresholds.

    Notes
    -----
    A link reset discards unsent characters; `rlp.epoch` counts the resets. Characters that were received in
    order can still be read.
    """

    def __init__(self, rlp: RlpEntity | AcknowledgedMode, config: L2rConfig | None = None) -> None:
        self.rlp = rlp
        self.config = config or L2rConfig()
        self.written_bytes = 0
        """Number of characters that `write` has accepted: the stream position of the next one."""
        self.stopped = False
        """Whether the peer's X bit forbids sending characters."""
        self.violations = 0
        """Number of information fields that could not be decoded completely."""
        self._octets = rlp.config.info_octets
        rlp.on_flush = self._flush
        self._transmit = bytearray()
        self._received = bytearray()
        self._to_terminal = bytearray()
        self._status = 0
        self._status_due = False
        self._stopping = False
        self._terminal_stopped = False

    # -- the user's side -------------------------------------------------------------------------------

    def write(self, data: bytes) -> int:
        """Accept characters to send, as many from the start of `data` as the buffer can take.

        Return their number.
        """
        taken = data[: max(0, self.config.transmit_bytes - len(self._transmit))]
        characters = self._without_flow_control(taken) if self.config.in_band else taken
        self._transmit += characters
        self.written_bytes += len(characters)
        return len(taken)

    def read(self, limit: int | None = None) -> bytes:
        """Return received characters in order, at most `limit`."""
        signals, self._to_terminal = bytes(self._to_terminal), bytearray()
        limit = 0 if self._terminal_stopped else len(self._received) if limit is None else limit
        characters = bytes(self._received[:limit])
        del self._received[:limit]
        self._watch_thresholds()
        return signals + characters

    @property
    def unsent_bytes(self) -> int:
        """Number of characters that were accepted and not passed to RLP yet."""
        return len(self._transmit)

    @property
    def _is_full(self) -> bool:
        return len(self._received) > self.config.xoff_at_bytes + _ROOM_ABOVE_XOFF_BYTES

    @property
    def unread_bytes(self) -> int:
        """Number of characters that were received and not read yet."""
        return len(self._received)

    def _without_flow_control(self, data: bytes) -> bytes:
        for octet in data:
            if octet in (_XON, _XOFF):
                self._terminal_stopped = octet == _XOFF
        self._watch_thresholds()
        return data.translate(None, bytes((_XON, _XOFF)))

    # -- the link's side -------------------------------------------------------------------------------

    def outgoing(self, now_ns: int) -> bytes | None:
        """Begin the next slot and return its frame; see `RlpEntity.outgoing`."""
        if (self._transmit or self._status_due) and self.rlp.ready:
            self._write_field(now_ns)
        return self.rlp.outgoing(now_ns)

    def receive(self, octets: bytes | None, now_ns: int) -> None:
        """Process the frame of this slot; see `RlpEntity.receive`."""
        self.rlp.receive(octets, now_ns)
        fields = [] if self._is_full else self.rlp.read()
        for info in fields:
            self._take_field(info, now_ns)
        if fields:
            self._watch_thresholds()

    def events(self) -> list[LinkEvent]:
        """Return the events of this side since the last call of this method, in order of time."""
        return self.rlp.events()

    def _write_field(self, now_ns: int) -> None:
        count = 0 if self.stopped else usable(len(self._transmit), octets=self._octets)
        if count == 0 and not self._status_due:
            return
        if self._status_due and self.config.stop_by == "x-bit":
            kind = XoffSent if self._status & X else XonSent
            self.rlp.journal.add(kind(now_ns, self.rlp.tick + 1, len(self._received)))
        info = pack(bytes(self._transmit[:count]), status=self._status, octets=self._octets)
        self.rlp.write(info, offset_bytes=self.written_bytes - len(self._transmit), user_bytes=count)
        del self._transmit[:count]
        self._status_due = False

    def _take_field(self, info: bytes, now_ns: int) -> None:
        if info[0] & ~X == Address.FULL:
            self._take_status(info[0], now_ns)
            self._received += info[1:]
            return
        try:
            chunks = unpack(info)
        except L2rError:
            self.violations += 1
            return
        for chunk in chunks:
            self._take_status(chunk.status, now_ns)
            self._received += chunk.data

    def _take_status(self, status: int, now_ns: int) -> None:
        stopped = bool(status & X)
        if stopped == self.stopped:
            return
        self.stopped = stopped
        kind = XoffReceived if stopped else XonReceived
        self.rlp.journal.add(kind(now_ns, self.rlp.tick))
        if self.config.in_band:
            self._to_terminal.append(_XOFF if stopped else _XON)

    def _watch_thresholds(self) -> None:
        waiting = len(self._received)
        stop = self._terminal_stopped or waiting > self.config.xoff_at_bytes
        go = not self._terminal_stopped and waiting < self.config.xon_at_bytes
        if (stop and not self._stopping) or (go and self._stopping):
            self._stopping = stop
            self._tell_peer()
        self.rlp.local_busy = self._is_full or (self._stopping and self.config.stop_by == "rnr")

    def _tell_peer(self) -> None:
        if self.config.stop_by == "x-bit":
            self._status = X if self._stopping else 0
            self._status_due = True
            return
        kind = XoffSent if self._stopping else XonSent
        journal = self.rlp.journal
        journal.add(kind(journal.now_ns, journal.tick, len(self._received)))

    def _flush(self) -> int:
        """Discard the characters that are not sent, and return their number.

        The far end's stop signal is cleared.
        """
        lost = len(self._transmit)
        self._transmit.clear()
        self.stopped = False
        self._status_due = self._stopping and self.config.stop_by == "x-bit"
        return lost
