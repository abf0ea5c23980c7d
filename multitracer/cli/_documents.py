"""Output of `analyze`: JSON and CSV, record by record, and the fairness of a session's flows.

The keys are a contract (docs/analyze.schema.json); docs/analysis.md defines them. Records of connections are
made some thousand at a time, so that a million of them need not be Python objects at once.
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TextIO

from multitracer.analysis.not_tcp import content_records
from multitracer.analysis.tunnels import tunnel_records
from multitracer.schemas.tcp import GoodputBy, Initiator, RoundTrips
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S
from multitracer.words import count, no_formula, portable, rate, share

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from multitracer.captured import SourceFile
    from multitracer.cli._output import Page
    from multitracer.cli._reading import Chosen
    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.tables import Document

SCHEMA = "multitracer.analyze/1"
_NOTHING: Mapping[str, Document] = {}
_CHUNK = 4096
_COUNTS = (
    "packets",
    "data_segments",
    "payload_bytes",
    "unique_bytes",
    "retransmitted_segments",
    "retransmitted_bytes",
    "out_of_order",
    "duplicate_acks",
    "dsack_segments",
    "zero_window_segments",
    "max_flight_bytes",
    "syn",
    "fin",
    "rst",
)
_RTT = ("min", "mean", "p50", "p95", "max")
WAYS = ("forward", "reverse")
DIRECTION_KEYS = (*_COUNTS, "mss", "window_scale")
GOODPUT_KEYS = ("goodput_bps", "goodput_s", "goodput_by")
RTT_KEYS = ("count", *_RTT)
CONNECTION_KEYS = (
    "connection",
    "file",
    "src",
    "dst",
    "sport",
    "dport",
    "start",
    "start_ns",
    "duration_s",
    "syn_seen",
    "initiator_by",
)
_FURTHER = ("rtt_absent", *GOODPUT_KEYS)
_WAY_KEYS = (*DIRECTION_KEYS, *(f"rtt_ms_{key}" for key in RTT_KEYS), *_FURTHER)


def write_json(
    stream: TextIO, recording: Recording, chosen: Chosen, further: Mapping[str, Document] = _NOTHING
) -> None:
    """Write the document that docs/analyze.schema.json describes, a line for each connection.

    `further` are additional members that the user requested; they precede the connections.
    """
    files = [file_record(file) for capture in recording.captures for file in capture.tables.files]
    stream.write(f'{{"schema": {_json(SCHEMA)},\n"files": {_json(files)},\n')
    stream.write(f'"trust": {_json(recording.trust_document())},\n')
    stream.write(f'"wtcp": {_json(_wtcp(recording))},\n')
    related: list[Document] = []
    if any(capture.analysis.directions["mptcp"].any() for capture in recording.captures):
        from multitracer.recording.mptcp import multipath_documents  # few captures hold any

        related = [each for capture in recording.captures for each in multipath_documents(capture)]
    stream.write(f'"multipath": {_json(related)},\n')
    stream.writelines(f"{_json(name)}: {_json(value)},\n" for name, value in further.items())
    stream.write('"connections": [')
    separator = "\n"
    for record in _connections(chosen):
        stream.write(separator + _json(record))
        separator = ",\n"
    stream.write("\n]}\n")


_json = json.JSONEncoder(allow_nan=False).encode


def _wtcp(recording: Recording) -> list[Document]:
    """Return a record for each flow of WTCP; unknown values are null."""
    from multitracer.recording.deliveries import wtcp_flows, wtcp_table

    return list(wtcp_table(wtcp_flows(recording)).rows())


def _connections(chosen: Chosen) -> Iterator[Document]:
    for part, numbers in chosen:
        yield from connection_records(part, numbers)


def write_csv(stream: TextIO, recording: Recording, chosen: Chosen) -> None:
    """Write a header and a line for each connection; a missing value is an empty cell.

    A text that a spreadsheet would take for a formula is written with an apostrophe before it.
    """
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*CONNECTION_KEYS, *(f"{way}_{key}" for way in WAYS for key in _WAY_KEYS)])
    for record in _connections(chosen):
        cells = [record[key] for key in CONNECTION_KEYS]
        for way in WAYS:
            cells += [record[way][key] for key in DIRECTION_KEYS]
            cells += [record[way]["rtt_ms"][key] for key in RTT_KEYS]
            cells += [record[way][key] for key in _FURTHER]
        writer.writerow([no_formula(cell) if isinstance(cell, str) else cell for cell in cells])


def file_record(file: SourceFile) -> Document:
    """Return the record of an input file in the output of `analyze`."""
    return {
        "path": portable(file.path),
        "format": file.format,
        "link_types": sorted(file.link_types),
        "packets": file.packets,
        "first_ns": file.first_ns,
        "last_ns": file.last_ns,
        "damaged": file.damaged,
        "not_decoded": file.not_decoded,
        "tunnels": list(tunnel_records(file)) if file.tunnels else [],
        "contents": list(content_records(file)) if file.contents else [],
        "duplicates": None if file.duplicates is None else asdict(file.duplicates),
    }


def connection_records(capture: Capture, numbers: list[int] | None = None) -> Iterator[Document]:
    """Yield a record for each connection of a capture, or only for those with these numbers."""
    if numbers is not None:
        for n in numbers:
            yield from _records(capture, n - 1, n)
        return
    for begin in range(0, len(capture), _CHUNK):
        yield from _records(capture, begin, min(begin + _CHUNK, len(capture)))


def _records(capture: Capture, begin: int, end: int) -> Iterator[Document]:
    table, directions = capture.analysis.connections, capture.analysis.directions
    names = ("connection", "file", "start_ns", "end_ns", "syn_seen", "initiator_by")
    rows = zip(*(table[name][begin:end].tolist() for name in names), strict=True)
    ways = _directions({n: v[2 * begin : 2 * end].tolist() for n, v in directions.columns.items()})
    paths = [portable(file.path) for file in capture.tables.files]
    for ends, (number, file, start_ns, end_ns, syn_seen, initiator_by) in zip(
        capture.analysis.endpoints(begin, end), rows, strict=True
    ):
        timed = start_ns != NOT_A_TIME
        yield {
            "connection": capture.offset + number,
            "file": paths[file],
            "src": ends.src,
            "dst": ends.dst,
            "sport": ends.sport,
            "dport": ends.dport,
            "start": start_ns / NS_PER_S if timed else None,
            "start_ns": start_ns if timed else None,
            "duration_s": (end_ns - start_ns) / NS_PER_S if timed else None,
            "syn_seen": syn_seen,
            "initiator_by": Initiator(initiator_by).words,
            "forward": next(ways),
            "reverse": next(ways),
        }


def _directions(columns: Mapping[str, list[Any]]) -> Iterator[Document]:
    for i in range(len(columns["packets"])):
        record: Document = {name: columns[name][i] for name in _COUNTS}
        record["mss"] = _known(columns["mss_bytes"][i])
        record["window_scale"] = _known(columns["window_scale"][i])
        samples, absent = columns["rtt_count"][i], RoundTrips(columns["rtt_absent"][i])
        is_known = samples and absent is not RoundTrips.BELOW_GRAIN
        record["rtt_ms"] = {"count": samples} | {
            name: _milliseconds(columns[f"rtt_{name}_ns"][i]) if is_known else None for name in _RTT
        }
        record["rtt_absent"] = absent.words if absent else None
        yield record | _goodput(*(columns[f"goodput_{name}"][i] for name in ("bytes_per_s", "ns", "by")))


def _goodput(bytes_per_s: float, took_ns: int, code: int) -> Document:
    by = GoodputBy(code)
    return {
        "goodput_bps": round(bytes_per_s * BITS_PER_BYTE, 3) if by.is_known else None,
        "goodput_s": took_ns / NS_PER_S if by.is_known else None,
        "goodput_by": by.words,
    }


def _known(value: int) -> int | None:
    return None if value == NA else value


def _milliseconds(duration_ns: float) -> float | None:
    if duration_ns == NOT_A_TIME or math.isnan(duration_ns):
        return None
    return round(duration_ns / NS_PER_MS, 6)


def show_fairness(sheet: Page, recording: Recording) -> None:
    """Write fairness gap and index for the time in which all flows are active, then a line for each flow."""
    from multitracer.recording.fair_shares import fair_shares

    fair = fair_shares(recording)
    for row in fair.fairness.rows():
        even = "" if row["jain"] is None else f": Jain's index {row['jain']:.3f}"
        gap = f"no gap between the transports: {row['reason']}" if row["gap"] is None else f"gap {row['gap']:.2f}"
        sheet.line(f"Fairness of {count(row['flows'], 'flow')}{even}{', ' if even else ': '}{gap}", bold=True)
    rows = [
        (portable(row["flow"]), rate(row["rate_bps"]), "-" if row["share"] is None else share(row["share"], 1))
        for row in fair.shares.rows()
    ]
    if rows:
        sheet.table(("flow", "rate", "share"), rows, right=(1, 2))
    for note in fair.notes:
        sheet.line(portable(note))


def fairness_document(recording: Recording) -> Document:
    """Return the member `fairness` of `analyze --json`; missing values are null."""
    from multitracer.recording.fair_shares import fair_shares

    fair = fair_shares(recording)
    (complete,) = fair.fairness.rows()
    flows = [{name: row[name] for name in ("flow", "rate_bps", "share")} for row in fair.shares.rows()]
    return {**complete, "shares": flows, "notes": [portable(note) for note in fair.notes]}
