"""Writes a pcapng file with comments on the packets, and colour rules for them.

The module defines, in this order: the first words of comments, and colour rules that search for these words
(file `colorfilters` of a Wireshark profile); the comments of each packet; the records of all capture points
in order of time, read again from the files; and `write_pcapng`, which writes a section with the headline, an
interface for each capture point, and the records with their comments.

Invariants: each record is written byte for byte with its original length; records that cannot be written are counted
with the reason. A comment is printable text; names in it have a bounded length. Time stamps are nanoseconds since 1970.

Sources: draft-ietf-opsawg-pcapng; Wireshark User's Guide, "Packet colorization".
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import parsers
from multitracer import __version__
from multitracer.analysis.verdicts import Necessity, RetransmissionCause, evidence_words, word
from multitracer.captured import Flag
from multitracer.clock.model.relation import along
from multitracer.clock.moved_table import accuracy
from multitracer.diagnosis.finding import cost_of
from multitracer.diagnosis.segment_verdicts import NO_VERDICT, segment_verdicts
from multitracer.errors import ClockError, InputError
from multitracer.export.explained import answer, file_name, short_name
from multitracer.protocols.pcap_file import (
    LARGEST_LINK_TYPE,
    interface_block,
    packet_block,
    section_header,
    statistics_block,
)
from multitracer.recording.inputs import STANDARD_INPUT
from multitracer.tables import NA, NOT_A_TIME
from multitracer.words import count, portable, printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from multitracer.captured import SourceFile
    from multitracer.clock.model.relation import ClockPath
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.segment_verdicts import SegmentVerdicts
    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds
    from multitracer.tables import Array, Mask, Times

SENT_AGAIN, LOST, CLOSED, INCIDENT, EVIDENCE = "sent again", "lost", "window closed", "incident", "evidence"
"""First words of comments; colour rules and display filters search for them."""
_RULES = (
    ("incident", INCIDENT, "#7a1f6d", "#ffffff"),
    ("lost", LOST, "#8f2c00", "#ffffff"),
    ("sent again", SENT_AGAIN, "#ffd9c7", "#1c2430"),
    ("window closed", CLOSED, "#ffe7a8", "#1c2430"),
    ("evidence", EVIDENCE, "#f0d7ec", "#1c2430"),
)
"""Colour rules: name, first word of the comment, background and text colour. The hues are those of
`figures/palette.py`; the contrast of the text is at least 7 : 1 (WCAG 2.2, 1.4.6). The first matching rule applies."""


def colour_rules() -> str:
    """Return the text of the file `colorfilters`: one line for each rule, colours as 16 bits a channel."""
    lines = [
        f'@MultiTracer: {name}@frame.comment matches "(^|\\n){word}:"@{_channels(back)}{_channels(ink)}'
        for name, word, back, ink in _RULES
    ]
    return "# Colour rules of MultiTracer, for View > Coloring Rules > Import.\n" + "\n".join(lines) + "\n"


def _channels(colour: str) -> str:
    """Return a colour #rrggbb in Wireshark's format: [65535,0,0]."""
    return f"[{','.join(str(257 * int(colour[i : i + 2], 16)) for i in (1, 3, 5))}]"


_OPENS = Flag.SYN | Flag.FIN | Flag.RST
_MOST_OF_ONE = 20
"""Maximum number of comments on one packet. Not measured."""


