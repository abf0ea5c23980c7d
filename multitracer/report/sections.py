"""The first and the last sections of a report: how far to trust the capture, where numbers come from.

First what happened, in a sentence. Last the files, clocks, what was not decoded and why, program, command;
whatever a capture says of itself may be of any length and number: a page shows the beginning.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.analysis.series.rtt import Provenance
from multitracer.report.markup import Markup, element, fold
from multitracer.report.sentence import NOTHING, goodput, sentence
from multitracer.schemas.tcp import GoodputBy, RoundTrips
from multitracer.words import count, duration, moment, printable, rate, share, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from multitracer.captured import CaptureInterface, SourceFile
    from multitracer.logs import HostLog
    from multitracer.recording.part import PointCapture
    from multitracer.recording.recording import Recording
    from multitracer.report.connection_table import Drawn
    from multitracer.tables import Row

_SAYS = {
    "good": "✓ Trust: good. Nothing important contradicts these numbers.",
    "caution": "! Trust: caution. Read the numbers with this in mind.",
    "poor": "✗ Trust: poor. The capture does not support firm conclusions.",
}
_SIGNS = {"good": "✓", "caution": "!", "poor": "✗"}
_NOTES = 50


_FAST = (
    "The link ran {:g} times as fast as a real one. These numbers, and those of the table below, are as they "
    "were recorded; the figure is drawn in the link's own seconds."
)


def trust_line(recording: Recording, *, answer: str = "", is_sure: bool = True) -> Markup:
    """Return how far the captures can be trusted, with every reason; the worst one needs no unfolding.

    Parameters
    ----------
    recording : Recording
    answer : str
        How sure the answer below it is, in words; empty where the page has no answer.
    is_sure : bool
        Whether that answer is more than weak: the sign and the colour of the line are those of the worse one.
    """
    trusts = [(part, part.analysis.trust) for part in recording.parts]
    several, verdict = len(trusts) > 1, recording.trust
    worst_first = sorted(trusts, key=lambda each: each[1].verdict != verdict)
    notes = [
        [f"{printable(part.point.name)}: " if several else "", printable(note.sentence)]
        for part, trust in worst_first
        for note in trust.notes
    ]
    shown = "caution" if verdict == "good" and not is_sure else verdict
    verdicts = f"{_SIGNS[shown]} Trust: numbers {verdict}, {answer}." if answer else _SAYS[verdict]
    says, class_ = element("span", verdicts), f"trust {shown}"
    first = [" ", notes.pop(0)] if verdict != "good" and notes else []
    if not notes:
        return element("p", says, first, class_=class_)
    many = f" {count(len(notes), 'more note' if first else 'note')}"
    return element(
        "details",
        element("summary", says, first, element("span", many, class_="muted")),
        element("ul", [element("li", each) for each in notes[:_NOTES]], more(len(notes) - _NOTES)),
        class_=class_,
        open=verdict == "poor",
    )


def more(number: int) -> Markup | None:
    """Return the list item with the number of entries that are not shown."""
    return element("li", f"and {number:,} more") if number > 0 else None


def summary_section(drawn: Drawn | None, *, connections: int, clock: str = "", speed: float = 1) -> Markup:
    """Return the summary: one sentence, the numbers behind it, how sure the clock is, and its speed."""
    if drawn is None:
        return element("section", element("h2", "Summary"), element("p", NOTHING, class_="lead"))
    which = f"This is connection {drawn.number} of {connections:,}; the table below has all of them."
    return fold(
        "Summary",
        element("p", sentence(drawn), class_="lead"),
        element("dl", _facts(drawn), class_="facts") if drawn.direction["unique_bytes"] else None,
        element("p", _FAST.format(speed), class_="muted clock") if speed != 1 else None,
        element("p", f"Clock: {printable(clock)}.", class_="muted clock") if clock else None,
        element("p", which, class_="muted") if connections > 1 else None,
        note="one connection in numbers",
        id="summary",
    )


def _facts(drawn: Drawn) -> list[Markup]:
    row, speed, again = drawn.direction, goodput(drawn.direction), drawn.direction["retransmitted_segments"]
    window = drawn.opposite["max_window_bytes"]
    return [
        _fact("Delivered once", size(row["unique_bytes"]), _segments(drawn)),
        _fact("Goodput", "unknown" if speed is None else rate(speed), _over(row)),
        *(_at_receiver(row) if drawn.is_at_receiver else [_retransmitted(again, row["data_segments"])]),
        _rtt_fact(drawn),
        _in_flight(drawn, window),
    ]


def _segments(drawn: Drawn) -> str:
    """Return how many data segments there were, every copy counted."""
    verb = "arrived" if drawn.is_at_receiver else "sent"
    copies = ", copies among them" if drawn.direction["retransmitted_segments"] else ""
    return f"{count(drawn.direction['data_segments'], 'data segment')} {verb}{copies}"


def _retransmitted(again: int, segments: int) -> Markup:
    more = f"{share(again, segments)} of them all" if again else "nothing was sent twice"
    return _fact("Retransmitted", count(again, "segment"), more)


def _at_receiver(row: Row) -> list[Markup]:
    """Return what arrived again and what filled holes: a receiver does not see what was lost."""
    twice, filled = row["retransmitted_segments"], row["out_of_order"]
    return [
        _fact("Arrived twice", count(twice, "segment"), f"{share(twice, row['data_segments'])} of them all"),
        _fact("Filled holes", count(filled, "segment"), "resent after a loss, or overtaken on the way"),
    ]


def _in_flight(drawn: Drawn, window: int) -> Markup:
    offered = f"largest window offered {size(window)}"
    if drawn.is_at_receiver:
        return _fact("Most in flight", "not here", f"only its sender knows; {offered}")
    return _fact("Most in flight", size(drawn.direction["max_flight_bytes"]), offered)


def _over(row: Row) -> str:
    by = GoodputBy(row["goodput_by"])
    return f"{by.words}, over {duration(row['goodput_ns'])}" if by.is_known else by.words


def _rtt_fact(drawn: Drawn) -> Markup:
    row, worst = drawn.direction, drawn.worst_rtt
    absent = RoundTrips(row["rtt_absent"])
    if absent or worst is None:
        return _fact("Median RTT", "not here" if absent is RoundTrips.NEAR_RECEIVER else "none", absent.words)
    how = {Provenance.EXACT_ACK: "", Provenance.TIMESTAMP: " (by timestamp)", Provenance.SACK: " (by SACK)"}
    spread = (
        f"95 % below {duration(row['rtt_p95_ns'])}, worst {duration(worst.rtt_ns)}{how[worst.provenance]}"
    )
    return _fact("Median RTT", duration(row["rtt_p50_ns"]), spread)


def _fact(name: str, value: str, more: str) -> Markup:
    return element("div", element("dt", name), element("dd", value, element("small", more)))


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


def _file_facts(part: PointCapture, file: SourceFile, hashes: dict[str, str]) -> list[tuple[str, str]]:
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


def _log_facts(log: HostLog, hashes: dict[str, str]) -> list[tuple[str, str]]:
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


def _interface(interface: CaptureInterface) -> str:
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
