"""`analyze` as JSON and CSV, written record by record."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, TextIO

from multitracer.cli._records import (
    CONNECTION_KEYS,
    DIRECTION_KEYS,
    GOODPUT_KEYS,
    RTT_KEYS,
    WAYS,
    connection_records,
    file_record,
)
from multitracer.words import no_formula, portable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from multitracer.analysis.trust import Note
    from multitracer.cli._reading import Chosen
    from multitracer.recording.part import PointCapture
    from multitracer.recording.recording import Recording
    from multitracer.tables import Document

SCHEMA = "multitracer.analyze/1"
_NOTHING: Mapping[str, Document] = {}
_NO_CAPTURE = "no packets were captured, so there is no number to trust"


def write_json(
    stream: TextIO, recording: Recording, chosen: Chosen, further: Mapping[str, Document] = _NOTHING
) -> None:
    """Write the document that docs/analyze.schema.json describes, a line for each connection.

    `further` are additional members that the user requested; they precede the connections.
    """
    files = [file_record(file) for part in recording.parts for file in part.capture.files]
    stream.write(
        f'{{"schema": {_json(SCHEMA)},\n"files": {_json(files)},\n"trust": {_json(_trust(recording))},\n'
    )
    stream.write(f'"wtcp": {_json(_wtcp(recording))},\n')
    stream.writelines(f"{_json(name)}: {_json(value)},\n" for name, value in further.items())
    stream.write('"connections": [')
    separator = "\n"
    for record in _connections(chosen):
        stream.write(separator + _json(record))
        separator = ",\n"
    stream.write("\n]}\n")


_json = json.JSONEncoder(allow_nan=False).encode


def _trust(recording: Recording) -> Document:
    """Return the worst verdict, all reasons as sentences, and all reasons with their parts.

    Without a capture the verdict is null, and a sentence gives the reason.
    """
    notes = [(part, note) for part in recording.parts for note in part.analysis.trust.notes]
    return {
        "verdict": recording.trust if recording.parts else None,
        "verdict_absent": None if recording.parts else _NO_CAPTURE,
        "notes": [note.sentence for _, note in notes],
        "reasons": [_reason(part, note) for part, note in notes],
    }


def _wtcp(recording: Recording) -> list[Document]:
    """Return the flows of WTCP; what is unknown is null."""
    from multitracer.recording.deliveries import wtcp_flows, wtcp_table

    return list(wtcp_table(wtcp_flows(recording)).rows())


def _reason(part: PointCapture, note: Note) -> Document:
    file = None if note.file is None else portable(note.file)
    return {"capture": portable(part.point.name), **asdict(note), "file": file}


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


_FURTHER = ("rtt_absent", *GOODPUT_KEYS)
_WAY_KEYS = (*DIRECTION_KEYS, *(f"rtt_ms_{key}" for key in RTT_KEYS), *_FURTHER)