@dataclass(slots=True)
class Remarks:
    """Comments on the segments of one capture point.

    Parameters
    ----------
    capture : Capture
    names : list of str
        Names of the files, written after a frame number; empty for a file whose frame numbers do not change.
    verdicts : SegmentVerdicts
        Verdicts on the segments of the capture.
    again : ndarray of int64, shape (n_segments,)
        Row of the retransmission of a lost segment; NA if the segment was not lost or not retransmitted.
    missed : ndarray of bool, shape (n_segments,)
        Which segments did not reach the other capture point.
    closed : ndarray of bool, shape (n_segments,)
        Which segments advertise a window of 0.
    of_rows : dict
        Sentences on the incidents of a segment, by the row of the segment.
    """

    capture: Capture
    names: list[str]
    verdicts: SegmentVerdicts
    again: Array
    missed: Mask
    closed: Mask
    of_rows: dict[int, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, recording: Recording, capture: Capture, diagnosis: Diagnosis | None, names: list[str]) -> Remarks:
        """Return the comments for a capture point, with the incidents of the diagnosed transfer."""
        verdicts = segment_verdicts(recording, capture)
        missed = np.zeros(len(capture.tables.segments), dtype=bool)
        remarks = cls(capture, names, verdicts, _next_copies(verdicts), missed, _closed(capture))
        if diagnosis is not None:
            remarks._add_missed(diagnosis)
            remarks._add_incidents(diagnosis)
        return remarks

    @property
    def rows(self) -> Array:
        """Rows of the segments with a comment: int64, ascending."""
        named = (self.verdicts.cause != NO_VERDICT) | (self.again != NA) | self.missed | self.closed
        named[list(self.of_rows)] = True
        return np.flatnonzero(named)

    def text(self, row: int) -> str:
        """Return the comments on a segment, one per line."""
        return "\n".join([*self.of_rows.get(row, ()), *self._lines(row)])

    def frame(self, file: int, frame: int) -> str:
        """Return a text for a frame, with the name of its file if the export changes the frame number."""
        return f"frame {frame} of {self.names[file]}" if self.names[file] else f"frame {frame}"

    def _frame_of(self, row: int) -> str:
        segments = self.capture.tables.segments
        return self.frame(int(segments["file"][row]), int(segments["frame"][row]))

    def _lines(self, row: int) -> list[str]:
        """Return the comments that come from the tables of this capture point alone."""
        lines = []
        if self.verdicts.cause[row] != NO_VERDICT:
            lines.append(self._verdict(row))
        if self.again[row] != NA:
            lines.append(f"{LOST}: sent again in {self._frame_of(int(self.again[row]))}")
        elif self.missed[row]:
            lines.append(f"{LOST}: did not arrive at the other capture point")
        if self.closed[row]:
            lines.append(f"{CLOSED}: offers a window of 0")
        return lines

    def _verdict(self, row: int) -> str:
        judged = self.verdicts
        cause, need = RetransmissionCause(int(judged.cause[row])), Necessity(int(judged.necessity[row]))
        known = evidence_words(int(judged.evidence[row]))
        earlier = int(judged.earlier[row])
        words = f"{SENT_AGAIN}: {word(cause)}, {word(need)}"
        words += f"; evidence: {known}" if known else ""
        return words if earlier == NA else f"{words}; copy of {self._frame_of(earlier)}"

    def _add_missed(self, diagnosis: Diagnosis) -> None:
        """Set `missed` for segments of the diagnosed transfer that the other point did not capture."""
        transfer = diagnosis.transfer
        for pairs, is_here in (
            (transfer.data_pairs, transfer.at_sender.capture is self.capture),
            (transfer.ack_pairs, _receivers_capture(diagnosis) is self.capture),
        ):
            if pairs is not None and is_here:
                self.missed[pairs.table["near_row"][pairs.lost]] = True

    def _add_incidents(self, diagnosis: Diagnosis) -> None:
        tables = self._explained_rows(diagnosis)
        if "sender" in tables:
            own = tables["sender"]
            time = np.maximum.accumulate(self.capture.tables.segments["time_ns"][own])
            for each in diagnosis.incidents:
                at = min(int(np.searchsorted(time, each.begin_ns)), len(own) - 1)
                cost = cost_of(f"{each.cost_s:.3f} s", is_weak=each.is_weak)
                sentence = f"{INCIDENT}: {each.kind} begins, cost {cost}: {each.sentence}"
                self._add(int(own[at]), sentence)
        by_direction = {diagnosis.transfer.reverse: tables}
        if diagnosis.peer is not None:
            by_direction[not diagnosis.transfer.reverse] = self._explained_rows(diagnosis.peer)
        for finding in diagnosis.findings:
            tables = by_direction.get(finding.reverse, {})
            for place in finding.evidence:
                table, _, row = place.partition(":")
                if table in tables and row.isdecimal() and int(row) < len(tables[table]):
                    self._add(int(tables[table][int(row)]), f"{EVIDENCE}: of {finding.kind}")

    def _explained_rows(self, diagnosis: Diagnosis) -> dict[str, Array]:
        """Return the rows in this capture of the transfer's tables, if they were captured here."""
        transfer, receiver = diagnosis.transfer, diagnosis.transfer.at_receiver
        rows_of = self.capture.analysis.partition.rows_of
        tables = {}
        if transfer.at_sender.capture is self.capture:
            tables["sender"] = rows_of(transfer.at_sender.connection - 1)
        if receiver is not None and receiver.capture is self.capture:
            tables["receiver"] = rows_of(receiver.connection - 1)
        return tables

    def _add(self, row: int, sentence: str) -> None:
        lines = self.of_rows.setdefault(row, [])
        line = printable(sentence)
        if len(lines) < _MOST_OF_ONE and line not in lines:
            lines.append(line)


