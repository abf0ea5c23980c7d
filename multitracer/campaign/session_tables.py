"""Makes the rows of a recording in every table of the catalogue.

The table `transfers` has the explained transfers of a session; `multitracer.diagnosis.seconds` makes `seconds`.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from multitracer import __version__
from multitracer.analysis.signalling.procedures import procedures_of
from multitracer.campaign import schemas
from multitracer.campaign.schemas import LIMIT_COLUMNS
from multitracer.clock.model.edges import edges_table
from multitracer.diagnosis.drive import Drive
from multitracer.diagnosis.largest import ConnectionDirection, Explained, explain_largest
from multitracer.diagnosis.limits.names import Viewpoint
from multitracer.diagnosis.seconds import seconds_columns
from multitracer.errors import MultiTracerError
from multitracer.recording.efficiency import transfer_bytes
from multitracer.recording.places import ConnectionAtPoint, places_of, vantage_of
from multitracer.recording.radio_context import RadioContext
from multitracer.recording.transactions import transactions_of
from multitracer.schemas.tcp import GoodputBy
from multitracer.schemas.transactions import TRANSACTIONS
from multitracer.tables import NOT_A_TIME
from multitracer.units import BITS_PER_BYTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.tables import Row, Table, Times

    Tables = dict[str, pa.Table]

# --- rows ---


def transfer_rows(recording: Recording, session: str, transfers: Explained) -> Iterator[Row]:
    """Yield the rows of `transfers`: one for each direction with data, at the capture nearest to its sender.

    Parameters
    ----------
    recording : Recording
    session : str
    transfers : Explained
        The explained transfers of the recording.
    """
    explained = {way.number for way in transfers.diagnoses}
    for capture in recording.captures:
        for way, direction in _with_data(capture, transfers):
            row = _counted(capture, way, direction) | {"session": session}
            number, reverse = way.number - capture.offset, way.reverse
            if way.number in explained:
                places = places_of(recording, capture, number, reverse=reverse)
            else:  # a search in the other captures takes 0.4 ms; a session may have a million connections
                vantage = vantage_of(recording, capture, number, reverse=reverse)
                places = ConnectionAtPoint(capture, number, reverse, vantage), None
            counted = transfer_bytes(places)
            row |= {"efficiency": counted.efficiency, "efficiency_sent": counted.efficiency_sent}
            diagnosis = transfers.diagnoses.get(way)
            yield row if diagnosis is None else row | _limits(diagnosis)


def _with_data(capture: Capture, transfers: Explained) -> Iterator[tuple[ConnectionDirection, Row]]:
    directions = capture.analysis.directions
    held = np.flatnonzero(directions["unique_bytes"] > 0)
    for row in directions.take(held).rows():
        way = ConnectionDirection(capture.offset + int(row["connection"]), bool(row["reverse"]))
        if way.number not in transfers.same:
            yield way, row


def _counted(capture: Capture, way: ConnectionDirection, direction: Row) -> Row:
    ends = capture.analysis.ends(way.number - capture.offset)
    sender, receiver = (ends.source, ends.destination)[:: -1 if way.reverse else 1]
    is_known = GoodputBy(direction["goodput_by"]).is_known
    return {
        "host": capture.point.name,
        "connection": way.number,
        "reverse": way.reverse,
        "sender": sender,
        "receiver": receiver,
        "begin_ns": direction["first_ns"],
        "end_ns": direction["last_ns"],
        "goodput_bps": direction["goodput_bytes_per_s"] * BITS_PER_BYTE if is_known else None,
        **{name: direction[name] for name in _KEPT},
        **{name: _known(direction[name]) for name in _ROUND_TRIPS},
    }


_KEPT = ("unique_bytes", "retransmitted_bytes", "data_segments", "rtt_count")
_ROUND_TRIPS = ("rtt_min_ns", "rtt_p50_ns", "rtt_p95_ns")


def _known(value: float | None) -> float | None:
    return None if value is None or value == NOT_A_TIME else float(value)


def _limits(diagnosis: Diagnosis) -> Row:
    """Return the seconds that each limit of a transfer took, in link time; empty if no limit is known."""
    limited, used = diagnosis.limited, {"utilization": diagnosis.account.utilization}
    if limited.view is Viewpoint.NOWHERE:
        return used | {"view": limited.view.label}
    seconds = dict.fromkeys(LIMIT_COLUMNS.values(), 0.0)
    for share in limited.shares:
        seconds[LIMIT_COLUMNS[share.limit]] += share.seconds
    longest = max(LIMIT_COLUMNS, key=lambda each: seconds[LIMIT_COLUMNS[each]])
    costs = [each.cost_s for each in diagnosis.findings if not np.isnan(each.cost_s)]
    return {
        **used,
        **seconds,
        "link_limited_share": limited.link_limited_share,
        "limited_by": longest.label if limited.total_s > 0 else None,
        "view": limited.view.label,
        "limits_total_s": limited.total_s,
        "lost_time_s": float(sum(costs)),
    }


_CHUNK = 10_000
"""Number of rows that are made together: some 20 MB of Python values."""
_MOST_LABELS = 64
"""Maximum number of labels of a session that are stored, the first by name. Not measured.

