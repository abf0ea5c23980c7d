"""The messages of a trace: tracks, slices, instants and counters, written to a stream.

Source: Perfetto, protos/perfetto/trace (TracePacket, TrackDescriptor, TrackEvent). The trace's clock is
BOOTTIME, as Perfetto's own; a snapshot says that it shows the time since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from multitracer.export.perfetto.protobuf import double, fixed64, integer, message, text
from multitracer.words import printable

if TYPE_CHECKING:
    from typing import BinaryIO

Notes = Mapping[str, str | int | float]
"""What is shown of a slice when it is selected: name -> value."""
_PACKET = 1
"""Field of Trace."""
_CLOCKS, _TIME, _SEQUENCE, _EVENT, _FLAGS, _TRACK = 6, 8, 10, 11, 13, 60
"""Fields of TracePacket."""
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
"""TrackEvent.Type."""
_EXPLICIT = 3
"""TrackDescriptor.ChildTracksOrdering: by sibling_order_rank."""
_REALTIME, _BOOTTIME = 1, 6
"""BuiltinClock."""
_STATE_CLEARED = 1
"""TracePacket.SequenceFlags: nothing before this packet is needed to read what follows."""
_UNITS = {"ns": 1, "bytes": 3}
"""CounterDescriptor.Unit; other units have a name."""
_LONGEST_TEXT = 2_000
"""Characters of a sentence in a trace; not measured."""
_ROOT = 1


class Flows(NamedTuple):
    """Arrows that pass through an event, and those that end at it, by their numbers."""

    through: tuple[int, ...] = ()
    to: tuple[int, ...] = ()


_NO_FLOWS = Flows()


class Trace:
    """Writes one trace; tracks are shown in the order in which they are made.

    Parameters
    ----------
    stream : binary file
    name : str
        Of the recording.
    begin_ns : int
        Some time of the trace, from 0.
    answer : str
        Shown with the name.
    """

    def __init__(self, stream: BinaryIO, name: str, begin_ns: int, answer: str) -> None:
        self._stream = stream
        self._tracks = _ROOT
        clocks = [message(1, integer(1, clock) + integer(2, begin_ns)) for clock in (_BOOTTIME, _REALTIME)]
        self._write(message(_CLOCKS, b"".join(clocks)) + integer(_FLAGS, _STATE_CLEARED))
        process = integer(1, _ROOT) + text(6, _bounded(name))
        root = integer(1, _ROOT) + message(3, process) + integer(11, _EXPLICIT) + text(14, _lines(answer))
        self._write(message(_TRACK, root))

    def track(self, name: str, *, unit: str | None = None, doc: str = "") -> int:
        """Return the number of a new track; with a unit ("" for none) one of a counter.

        Tracks of one name that follow each other are shown as one.
        """
        self._tracks += 1
        words = integer(1, self._tracks) + integer(5, _ROOT) + text(2, _bounded(name))
        words += integer(12, self._tracks) + (text(14, _bounded(doc)) if doc else b"")
        if unit is not None:
            known = integer(3, _UNITS[unit]) if unit in _UNITS else text(6, unit) if unit else b""
            words += message(8, known)
        self._write(message(_TRACK, words))
        return self._tracks

    def slice(
        self, track: int, begin_ns: int, end_ns: int, name: str, notes: Notes, flows: Flows = _NO_FLOWS
    ) -> None:
        """Write a slice; those of a track must be written in order, and not overlap."""
        self._event(begin_ns, integer(9, _BEGIN) + integer(11, track) + _name(23, name) + _more(notes, flows))
        self._event(end_ns, integer(9, _END) + integer(11, track))

    def instant(self, track: int, time_ns: int, name: str, notes: Notes, flows: Flows = _NO_FLOWS) -> None:
        """Write an event without a length."""
        self._event(
            time_ns, integer(9, _INSTANT) + integer(11, track) + _name(23, name) + _more(notes, flows)
        )

    def count(self, track: int, time_ns: int, value: float) -> None:
        """Write a value that holds from a time on."""
        number = integer(30, int(value)) if value.is_integer() else double(44, value)
        self._event(time_ns, integer(9, _COUNTER) + integer(11, track) + number)

    def _event(self, time_ns: int, event: bytes) -> None:
        self._write(integer(_TIME, time_ns) + message(_EVENT, event))

    def _write(self, packet: bytes) -> None:
        self._stream.write(message(_PACKET, packet + integer(_SEQUENCE, _ROOT)))


@lru_cache(maxsize=1 << 10)
def _name(field: int, name: str) -> bytes:
    """Return the name of an event or of a note: few of them are written many times."""
    return text(field, name)


def _more(notes: Notes, flows: Flows) -> bytes:
    """Return the fields of an event that it may lack."""
    parts = [message(4, _name(10, name) + _value(value)) for name, value in notes.items()]
    parts += [fixed64(47, flow) for flow in flows.through]
    parts += [fixed64(48, flow) for flow in flows.to]
    return b"".join(parts)


def _value(value: str | float) -> bytes:
    """Return a field of DebugAnnotation."""
    if isinstance(value, str):
        return text(6, _bounded(value))
    return integer(4, value) if isinstance(value, int) else double(5, value)


def _bounded(words: str) -> str:
    return printable(words)[:_LONGEST_TEXT]


def _lines(words: str) -> str:
    return "\n".join(map(printable, words.splitlines()))[:_LONGEST_TEXT]