def _next_copies(verdicts: SegmentVerdicts) -> Array:
    """Return the row of the retransmission of each lost segment; NA for segments that were not lost."""
    again = np.full(len(verdicts.earlier), NA)
    copies = np.flatnonzero((verdicts.necessity == Necessity.NECESSARY.value) & (verdicts.earlier != NA))
    again[verdicts.earlier[copies][::-1]] = copies[::-1]  # of several the first is written last
    return again


def _closed(capture: Capture) -> Mask:
    """Return which segments advertise a window of 0, by the same rule as `zero_window_segments`."""
    segments = capture.tables.segments
    closed: Mask = (segments["window"] == 0) & ((segments["flags"] & _OPENS) == 0)
    return closed


def _receivers_capture(diagnosis: Diagnosis) -> Capture | None:
    place = diagnosis.transfer.at_receiver
    return None if place is None else place.capture


class CapturedPacket(NamedTuple):
    """One packet of a capture file."""

    time_ns: int
    """Time on the common clock if the clocks are related; otherwise on the clock of the capture point."""
    packet: bytes
    original_bytes: int
    link_type: int
    file: int
    """Index into the files of the capture point."""
    frame: int
    """Frame number in the file, from 1."""


@dataclass(frozen=True)
class Selection:
    """A selection of packets.

    Parameters
    ----------
    bounds_ns : (int or None, int or None)
        Begin and end by the time stamps of the captures, the end not included; None: unbounded.
    connections : dict of int to list of int, optional
        Connections (from 1) by the index of the capture point; by default all packets.
    """

    bounds_ns: Bounds = (None, None)
    connections: dict[int, list[int]] | None = None

    @property
    def is_all(self) -> bool:
        """Whether the selection contains all packets."""
        return self.bounds_ns == (None, None) and self.connections is None

    def frames(self, place: int, capture: Capture) -> list[Array] | None:
        """Return the frame numbers of the connections for each file, in ascending order; None: all frames."""
        if self.connections is None:
            return None
        numbers = self.connections.get(place, [])
        rows = [capture.analysis.partition.rows_of(number - 1) for number in numbers]
        chosen = np.concatenate([np.zeros(0, np.int64), *rows]).astype(np.int64)
        file, frame = (capture.tables.segments[column][chosen] for column in ("file", "frame"))
        return [np.unique(frame[file == index]) for index in range(len(capture.tables.files))]


@dataclass
class PointRecords:
    """One capture point, for reading its records.

    Parameters
    ----------
    capture : Capture
    place : int
        Index of the capture point.
    clock : str
        Text on the conversion of the times to the common clock; "" if they are unchanged.
    path : ClockPath
        Clock relations for the conversion.
    left_out : int
        Number of packets whose time pcapng cannot represent; counted while packets are read.
    """

    capture: Capture
    place: int
    clock: str = ""
    path: ClockPath = ()
    left_out: int = 0

    def records(self, selection: Selection) -> Iterator[CapturedPacket]:
        """Yield the selected records in the order of the files."""
        frames = selection.frames(self.place, self.capture)
        for index, file in enumerate(self.capture.tables.files):
            yield from self._of_file(index, file, selection, None if frames is None else frames[index])

    def _of_file(
        self, index: int, file: SourceFile, selection: Selection, frames: Array | None
    ) -> Iterator[CapturedPacket]:
        before = 0
        for batch in parsers.read_records(file.path):
            records = batch.first(min(len(batch), file.packets - before))
            if not len(records):
                return
            numbers = np.arange(before + 1, before + 1 + len(records))
            kept = _chosen(records.time_ns, numbers, selection.bounds_ns, frames)
            time_ns = along(self.path, records.time_ns).time_ns
            timed = (time_ns != NOT_A_TIME) & (time_ns >= 0)
            self.left_out += int(np.count_nonzero(kept & ~timed))
            link = np.broadcast_to(np.asarray(records.link_type), (len(records),))
            for i in np.flatnonzero(kept & timed).tolist():
                begin = int(records.start[i])
                packet = records.data[begin : begin + int(records.captured[i])].tobytes()
                yield CapturedPacket(
                    *(int(time_ns[i]), packet, int(records.original[i]), int(link[i]), index), before + i + 1
                )
            before += len(records)