A table of variables has five."""
_LONGEST_LABEL = 256
"""Maximum number of characters of a label's value, which is a word to group by. Not measured."""


def session_tables(recording: Recording, session: str, path: str, content: str) -> Tables:
    """Return the rows of a session in every table of the catalogue but `inputs` and `failures`.

    Parameters
    ----------
    recording : Recording
        The recording; for results that cannot be computed it gets a warning.
    session, path, content : str
        Values of these columns of `sessions`.

    Returns
    -------
    dict of str to pyarrow.Table
        Tables by name, each with its schema; a table may be empty.
    """
    transfers = explain_largest(recording)
    drive = _drive(recording, transfers)
    tables: Tables = {
        "connections": _connections(recording, session),
        "transfers": _transfers(recording, session, transfers),
        "findings": schemas.of_tables("findings", _findings(session, transfers)),
    }
    tables |= _if_possible(recording, "seconds", lambda: _seconds(drive, session))
    tables |= _if_possible(recording, "handovers", lambda: _handovers(drive, session))
    tables |= _if_possible(recording, "cells", lambda: _cells(drive, session))
    tables |= _if_possible(recording, "procedures", lambda: _procedures(recording, session))
    tables |= _if_possible(recording, "transactions", lambda: _transactions(recording, session))
    tables |= _if_possible(recording, "clock_edges", lambda: _clock_edges(recording, session))
    row = _session(recording, drive, transfers) | {"session": session, "path": path, "content": content}
    return tables | {"sessions": schemas.of_rows("sessions", [row])}


def _if_possible(recording: Recording, name: str, made: Callable[[], pa.Table]) -> Tables:
    """Return the table that `made` returns, by name.

    If `made` fails, the table is empty, and the recording gets a warning.
    """
    try:
        return {name: made()}
    except MultiTracerError as error:
        recording.warn_once(f"{name}: {error}")
        return {name: schemas.ARROW[name].empty_table()}


def _drive(recording: Recording, transfers: Explained) -> Drive:
    """Return the recording as a drive; its times are those of the first explained transfer's clock."""
    if transfers.first is not None:
        host = transfers.first.transfer.at_sender.host
        return Drive(RadioContext(recording, host), transfers.first)
    return Drive(RadioContext(recording, recording.captures[0].point.name if recording.captures else None))


def _connections(recording: Recording, session: str) -> pa.Table:
    chunks = []
    for capture in recording.captures:
        ends = capture.analysis.endpoints()
        added = {
            "session": session,
            "host": capture.point.name,
            "connection": capture.analysis.connections["connection"].astype(np.int64) + capture.offset,
            "initiator": [each.source for each in ends],
            "responder": [each.destination for each in ends],
        }
        chunks.append((capture.analysis.connections, added))
    return schemas.of_tables("connections", chunks)


def _transfers(recording: Recording, session: str, transfers: Explained) -> pa.Table:
    """Return the table `transfers`.

    It is made in chunks, because Python objects need a hundred times the memory of the table.
    """
    rows = transfer_rows(recording, session, transfers)
    chunks = [schemas.ARROW["transfers"].empty_table()]
    while chunk := list(islice(rows, _CHUNK)):
        chunks.append(schemas.of_rows("transfers", chunk))
    return pa.concat_tables(chunks)


