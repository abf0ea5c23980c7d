"""Common definitions of an RLP entity: XID parameters, configuration, states, and the journal of events."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING, Literal

from multitracer.errors import LocalProtocolError
from multitracer.protocols.link_events import FrameReceived, FrameSent, IdleFrames
from multitracer.protocols.rlp import FRAME_OCTETS, MODULUS, FrameError, FrameKind, RlpFrame
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.protocols.link_events import LinkEvent
    from multitracer.protocols.rlp import Unnumbered

_END = 0  # TS 24.022, 5.2.2.6: ends the parameters
_MS_PER_UNIT = 10  # the same: T1, T2 and T4 in units of 10 ms


class _Type(IntEnum):
    """Types of XID parameters (3GPP TS 24.022, clause 5.2.2.6)."""

    VERSION = 1
    IWF_TO_MS = 2
    MS_TO_IWF = 3
    T1 = 4
    N2 = 5
    T2 = 6
    COMPRESSION = 7
    T4 = 8
    OPTIONAL = 9


@dataclass(frozen=True, slots=True)
class Parameters:
    """The link parameters that XID carries; the defaults are those of version 0 without negotiation."""

    version: int = 0
    """RLP version, 0 or 1."""
    window_iwf_to_ms: int = 61
    """Window size k towards the mobile, in frames, 1 to 61."""
    window_ms_to_iwf: int = 61
    """Window size k towards the network, in frames, 1 to 61."""
    t1_ms: int = 480
    """Acknowledgment timer T1 in ms, a multiple of 10 up to 2550."""
    n2: int = 6
    """Maximum number of retransmissions N2, 1 to 255."""
    t2_ms: int = 80
    """Reply delay: maximum time for which an acknowledgment may wait; a multiple of 10 ms up to 2550."""
    compression: bytes = b""
    """V.42bis parameters as received, 4 octets; empty if absent. They are only logged and never accepted."""

    def __post_init__(self) -> None:
        checks = {
            "version": self.version in (0, 1),
            "window": all(1 <= k < MODULUS for k in (self.window_iwf_to_ms, self.window_ms_to_iwf)),
            "T1": _is_octet_of_units(self.t1_ms) and self.t1_ms > 0,
            "T2": _is_octet_of_units(self.t2_ms),
            "N2": 1 <= self.n2 <= 255,
            "compression": len(self.compression) in (0, 4),
        }
        wrong = [name for name, fits in checks.items() if not fits]
        if wrong:
            raise LocalProtocolError(f"RLP: the parameters {', '.join(wrong)} are out of range in {self}")

    def encode(self) -> bytes:
        """Return the information field of an XID frame, without padding."""
        values = (
            (_Type.VERSION, self.version),
            (_Type.IWF_TO_MS, self.window_iwf_to_ms),
            (_Type.MS_TO_IWF, self.window_ms_to_iwf),
            (_Type.T1, self.t1_ms // _MS_PER_UNIT),
            (_Type.N2, self.n2),
            (_Type.T2, self.t2_ms // _MS_PER_UNIT),
        )
        octets = b"".join(bytes((kind << 4 | 1, value)) for kind, value in values)
        return octets + (bytes((_Type.COMPRESSION << 4 | 4,)) + self.compression if self.compression else b"")

    def agreed(self, other: Parameters) -> Parameters:
        """Return the parameters that both ends use if one offers `self` and the other `other`.

        The order of the two does not matter.
        """
        return Parameters(
            version=min(self.version, other.version),
            window_iwf_to_ms=min(self.window_iwf_to_ms, other.window_iwf_to_ms),
            window_ms_to_iwf=min(self.window_ms_to_iwf, other.window_ms_to_iwf),
            t1_ms=max(self.t1_ms, other.t1_ms),
            n2=max(self.n2, other.n2),
            t2_ms=max(self.t2_ms, other.t2_ms),
        )


def _is_octet_of_units(ms: int) -> bool:
    return ms % _MS_PER_UNIT == 0 and 0 <= ms // _MS_PER_UNIT <= 255


_FIELDS: dict[int, tuple[str, int]] = {
    _Type.VERSION: ("version", 1),
    _Type.IWF_TO_MS: ("window_iwf_to_ms", 1),
    _Type.MS_TO_IWF: ("window_ms_to_iwf", 1),
    _Type.T1: ("t1_ms", _MS_PER_UNIT),
    _Type.N2: ("n2", 1),
    _Type.T2: ("t2_ms", _MS_PER_UNIT),
}


def split_parameters(info: bytes) -> list[tuple[int, bytes]]:
    """Return (type, value) of each parameter in `info`, in order, unknown types included.

    Raises
    ------
    FrameError
        If a parameter reaches beyond the end of the information field.
    """
    parameters, at = [], 0
    while at < len(info) and info[at] >> 4 != _END:
        end = at + 1 + (info[at] & 0x0F)
        if end > len(info):
            raise FrameError(f"RLP XID: the parameter of type {info[at] >> 4} is truncated; ignore the frame")
        parameters.append((info[at] >> 4, info[at + 1 : end]))
        at = end
    return parameters


def decode_parameters(info: bytes, *, default: Parameters | None = None) -> Parameters:
    """Return the parameters in the information field of an XID frame.

    Parameters
    ----------
    info : bytes
        The information field, with its padding.
    default : Parameters, optional
        Values of absent parameters.

    Raises
    ------
    FrameError
        If a parameter is truncated, or its value is out of range for versions 0 and 1.
    """
    start = default or Parameters()
    values = {field.name: getattr(start, field.name) for field in fields(Parameters)}
    for kind, value in split_parameters(info):
        if kind in _FIELDS and len(value) == 1:
            name, unit = _FIELDS[kind]
            values[name] = value[0] * unit
        elif kind == _Type.COMPRESSION:
            values["compression"] = value
        elif kind in _FIELDS:
            raise FrameError(
                f"RLP XID: the parameter {_FIELDS[kind][0]} has {len(value)} octets, but must have 1 "
                "octet in RLP versions 0 and 1"
            )
    values["version"] = min(values["version"], 1)
    try:
        return Parameters(**values)
    except LocalProtocolError as error:
        raise FrameError(f"RLP XID: {error}; ignore the frame") from error


# The configuration of an RLP entity: role, parameters, and choices that the standard leaves open.


Role = Literal["mobile", "fixed"]


@dataclass(frozen=True, slots=True)
class RlpConfig:
    """Options of an `RlpEntity`."""

    role: Role = "mobile"
    """Which end this is: the mobile station, or the interworking function (IWF) of the fixed network."""
    parameters: Parameters = field(default_factory=Parameters)
    """Window sizes, T1, T2, N2 and version; with negotiation, the values that this end offers."""
    negotiate: bool = True
    """Whether `connect` begins with an XID exchange."""
    frame_octets: int = 30
    """Octets of a frame: 30 (240 bits) or 72 (576 bits); in studies 42, 144 or 288."""
    slot_ns: int = 20 * NS_PER_MS
    """Interval of two frames of one direction in link time: 20 ms for 30 octets, 40 ms for 72."""
    recovery: Literal["srej", "rej"] = "srej"
    """How this side requests missing frames; the peer's choice is accepted in any case."""
    when_exhausted: Literal["reset", "drop-call"] = "reset"
    """What follows N2 failed attempts: a link reset, or the end of the call.

    The standard also allows the end of the call, and it was seen in the field."""
    backlog_frames: int = 124
    """Maximum number of delivered frames that wait for `read`; further frames are refused.

    It is two windows, so that all frames fit that arrive before a peer reacts to RNR."""

    def __post_init__(self) -> None:
        if self.frame_octets not in FRAME_OCTETS:
            raise LocalProtocolError(
                "RLP: the frame length must be 30 or 72 octets (in studies also 42, 144 or 288), but "
                f"is {self.frame_octets}"
            )
        if self.slot_ns <= 0 or self.parameters.t1_ms * NS_PER_MS < self.slot_ns:
            raise LocalProtocolError(f"RLP: the slot must be at least 1 ns and at most T1, but is {self.slot_ns} ns")
        if self.backlog_frames < 1:
            raise LocalProtocolError(f"RLP: the backlog must be at least 1 frame, but is {self.backlog_frames}")

    @property
    def info_octets(self) -> int:
        """Octets of information in one frame: 25 or 67; in experiments also 37, 139 or 283."""
        return self.frame_octets - 5


