"""QUIC in the output of `inspect`, `analyze` and `diagnose`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.units import NOT_A_TIME, NS_PER_S
from multitracer.words import count, duration, portable, printable, size

if TYPE_CHECKING:
    from multitracer.cli._output import Page
    from multitracer.cli._reading import ConnectionChoice
    from multitracer.diagnosis.quic import QuicDiagnosis
    from multitracer.recording.quic import QuicPath, QuicRecording
    from multitracer.recording.recording import Recording
    from multitracer.tables import Document

_LISTED = 20
_HEADER = (
    "#",
    "client",
    "server",
    "name",
    "protocol",
    "bytes ->",
    "bytes <-",
    "handshake",
    "RTT p50",
    "took",
    "seen in",
)
_COLUMNS = ("what limited it", "seconds", "share", "confidence")
_SEEN_FROM = {
    "both-ends": "both endpoints, opened by keys",
    "sender-state": "the sender, with the state that its qlog has",
    "sender": "the sender's packets, opened by keys",
    "receiver": "the receiver's packets, opened by keys or in its qlog",
    "both-ends-sealed": "both endpoints, without keys",
    "sealed": "one endpoint, without keys",
}


def quic_in(recording: Recording) -> QuicRecording | None:
    """Return the QUIC connections of a recording that may hold some; None if it has none."""
    from multitracer.recording.quic import may_hold_quic

    if not may_hold_quic(recording):
        return None
    collected = recording.quic
    return collected if collected.paths else None


def chosen_path(recording: Recording, choice: ConnectionChoice | None) -> QuicPath | None:
    """Return the QUIC connection that `diagnose` explains; None if a TCP connection is meant.

    By default, it is explained if a QUIC connection carried more than all TCP connections together.
    """
    collected = quic_in(recording)
    if collected is None:
        return None
    if choice is None:
        path = collected.chosen()
        tcp = sum(int(each.analysis.directions["unique_bytes"].sum()) for each in recording.captures if len(each))
        return path if path is not None and path.largest_bytes > tcp else None
    if choice.number is not None:
        return None if len(recording) else collected.chosen(choice.number)
    if recording.with_endpoint(choice.host, choice.port):
        return None
    wanted = (choice.host, choice.port)
    for path in collected.paths:
        ends = path.ends
        if wanted in ((ends.src, ends.sport), (ends.dst, ends.dport)):
            return path
    return None


def show_quic(sheet: Page, recording: Recording) -> bool:
    """Write a line for each of the largest QUIC connections; return whether there are any."""
    collected = quic_in(recording)
    if collected is None:
        return False
    sheet.line(count(len(collected.paths), "QUIC connection"), bold=True)
    paths = sorted(collected.paths, key=lambda path: -path.largest_bytes)[:_LISTED]
    records = {path.number: _records(collected, path) for path in paths}
    rows = [_cells(path, records[path.number]) for path in paths]
    sheet.table(_HEADER, rows, right=(0, 5, 6, 7, 8, 9), dispensable=(10, 4, 7, 9))
    if len(collected.paths) > len(paths):
        sheet.line(
            f"{len(collected.paths) - len(paths):,} QUIC connections with fewer bytes are not shown; --json lists all"
        )
    absent = dict.fromkeys(row["absent"] for path in paths for row in records[path.number] if row["absent"])
    for reason in absent:
        sheet.line(f"Not read: {reason}.")
    return True


def _records(collected: QuicRecording, path: QuicPath) -> list[Document]:
    return [
        {"host": host, **row} for host, table in collected.connections() for row in table.rows()
        if row["connection"] == path.number
    ]  # fmt: skip


def _cells(path: QuicPath, records: list[Document]) -> tuple[str, ...]:
    first = records[0]
    trips = [_rtt_ns(view.known) for view in path.views if view.is_read]
    return (
        str(path.number),
        path.ends.source if path.ends.sport else "client",
        path.ends.destination if path.ends.dport else "server",
        printable(first["sni"]) or "-",
        printable(first["alpn"]) or "-",
        size(first["forward_bytes"]),
        size(first["reverse_bytes"]),
        duration(first["handshake_ns"]) if first["handshake_ns"] is not None else "-",
        duration(max(trips)) if trips and max(trips) > 0 else "-",
        duration(first["end_ns"] - first["start_ns"]) if first["start_ns"] is not None else "-",
        ", ".join(portable(row["host"]).rpartition("/")[2] for row in records),
    )


def _rtt_ns(known: object) -> float:
    """Return the larger median of both directions' round trips, which the data's sender sees; 0 without one."""
    import numpy as np

    from multitracer.analysis.quic import sent_packets

    medians = []
    for way in (False, True):
        samples = sent_packets(known, reverse=way).rtt_ns  # type: ignore[arg-type]  # a QuicConnection
        samples = samples[samples != NOT_A_TIME]
        medians.append(float(np.median(samples)) if len(samples) else 0.0)
    return max(medians)


def quic_records(recording: Recording) -> list[Document]:
    """Return a record for each QUIC connection at each place, for JSON; missing values are null."""
    collected = quic_in(recording)
    if collected is None:
        return []
    return [
        {"host": portable(host), **{name: value if value != "" else None for name, value in row.items()}}
        for host, table in collected.connections() for row in table.rows()
    ]  # fmt: skip


def show_answer(sheet: Page, recording: Recording, answer: QuicDiagnosis) -> None:
    """Write what limited a QUIC transfer."""
    sheet.line(printable(answer.sentence), bold=True)
    sheet.line(f"What would help: {answer.help}.")
    sheet.line()
    sender, receiver = answer.ends
    collected = recording.quic
    sni = answer.facts.get("sni")
    name = f" ({printable(sni)})" if sni else ""
    of_all = f"{answer.path.number} of {len(collected.paths):,}{name}"
    seen_from = _SEEN_FROM.get(answer.view, answer.view)
    sheet.line(f"QUIC connection {of_all}: {sender} -> {receiver}, seen from {seen_from}")
    rows = [
        (f"{row.limit.label} ({row.part})" if row.part else row.limit.label, f"{row.seconds:.2f}",
         f"{100 * row.share:.1f} %", row.confidence.label) for row in answer.rows
    ]  # fmt: skip
    sheet.table(_COLUMNS, rows, right=(1, 2))
    sheet.line()
    for each in answer.findings:
        begin, end = ((at - answer.begin_ns) / NS_PER_S for at in (each.begin_ns, each.end_ns))
        cost = f", cost {each.cost_s:.1f} s" if each.cost_s >= 0.05 else ""
        sheet.line(f"{each.kind}, {begin:.1f} to {end:.1f} s{cost}")
        sheet.line(f"  {each.sentence}")
        if each.help:
            sheet.line(f"  what would help: {each.help}")
    for sentence in answer.known:
        sheet.line(sentence)
