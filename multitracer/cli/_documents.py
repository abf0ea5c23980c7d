"""Output of `analyze`: JSON and CSV, record by record, and the fairness of a session's flows.

The keys are a contract (docs/schemas/analyze.schema.json); docs/analysis.md defines them. Records of connections are
made some thousand at a time, so that a million of them need not be Python objects at once.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.not_tcp import content_records, tunnel_records
from multitracer.schemas.tcp import GoodputBy, Initiator, RoundTrips, Vantage
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S
from multitracer.words import count, duration, no_formula, portable, rate, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TextIO

    from multitracer.captured import SourceFile
    from multitracer.cli._output import Page
    from multitracer.cli._reading import Chosen
    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Document, Row

    Cell = int | float | str | None
    LinkUses = Mapping[tuple[int, bool], tuple[float, float]]
    """Values of `LINK_KEYS`, by number of the connection and direction; NaN where unknown."""

SCHEMA = "multitracer.analyze/1"
LINK_USE_PACKETS = 200_000
"""Maximum number of packets of a recording whose use of the link is computed beside the numbers: some seconds
(docs/large_captures.md)."""
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
EFFICIENCY_KEYS = ("efficiency", "efficiency_sent")
LINK_KEYS = ("utilization", "link_limited_share")
_FURTHER = ("rtt_absent", *GOODPUT_KEYS, *EFFICIENCY_KEYS, *LINK_KEYS)
_WAY_KEYS = (*DIRECTION_KEYS, *(f"rtt_ms_{key}" for key in RTT_KEYS), *_FURTHER)
_WRITTEN_AS_THEY_ARE = {int, float, bool}
"""Types whose text in CSV is that of `str`."""


def write_json(
    stream: TextIO, recording: Recording, chosen: Chosen, further: Mapping[str, Document] = _NOTHING
) -> None:
    """Write the document that docs/schemas/analyze.schema.json describes, a line for each connection.

    `further` are additional members that the user requested; they precede the connections. How a transfer used its
    link is known of the largest ones, if the segments are in memory.
    """
    uses = _link_uses(recording)
    files = [file_record(file) for capture in recording.captures for file in capture.tables.files]
    stream.write(f'{{"schema": {_json(SCHEMA)},\n"files": {_json(files)},\n')
    stream.write(f'"trust": {_json(recording.trust_document())},\n')
    stream.write(f'"wtcp": {_json(_wtcp(recording))},\n')
    related: list[Document] = []
    if any(capture.analysis.directions["mptcp"].any() for capture in recording.captures):
        from multitracer.recording.mptcp import multipath_documents  # few captures hold any

        related = [each for capture in recording.captures for each in multipath_documents(capture)]
    stream.write(f'"multipath": {_json(related)},\n')
    from multitracer.cli._quic import quic_records  # few recordings hold any

    stream.write(f'"quic": {_json(quic_records(recording))},\n')
    stream.writelines(f"{_json(name)}: {_json(value)},\n" for name, value in further.items())
    stream.write('"connections": [')
    separator, between = "\n", _json_record().split('"%s"')
    for capture, numbers in chosen:
        for begin, end in _chunks(capture, numbers):
            columns = list(_columns(capture, begin, end, uses).values())
            stream.write(separator + _rows(columns, _json_texts, between, ",\n"))
            separator = ",\n"
    stream.write("\n]}\n")


_json = json.JSONEncoder(allow_nan=False).encode


def _json_texts(column: Sequence[Cell]) -> Sequence[object]:
    """Return the text of each cell of a column in JSON."""
    if str in set(map(type, column)):
        texts = {cell: _json(cell) for cell in set(column)}
        return [texts[cell] for cell in column]
    return _json(column)[1:-1].split(", ")


def _json_record() -> str:
    """Return the record of a connection with "%s" in the place of each cell, in the order of `_columns`."""
    rtt = dict.fromkeys(RTT_KEYS, "%s")
    way = dict.fromkeys(DIRECTION_KEYS, "%s") | {"rtt_ms": rtt} | dict.fromkeys(_FURTHER, "%s")
    return _json(dict.fromkeys(CONNECTION_KEYS, "%s") | dict.fromkeys(WAYS, way))


def _link_uses(recording: Recording) -> LinkUses:
    """Return how the largest transfers used their link, if few enough segments are in memory."""
    if not 0 < sum(len(capture.tables.segments) for capture in recording.captures) <= LINK_USE_PACKETS:
        return {}
    from multitracer.diagnosis.largest import link_uses  # slow to import

    return {(way.number, way.reverse): use for way, use in link_uses(recording).items()}


def _wtcp(recording: Recording) -> list[Document]:
    """Return a record for each flow of WTCP; unknown values are null."""
    from multitracer.recording.deliveries import wtcp_flows, wtcp_table

    return list(wtcp_table(wtcp_flows(recording)).rows())


def write_csv(stream: TextIO, recording: Recording, chosen: Chosen) -> None:
    """Write a header and a line for each connection; a missing value is an empty cell.

    A text that a spreadsheet would take for a formula is written with an apostrophe before it.
    """
    uses = _link_uses(recording)
    stream.write(",".join([*CONNECTION_KEYS, *(f"{way}_{key}" for way in WAYS for key in _WAY_KEYS)]) + "\n")
    for capture, numbers in chosen:
        for begin, end in _chunks(capture, numbers):
            columns = list(_columns(capture, begin, end, uses).values())
            stream.write(_csv_rows(columns))


def _csv_rows(columns: list[list[Cell]]) -> str:
    return _rows(columns, _csv_texts, ["", *"," * (len(columns) - 1), ""], "\n") + "\n"


def _rows(
    columns: list[list[Cell]],
    texts: Callable[[Sequence[Cell]], Sequence[object]],
    between: Sequence[str],
    separator: str,
) -> str:
    """Return rows as text, by a template that holds the columns in which all rows have the same value.

    Of a million connections of one packet each, most columns are such. What follows the last other column is the same
    in all rows, and joins them: a template costs by its length.

    Parameters
    ----------
    columns : list of list
    texts : callable
        Returns the texts of cells; numbers whose text is that of `str` may remain numbers.
    between : sequence of str
        What is before the first column, between two, and after the last one.
    separator : str
        What is between two rows.
    """
    template = [between[0].replace("%", "%%")]
    varying: list[Sequence[object]] = []
    width = 0  # of the template, up to the last column that varies
    for column, after in zip(columns, between[1:], strict=True):
        if column.count(column[0]) == len(column):
            template.append(str(*texts(column[:1])).replace("%", "%%"))
        else:
            template.append("%s")
            width = len(template)
            varying.append(texts(column))
        template.append(after.replace("%", "%%"))
    line, end = "".join(template[:width]), "".join(template[width:]).replace("%%", "%")
    rows = map(line.__mod__, zip(*varying, strict=True)) if varying else [""] * len(columns[0])
    return f"{end}{separator}".join(rows) + end


def _csv_texts(column: Sequence[Cell]) -> Sequence[object]:
    if set(map(type, column)) <= _WRITTEN_AS_THEY_ARE:
        return column
    texts = {cell: _csv_text(cell) for cell in set(column)}
    return [texts[cell] for cell in column]


def _csv_text(cell: Cell) -> str:
    if cell is None:
        return ""
    text = no_formula(cell) if isinstance(cell, str) else str(cell)
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


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


def _chunks(capture: Capture, numbers: list[int] | None) -> Iterator[tuple[int, int]]:
    """Yield the rows (from, to) of the connections with these numbers, or of all, some thousand at a time."""
    if numbers is not None:
        yield from ((n - 1, n) for n in numbers)
        return
    for begin in range(0, len(capture), _CHUNK):
        yield begin, min(begin + _CHUNK, len(capture))


def _columns(capture: Capture, begin: int, end: int, uses: LinkUses) -> dict[str, list[Cell]]:
    """Return the values of the connections in rows `begin` to `end` - 1, by their column in CSV; None: unknown."""
    table, directions = capture.analysis.connections, capture.analysis.directions
    start_ns, end_ns = table["start_ns"][begin:end], table["end_ns"][begin:end]
    is_timed = (start_ns != NOT_A_TIME).tolist()
    paths = [portable(file.path) for file in capture.tables.files]
    src, sport, dst, dport = capture.analysis.endpoint_columns(begin, end)
    columns: dict[str, list[Cell]] = {
        "connection": _cells(table["connection"][begin:end], lambda number: capture.offset + number),
        "file": _cells(table["file"][begin:end], paths.__getitem__),
        "src": [*src],
        "dst": [*dst],
        "sport": [*sport],
        "dport": [*dport],
        "start": _where(is_timed, start_ns, lambda ns: ns / NS_PER_S),
        "start_ns": _where(is_timed, start_ns, int),
        "duration_s": _where(is_timed, end_ns - start_ns, lambda ns: ns / NS_PER_S),
        "syn_seen": _cells(table["syn_seen"][begin:end]),
        "initiator_by": _cells(table["initiator_by"][begin:end], lambda code: Initiator(code).words),
    }
    for offset, way in enumerate(WAYS):
        values = {name: column[2 * begin + offset : 2 * end : 2] for name, column in directions.columns.items()}
        columns |= {f"{way}_{key}": column for key, column in _of_direction(values).items()}
        own = (
            [uses.get((capture.offset + row + 1, bool(offset)), _UNKNOWN) for row in range(begin, end)] if uses else []
        )
        for place, key in enumerate(LINK_KEYS):
            columns[f"{way}_{key}"] = [_six_digits(use[place]) for use in own] if uses else [None] * (end - begin)
    return columns


_UNKNOWN = (math.nan, math.nan)


def _six_digits(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)


def _of_direction(values: Mapping[str, Array]) -> dict[str, list[Cell]]:
    """Return the values of one direction of connections, by the keys of `_WAY_KEYS`."""
    absent, by = values["rtt_absent"], values["goodput_by"]
    is_timed = ((values["rtt_count"] != 0) & (absent != RoundTrips.BELOW_GRAIN.value)).tolist()
    is_known = ((by == GoodputBy.ACKNOWLEDGED.value) | (by == GoodputBy.ARRIVED.value)).tolist()
    columns = {name: _cells(values[name]) for name in _COUNTS}
    columns["mss"] = _cells(values["mss_bytes"], _known)
    columns["window_scale"] = _cells(values["window_scale"], _known)
    columns["rtt_ms_count"] = _cells(values["rtt_count"])
    for name in _RTT:
        columns[f"rtt_ms_{name}"] = _milliseconds(is_timed, values[f"rtt_{name}_ns"])
    columns["rtt_absent"] = _cells(absent, lambda code: RoundTrips(code).words if code else None)
    columns["goodput_bps"] = _where(is_known, values["goodput_bytes_per_s"], _bits)
    columns["goodput_s"] = _where(is_known, values["goodput_ns"], lambda ns: ns / NS_PER_S)
    columns["goodput_by"] = _cells(by, lambda code: GoodputBy(code).words)
    from multitracer.analysis.series.throughput import unique_share  # beside the counting of a large capture

    share = unique_share(values["unique_bytes"], values["payload_bytes"])
    for key, vantage in zip(EFFICIENCY_KEYS, (Vantage.NEAR_RECEIVER, Vantage.NEAR_SENDER), strict=True):
        is_there = (values["vantage"] == vantage.value) & (values["payload_bytes"] > 0)
        columns[key] = _where(is_there.tolist(), share, lambda ratio: round(ratio, 6))
    return columns


def _cells(values: Array, converted: Callable[..., Cell] | None = None) -> list[Cell]:
    """Return a column as a list; a value that all rows have is converted once."""
    if len(values) and (values == values[0]).all():
        cell: Cell = values[0].item()
        return [cell if converted is None else converted(cell)] * len(values)
    cells: list[Cell] = values.tolist()
    return cells if converted is None else list(map(converted, cells))


def _where(known: list[bool], values: Array, converted: Callable[[float], Cell]) -> list[Cell]:
    """Return the converted values; None where they are unknown."""
    if not any(known):
        return [None] * len(known)
    return [converted(value) if is_known else None for value, is_known in zip(values.tolist(), known, strict=True)]


def _bits(bytes_per_s: float) -> float:
    return round(bytes_per_s * BITS_PER_BYTE, 3)


def _known(value: int) -> int | None:
    return None if value == NA else value


def _milliseconds(known: list[bool], durations_ns: Array) -> list[Cell]:
    """Return durations in milliseconds, to the nanosecond; None where they are unknown."""
    cells: list[Cell] = (durations_ns / NS_PER_MS).tolist()
    absent = ~np.array(known) | np.isnan(durations_ns) | (durations_ns == NOT_A_TIME)
    for row in np.flatnonzero(absent).tolist():
        cells[row] = None
    fraction = ~absent & (durations_ns != np.rint(durations_ns))  # n / 10^6 is rounded already
    for row in np.flatnonzero(fraction).tolist():
        cells[row] = round(durations_ns[row].item() / NS_PER_MS, 6)
    return cells


def show_fairness(sheet: Page, recording: Recording) -> None:
    """Write fairness gap and index for the time in which all flows are active, then a line for each flow."""
    from multitracer.recording.fair_shares import fair_shares

    fair = fair_shares(recording)
    for row in fair.fairness.rows():
        sheet.line(f"Fairness of {count(row['flows'], 'flow')}: {_even(row)}{_during(row, recording)}", bold=True)
    for row in fair.late.rows():
        sheet.line(f"In the last third of this time: {_even(row)}")
    rows = [
        (portable(row["flow"]), rate(row["rate_bps"]), "-" if row["share"] is None else share(row["share"], 1))
        for row in fair.shares.rows()
    ]
    if rows:
        sheet.table(("flow", "rate", "share"), rows, right=(1, 2))
    for note in fair.notes:
        sheet.line(portable(note))


def _even(row: Row) -> str:
    """Return index and gap in a row of FAIRNESS as text."""
    index = "" if row["jain"] is None else f"Jain's index {row['jain']:.3f}, "
    gap = f"no gap between the transports: {row['reason']}" if row["gap"] is None else f"gap {row['gap']:.2f}"
    return f"{index}{gap}"


def _during(row: Row, recording: Recording) -> str:
    if row["begin_ns"] is None:
        return ""
    return f", in the {duration((row['end_ns'] - row['begin_ns']) * recording.speed)} in which all run"


def fairness_document(recording: Recording) -> Document:
    """Return the member `fairness` of `analyze --json`; missing values are null."""
    from multitracer.recording.fair_shares import fair_shares

    fair = fair_shares(recording)
    (complete,) = fair.fairness.rows()
    flows = [{name: row[name] for name in ("flow", "rate_bps", "share")} for row in fair.shares.rows()]
    late = next(iter(fair.late.rows()), None)
    return {**complete, "last_third": late, "shares": flows, "notes": [portable(note) for note in fair.notes]}