# The states of a link, and the pending command in those that wait for an answer.


class RlpState(Enum):
    """The state of the link at one end (TS 24.022, annex A.1).

    "Pending connect indication" and "pending reset indication" (states 3 and 7) do not occur, because this
    entity answers a SABM at once.
    """

    DETACHED = auto()
    """ADM and detached: answers DM."""
    ATTACHED = auto()
    """ADM and attached: accepts a SABM."""
    CONNECTING = auto()
    """Pending connect request: XID or SABM sent."""
    ESTABLISHED = auto()
    """ABM and connection established."""
    RESETTING = auto()
    """Pending reset request: SABM sent in ABM."""
    DISCONNECTING = auto()
    """Disconnect initiated: DISC sent."""
    DROPPED = auto()
    """The call is over; nothing is sent after it."""


class Command:
    """A command that is repeated until it is answered."""

    __slots__ = ("crossed", "function", "info", "sent_tick", "tries")

    def __init__(self, function: Unnumbered, info: bytes = b"") -> None:
        self.function = function
        self.info = info
        self.tries = 0
        self.sent_tick = 0
        self.crossed = False
        """Whether a SABM of the peer arrived meanwhile and was answered."""

    def is_due(self, tick: int, t1_ticks: int) -> bool:
        """Return whether the command must be sent in slot `tick`, for the first time or again."""
        return self.tries == 0 or tick - self.sent_tick >= t1_ticks

    def send(self, tick: int) -> RlpFrame:
        """Count one more transmission of the command, and return its frame."""
        self.tries += 1
        self.sent_tick = tick
        return RlpFrame(FrameKind.U, self.function, command=True, poll_final=True, info=self.info)


