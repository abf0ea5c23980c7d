"""The layer 2 relay for characters (L2RCOP): the content of the information field of an RLP frame.

Source: 3GPP TS 27.002 (GSM 07.02). The field begins with a status octet: three status bits, then the
number of characters that follow, after which there may be another status octet. 24 characters fill the
25 octets of a 240-bit frame. The X bit stops the far end: out-of-band flow control. With in-band flow
control the relay takes XON and XOFF characters out of the stream, carries them as X, and puts them in
again at the other end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Literal, NamedTuple

from multitracer.errors import LocalProtocolError, RemoteProtocolError
from multitracer.protocols.link_events import XoffReceived, XoffSent, XonReceived, XonSent

if TYPE_CHECKING:
    from multitracer.protocols.link_events import LinkEvent
    from multitracer.protocols.rlp.entity import RlpEntity

SA, SB, X = 0x80, 0x40, 0x20
"""Status bits: SA for circuits 107/108, SB for 105/109, X for flow control active."""
_STATUS = SA | SB | X
_LONGEST_COUNT = 23
"""Most characters that one address octet of a 240-bit frame counts; 24 are "full"."""
_LONGEST_TWO_OCTET_COUNT = 63  # six bits hold the count
_XON, _XOFF = 0x11, 0x13  # ITU-T T.50: DC1 and DC3
_ROOM_ABOVE_XOFF_BYTES = 2 * 61 * 66
"""What may still come after the peer was stopped: two windows of the longest frames. A peer that sends
more than that has its frames refused."""


class Address(IntEnum):
    """The low five bits of a status octet; below `TWO_OCTETS` they count characters (3GPP TS 27.002)."""

    TWO_OCTETS = 27
    """The count is in the octet that follows."""
    BREAK_ACK = 28
    BREAK = 29
    FULL = 30
    """Characters to the end of the field."""
    EMPTY = 31
    """None: the last status octet."""


class L2rError(RemoteProtocolError):
    """An information field that no relay sends."""


class Piece(NamedTuple):
    """A status octet and the characters after it."""

    status: int
    """SA | SB | X."""
    data: bytes = b""
    """The characters that follow it."""
    signal: Literal["", "break", "break-ack"] = ""
    """A destructive break, or the answer to one."""


_SIGNALS: dict[int, Literal["", "break", "break-ack"]] = {
    Address.EMPTY: "",
    Address.BREAK: "break",
    Address.BREAK_ACK: "break-ack",
}
"""Addresses of a last status octet -> what it signals."""


def unpack(info: bytes) -> list[Piece]:
    """Return the pieces of an information field, in order.

    Raises
    ------
    L2rError
        If the field is empty, an address is 0, or more characters are announced than there are.

    Examples
    --------
    >>> unpack(bytes.fromhex("01661f") + bytes(22))
    [Piece(status=0, data=b'f', signal=''), Piece(status=0, data=b'', signal='')]
    """
    pieces, at, more = [], 0, True
    while more:
        if at >= len(info):
            raise L2rError(f"L2R: {len(info)} octets end without a last status octet; drop the rest")
        piece, at, more = _piece(info, at)
        pieces.append(piece)
    return pieces


def _piece(info: bytes, at: int) -> tuple[Piece, int, bool]:
    """Return the piece at `at`, where the next one begins, and whether there is one."""
    status, address = info[at] & _STATUS, info[at] & ~_STATUS
    if address == Address.FULL:
        return Piece(status, info[at + 1 :]), len(info), False
    if address in _SIGNALS:
        return Piece(status, signal=_SIGNALS[address]), len(info), False
    begin, count = at + 1, address
    if address == Address.TWO_OCTETS:
        begin, count = at + 2, info[at + 1] & 0x3F if at + 1 < len(info) else 0
    end = begin + count
    if count == 0 or end > len(info):
        raise L2rError(f"L2R: address {address} at octet {at} of {len(info)}; drop the rest")
    return Piece(status, info[begin:end]), end, end < len(info)


def pack(data: bytes, *, status: int = 0, octets: int = 25) -> bytes:
    """Return an information field that carries `data` and one value of the status bits.

    Parameters
    ----------
    data : bytes
        At most `capacity(octets)` characters.
    status : int
        SA | SB | X.
    octets : int
        Size of the field, 25 or 67.

    Raises
    ------
    LocalProtocolError
        If `data` does not fit.
    """
    count = len(data)
    if count != usable(count, octets=octets):
        raise LocalProtocolError(f"L2R: {count} characters do not fit; offer {usable(count, octets=octets)}")
    if count == octets - 1:
        return bytes((status | Address.FULL,)) + data
    if count == 0:
        return bytes((status | Address.EMPTY,)).ljust(octets, b"\0")
    head = (
        bytes((status | count,)) if count <= _LONGEST_COUNT else bytes((status | Address.TWO_OCTETS, count))
    )
    return (head + data + bytes((status | Address.EMPTY,))).ljust(octets, b"\0")


def usable(waiting: int, *, octets: int = 25) -> int:
    """Return how many of `waiting` characters one field of `octets` octets takes."""
    if waiting >= octets - 1:
        return octets - 1
    with_two_octets = min(octets - 3, _LONGEST_TWO_OCTET_COUNT)  # a last status octet follows
    return min(waiting, max(_LONGEST_COUNT, with_two_octets))


def user_octets(info: bytes) -> int:
    """Return how many characters an information field carries, 0 if it cannot be decoded."""
    if info[:1] and info[0] & ~_STATUS == Address.FULL:
        return len(info) - 1
    try:
        return sum(len(piece.data) for piece in unpack(info))
    except L2rError:
        return 0


@dataclass(frozen=True, slots=True)
class L2rConfig:
    """Options of an `L2rEntity`."""

    transmit_bytes: int = 1024
    """Characters that may wait for the link."""
    xoff_at_bytes: int = 1300
    """Received characters waiting to be read above which the peer is stopped."""
    xon_at_bytes: int = 480
    """The peer may go on below this. It should exceed round trip times reading rate, else the reader starves
    before the peer's next character comes."""
    stop_by: Literal["x-bit", "rnr"] = "x-bit"
    """How the peer is stopped: by the status octet, which takes a frame and its recovery, or by RLP."""
    in_band: bool = False
    """Whether XON and XOFF characters are flow control (they are then not transparent: PPP must escape
    them) or data."""

    def __post_init__(self) -> None:
        if not 0 < self.xon_at_bytes <= self.xoff_at_bytes or self.transmit_bytes < 1:
            raise LocalProtocolError(f"L2R: thresholds {self}; choose 0 < xon_at <= xoff_at and room to send")


