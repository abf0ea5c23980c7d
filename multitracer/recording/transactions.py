"""The transactions of a recording with the radio and the place during each, and the facts that tell variants apart.

A session holds one transactions.csv for each measurement: in the session folder, in the folder of a host, or in a
folder of its own with the manifest of the measurement (`drive/tcp/`). Its times are those of the host that ran
`measure run`. The readings of modem and GPS receiver are converted to the clock of that host if they are from another
one, and joined by time (`multitracer.readings`).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.serving import is_serving
from multitracer.analysis.series.labelled import most_of_one_source
from multitracer.analysis.transports import SessionContent
from multitracer.clock.model.relation import Clock, PlacementStatus
from multitracer.errors import FormatError
from multitracer.manifest import RECORDED_AT, Manifest, Role, Variables, read_manifest
from multitracer.readings import MOST_AGE_S, Nearest, cell_words
from multitracer.recording.turns import with_captured
from multitracer.schemas.radio import POSITION, RADIO
from multitracer.schemas.transactions import CONTEXT, RADIO_READINGS, TRANSACTIONS
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.logs import HostLog
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.recording import Recording
    from multitracer.recording.tracks import Placed
    from multitracer.tables import Array, Mask, Times

LAYER = "transactions"
_LONGEST = 60
"""Maximum length of a fact, in characters."""
_LATEST_NS = 1 << 62
_NEAR = ("client", "mobile")
"""Names of hosts whose modem counts as the client's, if the client's host has no radio log of its own."""
_RADIO = {
    "rssi": "rssi_dbm", "bler": "bler_pct", "cell_busy": "cell_busy_pct", "rsrp": "rsrp_dbm", "rsrq": "rsrq_db",
    "sinr": "sinr_db",
}  # fmt: skip
"""Columns of RADIO that hold the numbers of a transaction, by quantity."""
_LONGEST_WHY = 64


# --- the measurements of a session ---


def manifest_of(log: HostLog, inputs: Inputs) -> Manifest | None:
    """Return the manifest of the measurement that wrote a transactions.csv: beside it, else that of the session."""
    own = Path(log.path).parent
    if inputs.folder is None or own == inputs.folder:
        return inputs.manifest
    with suppress(FormatError):
        return read_manifest(own) or inputs.manifest
    return inputs.manifest


def is_over_tcp(inputs: Inputs) -> bool:
    """Return whether transactions may have used TCP: only then does a capture of them hold connections."""
    manifests = [manifest_of(log, inputs) for log in inputs.listed if log.layer == LAYER]
    plans = [each.variables.measurement if each else None for each in manifests or [inputs.manifest]]
    return any(plan is None or plan.protocol == "tcp" for plan in plans)


def client_of(log: HostLog, inputs: Inputs) -> str:
    """Return the host on whose clock the times of a transactions.csv are.

    It is the host that the manifest of the measurement names as the one that recorded it; else the one that the
    session's manifest names for the file, the one with the role of a client, or the folder of the file.
    """
    hosts = inputs.manifest.hosts if inputs.manifest else {}
    manifest = manifest_of(log, inputs)
    named = [str(manifest.more.get(RECORDED_AT))] if manifest else []
    if inputs.folder is not None and inputs.manifest is not None:
        relative = Path(log.path).relative_to(inputs.folder).as_posix()
        named += [file.host for file in inputs.manifest.files if file.path == relative]
    is_own = log.host in hosts and log.host != str(inputs.folder)
    named += [log.host] if is_own else [name for name, host in hosts.items() if host.role is Role.CLIENT]
    return next((name for name in named if name in hosts), log.host)


def sources_of(recording: Recording) -> list[SessionContent]:
    """Return the transactions of a recording, and the facts of their measurements from the manifests.

    Measurements with the same facts, such as blocks that alternate with another protocol, are one.
    Unusable lines of transactions.csv add a warning to the recording.
    """
    alike: dict[tuple[tuple[str, str], ...], list[tuple[HostLog, Table]]] = {}
    for log, table in transactions_of(recording):
        facts = _facts(manifest_of(log, recording.inputs), recording)
        alike.setdefault(tuple(facts.items()), []).append((log, table))
    return [
        SessionContent(
            recording.name if len(alike) == 1 else f"{recording.name}, {_names(logs)}",
            Table.concatenate(TRANSACTIONS, [table for _, table in logs]),
            dict(facts),
            recording.speed,
        )
        for facts, logs in alike.items()
    ]


def _names(logs: list[tuple[HostLog, Table]]) -> str:
    return _short(" and ".join(Path(log.path).parent.name for log, _ in logs))


def transactions_of(recording: Recording) -> list[tuple[HostLog, Table]]:
    """Return TRANSACTIONS of each transactions.csv of a recording, with the radio and the place of each transaction.

    The efficiency of those over TCP is that of captures at both hosts, if the recording was read with them. Where the
    recording has no log of a modem (or of positions) at all, the values in the file remain. Unusable lines of the file
    add a warning to the recording.
    """
    joined = []
    for log, table in recording.tables(LAYER, TRANSACTIONS.name):
        for reason, lines in (table.provenance.get("skipped") or {}).items():
            recording.warn_once(f"{log.path}: {lines:,} lines skipped: {reason}")
        known = with_captured(recording, table)
        joined.append((log, _joined(recording, known, client_of(log, recording.inputs))))
    return joined


# --- radio and place of each transaction ---


class _Readings(NamedTuple):
    """The readings of one quantity, in order of time, on the client's clock."""

    time_ns: Times
    values: tuple[Array, ...]
    absent: str
    """Why there is no reading at all; empty if there is one."""