# The records of both parts of an RLP entity: the present slot, and the events.


class SlotJournal:
    """Number of the current slot, and the events that `take` has not returned yet."""

    __slots__ = ("_idle_received", "_idle_sent", "events", "now_ns", "tick")

    def __init__(self) -> None:
        self.tick = 0
        self.now_ns = 0
        self.events: list[LinkEvent] = []
        self._idle_sent = 0
        self._idle_received = 0

    def add(self, event: LinkEvent) -> None:
        """Record an event."""
        self.events.append(event)

    def note(self, kind: Callable[..., LinkEvent], *facts: object) -> None:
        """Record an event of class `kind` in the current slot, with its other fields."""
        self.events.append(kind(self.now_ns, self.tick, *facts))

    def sent(self, octets: bytes, offset_bytes: int | None = None, attempt: int = 1, cause: str = "") -> bytes:
        """Record an event for a sent frame with its data, and return the octets of the frame unchanged."""
        self.events.append(FrameSent(self.now_ns, self.tick, octets, offset_bytes, attempt, cause))
        return octets

    def received(self, octets: bytes, fate: str = "") -> None:
        """Record a frame that arrived, and in `fate` how it was handled."""
        self.events.append(FrameReceived(self.now_ns, self.tick, octets, fate))

    def idle_sent(self, octets: bytes) -> bytes:
        """Count a sent idle frame, and return its octets unchanged."""
        self._idle_sent += 1
        return octets

    def idle_received(self) -> None:
        """Count an idle frame that arrived."""
        self._idle_received += 1

    def take(self) -> list[LinkEvent]:
        """Return the events since the last call of this method."""
        taken, self.events = self.events, []
        return taken

    def count_idle(self) -> None:
        """Add an event with the number of idle frames since the last such event."""
        self.note(IdleFrames, self._idle_sent, self._idle_received)
        self._idle_sent = self._idle_received = 0