def sources(recording: Recording) -> list[PointRecords]:
    """Return the capture points of a recording, with times on one clock if the clocks are related.

    Raises
    ------
    InputError
        If there is no capture, or one that can be read only once.
    """
    if not recording.captures:
        raise InputError(
            f"{recording.name}: this recording contains no capture; name a capture, or a session with a capture"
        )
    for capture in recording.captures:
        for file in capture.tables.files:
            if file.path == STANDARD_INPUT or not Path(file.path).is_file():
                raise InputError(
                    f"{portable(file.path)}: this input must be read twice, which is not "
                    "possible with a pipe; write the capture to a file first"
                )
    captured = [PointRecords(capture, place) for place, capture in enumerate(recording.captures)]
    for source in captured:
        _put_on_one_clock(recording, source)
    return captured


def in_order(captured: list[PointRecords], selection: Selection) -> Iterator[tuple[PointRecords, CapturedPacket]]:
    """Yield the records of all capture points by time; records of one point stay in file order."""
    if len(captured) == 1:
        yield from ((captured[0], record) for record in captured[0].records(selection))
        return
    for _, _, source, record in heapq.merge(
        *(_keyed(source, selection) for source in captured), key=lambda each: each[:2]
    ):
        yield source, record


def _keyed(source: PointRecords, selection: Selection) -> Iterator[tuple[int, int, PointRecords, CapturedPacket]]:
    """Yield records with a sort key, the latest time so far: backward steps do not change the order."""
    latest = 0
    for record in source.records(selection):
        latest = max(latest, record.time_ns)
        yield latest, source.place, source, record


def _chosen(time_ns: Times, numbers: Array, bounds_ns: Bounds, frames: Array | None) -> Mask:
    begin, end = bounds_ns
    chosen = np.ones(len(time_ns), dtype=bool)
    if begin is not None:
        chosen &= time_ns >= begin
    if end is not None:
        chosen &= time_ns < end
    if frames is not None:
        chosen &= np.isin(numbers, frames, assume_unique=True)
    return chosen


def _put_on_one_clock(recording: Recording, source: PointRecords) -> None:
    """Convert the times of a capture point to the reference clock, if all of them can be converted."""
    clocks, stamps = recording.clocks, source.capture.tables.segments["time_ns"]
    stamps = stamps[stamps != NOT_A_TIME]
    if clocks is None or not len(stamps):
        return
    own, there = clocks.of_point(source.capture.point.name), clocks.reference
    try:
        path = clocks.path_along(stamps, own, there)
    except ClockError as error:
        recording.warn_once(f"{error}; its times in the file are those of its own clock")
        return
    if path:
        bound = float(np.median(along(path, stamps).bound_ns))
        source.path = path
        source.clock = accuracy(path, source=own.host, target=there.host, bound_ns=bound)


_LONGEST_COMMENT = 8_000
"""Maximum characters of a comment, with at most four bytes each: a pcapng option has at most 65,535 bytes."""
_ALL = Selection()


def write_pcapng(
    stream: BinaryIO,
    recording: Recording,
    diagnosis: Diagnosis | None,
    *,
    selection: Selection = _ALL,
    snap_bytes: int | None = None,
) -> None:
    """Write the records of all capture points with comments.

    Parameters
    ----------
    stream : binary file
    recording : Recording
        A recording with a capture; its files are read again.
    diagnosis : Diagnosis, optional
        Diagnosis for the comment of the section, and for the incidents of packets.
    selection : Selection
        Packets to write.
    snap_bytes : int, optional
        Maximum number of bytes of each packet to write; by default all bytes.

    Raises
    ------
    InputError
        If there is no capture, or one that can be read only once.
    """
    captured = sources(recording)
    names = _file_names(captured, keeps_numbers=selection.is_all)
    points = [
        _Point(source, Remarks.of(recording, source.capture, diagnosis, each))
        for source, each in zip(captured, names, strict=True)
    ]
    stream.write(section_header(application=f"MultiTracer {__version__}", comment=_answer(recording, diagnosis)))
    interfaces: dict[tuple[int, int], int] = {}
    for source, record in in_order(captured, selection):
        key = source.place, record.link_type
        if key not in interfaces:
            interfaces[key] = len(interfaces)
            stream.write(_interface(source, record.link_type, snap_bytes))
        packet = record.packet if snap_bytes is None else record.packet[:snap_bytes]
        stream.write(
            packet_block(
                packet,
                time_ns=record.time_ns,
                interface=interfaces[key],
                comment=points[source.place].comment(record),
                original_bytes=record.original_bytes,
            )
        )
    _end(stream, recording, captured, interfaces)