class L2rEntity:
    """One end of the character stream: buffers and flow control above one `RlpEntity`.

    Parameters
    ----------
    rlp : RlpEntity
        The link; from now on its slots are driven through this object.
    config : L2rConfig, optional
        Sizes and thresholds.

    Notes
    -----
    A link reset flushes what waits to be sent; `rlp.epoch` tells that it happened. What was received in
    order stays readable.
    """

    def __init__(self, rlp: RlpEntity, config: L2rConfig | None = None) -> None:
        self.rlp = rlp
        self.config = config or L2rConfig()
        self.written_bytes = 0
        """Characters accepted by `write` so far: the position of the next one in the sender's stream."""
        self.stopped = False
        """Whether the peer's X bit forbids to send characters."""
        self.violations = 0
        """Information fields that could not be read to their end."""
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
        """Take characters to send; return how many of `data` were taken, the first ones."""
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
        """Number of characters accepted and not yet passed to RLP."""
        return len(self._transmit)

    @property
    def _is_full(self) -> bool:
        return len(self._received) > self.config.xoff_at_bytes + _ROOM_ABOVE_XOFF_BYTES

    @property
    def unread_bytes(self) -> int:
        """Number of characters received and not yet read."""
        return len(self._received)

    def _without_flow_control(self, data: bytes) -> bytes:
        for octet in data:
            if octet in (_XON, _XOFF):
                self._terminal_stopped = octet == _XOFF
        self._watch_thresholds()
        return data.translate(None, bytes((_XON, _XOFF)))

    # -- the link's side -------------------------------------------------------------------------------

    def outgoing(self, now_ns: int) -> bytes | None:
        """Begin the next slot and return its frame; as `RlpEntity.outgoing`."""
        if (self._transmit or self._status_due) and self.rlp.ready:
            self._write_field(now_ns)
        return self.rlp.outgoing(now_ns)

    def receive(self, octets: bytes | None, now_ns: int) -> None:
        """Take the frame of this slot; as `RlpEntity.receive`."""
        self.rlp.receive(octets, now_ns)
        fields = [] if self._is_full else self.rlp.read()
        for info in fields:
            self._take_field(info, now_ns)
        if fields:
            self._watch_thresholds()

    def events(self) -> list[LinkEvent]:
        """Return what happened at this side since the last call, in order."""
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
            pieces = unpack(info)
        except L2rError:
            self.violations += 1
            return
        for piece in pieces:
            self._take_status(piece.status, now_ns)
            self._received += piece.data

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
        """Discard what waits to be sent; after a reset, flow control is off until the peer sets it again."""
        lost = len(self._transmit)
        self._transmit.clear()
        self.stopped = False
        self._status_due = self._stopping and self.config.stop_by == "x-bit"
        return lost
