"""The transactions of a recording with the radio and the place during each, and the facts that tell variants apart.

A session holds one transactions.csv for each measurement: in the session folder, in the folder of a host, or in a
folder of its own with the manifest of the measurement (`drive/tcp/`). Its times are those of the host that ran
`measure run`. The readings of modem and GPS receiver are converted to the clock of that host if they are from another
one, and joined by time (`multitracer.readings`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.serving import is_serving
from multitracer.analysis.series.labelled import most_of_one_source, sequence_shift
from multitracer.analysis.transports import SessionContent
from multitracer.clock.model.relation import Clock
from multitracer.clock.moved_table import moved
from multitracer.errors import FormatError
from multitracer.manifest import Manifest, Role, Variables, read_manifest
from multitracer.readings import (
    GPS_RECEIVER,
    IDENTITY,
    MODEM,
    MOST_AGE_S,
    NOT_NEAR,
    NOT_REPORTED,
    Nearest,
    cell_words,
    known_cell_id,
    not_recorded,
)  # fmt: skip
from multitracer.recording.places import distinct_connections, places_of
from multitracer.schemas.radio import POSITION, RADIO
from multitracer.schemas.tcp import Vantage
from multitracer.schemas.transactions import CONTEXT, RADIO_READINGS, TRANSACTIONS
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.logs import HostLog
    from multitracer.recording.devices import Placed
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.places import ConnectionAtPoint
    from multitracer.recording.recording import Recording
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
_NO_RELATION = "nothing relates its clock to the client's"


# --- the measurements of a session ---


def manifest_of(log: HostLog, inputs: Inputs) -> Manifest | None:
    """Return the manifest of the measurement that wrote a transactions.csv: beside it, else that of the session."""
    own = Path(log.path).parent
    if inputs.folder is None or own == inputs.folder:
        return inputs.manifest
    try:
        return read_manifest(own) or inputs.manifest
    except FormatError:  # `find_inputs` has told it
        return inputs.manifest


def is_over_tcp(inputs: Inputs) -> bool:
    """Return whether transactions may have used TCP: only then does a capture of them hold connections."""
    manifests = [manifest_of(log, inputs) for log in inputs.listed if log.layer == LAYER]
    plans = [each.variables.measurement if each else None for each in manifests or [inputs.manifest]]
    return any(plan is None or plan.protocol == "tcp" for plan in plans)


def client_of(log: HostLog, inputs: Inputs) -> str:
    """Return the host on whose clock the times of a transactions.csv are.

    It is the host whose log it is; for a file that lies in no host's folder, the one that the session's manifest
    names for it, or the one with the role of a client.
    """
    hosts = inputs.manifest.hosts if inputs.manifest else {}
    if log.host in hosts and log.host != str(inputs.folder):
        return log.host
    named: list[str] = []
    if inputs.folder is not None and inputs.manifest is not None:
        relative = Path(log.path).relative_to(inputs.folder).as_posix()
        named += [file.host for file in inputs.manifest.files if file.path == relative]
    named += [name for name, host in hosts.items() if host.role is Role.CLIENT]
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
    joined, devices = [], dict[str, list[_Device]]()
    for log, table in recording.tables(LAYER, TRANSACTIONS.name):
        for reason, lines in (table.provenance.get("skipped") or {}).items():
            recording.warn_once(f"{log.path}: {lines:,} lines skipped: {reason}")
        client = client_of(log, recording.inputs)
        if client not in devices:
            devices[client] = _devices(recording, client)
        joined.append((log, _joined(with_captured(recording, table), devices[client], recording.speed)))
    return joined


# --- radio and place of each transaction ---


class _Readings(NamedTuple):
    """The readings of one quantity, in order of time, on the client's clock."""

    time_ns: Times
    values: tuple[Array, ...]
    absent: str
    """Why there is no reading at all; empty if there is one."""


class _Device(NamedTuple):
    """The readings of the client's modem or GPS receiver, by quantity, and when it could not be read."""

    quantities: tuple[str, ...]
    readings: dict[str, _Readings]
    gaps: list[Table]
    """GAPS, on the client's clock."""
    absent: str
    """Why there are no readings of any quantity; empty if there is a log of the device."""