def _joined(recording: Recording, table: Table, client: str) -> Table:
    """Return TRANSACTIONS with the columns of radio and place that the logs of the recording give."""
    context = recording.radio_context()
    modem, receiver = (_logs_of(recording, logs, client) for logs in (context.radio, context.position))
    second_ns = NS_PER_S / recording.speed
    intervals = spans_ns(table, second_ns)
    columns = dict(table.columns)
    for name in CONTEXT:
        device, logs = _DEVICE[name == "place"], receiver if name == "place" else modem
        if isinstance(logs, str):
            is_logged = recording.inputs.holds("position" if name == "place" else "radio")
            nothing = f"the {device} gave no reading" if is_logged else f"no {device} was recorded"
            columns[f"{name}_absent"] = _unless_known(columns, name, logs or nothing)
            continue
        readings = _readings_of(name, logs)
        nearest = Nearest(readings.time_ns, *intervals, round(MOST_AGE_S * second_ns))
        gaps = [gap for gap in context.gaps if gap.path in {log.path for log in logs}]
        columns |= _columns(name, readings, nearest, [_moved(recording, gap, client) for gap in gaps], second_ns)
    if not isinstance(modem, str):
        shares = list(CONTEXT)[:3]
        counts = [np.where(columns[f"{name}_absent"] == "", columns[f"{name}_readings"], NA) for name in shares]
        columns[RADIO_READINGS] = np.max(counts, axis=0)
    return Table(TRANSACTIONS, columns, table.provenance)


_DEVICE = ("modem", "GPS receiver")


