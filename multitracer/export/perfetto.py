"""A trace of one transfer for ui.perfetto.dev: limits and findings, packets, counters, and causes.

The module defines, in this order: fields of protobuf messages (only those that a trace needs); the messages
of a trace; counters and events of the link; tracks of limits and findings; packets; and `write_trace`, which
combines all. A segment is a slice from its sending to its ACK; the slice of a lost segment ends at the
retransmission. A flow arrow leads from a lost or unnecessarily repeated segment to the retransmission, and
from there to the first ACK that covers the data.

Invariants: times are link time of the sender's clock, in ns since 1970. The clock of the trace is BOOTTIME,
Perfetto's default; a clock snapshot relates it to the time since 1970. Slices of one track never overlap.
Packets are written one by one; texts from the input are printable and of bounded length.

Sources: Protocol Buffers, "Encoding"; Perfetto, protos/perfetto/trace (TracePacket, TrackDescriptor, TrackEvent).
"""

from __future__ import annotations

import heapq
import re
import struct
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis import SegmentKind
from multitracer.analysis.series.labelled import stretched
from multitracer.analysis.verdicts import Necessity, RetransmissionCause, evidence_words, word
from multitracer.captured import Flag
from multitracer.export.explained import answer, short_name
from multitracer.tables import NA, NOT_A_TIME
from multitracer.words import count, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.recording.recording import Recording
    from multitracer.recording.transfer import Transfer
    from multitracer.recording.window import Bounds
    from multitracer.tables import Array, Row, Table

    Placed = Callable[[Array], list[int]]

_VARINT, _FIXED64, _BYTES = 0, 1, 2
"""Wire types of protobuf: varint, eight bytes, and length-delimited bytes."""
_DOUBLE, _LONG = struct.Struct("<d"), struct.Struct("<Q")
_UINT64 = (1 << 64) - 1


_GROUP = 1 << 14
_LAST = [bytes([n]) if n < 0x80 else bytes([n & 0x7F | 0x80, n >> 7]) for n in range(_GROUP)]
_MORE = [bytes([n & 0x7F | 0x80, n >> 7 | 0x80]) for n in range(_GROUP)]
"""Lookup tables for 14 bits of a varint as two bytes: at its end, and before its end."""


def varint(number: int) -> bytes:
    """Return an integer as a varint: seven bits in each byte, lowest first; a negative one as 64 bits."""
    rest, head = number & _UINT64, b""
    while rest >= _GROUP:
        head += _MORE[rest & _GROUP - 1]
        rest >>= 14
    return head + _LAST[rest]


def integer(field: int, number: int) -> bytes:
    """Return an encoded field of an integer type or an enumeration."""
    return _LAST[field << 3 | _VARINT] + varint(number)


def fixed64(field: int, number: int) -> bytes:
    """Return an encoded field of type fixed64."""
    return _LAST[field << 3 | _FIXED64] + _LONG.pack(number)


def double(field: int, number: float) -> bytes:
    """Return an encoded field of type double."""
    return _LAST[field << 3 | _FIXED64] + _DOUBLE.pack(number)


def message(field: int, content: bytes) -> bytes:
    """Return an encoded field that contains another message, or bytes."""
    return _LAST[field << 3 | _BYTES] + varint(len(content)) + content


def text(field: int, words: str) -> bytes:
    """Return an encoded field of type string."""
    return message(field, words.encode())


Notes = Mapping[str, str | int | float]
"""Details of a slice that Perfetto shows for the selected slice: values by name."""
_PACKET = 1
"""Field number of `packet` in the message Trace."""
_CLOCKS, _TIME, _SEQUENCE, _EVENT, _FLAGS, _TRACK = 6, 8, 10, 11, 13, 60
"""Field numbers of the message TracePacket."""
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
"""Values of the enumeration TrackEvent.Type."""
_EXPLICIT = 3
"""Value of TrackDescriptor.ChildTracksOrdering: order by sibling_order_rank."""
_REALTIME, _BOOTTIME = 1, 6
"""Values of the enumeration BuiltinClock."""
_STATE_CLEARED = 1
"""Value of TracePacket.SequenceFlags: later packets do not depend on packets before this one."""
_UNITS = {"ns": 1, "bytes": 3}
"""Values of CounterDescriptor.Unit; all other units are given by name."""
_LONGEST_TEXT = 2_000
"""Maximum characters of a sentence in a trace. Not measured."""
_ROOT = 1