def _devices(recording: Recording, client: str) -> list[_Device]:
    """Return what the logs of the client's modem and of its GPS receiver hold, on its clock."""
    context = recording.radio_context()
    return [
        _device(recording, client, MODEM, "radio", context.chosen_radio),
        _device(recording, client, GPS_RECEIVER, "position", context.position),
    ]


def _device(recording: Recording, client: str, name: str, layer: str, logs: Sequence[Placed]) -> _Device:
    quantities = tuple(each for each in CONTEXT if (each == "place") == (name == GPS_RECEIVER))
    host, absent = _host_of(recording, logs, client)
    if not host:
        nothing = f"the {name} gave no reading" if recording.inputs.holds(layer) else not_recorded(name)
        return _Device(quantities, {}, [], absent or nothing)
    own = {log.path: log.table for log in logs if log.host == host}
    gaps = [gap.table for gap in recording.radio_context().gaps if gap.path in own]
    tables, gaps = (_on_clock_of(recording, client, host, each) for each in (list(own.values()), gaps))
    if not tables:
        return _Device(quantities, {}, [], _NO_RELATION)
    return _Device(quantities, {each: _readings_of(each, tables) for each in quantities}, gaps, "")


def _joined(table: Table, devices: list[_Device], speed: float) -> Table:
    """Return TRANSACTIONS with the columns of radio and place that the readings of the devices give."""
    second_ns = NS_PER_S / speed
    intervals = spans_ns(table, second_ns)
    columns = dict(table.columns)
    for device in devices:
        for name in device.quantities:
            if device.absent:
                columns[f"{name}_absent"] = _unless_known(columns, name, device.absent)
                continue
            readings = device.readings[name]
            nearest = Nearest(readings.time_ns, *intervals, round(MOST_AGE_S * second_ns))
            columns |= _columns(name, readings, nearest, device.gaps, second_ns)
    if not devices[0].absent:
        shares = list(CONTEXT)[:3]
        counts = [np.where(columns[f"{name}_absent"] == "", columns[f"{name}_readings"], NA) for name in shares]
        columns[RADIO_READINGS] = np.max(counts, axis=0)
    return Table(TRANSACTIONS, columns, table.provenance)


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


def _host_of(recording: Recording, logs: Sequence[Placed], client: str) -> tuple[str, str]:
    """Return the host whose logs are used: the client's, else the one other host that has such logs.

    Without one it is empty, and the second text says why the logs of other hosts are not used.
    """
    hosts = list(dict.fromkeys(log.host for log in logs))
    near = [host for host in (client, str(recording.folder), *_NEAR) if host in hosts]
    if not near and len(hosts) > 1:
        recording.warn_once(
            f"{recording.name}: {' and '.join(hosts)} have logs of the radio or the place, and none of them is the "
            'client; rename the folder of the client to "mobile" to join its readings to the transactions'
        )
        return "", "several hosts have such logs, and none is the client"
    return (near or hosts or [""])[0], ""


def _on_clock_of(recording: Recording, client: str, host: str, tables: list[Table]) -> list[Table]:
    """Return those tables of a host whose times can be converted to the clock of the client, converted."""
    hosts = recording.inputs.manifest.hosts if recording.inputs.manifest else {}
    unnamed = () if client in hosts else _NEAR  # then such a host is the client itself
    if host in (client, str(recording.folder), *unnamed):
        return tables
    there = [moved(table, recording.all_clocks, Clock(host), Clock(client)) for table in tables]
    if not all(each.placed for each in there):
        of = client if client in hosts else "the client"
        recording.warn_once(
            f"{recording.name}: readings of {host} are not joined to the transactions of {of}, because nothing relates "
            "the two clocks; `multitracer align` shows which clocks are related"
        )
    return [each.table for each in there if each.placed]


def _readings_of(name: str, tables: list[Table]) -> _Readings:
    """Return the readings of a quantity in the tables of a modem, or of a GPS receiver for the place."""
    if name == "place":
        position = Table.concatenate(POSITION, tables)
        is_fix = (position["fix"] != 0) & np.isfinite(position["lat_deg"]) & np.isfinite(position["lon_deg"])
        rows = np.flatnonzero(is_fix & (position["time_ns"] != NOT_A_TIME))
        return _sorted(position, rows, [position[column] for column in CONTEXT[name]], "the GPS receiver had no fix")
    radio = Table.concatenate(RADIO, tables)
    values = _cells(radio) if name == "cell" else radio[_RADIO[name]]
    is_known = values != "" if name == "cell" else np.isfinite(values)
    is_known &= is_serving(radio) & (radio["time_ns"] != NOT_A_TIME)
    rows = most_of_one_source(radio["source"], is_known)
    return _sorted(radio, rows, [values], NOT_REPORTED)