def spans_ns(table: Table, second_ns: float) -> tuple[Times, Times]:
    """Return begin and end of each transaction: until its reply was complete, or until the client gave up.

    A transaction ends at the latest when the next one of the table begins.

    Parameters
    ----------
    table : Table
        TRANSACTIONS of one measurement, in the order in which they were done.
    second_ns : float
        Length of a second of the link, ns.

    Returns
    -------
    begin_ns, end_ns : ndarray of int64, ns since 1970, shape (n,)
    """
    begin_ns = table["start_ns"]
    given_up = np.where(table["outcome"] == "ok", 0.0, table["timeout_s"])
    lasted_ns = (np.nan_to_num(table["rtt_s"]) + np.nan_to_num(given_up)) * second_ns
    end_ns = begin_ns + np.rint(np.clip(lasted_ns, 0, _LATEST_NS // 2)).astype(np.int64)
    following_ns = np.append(begin_ns[1:], _LATEST_NS)
    return begin_ns, np.maximum(begin_ns, np.minimum(end_ns, following_ns))


def _logs_of(recording: Recording, logs: Sequence[Placed], client: str) -> list[Placed] | str:
    """Return the logs of the client's host, else those of the one other host that has such logs, on the client's clock.

    Without such logs the result is empty, or why the logs of other hosts are not used.
    """
    hosts = list(dict.fromkeys(log.host for log in logs))
    near = [host for host in (client, str(recording.folder), *_NEAR) if host in hosts]
    if not hosts:
        return ""
    if not near and len(hosts) > 1:
        recording.warn_once(
            f"{recording.name}: {' and '.join(hosts)} have logs of the radio or the place, and none of them is the "
            'client; rename the folder of the client to "mobile" to join its readings to the transactions'
        )
        return "several hosts have such logs, and none is the client"
    return [_moved(recording, log, client) for log in logs if log.host == (near or hosts)[0]]


def _moved(recording: Recording, log: Placed, client: str) -> Placed:
    """Return a log with times on the clock of the client; unchanged if nothing relates the two clocks."""
    if log.host in (client, str(recording.folder)):
        return log
    clocks = recording.align(thorough=True)
    columns = dict(log.table.columns)
    for column in ("time_ns", "until_ns"):
        if column in columns:
            placement = clocks.place(columns[column], Clock(log.host), Clock(client), with_bounds=False)
            is_placed = placement.status != PlacementStatus.UNPLACED
            columns[column] = np.where(is_placed, placement.time_ns, columns[column])
    return log._replace(table=Table(log.table.schema, columns, log.table.provenance))


def _readings_of(name: str, logs: list[Placed]) -> _Readings:
    """Return the readings of a quantity in the logs of a modem, or of a GPS receiver for the place."""
    if name == "place":
        position = Table.concatenate(POSITION, [log.table for log in logs])
        is_fix = (position["fix"] != 0) & np.isfinite(position["lat_deg"]) & np.isfinite(position["lon_deg"])
        rows = np.flatnonzero(is_fix & (position["time_ns"] != NOT_A_TIME))
        return _sorted(position, rows, [position[column] for column in CONTEXT[name]], "the GPS receiver had no fix")
    radio = Table.concatenate(RADIO, [log.table for log in logs])
    values = _cells(radio) if name == "cell" else radio[_RADIO[name]]
    is_known = values != "" if name == "cell" else np.isfinite(values)
    is_known &= is_serving(radio) & (radio["time_ns"] != NOT_A_TIME)
    rows = most_of_one_source(radio["source"], is_known)
    return _sorted(radio, rows, [values], "the modem did not report it")


def _cells(radio: Table) -> Array:
    """Return the name of the cell in each row of RADIO, all by the best identifier that the table has."""
    identity = {name: radio[name] for name in ("cell_id", "physical_cell_id", "channel")}
    best = next((values for values in identity.values() if (values >= 0).any()), np.full(len(radio), NA))
    rows = zip(*(values.tolist() for values in identity.values()), strict=True)
    names = [cell_words(dict(zip(identity, row, strict=True))) for row in rows]
    return np.where(best >= 0, np.array(names, "U64"), "")


def _sorted(table: Table, rows: Array, values: list[Array], absent: str) -> _Readings:
    """Return the readings in some rows of a table, in order of time; `absent` says why there are none."""
    order = rows[np.argsort(table["time_ns"][rows], kind="stable")]
    return _Readings(table["time_ns"][order], tuple(each[order] for each in values), "" if len(order) else absent)


def _columns(
    name: str, readings: _Readings, nearest: Nearest, gaps: list[Placed], second_ns: float
) -> dict[str, Array]:
    """Return the columns of one quantity."""
    choose = nearest.mean if name in _RADIO else nearest.one
    values = {column: choose(value) for column, value in zip(CONTEXT[name], readings.values, strict=True)}
    known = nearest.age_ns != NOT_A_TIME
    absent = np.full(len(known), readings.absent or f"no reading within {MOST_AGE_S:g} s", "U64")
    if not readings.absent:
        absent = _with_gaps(absent, gaps, nearest)
    return values | {
        f"{name}_age_s": np.where(known, nearest.age_ns / second_ns, np.nan),
        f"{name}_readings": np.where(known, nearest.count, NA),
        f"{name}_absent": np.where(nearest.is_near, "", absent),
    }


def _with_gaps(absent: Array, gaps: list[Placed], nearest: Nearest) -> Array:
    """Return the reasons, with why the source could not be read at the begin of each transaction."""
    reasons = absent.copy()
    for gap in (row for placed in gaps for row in placed.table.rows()):
        within = (nearest.begin_ns <= gap["until_ns"]) & (nearest.end_ns >= gap["time_ns"])
        reasons[within] = f"{absent[0]}: {gap['reason']}"[:_LONGEST_WHY] if len(absent) else ""
    return reasons


def _unless_known(columns: dict[str, Array], name: str, why: str) -> Array:
    """Return why a quantity is missing, for the rows in which the file has neither a value nor a reason."""
    values = columns[CONTEXT[name][0]]
    is_known: Mask = values != "" if values.dtype.kind == "U" else np.isfinite(values)
    return np.where(is_known | (columns[f"{name}_absent"] != ""), columns[f"{name}_absent"], why)


# --- the facts of a measurement ---


def _facts(manifest: Manifest | None, recording: Recording) -> dict[str, str]:
    """Return the facts of the manifest about the measurement that distinguish the variants, in words."""
    variables = manifest.variables if manifest else Variables()
    facts = {
        "link": variables.link or "",
        "tcp_profile": variables.tcp_profile or "",
        "extensions": ", ".join(variables.extensions or []).replace("_", " ").lower(),
        "time": {None: "", True: "virtual time", False: "real time"}[variables.virtual],
        "speed": f"{recording.speed:g} times as fast" if recording.speed != 1 else "",
    }
    return {name: _short(value) for name, value in facts.items() if value}


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
