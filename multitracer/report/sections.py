"""The first and the last sections of a report: quality of the captures, summary, and provenance.

The first section is a sentence that summarizes the report. The last section lists files, clocks, data that
was not decoded, program and command. Texts from a capture can be long or numerous: the page truncates them.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.analysis.not_tcp import tunnel_words
from multitracer.analysis.series.rtt import Provenance
from multitracer.recording.application import counted_streams, pings_of, shown_loss
from multitracer.report.markup import Markup, element, fold, with_code
from multitracer.schemas.tcp import GoodputBy, RoundTrips
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, moment, printable, rate, share, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.captured import SourceFile
    from multitracer.recording.application import Counted
    from multitracer.recording.recording import Recording
    from multitracer.report.connection_table import Drawn
    from multitracer.report.markup import Markup

    _Facts = list[tuple[str, str | Sequence[str]]]
    """Table rows: a name, and a value or several lines."""

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
    """Return the line on the quality of the captures, with all reasons; the worst reason is always visible.

    Parameters
    ----------
    recording : Recording
    answer : str
        Text on the confidence of the result below the line; "" if the page has no result.
    is_sure : bool
        Whether the confidence of the result is better than weak. Symbol and colour of the line show the worse
        of quality and confidence.
    """
    trusts = [(capture, capture.analysis.trust) for capture in recording.captures]
    several, verdict = len(trusts) > 1, recording.trust
    worst_first = sorted(trusts, key=lambda each: each[1].verdict != verdict)
    notes = [
        [f"{printable(capture.point.name)}: " if several else "", printable(note.sentence)]
        for capture, trust in worst_first
        for note in trust.notes
    ]
    shown = "caution" if verdict == "good" and not is_sure else verdict
    verdicts = f"{_SIGNS[shown]} Trust: numbers {verdict}, {answer}." if answer else _SAYS[verdict]
    if not any(len(capture.analysis.connections) for capture, _ in trusts):
        verdicts = f"{_SIGNS[verdict]} Trust: {verdict}."  # there are no numbers; the first note says why
    says, class_ = element("span", verdicts), f"trust {shown}"
    first = [" ", notes.pop(0)] if verdict != "good" and notes else []
    if not notes:
        return element("p", says, first, class_=class_)
    many = f" {count(len(notes), 'more note' if first else 'note')}"
    rest = element("li", f"and {len(notes) - _NOTES:,} more") if len(notes) > _NOTES else None
    return element(
        "details",
        element("summary", says, first, element("span", many, class_="muted")),
        element("ul", [element("li", each) for each in notes[:_NOTES]], rest),
        class_=class_,
        open=verdict == "poor",
    )


def summary_section(drawn: Drawn | None, *, connections: int, clock: str = "", speed: float = 1) -> Markup:
    """Return the summary: one sentence, its numbers, and the accuracy and speed of the clock."""
    if drawn is None:
        return element("section", element("h2", "Summary"), element("p", NOTHING, class_="lead"), element("p", _HELP))
    row, worst, rate_bps, by = drawn.direction, drawn.worst_rtt, drawn.goodput_bps, drawn.goodput_by
    segments, again = row["data_segments"], row["retransmitted_segments"]
    copies, of_all = ", copies among them" if again else "", f"{share(again, segments)} of them all"
    over = f", over {duration(row['goodput_ns'])}" if by.is_known else ""
    absent = RoundTrips(row["rtt_absent"])
    if absent or worst is None:
        round_trip = "not here" if absent is RoundTrips.NEAR_RECEIVER else "none", absent.words
    else:
        others = {Provenance.TIMESTAMP: " (by timestamp)", Provenance.SACK: " (by SACK)"}
        longest = f"worst {duration(worst.rtt_ns)}{others.get(worst.provenance, '')}"
        round_trip = duration(row["rtt_p50_ns"]), f"95th percentile {duration(row['rtt_p95_ns'])}, {longest}"
    offered = f"largest advertised window {size(drawn.opposite['max_window_bytes'])}"
    if drawn.is_at_receiver:  # it does not see what was lost, nor what was in flight
        verb, filled = "arrived", count(row["out_of_order"], "segment")
        twice = [
            ("Arrived twice", count(again, "segment"), of_all),
            ("Filled holes", filled, "retransmitted after a loss, or reordered on the way"),
        ]
        in_flight = "not here", f"known only at the sender; {offered}"
    else:
        verb, of_sent = "sent", of_all if again else "nothing was sent twice"
        twice = [("Retransmitted", count(again, "segment"), of_sent)]
        in_flight = size(row["max_flight_bytes"]), offered
    numbers = [
        ("Delivered once", size(row["unique_bytes"]), f"{count(segments, 'data segment')} {verb}{copies}"),
        ("Goodput", "unknown" if rate_bps is None else rate(rate_bps), f"{by.words}{over}"),
        *twice,
        ("Median RTT", *round_trip),
        ("Maximum in flight", *in_flight),
    ]
    facts = [
        element("div", element("dt", name), element("dd", value, element("small", more)))
        for name, value, more in (numbers if row["unique_bytes"] else [])
    ]
    which = f"Its number in the table below, which has all of them, is {drawn.number}."
    return fold(
        "Summary",
        element("p", sentence(drawn), class_="lead"),
        element("dl", facts, class_="facts") if facts else None,
        element("p", _FAST.format(speed), class_="muted clock") if speed != 1 else None,
        element("p", f"Clock: {printable(clock)}.", class_="muted clock") if clock else None,
        element("p", which, class_="muted") if connections > 1 else None,
        note="one connection in numbers",
        id="summary",
    )


NOTHING = "There is no TCP connection in this capture."
_HELP = (
    "To see why a transfer was slow, capture its TCP packets in both directions, from before it begins, "
    "at the sender if possible."
)


def sentence(drawn: Drawn) -> str:
    """Return a sentence on one direction: sender, receiver, bytes, goodput, retransmissions and RTT."""
    row, worst, speed = drawn.direction, drawn.worst_rtt, drawn.goodput_bps
    unique, again, filled = row["unique_bytes"], row["retransmitted_bytes"], row["out_of_order"]
    sender, receiver = drawn.ends
    if not unique:
        return f"{sender} sent no data to {receiver} that this capture holds."
    took = ""
    if speed is not None:
        took = f" in {duration(row['goodput_ns'])} ({rate(speed)} {GoodputBy(row['goodput_by']).words})"
    elif row["goodput_by"] == GoodputBy.ONE_MOMENT or row["data_segments"] == 1:
        took = " in a single moment"
    if row["capture_duplicates"]:
        twice = "many packets were captured twice, so retransmissions are not counted"
    elif drawn.is_at_receiver:
        holes = f", {count(filled, 'segment')} behind later ones" if filled else ""
        twice = f"{f'{share(again, unique)} of it' if again else 'none of it'} arrived twice{holes}"
    else:
        twice = f"{share(again, unique)} of it sent more than once" if again else "none of it sent more than once"
    if row["rtt_absent"] == RoundTrips.NEAR_RECEIVER:
        delay = "RTT not measurable here, near the receiver"
    elif worst is None:
        delay = "no RTT sample"
    else:
        median = f"median RTT {duration(row['rtt_p50_ns'])}, " if row["rtt_count"] else "RTT "
        delay = f"{median}worst {duration(worst.rtt_ns)} at {worst.at_s:,.1f} s"
    return f"{sender} sent {size(unique)} to {receiver}{took}; {twice}; {delay}."


_FILES, _LINES, _LETTERS = 50, 20, 1000
_HASHED_BYTES = 256 << 20
"""Maximum total size of the files that are hashed; hashing more would take longer than reading."""


def provenance_section(recording: Recording, *, command: str) -> Markup:
    """Return the section on provenance, with the SHA-256 of the first input files, up to 256 MB in total.

    Parameters
    ----------
    recording : Recording
    command : str
        The command line; "" if the section shall not show it.
    """
    hashes: dict[str, str] = {}
    left = _HASHED_BYTES
    captured = [file.path for capture in recording.captures for file in capture.tables.files]
    for path in map(Path, (*captured, *(log.path for log in recording.inputs.listed))):
        with suppress(OSError):  # gone since it was read
            if path.is_file() and path.stat().st_size <= left:
                left -= path.stat().st_size
                with path.open("rb") as stream:
                    hashes[str(path)] = hashlib.file_digest(stream, "sha256").hexdigest()
    listed = [
        _file_facts(capture.point.name, f, hashes) for capture in recording.captures for f in capture.tables.files
    ]
    for log in recording.inputs.listed:
        host = log.host if log.host != log.path else ""
        about = f"{log.format}, layer {log.layer}"
        listed.append(
            [("Log", log.path), ("Host", host), ("Format", about), ("SHA-256", hashes.get(str(Path(log.path)), ""))]
        )
    made: _Facts = [("Program", f"MultiTracer {__version__}"), ("Command", command), ("Note", recording.notes)]
    tables = []
    for facts in [*listed[:_FILES], made]:
        rows = []
        for name, value in facts:  # of several lines the first ones; a capture may hold any number of them
            lines = [value] if isinstance(value, str) else list(value[:_LINES])
            lines += ["and more"] if not isinstance(value, str) and len(value) > _LINES else []
            for line in filter(None, lines):
                rest = f"… and {len(line) - _LETTERS:,} characters more" if len(line) > _LETTERS else ""
                words = printable(line[:_LETTERS] + rest)
                cell = element("td", with_code(words) if name == "Note" else words)
                rows.append(element("tr", element("th", name, scope="row"), cell))
        tables.append(element("table", element("tbody", rows), class_="plain"))
    return fold(
        "Where this comes from",
        tables[:-1],
        element("p", f"and {count(len(listed) - _FILES, 'more file')}") if len(listed) > _FILES else None,
        tables[-1],
        note="files, clocks, program, command",
        id="provenance",
        class_="long",
    )


def _file_facts(point: str, file: SourceFile, hashes: dict[str, str]) -> _Facts:
    """Return table rows about a file: packets, times, clock, capture point and capture program.

    `hashes` are the SHA-256 sums by path.
    """
    span = None if file.first_ns is None or file.last_ns is None else file.last_ns - file.first_ns
    during = f"{moment(file.first_ns)} to {moment(file.last_ns)} ({duration(span)})"
    finest = min((i.resolution_ns for i in file.interfaces), default=None)
    clock = [] if finest is None else [f"resolution {duration(finest)}"]
    clock += [f"{count(file.without_time, 'packet')} without a time"] if file.without_time else []
    if file.time_steps_back:
        steps = count(file.time_steps_back, "step")
        clock.append(f"{steps} backwards, the largest {duration(file.largest_step_back_ns)}")
    else:
        clock.append("never steps backwards")
    interfaces = []
    for each in file.interfaces[: _LINES + 1]:
        about = [each.name, each.description, f"link type {each.link_type}"]
        about += [f"first {each.snap_length:,} bytes of each packet"] if each.snap_length else []
        about += [f"filter {each.filter}"] if each.filter else []
        about += [f"{count(each.dropped_packets, 'packet')} dropped"] if each.dropped_packets else []
        interfaces.append(", ".join(filter(None, about)))
    counts = []
    for counted in (file.protocols, file.not_decoded):
        ordered = sorted(counted.items(), key=lambda item: -item[1])
        words = [f"{name}: {count(number, 'packet')}" for name, number in ordered[:_LINES]]
        counts.append(", ".join(words + ["and more"] * (len(ordered) > _LINES)))
    return [
        ("File", file.path),
        ("Captured at", point if point != file.path else ""),
        ("Format", ", ".join(filter(None, (file.format, file.variant, file.compression)))),
        ("Packets", f"{count(file.packets, 'packet')} in {size(file.bytes)}"),
        ("Time", "" if span is None else during),
        ("Clock", ", ".join(clock)),
        ("Contains", counts[0]),
        ("Not decoded", counts[1]),
        ("Frames", file.guessed_link),
        ("Tunnels", [tunnel_words(name, tunnel) for name, tunnel in file.tunnels.items()]),
        ("Damaged", file.damaged or ""),
        ("Interface", interfaces),
        ("Captured by", ", ".join(filter(None, (file.application, file.operating_system, file.hardware)))),
        ("Comment", [t if n is None else f"packet {n}: {t}" for n, t in file.comments[: _LINES + 1]]),
        ("Warning", file.warnings),
        ("SHA-256", hashes.get(str(Path(file.path)), "")),
    ]


# The section on load programs (iperf3, speed tests): what each stream carried and lost.


_MOST = 100
_HEADS = ("Stream", "Path", "At the sender", "At the receiver", "Rate", "Retransmitted", "Lost", "Jitter")
_TEXTS = 2
"""Number of columns that hold text."""


def load_section(recording: Recording) -> Markup | None:
    """Return the table of the streams of load programs; None if no log counts any."""
    streams = list(dict.fromkeys(each._replace(connection=None, point="", captured_bytes=None)
                                 for each in counted_streams(recording)))  # fmt: skip
    pings = pings_of(recording)
    if not streams and not pings:
        return None
    heads = [element("th", head, scope="col", class_=_class(n)) for n, head in enumerate(_HEADS)]
    rows = [
        element("tr", [element("td", printable(cell), class_=_class(n)) for n, cell in enumerate(_cells(each))])
        for each in streams[:_MOST]
    ]
    left = len(streams) - len(rows)
    return element(
        "section",
        element("h2", "What the load programs counted"),
        element("table", element("thead", element("tr", heads)), element("tbody", rows)) if rows else None,
        element("p", f"and {left:,} more") if left else None,
        [element("p", printable(sentence)) for sentence in pings],
        class_="long",
    )


def _class(column: int) -> str | None:
    return None if column < _TEXTS else "number"


def _cells(each: Counted) -> tuple[str, ...]:
    rate_bps = each.receiver_rate_bps if each.receiver_rate_bps is not None else each.sender_rate_bps
    numbers = (each.sender_bytes, each.receiver_bytes)
    return (
        each.title,
        f"{each.sender} -> {each.receiver}" if each.sender and each.receiver else each.direction,
        *("-" if number is None else f"{number:,} bytes" for number in numbers),
        "-" if rate_bps is None else rate(rate_bps),
        "-" if each.retransmitted is None else count(each.retransmitted, "segment"),
        shown_loss(each) or "-",
        "-" if each.jitter_s is None else duration(round(each.jitter_s * NS_PER_S)),
    )
