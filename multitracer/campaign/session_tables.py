"""From a recording to its rows in every table of the catalogue."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from multitracer import __version__
from multitracer.campaign import schemas
from multitracer.campaign.seconds import seconds_columns
from multitracer.campaign.transfers import Explained, explained, transfer_rows
from multitracer.clock.model.edges import edges_table
from multitracer.diagnosis.road import Road
from multitracer.errors import MultiTracerError
from multitracer.recording.surroundings import Surroundings
from multitracer.tables import NOT_A_TIME
from multitracer.transactions import TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.recording.recording import Recording
    from multitracer.tables import Row, Table, Times

    Tables = dict[str, pa.Table]

_PIECE = 10_000
"""Rows: some 20 MB of Python values."""
_MOST_LABELS = 64
"""Labels of a session that are kept, the first by name; a table of variables has five. Not measured."""
_LONGEST_LABEL = 256
"""Characters of a label's value that are kept: it is a word to group by. Not measured."""


def session_tables(recording: Recording, session: str, path: str, content: str) -> Tables:
    """Return the rows of a session in every table of the catalogue but `inputs` and `failures`.

    Parameters
    ----------
    recording : Recording
        Read and analysed; what cannot be concluded of it is a warning there.
    session, path, content : str
        As the columns of `sessions` have them.

    Returns
    -------
    dict of str to pyarrow.Table
        By the names of the tables, each with its schema; a table may be empty.
    """
    transfers = explained(recording)
    road = _road(recording, transfers)
    tables: Tables = {
        "connections": _connections(recording, session),
        "transfers": _transfers(recording, session, transfers),
        "findings": schemas.of_tables("findings", _findings(session, transfers)),
    }
    tables |= _if_possible(recording, "seconds", lambda: _seconds(road, session))
    tables |= _if_possible(recording, "handovers", lambda: _handovers(road, session))
    tables |= _if_possible(recording, "cells", lambda: _cells(road, session))
    tables |= _if_possible(recording, "transactions", lambda: _transactions(recording, session))
    tables |= _if_possible(recording, "clock_edges", lambda: _clock_edges(recording, session))
    row = _session(recording, road, transfers) | {"session": session, "path": path, "content": content}
    return tables | {"sessions": schemas.of_rows("sessions", [row])}


def _if_possible(recording: Recording, name: str, made: Callable[[], pa.Table]) -> Tables:
    """Return a table that `made` makes; an empty one and a warning of the recording if it cannot be made."""
    try:
        return {name: made()}
    except MultiTracerError as error:
        recording.warn_once(f"{name}: {error}")
        return {name: schemas.ARROW[name].empty_table()}


def _road(recording: Recording, transfers: Explained) -> Road:
    """Return the recording as a drive, on the clock of what is explained first, with or without a phone."""
    if transfers.first is not None:
        host = transfers.first.transfer.layers.view.sender.host
        return Road(Surroundings(recording, host), transfers.first)
    return Road(Surroundings(recording, recording.parts[0].point.name if recording.parts else None))


def _connections(recording: Recording, session: str) -> pa.Table:
    pieces = []
    for part in recording.parts:
        ends = part.analysis.endpoints()
        added = {
            "session": session,
            "host": part.point.name,
            "connection": part.analysis.connections["connection"].astype(np.int64) + part.offset,
            "initiator": [each.source for each in ends],
            "responder": [each.destination for each in ends],
        }
        pieces.append((part.analysis.connections, added))
    return schemas.of_tables("connections", pieces)


def _transfers(recording: Recording, session: str, transfers: Explained) -> pa.Table:
    """Return the rows of `transfers`, made in pieces: as Python values they take a hundred times the room."""
    rows = transfer_rows(recording, session, transfers)
    pieces = [schemas.ARROW["transfers"].empty_table()]
    while piece := list(islice(rows, _PIECE)):
        pieces.append(schemas.of_rows("transfers", piece))
    return pa.concat_tables(pieces)


def _findings(session: str, transfers: Explained) -> list[tuple[Table, dict[str, object]]]:
    return [
        (
            diagnosis.table(),
            {"session": session, "connection": each.number, "reverse": each.reverse},
        )
        for each, diagnosis in transfers.diagnoses.items()
    ]


def _seconds(road: Road, session: str) -> pa.Table:
    columns = seconds_columns(road)
    return schemas.of_columns("seconds", {"session": session, **columns}, len(columns["time_ns"]))


