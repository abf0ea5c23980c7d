"""Where the numbers of a report come from: files, clocks, what was not decoded and why, program, command.

Whatever a capture says of itself may be of any length and number; a page shows the beginning.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.report.markup import Markup, element, fold
from multitracer.words import count, duration, moment, printable, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from multitracer.captured import Interface, SourceFile
    from multitracer.logs import Log
    from multitracer.recording.part import Part
    from multitracer.recording.recording import Recording

_FILES, _LINES, _LETTERS = 50, 20, 1000
_HASHED_BYTES = 256 << 20


def provenance_section(recording: Recording, *, command: str) -> Markup:
    """Return the section.

    Parameters
    ----------
    recording : Recording
    command : str
        As the user gave it; "" leaves it out.
    """
    hashes = digests(recording)
    listed: list[list[tuple[str, str]]] = [
        _file_facts(part, file, hashes) for part in recording.parts for file in part.capture.files
    ]
    listed += [_log_facts(log, hashes) for log in recording.inputs.listed]
    files = [element("table", element("tbody", _rows(facts)), class_="plain") for facts in listed[:_FILES]]
    made = [
        ("Program", f"MultiTracer {__version__}"),
        ("Command", command),
        *_some("Note", recording.notes),
    ]
    return fold(
        "Where this comes from",
        files,
        element("p", f"and {count(len(listed) - _FILES, 'more file')}") if len(listed) > _FILES else None,
        element("table", element("tbody", _rows(made)), class_="plain"),
        note="files, clocks, program, command",
        id="provenance",
        class_="long",
    )


def _rows(facts: Iterable[tuple[str, str]]) -> list[Markup]:
    return [
        element("tr", element("th", name, scope="row"), element("td", printable(_short(value))))
        for name, value in facts
        if value
    ]


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}… and {len(text) - _LETTERS:,} letters more"


def _file_facts(part: Part, file: SourceFile, hashes: dict[str, str]) -> list[tuple[str, str]]:
    span = None if file.first_ns is None or file.last_ns is None else file.last_ns - file.first_ns
    return [
        ("File", file.path),
        ("Captured at", part.point.name if part.point.name != file.path else ""),
        ("Format", ", ".join(filter(None, (file.format, file.variant, file.compression)))),
        ("Packets", f"{count(file.packets, 'packet')} in {size(file.bytes)}"),
        (
            "Time",
            "" if span is None else f"{moment(file.first_ns)} to {moment(file.last_ns)} ({duration(span)})",
        ),
        ("Clock", _clock(file)),
        ("Contains", _counts(file.protocols)),
        ("Not decoded", _counts(file.not_decoded)),
        ("Damaged", file.damaged or ""),
        *_some("Interface", [_interface(interface) for interface in file.interfaces[: _LINES + 1]]),
        ("Captured by", ", ".join(filter(None, (file.application, file.operating_system, file.hardware)))),
        *_some("Comment", [t if n is None else f"packet {n}: {t}" for n, t in file.comments[: _LINES + 1]]),
        *_some("Warning", file.warnings),
        ("SHA-256", hashes.get(str(Path(file.path)), "")),
    ]


def _log_facts(log: Log, hashes: dict[str, str]) -> list[tuple[str, str]]:
    return [
        ("Log", log.path),
        ("Host", log.host if log.host != log.path else ""),
        ("Format", f"{log.format}, layer {log.layer}"),
        ("SHA-256", hashes.get(str(Path(log.path)), "")),
    ]


def _some(name: str, lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the first lines under a name; a capture may hold any number of them."""
    rest = [(name, "and more")] if len(lines) > _LINES else []
    return [(name, line) for line in lines[:_LINES]] + rest


def _counts(counted: dict[str, int]) -> str:
    ordered = sorted(counted.items(), key=lambda item: -item[1])
    counts = [f"{name}: {count(number, 'packet')}" for name, number in ordered[:_LINES]]
    return ", ".join(counts + ["and more"] * (len(ordered) > _LINES))


def _clock(file: SourceFile) -> str:
    finest = min((i.resolution_ns for i in file.interfaces), default=None)
    facts = [] if finest is None else [f"resolution {duration(finest)}"]
    if file.without_time:
        facts.append(f"{count(file.without_time, 'packet')} without a time")
    if file.time_steps_back:
        steps = count(file.time_steps_back, "step")
        facts.append(f"{steps} backwards, the largest {duration(file.largest_step_back_ns)}")
    else:
        facts.append("never steps backwards")
    return ", ".join(facts)


def _interface(interface: Interface) -> str:
    facts = [interface.name, interface.description, f"link type {interface.link_type}"]
    if interface.snap_length:
        facts.append(f"first {interface.snap_length:,} bytes of each packet")
    if interface.filter:
        facts.append(f"filter {interface.filter}")
    if interface.dropped_packets:
        facts.append(f"{count(interface.dropped_packets, 'packet')} dropped")
    return ", ".join(filter(None, facts))


def digests(recording: Recording) -> dict[str, str]:
    """Return the SHA-256 by path of the inputs that are files, up to 256 MB of them together.

    Evidence is named by its content; of more, hashing would take longer than reading.
    """
    digest_of: dict[str, str] = {}
    left = _HASHED_BYTES
    captures = [file.path for part in recording.parts for file in part.capture.files]
    for path in map(Path, (*captures, *(log.path for log in recording.inputs.listed))):
        with suppress(OSError):  # gone since it was read
            if path.is_file() and path.stat().st_size <= left:
                left -= path.stat().st_size
                with path.open("rb") as stream:
                    digest_of[str(path)] = hashlib.file_digest(stream, "sha256").hexdigest()
    return digest_of