class FlowArrows(NamedTuple):
    """Numbers of the flow arrows that pass through an event, and of those that end at the event."""

    through: tuple[int, ...] = ()
    to: tuple[int, ...] = ()


_NO_FLOWS = FlowArrows()


class Trace:
    """Writes one trace; Perfetto shows the tracks in the order of their creation.

    Parameters
    ----------
    stream : binary file
    name : str
        Name of the recording.
    begin_ns : int
        Start of the trace, ns since 1970.
    answer : str
        The headline, which Perfetto shows with the name.
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
        """Create a track and return its number; with a unit ("": no unit), the track is a counter.

        Perfetto merges consecutive tracks with the same name.
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
        self, track: int, begin_ns: int, end_ns: int, name: str, notes: Notes, flows: FlowArrows = _NO_FLOWS
    ) -> None:
        """Write a slice; the slices of a track must be in order of time and must not overlap."""
        self._event(begin_ns, integer(9, _BEGIN) + integer(11, track) + _name(23, name) + _more(notes, flows))
        self._event(end_ns, integer(9, _END) + integer(11, track))

    def instant(self, track: int, time_ns: int, name: str, notes: Notes, flows: FlowArrows = _NO_FLOWS) -> None:
        """Write an event without a duration."""
        self._event(time_ns, integer(9, _INSTANT) + integer(11, track) + _name(23, name) + _more(notes, flows))

    def count(self, track: int, time_ns: int, value: float) -> None:
        """Write a value of a counter; it is valid from this time until the next value."""
        number = integer(30, int(value)) if value.is_integer() else double(44, value)
        self._event(time_ns, integer(9, _COUNTER) + integer(11, track) + number)

    def _event(self, time_ns: int, event: bytes) -> None:
        self._write(integer(_TIME, time_ns) + message(_EVENT, event))

    def _write(self, packet: bytes) -> None:
        self._stream.write(message(_PACKET, packet + integer(_SEQUENCE, _ROOT)))


@lru_cache(maxsize=1 << 10)
def _name(field: int, name: str) -> bytes:
    """Return the encoded name of an event or a note; cached, because few names are written many times."""
    return text(field, name)


def _more(notes: Notes, flows: FlowArrows) -> bytes:
    """Return the encoded optional fields of an event: notes and flow arrows."""
    parts = [message(4, _name(10, name) + _value(value)) for name, value in notes.items()]
    parts += [fixed64(47, flow) for flow in flows.through]
    parts += [fixed64(48, flow) for flow in flows.to]
    return b"".join(parts)


def _value(value: str | float) -> bytes:
    """Return the encoded value field of a DebugAnnotation."""
    if isinstance(value, str):
        return text(6, _bounded(value))
    return integer(4, value) if isinstance(value, int) else double(5, value)


def _bounded(words: str) -> str:
    return printable(words)[:_LONGEST_TEXT]


def _lines(words: str) -> str:
    return "\n".join(map(printable, words.splitlines()))[:_LONGEST_TEXT]


_PLACES = re.compile(r".*_(data|ack)|(Rlp|Cdpd)\w*")
"""Labels of series whose values are byte positions; they are not counters, because packets are slices."""
_AT_ONCE = 1 << 16
"""Number of points that are converted to Python numbers at a time, to limit memory."""
_EVENTS = re.compile(r"Rlp(Snd|Rcv)_(xoff|xon|rst)")


def write_counters(trace: Trace, transfer: Transfer, bounds_ns: Bounds) -> None:
    """Write a counter track for each series of the transfer, within bounds of link time."""
    series = transfer.series
    goodput = [("goodput", table) for label, table in transfer.rates.items() if label.endswith("_goodput")]
    for label, table in (dict(goodput[:1]) | series).items():  # the first one is at the sender
        if _PLACES.fullmatch(label) is None:
            _write_counter(trace, label, table.within(*bounds_ns))
    for label, table in series.items():
        if _EVENTS.fullmatch(label) and len(table):
            track = trace.track(label, doc=str(table.provenance["doc"]))
            for time_ns in table.within(*bounds_ns)["time_ns"].tolist():
                trace.instant(track, time_ns, label.rpartition("_")[2], {})