def _handovers(road: Road, session: str) -> pa.Table:
    pieces = [(phone.changes, {"session": session, "host": phone.host}) for phone in road.phones]
    return schemas.of_tables("handovers", pieces)


def _cells(road: Road, session: str) -> pa.Table:
    pieces = [(road.cells(phone), {"session": session, "host": phone.host}) for phone in road.phones]
    return schemas.of_tables("cells", pieces)


def _transactions(recording: Recording, session: str) -> pa.Table:
    logged = recording.tables("transactions", TRANSACTIONS.name)
    pieces = [(table, {"session": session, "host": log.host}) for log, table in logged]
    return schemas.of_tables("transactions", pieces)


def _clock_edges(recording: Recording, session: str) -> pa.Table:
    clocks = recording.clocks or recording.align(thorough=False)
    return schemas.of_tables("clock_edges", [(edges_table(clocks.graph.relations), {"session": session})])


# --- the row of the session ---


def _session(recording: Recording, road: Road, transfers: Explained) -> Row:
    manifest = recording.manifest
    variables = None if manifest is None else manifest.variables
    begin_ns, end_ns = _span(recording, road)
    warnings = recording.warnings
    return {
        "name": recording.name,
        "version": __version__,
        "title": variables and variables.title,
        "link": variables and variables.link,
        "hosts": ", ".join(dict.fromkeys(_hosts(recording))),
        "labels": _labels(recording),
        "begin_ns": begin_ns,
        "end_ns": end_ns,
        "bytes": sum(path.stat().st_size for path in map(Path, recording.inputs.paths) if path.is_file()),
        "captures": len(recording.parts),
        "connections": len(recording),
        "packets": sum(len(part.capture.segments) for part in recording.parts),
        "phones": len(road.phones),
        "not_explained": transfers.left_out,
        "warnings": len(warnings),
        "warning": warnings[0] if warnings else None,
        "speed": recording.speed,
        "trust": recording.trust if recording.parts else None,
        "headline": None if transfers.first is None else transfers.first.headline.sentence,
        **_place(road),
    }


def _hosts(recording: Recording) -> list[str]:
    if recording.manifest is not None and recording.manifest.hosts:
        return list(recording.manifest.hosts)
    names = [part.point.name for part in recording.parts] + [log.host for log in recording.inputs.listed]
    return [Path(name).name or name for name in names]  # a folder without hosts is named by its path


def _labels(recording: Recording) -> list[tuple[str, str]]:
    """Return what the engineer varied, by name: the variables of the manifest that are plain values."""
    if recording.manifest is None:
        return []
    variables = recording.manifest.variables
    stated = {
        "scenario": variables.scenario, "figure": variables.figure, "direction": variables.direction,
        "seed": variables.seed, "tcp_profile": variables.tcp_profile,
    } | variables.more  # fmt: skip
    plain = {
        name: str(value)[:_LONGEST_LABEL]
        for name, value in stated.items()
        if isinstance(value, str | int | float) and value != "" and "\n" not in str(value)
    }
    return sorted(_clean(plain).items())[:_MOST_LABELS]


def _clean(labels: dict[str, str]) -> dict[str, str]:
    return {
        name.encode("utf-8", "backslashreplace").decode(): value.encode("utf-8", "backslashreplace").decode()
        for name, value in labels.items()
    }


def _span(recording: Recording, road: Road) -> tuple[int | None, int | None]:
    """Return the first and last time of its packets, else of radio and road, else of transactions."""
    files = [file for part in recording.parts for file in part.capture.files]
    times = [each for file in files for each in (file.first_ns, file.last_ns) if each is not None]
    if not times and road.phones and road.phones[0].span_ns is not None:
        times = list(road.phones[0].span_ns)
    if not times and road.route is not None:
        times = _first_and_last(road.route.table["time_ns"])
    if not times:
        logged = recording.tables("transactions", TRANSACTIONS.name)
        times = [each for _, table in logged for each in _first_and_last(table["start_ns"])]
    return (min(times), max(times)) if times else (None, None)


def _first_and_last(times: Times) -> list[int]:
    known = times[times != NOT_A_TIME]
    return [int(known.min()), int(known.max())] if len(known) else []


def _place(road: Road) -> Row:
    if road.route is None:
        return {}
    table = road.route.table
    middle = {name: float(np.nanmedian(table[name])) for name in ("lat_deg", "lon_deg")}
    return {**middle, "distance_m": road.route.length_m}