def _cells(radio: Table) -> Array:
    """Return the name of the cell in each row of RADIO, all by the best identifier that the table has."""
    identity = {name: radio[name] for name in IDENTITY}
    known = [known_cell_id(radio["cell_id"], radio["rat"]), *(radio[name] >= 0 for name in IDENTITY[1:])]
    is_named: Mask = next((mask for mask in known if mask.any()), known[0])
    rows = zip(radio["rat"].tolist(), *(values.tolist() for values in identity.values()), strict=True)
    names = [cell_words(dict(zip(("rat", *identity), row, strict=True))) for row in rows]
    return np.where(is_named, np.array(names, "U64"), "")


def _sorted(table: Table, rows: Array, values: list[Array], absent: str) -> _Readings:
    """Return the readings in some rows of a table, in order of time; `absent` says why there are none."""
    order = rows[np.argsort(table["time_ns"][rows], kind="stable")]
    return _Readings(table["time_ns"][order], tuple(each[order] for each in values), "" if len(order) else absent)


def _columns(name: str, readings: _Readings, nearest: Nearest, gaps: list[Table], second_ns: float) -> dict[str, Array]:
    """Return the columns of one quantity."""
    choose = nearest.mean if name in _RADIO else nearest.one
    values = {column: choose(value) for column, value in zip(CONTEXT[name], readings.values, strict=True)}
    known = nearest.age_ns != NOT_A_TIME
    absent = np.full(len(known), readings.absent or NOT_NEAR, "U64")
    if not readings.absent:
        absent = _with_gaps(absent, gaps, nearest)
    return values | {
        f"{name}_age_s": np.where(known, nearest.age_ns / second_ns, np.nan),
        f"{name}_readings": np.where(known, nearest.count, NA),
        f"{name}_absent": np.where(nearest.is_near, "", absent),
    }


def _with_gaps(absent: Array, gaps: list[Table], nearest: Nearest) -> Array:
    """Return the reasons, with why the source could not be read at the begin of each transaction."""
    reasons = absent.copy()
    for gap in (row for table in gaps for row in table.rows()):
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


# Efficiency over TCP, by captures at both hosts: of a request at one, of a reply at the other


_MOST = 2_000
"""Maximum number of connections in which turns are looked for: each costs some ms. Not measured."""


def with_captured(recording: Recording, table: Table) -> Table:
    """Return TRANSACTIONS in which the efficiency of those over TCP is that of the captures at both hosts.

    Where the captures show none, the column is as it was.
    """
    rows = np.flatnonzero((table["protocol"] == "tcp") & (table["outcome"] == "ok") & np.isnan(table["efficiency"]))
    if not len(rows) or len(recording.captures) < 2:
        return table
    efficiency = table["efficiency"].copy()
    needed = table["request_bytes"] + table["reply_bytes"]
    turns = _Turns.of_all([_turns(places) for places in _conversations(recording)])
    arrived = _arrived(table.take(rows), turns, recording.speed)
    known = arrived > 0
    efficiency[rows[known]] = needed[rows[known]] / arrived[known]
    return Table(table.schema, table.columns | {"efficiency": efficiency}, table.provenance)


def _conversations(recording: Recording) -> Iterator[tuple[ConnectionAtPoint, ConnectionAtPoint]]:
    """Yield each connection at its initiator, the client, and at its responder, if both were captured."""
    numbers, _ = distinct_connections(recording, _MOST)
    for number in numbers[:_MOST]:
        client, server = places_of(recording, *recording.numbered(number), reverse=False)
        if client.vantage is Vantage.NEAR_SENDER and server is not None:
            yield client, server