@dataclass
class _Point:
    """The comments on the packets of one capture point, file by file."""

    source: PointRecords
    remarks: Remarks
    _file: int = -1
    _rows: dict[int, list[int]] = field(default_factory=dict)
    """Rows of segments with a comment, by frame number of the current file."""
    _earlier: dict[int, list[str]] = field(default_factory=dict)
    """Comments that the file already contains, by frame number of the current file."""

    def comment(self, record: CapturedPacket) -> str:
        """Return the comment on a packet; "" if there is none."""
        if record.file != self._file:
            self._open(record.file)
        lines = [printable(text) for text in self._earlier.get(record.frame, ())]
        lines += filter(None, map(self.remarks.text, self._rows.get(record.frame, ())))
        if lines and self.remarks.names[record.file]:
            lines.append(self.remarks.frame(record.file, record.frame))
        return "\n".join(lines)[:_LONGEST_COMMENT]

    def _open(self, index: int) -> None:
        capture = self.source.capture
        file, rows = capture.tables.segments["file"], self.remarks.rows
        rows = rows[file[rows] == index]
        self._file, self._rows, self._earlier = index, {}, {}
        for frame, row in zip(capture.tables.segments["frame"][rows].tolist(), rows.tolist(), strict=True):
            self._rows.setdefault(frame, []).append(row)
        for packet, text in capture.tables.files[index].comments:
            if packet is not None:
                self._earlier.setdefault(packet, []).append(text)


def _file_names(captured: list[PointRecords], *, keeps_numbers: bool) -> list[list[str]]:
    """Return the file names of each capture point; "" for a file whose frame numbers do not change."""
    if keeps_numbers and len(captured) == 1 and len(captured[0].capture.tables.files) == 1:
        return [[""]]
    return [_names_of(source, is_alone=len(captured) == 1) for source in captured]


def _names_of(source: PointRecords, *, is_alone: bool) -> list[str]:
    files, point = source.capture.tables.files, file_name(source.capture.point.name)
    if len(files) == 1:
        return [point]
    return [file_name(file.path) if is_alone else f"{point}/{file_name(file.path)}" for file in files]


def _answer(recording: Recording, diagnosis: Diagnosis | None) -> str:
    lines = [f"What MultiTracer {__version__} says of {short_name(recording.name)}:"]
    lines += ["It holds no connection that can be explained."] if diagnosis is None else answer(diagnosis)
    return "\n".join(lines)[:_LONGEST_COMMENT]


def _interface(source: PointRecords, link_type: int, snap_bytes: int | None) -> bytes:
    files = source.capture.tables.files
    if link_type > LARGEST_LINK_TYPE:
        raise InputError(
            f"{source.capture.tables.files[0].path}: the link type {link_type} of this file does not exist, and "
            f"pcapng cannot hold it (at most {LARGEST_LINK_TYPE:,}); correct the header of the file"
        )
    names = ", ".join(file_name(file.path) for file in files[:3])
    more = f" and {len(files) - 3:,} more" if len(files) > 3 else ""
    clock = f"; {source.clock}" if source.clock else ""
    return interface_block(
        link_type=link_type,
        name=file_name(source.capture.point.name),
        description=printable(f"{names}{more}{clock}")[:_LONGEST_COMMENT],
        snap_bytes=snap_bytes or 0,
    )


def _end(
    stream: BinaryIO, recording: Recording, captured: list[PointRecords], interfaces: dict[tuple[int, int], int]
) -> None:
    """Write the number of packets that capture programs dropped, and warn about records that were omitted."""
    for source in captured:
        capture = source.capture.tables
        known = [each.dropped_packets for file in capture.files for each in file.interfaces]
        dropped = [number for number in known if number is not None]
        numbers = [number for (place, _), number in interfaces.items() if place == source.place]
        last = max((file.last_ns for file in capture.files if file.last_ns is not None), default=0)
        if dropped and numbers and last >= 0:
            received = sum(file.packets for file in capture.files) + sum(dropped)
            stream.write(statistics_block(time_ns=last, interface=numbers[0], received=received, dropped=sum(dropped)))
        if source.left_out:
            recording.warn_once(
                f"{source.capture.point.name}: {count(source.left_out, 'packet')} left out: no time that "
                "pcapng can hold"
            )