def _write_counter(trace: Trace, label: str, table: Table) -> None:
    facts = table.provenance
    unit = str(facts["unit"])
    known = ~np.isnan(table["value"]) & (table["time_ns"] >= 0)
    if not known.any():
        return
    track = trace.track(label, unit=unit, doc=f"{facts['doc']}; source: {facts['source']}")
    for begin in range(0, len(table), _AT_ONCE):
        cut = slice(begin, begin + _AT_ONCE)
        chosen = known[cut]
        for time_ns, value in zip(
            table["time_ns"][cut][chosen].tolist(), table["value"][cut][chosen].tolist(), strict=True
        ):
            trace.count(track, time_ns, value)


class Lanes:
    """Tracks of one name for overlapping slices: each slice gets a free track.

    Parameters
    ----------
    trace : Trace
    name : str
    most : int
        Maximum number of tracks.
    """

    def __init__(self, trace: Trace, name: str, *, most: int) -> None:
        self._trace, self._name, self._most = trace, name, most
        self._busy: list[tuple[int, int]] = []
        """End of the last slice, and number, of each track; ordered by the end."""

    def free(self, begin_ns: int, end_ns: int) -> int | None:
        """Return a free track for a slice; None if all are in use.

        Slices must come in order of their begin.
        """
        if self._busy and self._busy[0][0] <= begin_ns:
            track = self._busy[0][1]
            heapq.heapreplace(self._busy, (end_ns, track))
            return track
        if len(self._busy) == self._most:
            return None
        track = self._trace.track(self._name)
        heapq.heappush(self._busy, (end_ns, track))
        return track


_MOST_FINDINGS_AT_ONCE = 100
"""Maximum number of findings that overlap at a time, each on its own track. Not measured."""


def write_conclusions(trace: Trace, diagnosis: Diagnosis, placed: Placed) -> int:
    """Write the tracks of limits and findings; return the number of findings that had no free track.

    Parameters
    ----------
    placed : callable
        Converts times of the sender's clock to times of the trace.
    """
    _write_limits(trace, diagnosis, placed)
    return _write_findings(trace, diagnosis, placed)


def _write_limits(trace: Trace, diagnosis: Diagnosis, placed: Placed) -> None:
    table = diagnosis.limited.table
    begin, end = placed(table["begin_ns"]), placed(table["end_ns"])
    if not begin:
        return
    answer = trace.track("answer")
    notes = {"what would help": diagnosis.headline.help}
    trace.slice(answer, begin[0], max(end), printable(diagnosis.headline.sentence), notes)
    track = trace.track("limits", doc="What limited the transfer at each instant.")
    names = ("limit", "part", "direction", "confidence", "seconds", "evidence")
    for first, last, limit, part, direction, sure, seconds, evidence in zip(
        begin, end, *(table[name].tolist() for name in names), strict=True
    ):
        notes = {"direction": direction, "confidence": sure, "seconds": seconds, "evidence": evidence}
        trace.slice(track, first, last, f"{limit} ({part})" if part else limit, notes)


def _write_findings(trace: Trace, diagnosis: Diagnosis, placed: Placed) -> int:
    table = diagnosis.table()
    order = table["begin_ns"].argsort(kind="stable")
    begin, end = (placed(table[name][order]) for name in ("begin_ns", "end_ns"))
    lanes, left_out = Lanes(trace, "findings", most=_MOST_FINDINGS_AT_ONCE), 0
    for place, first, last in zip(order.tolist(), begin, end, strict=True):
        finding = diagnosis.findings[place]
        track = lanes.free(first, max(first, last))
        if track is None:
            left_out += 1
            continue
        notes = {"what happened": finding.sentence, "cost in s": finding.cost_s, "what would help": finding.help}
        notes |= {"evidence": " ".join(finding.evidence)}
        trace.slice(track, first, max(first, last), finding.kind, notes)
    return left_out