def _findings(session: str, transfers: Explained) -> list[tuple[Table, dict[str, object]]]:
    return [
        (diagnosis.table(), {"session": session, "connection": each.number, "reverse": each.reverse})
        for each, diagnosis in transfers.diagnoses.items()
    ]


def _seconds(drive: Drive, session: str) -> pa.Table:
    columns = seconds_columns(drive)
    return schemas.of_columns("seconds", {"session": session, **columns}, len(columns["time_ns"]))


def _handovers(drive: Drive, session: str) -> pa.Table:
    chunks = [(phone.changes, {"session": session, "host": phone.host}) for phone in drive.phones]
    return schemas.of_tables("handovers", chunks)


def _procedures(recording: Recording, session: str) -> pa.Table:
    logs = (log for layer in ("signalling", "radio") for log in recording.logs(layer))
    return schemas.of_tables(
        "procedures", [(procedures_of(tables), {"session": session, "host": log.host}) for log, tables in logs]
    )


def _cells(drive: Drive, session: str) -> pa.Table:
    chunks = [(drive.cells(phone), {"session": session, "host": phone.host}) for phone in drive.phones]
    return schemas.of_tables("cells", chunks)


def _transactions(recording: Recording, session: str) -> pa.Table:
    chunks = [(table, {"session": session, "host": log.host}) for log, table in transactions_of(recording)]
    return schemas.of_tables("transactions", chunks)


def _clock_edges(recording: Recording, session: str) -> pa.Table:
    clocks = recording.clocks or recording.align(thorough=False)
    return schemas.of_tables("clock_edges", [(edges_table(clocks.graph.relations), {"session": session})])


# --- the row of the session ---


def _session(recording: Recording, drive: Drive, transfers: Explained) -> Row:
    manifest = recording.manifest
    variables = None if manifest is None else manifest.variables
    begin_ns, end_ns = _span(recording, drive)
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
        "captures": len(recording.captures),
        "connections": len(recording),
        "packets": sum(len(capture.tables.segments) for capture in recording.captures),
        "phones": len(drive.phones),
        "not_explained": transfers.left_out,
        "warnings": len(warnings),
        "warning": warnings[0] if warnings else None,
        "speed": recording.speed,
        "trust": recording.trust if recording.captures else None,
        "headline": None if transfers.first is None else transfers.first.headline.sentence,
        **_place(drive),
    }


def _hosts(recording: Recording) -> list[str]:
    if recording.manifest is not None and recording.manifest.hosts:
        return list(recording.manifest.hosts)
    names = [capture.point.name for capture in recording.captures] + [log.host for log in recording.inputs.listed]
    return [Path(name).name or name for name in names]  # a folder without hosts is named by its path


def _labels(recording: Recording) -> list[tuple[str, str]]:
    """Return name and value of each label, by name: the manifest's variables that are plain values."""
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


def _span(recording: Recording, drive: Drive) -> tuple[int | None, int | None]:
    """Return the first and the last time of the session, ns since 1970; None if there is no time.

    They are those of packets, else of radio and position, else of transactions.
    """
    files = [file for capture in recording.captures for file in capture.tables.files]
    times = [each for file in files for each in (file.first_ns, file.last_ns) if each is not None]
    if not times and drive.phones and drive.phones[0].span_ns is not None:
        times = list(drive.phones[0].span_ns)
    if not times and drive.route is not None:
        times = _first_and_last(drive.route.table["time_ns"])
    if not times:
        logged = recording.tables("transactions", TRANSACTIONS.name)
        times = [each for _, table in logged for each in _first_and_last(table["start_ns"])]
    return (min(times), max(times)) if times else (None, None)


def _first_and_last(times: Times) -> list[int]:
    known = times[times != NOT_A_TIME]
    return [int(known.min()), int(known.max())] if len(known) else []


def _place(drive: Drive) -> Row:
    if drive.route is None:
        return {}
    table = drive.route.table
    middle = {name: float(np.nanmedian(table[name])) for name in ("lat_deg", "lon_deg")}
    return {**middle, "distance_m": drive.route.length_m}
