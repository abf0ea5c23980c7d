"""Writes the pcapng: a section with the answer, an interface for each capture point, records with remarks.

Source: draft-ietf-opsawg-pcapng. Stamps are nanoseconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.export.explained import answer, file_name, name
from multitracer.export.wireshark.records import Selection, in_order, sources
from multitracer.export.wireshark.remarks import Remarks
from multitracer.protocols.pcap_file import interface_block, packet_block, section_header, statistics_block
from multitracer.words import count, printable

if TYPE_CHECKING:
    from typing import BinaryIO

    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.export.wireshark.records import Record, Source
    from multitracer.recording.recording import Recording

_LONGEST_COMMENT = 8_000
"""Characters, at most four bytes each: an option of pcapng holds 65,535 bytes."""
_ALL = Selection()


def write_pcapng(
    stream: BinaryIO,
    recording: Recording,
    diagnosis: Diagnosis | None,
    *,
    selection: Selection = _ALL,
    snap_bytes: int | None = None,
) -> None:
    """Write the records of all capture points with remarks on them.

    Parameters
    ----------
    stream : binary file
    recording : Recording
        With a capture; its files are read again.
    diagnosis : Diagnosis, optional
        What the section's comment says, and whose incidents the packets name.
    selection : Selection
        Which packets.
    snap_bytes : int, optional
        Keep so many bytes of each packet; all by default.

    Raises
    ------
    InputError
        If there is no capture, or one that can be read only once.
    """
    captured = sources(recording)
    names = _file_names(captured, keeps_numbers=selection.is_all)
    points = [
        _Point(source, Remarks.of(recording, source.part, diagnosis, each))
        for source, each in zip(captured, names, strict=True)
    ]
    stream.write(
        section_header(application=f"MultiTracer {__version__}", comment=_answer(recording, diagnosis))
    )
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

    source: Source
    remarks: Remarks
    _file: int = -1
    _rows: dict[int, list[int]] = field(default_factory=dict)
    """Frame of the present file -> rows of its segments of which something is said."""
    _earlier: dict[int, list[str]] = field(default_factory=dict)
    """Frame of the present file -> the comments that it had before."""

    def comment(self, record: Record) -> str:
        """Return the comment on a packet; empty if there is nothing to say."""
        if record.file != self._file:
            self._open(record.file)
        lines = [printable(text) for text in self._earlier.get(record.frame, ())]
        lines += filter(None, map(self.remarks.text, self._rows.get(record.frame, ())))
        if lines and self.remarks.names[record.file]:
            lines.append(self.remarks.frame(record.file, record.frame))
        return "\n".join(lines)[:_LONGEST_COMMENT]

    def _open(self, index: int) -> None:
        part = self.source.part
        file, rows = part.capture.segments["file"], self.remarks.rows
        rows = rows[file[rows] == index]
        self._file, self._rows, self._earlier = index, {}, {}
        for frame, row in zip(part.capture.segments["frame"][rows].tolist(), rows.tolist(), strict=True):
            self._rows.setdefault(frame, []).append(row)
        for packet, text in part.capture.files[index].comments:
            if packet is not None:
                self._earlier.setdefault(packet, []).append(text)


def _file_names(captured: list[Source], *, keeps_numbers: bool) -> list[list[str]]:
    """Return, of each capture point, what its files are called; one that keeps its numbers needs no name."""
    if keeps_numbers and len(captured) == 1 and len(captured[0].part.capture.files) == 1:
        return [[""]]
    return [_names_of(source, is_alone=len(captured) == 1) for source in captured]


def _names_of(source: Source, *, is_alone: bool) -> list[str]:
    files, point = source.part.capture.files, file_name(source.part.point.name)
    if len(files) == 1:
        return [point]
    return [file_name(file.path) if is_alone else f"{point}/{file_name(file.path)}" for file in files]


def _answer(recording: Recording, diagnosis: Diagnosis | None) -> str:
    lines = [f"What MultiTracer {__version__} says of {name(recording.name)}:"]
    lines += ["It holds no connection that can be explained."] if diagnosis is None else answer(diagnosis)
    return "\n".join(lines)[:_LONGEST_COMMENT]


def _interface(source: Source, link_type: int, snap_bytes: int | None) -> bytes:
    files = source.part.capture.files
    names = ", ".join(file_name(file.path) for file in files[:3])
    more = f" and {len(files) - 3:,} more" if len(files) > 3 else ""
    clock = f"; {source.clock}" if source.clock else ""
    return interface_block(
        link_type=link_type,
        name=file_name(source.part.point.name),
        description=printable(f"{names}{more}{clock}")[:_LONGEST_COMMENT],
        snap_bytes=snap_bytes or 0,
    )


def _end(
    stream: BinaryIO, recording: Recording, captured: list[Source], interfaces: dict[tuple[int, int], int]
) -> None:
    """Write how many packets the capture programs dropped; note what was left out."""
    for source in captured:
        capture = source.part.capture
        known = [each.dropped_packets for file in capture.files for each in file.interfaces]
        dropped = [number for number in known if number is not None]
        numbers = [number for (place, _), number in interfaces.items() if place == source.place]
        last = max((file.last_ns for file in capture.files if file.last_ns is not None), default=0)
        if dropped and numbers and last >= 0:
            received = sum(file.packets for file in capture.files) + sum(dropped)
            stream.write(
                statistics_block(time_ns=last, interface=numbers[0], received=received, dropped=sum(dropped))
            )
        if source.left_out:
            recording.warn_once(
                f"{source.part.point.name}: {count(source.left_out, 'packet')} left out: no time that pcapng "
                "can hold"
            )