MOST_IN_FLIGHT = 200
"""Maximum segments in flight with their own track; a screen shows some fifty rows. Not measured."""
"""Rows whose texts are in memory at a time."""
_OPENS = np.uint16(Flag.SYN | Flag.FIN | Flag.RST)


class _Chains:
    """Repeated transmissions of data: flow arrows by row of the sender's table, and verdicts as text."""

    def __init__(self, transfer: Transfer) -> None:
        self.of_data: defaultdict[int, list[int]] = defaultdict(list)
        self.of_acks: defaultdict[int, list[int]] = defaultdict(list)
        self.words: dict[int, str] = {}
        self.evidence: dict[int, str] = {}
        self.lost: dict[int, int] = {}
        """Row of the retransmission by row of the lost segment."""
        verdicts = transfer.verdicts
        names = ("row", "earlier_row", "answer_row", "cause", "necessity", "evidence")
        for flow, row in enumerate(zip(*(verdicts[name].tolist() for name in names), strict=True), start=1):
            self._add(flow, *row)

    def _add(self, flow: int, row: int, earlier: int, answer: int, *verdict: int) -> None:
        cause, necessity, evidence = verdict
        self.of_data[row].append(flow)
        self.words[row] = f"sent again ({word(RetransmissionCause(cause))}, {word(Necessity(necessity))})"
        self.evidence[row] = evidence_words(evidence)
        if earlier != NA:
            self.of_data[earlier].append(flow)
            if necessity == Necessity.NECESSARY:
                self.lost.setdefault(earlier, row)
        if answer != NA:
            self.of_acks[answer].append(flow)


def write_packets(trace: Trace, transfer: Transfer, placed: Placed) -> int:
    """Write the data segments and the ACKs; return the number of segments that had no free track."""
    chains = _Chains(transfer)
    without = _write_data(trace, transfer, placed, chains)
    _write_acks(trace, transfer, placed, chains)
    return without


def _write_data(trace: Trace, transfer: Transfer, placed: Placed, chains: _Chains) -> int:
    sender = transfer.sender
    occupies = sender["end_bytes"][transfer.sent] > sender["seq_bytes"][transfer.sent]
    rows = _timed(transfer, transfer.sent[occupies])
    ends = _end_times(transfer, rows, chains)
    lanes = Lanes(trace, "data", most=MOST_IN_FLIGHT)
    beyond: int | None = None
    without, latest = 0, 0
    for row, cells, begin, end in _cells(transfer, rows, placed, ends):
        begin_ns = latest = max(latest, begin)  # a step back of the clock does not turn the order
        end_ns = max(begin_ns, end)
        name, notes = _data_words(row, cells, chains), _data_notes(row, cells, chains)
        flows = FlowArrows(through=tuple(chains.of_data.get(row, ())))
        track = lanes.free(begin_ns, end_ns)
        if track is not None:
            trace.slice(track, begin_ns, end_ns, name, notes, flows)
            continue
        beyond = trace.track(f"data beyond {MOST_IN_FLIGHT} in flight") if beyond is None else beyond
        trace.instant(beyond, begin_ns, name, notes, flows)
        without += 1
    return without


def _write_acks(trace: Trace, transfer: Transfer, placed: Placed, chains: _Chains) -> None:
    sender = transfer.sender
    rows = _timed(transfer, transfer.acks[sender["ack_bytes"][transfer.acks] != NA])
    if not len(rows):
        return
    track = trace.track("ACKs")
    for row, cells, time_ns, _ in _cells(transfer, rows, placed, sender["time_ns"][rows]):
        notes = {name: cells[name] for name in ("ack_bytes", "window_bytes", "frame")}
        trace.instant(track, time_ns, _ack_words(cells), notes, FlowArrows(to=tuple(chains.of_acks.get(row, ()))))