@dataclass(frozen=True)
class _Turns:
    """The turns of connections: data of the client, then data of the server, in order of time.

    Attributes
    ----------
    begin_ns : ndarray of int64, shape (n,)
        First segment of the client's data in the turn, by the client's clock.
    request, reply : ndarray of int64, shape (n,)
        Distinct payload bytes of the client and of the server in the turn.
    arrived : ndarray of int64, shape (n,)
        Payload that arrived for both, duplicates included.
    """

    begin_ns: Array
    request: Array
    reply: Array
    arrived: Array

    @classmethod
    def of_all(cls, turns: Sequence[_Turns]) -> _Turns:
        """Return the turns of several connections, in order of time."""
        if not turns:
            return cls(*(np.empty(0, np.int64) for _ in fields(cls)))
        columns = {field.name: np.concatenate([getattr(each, field.name) for each in turns]) for field in fields(cls)}
        order = np.argsort(columns["begin_ns"], kind="stable")
        return cls(**{name: values[order] for name, values in columns.items()})


def _turns(places: tuple[ConnectionAtPoint, ConnectionAtPoint]) -> _Turns:
    client, server = (place.segments() for place in places)
    new = np.flatnonzero(client["new_bytes"] > 0)
    is_reply = client["reverse"][new]
    starts = new[~is_reply & np.append(True, is_reply)[: len(new)]]
    lengths, arrived = [], np.zeros(len(starts), np.int64)
    for reverse, receiver in ((False, server), (True, client)):
        own = new[is_reply == reverse]
        first = int(client["seq_bytes"][own].min()) if len(own) else 0
        sent = np.full(len(client), first)
        sent[own] = client["seq_bytes"][own] + client["payload_bytes"][own]
        reached = np.append(first, np.maximum.accumulate(sent))
        edges = reached[np.append(starts, len(client))]
        lengths.append(np.diff(edges))
        shift = sequence_shift(receiver, client, reverse=reverse)
        own = receiver["reverse"] == reverse
        begin = receiver["seq_bytes"][own] + shift
        arrived += np.diff(_below(begin, begin + receiver["payload_bytes"][own], edges))
    request, reply = lengths
    return _Turns(client["time_ns"][starts], request, reply, arrived)


def _below(begin: Array, end: Array, edges: Array) -> Array:
    """Return how many bytes of all ranges lie below each edge, each range counted: int64, shape of `edges`."""
    below: Array = np.zeros(len(edges), np.int64)
    for sign, bounds in ((1, np.sort(begin)), (-1, np.sort(end))):
        passed = np.searchsorted(bounds, edges)
        sums = np.append(0, np.cumsum(bounds))
        below += sign * (passed * edges - sums[passed])
    return below


def _arrived(table: Table, turns: _Turns, speed: float) -> Array:
    """Return the payload that arrived for each transaction; 0 if no turn can be told to be its own.

    It is the turn with the lengths of both messages that begins nearest to the transaction, within its RTT.
    """
    arrived = np.zeros(len(table), np.int64)
    lengths = np.column_stack([
        np.append(table["request_bytes"], turns.request), np.append(table["reply_bytes"], turns.reply)
    ])  # fmt: skip
    kind = np.unique(lengths, axis=0, return_inverse=True)[1].reshape(-1)
    of_rows, of_turns = np.split(kind, [len(table)])
    kinds = np.intersect1d(of_rows, of_turns)
    for rows, like in zip(_groups(of_rows, kinds), _groups(of_turns, kinds), strict=True):
        start_ns, begin_ns = table["start_ns"][rows], turns.begin_ns[like]
        after = np.searchsorted(begin_ns, start_ns)
        before, after = np.maximum(after - 1, 0), np.minimum(after, len(like) - 1)
        is_before = np.abs(begin_ns[before] - start_ns) <= np.abs(begin_ns[after] - start_ns)
        nearest = np.where(is_before, before, after)
        near = np.abs(begin_ns[nearest] - start_ns) < table["rtt_s"][rows] / speed * NS_PER_S
        arrived[rows[near]] = turns.arrived[like[nearest[near]]]
    return arrived


def _groups(kind: Array, kinds: Array) -> list[Array]:
    """Return the indices at which each of the ascending `kinds` is, ascending."""
    order = np.argsort(kind, kind="stable")
    low, high = (np.searchsorted(kind[order], kinds, side) for side in ("left", "right"))
    return [order[first:last] for first, last in zip(low.tolist(), high.tolist(), strict=True)]
