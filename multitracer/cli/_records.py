"""Connections as plain Python records: what `analyze` writes as JSON and CSV.

The keys are a contract (docs/analyze.schema.json); docs/analysis.md defines them. Records are made
some thousand at a time, so that a million connections do not have to lie in memory as Python objects.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from multitracer.schemas.tcp import GoodputBy, Initiator, RoundTrips
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S
from multitracer.words import portable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from multitracer.captured import SourceFile
    from multitracer.recording.part import PointCapture
    from multitracer.tables import Document

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


def file_record(file: SourceFile) -> Document:
    """Return the facts of one input file as `analyze` writes them."""
    return {
        "path": portable(file.path),
        "format": file.format,
        "link_types": sorted(file.link_types),
        "packets": file.packets,
        "first_ns": file.first_ns,
        "last_ns": file.last_ns,
        "damaged": file.damaged,
        "not_decoded": file.not_decoded,
    }


def connection_records(part: PointCapture, numbers: list[int] | None = None) -> Iterator[Document]:
    """Yield a record for each connection of a part, or for those with these numbers."""
    if numbers is not None:
        for n in numbers:
            yield from _records(part, n - 1, n)
        return
    for begin in range(0, len(part), _CHUNK):
        yield from _records(part, begin, min(begin + _CHUNK, len(part)))


def _records(part: PointCapture, begin: int, end: int) -> Iterator[Document]:
    table, directions = part.analysis.connections, part.analysis.directions
    names = ("connection", "file", "start_ns", "end_ns", "syn_seen", "initiator_by")
    rows = zip(*(table[name][begin:end].tolist() for name in names), strict=True)
    ways = _directions({n: v[2 * begin : 2 * end].tolist() for n, v in directions.columns.items()})
    paths = [portable(file.path) for file in part.capture.files]
    for ends, (number, file, start_ns, end_ns, syn_seen, initiator_by) in zip(
        part.analysis.endpoints(begin, end), rows, strict=True
    ):
        timed = start_ns != NOT_A_TIME
        yield {
            "connection": part.offset + number,
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
        samples = columns["rtt_count"][i]
        record["rtt_ms"] = {"count": samples} | {
            name: _milliseconds(columns[f"rtt_{name}_ns"][i]) if samples else None for name in _RTT
        }
        absent = RoundTrips(columns["rtt_absent"][i])
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