def _end_times(transfer: Transfer, rows: Array, chains: _Chains) -> Array:
    """Return the end time of each segment in ns: its ACK, its retransmission, or the end of the capture."""
    sender = transfer.sender
    acks = _timed(transfer, transfer.acks[sender["ack_bytes"][transfer.acks] != NA])
    level = np.maximum.accumulate(sender["ack_bytes"][acks]) if len(acks) else np.zeros(0, np.int64)
    first = np.maximum(np.searchsorted(level, sender["end_bytes"][rows]), np.searchsorted(acks, rows))
    times = np.append(sender["time_ns"][acks], transfer.end_ns)
    ends: Array = times[np.minimum(first, len(acks))]
    for at in np.flatnonzero(np.isin(rows, list(chains.lost))).tolist():
        ends[at] = min(int(ends[at]), int(sender["time_ns"][chains.lost[int(rows[at])]]))
    return ends


def _timed(transfer: Transfer, rows: Array) -> Array:
    kept: Array = rows[transfer.sender["time_ns"][rows] != NOT_A_TIME]
    return kept


def _cells(transfer: Transfer, rows: Array, placed: Placed, ends: Array) -> Iterator[tuple[int, Row, int, int]]:
    """Yield row number, row, time and end of each segment; only a limited number of rows is in memory."""
    names = ("seq_bytes", "payload_bytes", "ack_bytes", "window_bytes", "frame", "flags", "kind")
    for begin in range(0, len(rows), _AT_ONCE):
        cut = slice(begin, begin + _AT_ONCE)
        own = rows[cut]
        columns = [transfer.sender[name][own].tolist() for name in names]
        times = placed(transfer.sender["time_ns"][own]), placed(ends[cut])
        for row, first, last, *cells in zip(own.tolist(), *times, *columns, strict=True):
            yield row, dict(zip(names, cells, strict=True)), first, last


def _data_words(row: int, cells: Row, chains: _Chains) -> str:
    if row in chains.words:
        return chains.words[row]
    if row in chains.lost:
        return "lost"
    if cells["flags"] & Flag.SYN:
        return "SYN"
    return "data" if cells["payload_bytes"] else "FIN"


def _data_notes(row: int, cells: Row, chains: _Chains) -> dict[str, str | int | float]:
    notes = {name: cells[name] for name in ("seq_bytes", "payload_bytes", "frame")}
    return notes if not chains.evidence.get(row) else notes | {"evidence": chains.evidence[row]}


def _ack_words(cells: Row) -> str:
    if cells["flags"] & int(_OPENS):
        return "SYN, FIN or RST"
    if not cells["window_bytes"]:
        return "window closed"
    if cells["kind"] & SegmentKind.DUPLICATE_ACK:
        return "duplicate ACK"
    return "SACK" if cells["kind"] & SegmentKind.SACK else "ACK"


def write_trace(stream: BinaryIO, recording: Recording, diagnosis: Diagnosis) -> None:
    """Write a trace of the diagnosed transfer, in link time.

    Parameters
    ----------
    stream : binary file
    recording : Recording
    diagnosis : Diagnosis
    """
    transfer = diagnosis.transfer
    origin_ns = transfer.at_sender.capture.tables.first_ns or 0

    def placed(time_ns: Array) -> list[int]:
        link_ns: list[int] = stretched(time_ns, speed=transfer.speed, origin_ns=origin_ns).clip(0).tolist()
        return link_ns

    lines = "\n".join(answer(diagnosis))
    trace = Trace(stream, short_name(recording.name), max(origin_ns, 0), lines)
    unplaced = write_conclusions(trace, diagnosis, placed)
    without = write_packets(trace, transfer, placed)
    write_counters(trace, transfer, _link_bounds(recording.bounds_ns, transfer.speed, origin_ns))
    if unplaced:
        recording.warn_once(f"{recording.name}: {count(unplaced, 'finding')} left out: too many at one time")
    if without:
        why = f"more than {MOST_IN_FLIGHT} were in flight"
        recording.warn_once(f"{recording.name}: {count(without, 'segment')} drawn without a length: {why}")


def _link_bounds(bounds_ns: Bounds, speed: float, origin_ns: int) -> Bounds:
    """Convert bounds of recorded time to link time."""
    begin, end = (None if side is None else origin_ns + round((side - origin_ns) * speed) for side in bounds_ns)
    return begin, end
