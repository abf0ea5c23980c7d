"""Readings of a sender's TCP variables: socket, connection, units, and the phases they show.

Sockets. A cookie distinguishes a socket from the next one on the same ports; without a cookie the inode does;
without both, a new socket is recognised by a counter that falls, or by a handshake after data. So the restart
of a counter never becomes a negative rate. A connection of a capture is found by addresses and ports of both
endpoints, and by time. Readings of a log without endpoints (`ss | grep cwnd`) belong to the connection that
has more than half of the capture's segments, if there is one.

Preparation. tcp_probe logs windows in segments without the segment size, and the state *before* the segment that
triggered it; it does not log the congestion state. Here windows are converted to bytes, each value is moved to the
segment that caused it, and the congestion state is taken from the trace point that reports its changes.

Phases. They show what congestion control did: slow start, congestion avoidance, recovery, loss. They are computed from
the sender's own variables if these were recorded, else they are inferred from its packets and marked as reconstructed.

Rules for packets alone
-----------------------
- The first retransmission begins an episode. The episode ends with the ACK of all data that had been sent
  before that retransmission (the recovery point of RFC 6582).
- The episode is *recovery* if an ACK that could have caused the retransmission had just arrived; after an
  idle gap it is *loss*. An idle gap within an episode changes recovery to loss.
- Before the first episode a sender is in slow start until the peak of outstanding bytes in a round trip no
  longer exceeds all earlier peaks by 40 %. After a loss it is in slow start until half of the bytes
  outstanding at the loss are outstanding again. Otherwise it is in congestion avoidance.
- A tail loss probe also follows an idle gap, and counts as loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import SegmentKind
from multitracer.protocols.sock_diag import ReadBy, TcpCaState, TcpEvent, TcpState
from multitracer.schemas.sender import JOINED_EVENTS, JOINED_STATE, TCP_PHASES
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from multitracer.tables import Array

TOLERANCE_NS = NS_PER_S
"""Maximum distance of a socket's readings from the connection's packets, ns: clocks differ, and sockets linger."""

_ENDPOINTS = ("ip_version", "address_local", "address_remote", "port_local", "port_remote")
_COUNTERS = ("total_sent_bytes", "total_acked_bytes", "total_received_bytes", "total_retransmitted_segments")
_OPENING = (TcpState.SYN_SENT, TcpState.SYN_RECV)


def number_sockets(state: Table) -> Array:
    """Return the number of the socket of each row of TCP_STATE.

    Returns
    -------
    ndarray of int32, shape (n_rows,)
        From 1, in the order of the sockets' first rows.
    """
    ends = _numbered(ends_of(state))
    known = state["cookie"] != 0
    method = np.where(known, 0, state["method"])
    life = np.where(known, 0, _lives(state, ends))
    identity = np.stack([ends, state["cookie"].astype(np.int64), method, life], axis=1)
    _, first, inverse = np.unique(identity, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(1, len(first) + 1)
    return rank[inverse.reshape(-1)]


def ends_of(rows: Table) -> Array:
    """Return both endpoints of each row of TCP_STATE or TCP_EVENTS as one comparable value.

    Returns
    -------
    ndarray of bytes (S38), shape (n_rows,)
    """
    return _keys(*(rows[name] for name in _ENDPOINTS))


def _keys(version: Array, local: Array, remote: Array, local_port: Array, remote_port: Array) -> Array:
    """Return both endpoints of each row as one fixed-length bytes value, equal for equal endpoints."""
    parts = (version, local, remote, local_port.astype(">u2"), remote_port.astype(">u2"))
    raw = [np.ascontiguousarray(part).view(np.uint8).reshape(len(part), part.itemsize) for part in parts]
    width = sum(part.shape[1] for part in raw) + 1
    joined = np.concatenate([*raw, np.ones((len(version), 1), np.uint8)], axis=1)
    return np.ascontiguousarray(joined).view(f"S{width}").reshape(-1)


def _numbered(keys: Array) -> Array:
    inverse: Array = np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return inverse


def _lives(state: Table, ends: Array) -> Array:
    """Return for each row how many sockets with the same endpoints and method began at or before it.

    It is used for readings without a cookie.
    """
    order = np.lexsort((state["time_ns"], state["method"], ends))
    same = np.zeros(len(order), dtype=bool)
    same[1:] = (np.diff(ends[order]) == 0) & (np.diff(state["method"][order]) == 0)
    begins = ~same
    for name in _COUNTERS:
        values = _counter(state, name)[order]
        before = _last_known(values, same)
        begins |= (values != NA) & (before != NA) & (values < before)
    inode = state["inode"][order]
    before = _last_known(inode, same)
    begins |= (inode != NA) & (before != NA) & (inode != before)
    opening = np.isin(state["state"][order], _OPENING)
    begins[1:] |= opening[1:] & ~opening[:-1] & (state["state"][order][:-1] != NA)
    lives = np.empty(len(order), dtype=np.int64)
    lives[order] = np.cumsum(begins)
    return lives


def _counter(state: Table, name: str) -> Array:
    """Return the counter `name` of each row; 0 where `ss` omitted it but reported other variables."""
    values = state[name]
    left_out = (state["method"] == ReadBy.SS) & (state["cwnd_segments"] != NA) & (values == NA)
    return np.where(left_out, 0, values)


def _last_known(values: Array, same: Array) -> Array:
    """Return for each row the last known value before it; `same` is False where another socket begins."""
    row = np.arange(len(values))
    known = np.maximum.accumulate(np.where(values != NA, row, -1))
    start = np.maximum.accumulate(np.where(same, 0, row))
    before = np.concatenate([[-1], known[:-1]]) if len(known) else known
    there = same & (before >= start)
    return np.where(there, values[np.maximum(before, 0)], NA)


def join(state: Table, *, flows: Table, connections: Table, tolerance_ns: int = TOLERANCE_NS) -> Table:
    """Return JOINED_STATE: TCP_STATE with the socket and the connection of each row.

    Parameters
    ----------
    state : Table
        TCP_STATE, of one or several sources.
    flows, connections : Table
        FLOWS and CONNECTIONS of one capture.
    tolerance_ns : int
        Maximum time between a socket's readings and the connection's packets.

    Returns
    -------
    Table
        A socket with a cookie belongs to the connection with the longest common time. A row without a cookie
        belongs to the connection that began last before it. A row without a match has no connection; the
        provenance counts the sockets of such rows.
    """
    socket = number_sockets(state)
    lookup = _Lookup.of(state, flows, connections)
    connection = np.full(len(state), NA, dtype=np.int32)
    reverse = np.zeros(len(state), dtype=bool)
    for rows in _groups(socket):
        match = lookup.as_one if state["cookie"][rows[0]] else lookup.row_by_row
        connection[rows], reverse[rows] = match(rows, tolerance_ns)
    unmatched = len(np.unique(socket[connection == NA]))
    columns = dict(state.columns) | {"socket": socket, "connection": connection, "reverse": reverse}
    return Table(JOINED_STATE, columns, state.provenance | {"sockets_without_connection": unmatched})


def join_events(events: Table, *, flows: Table, connections: Table, tolerance_ns: int = TOLERANCE_NS) -> Table:
    """Return JOINED_EVENTS: TCP_EVENTS with the connection of each event.

    Of the connections between its endpoints, it is the one that began last before the event.
    """
    lookup = _Lookup.of(events, flows, connections)
    connection = np.full(len(events), NA, dtype=np.int32)
    reverse = np.zeros(len(events), dtype=bool)
    for rows in _groups(_numbered(lookup.keys)):
        connection[rows], reverse[rows] = lookup.row_by_row(rows, tolerance_ns)
    columns = dict(events.columns) | {"connection": connection, "reverse": reverse}
    return Table(JOINED_EVENTS, columns, dict(events.provenance))


def _groups(number: Array) -> Iterator[Array]:
    """Yield, for each distinct number, the rows that have it, in ascending order."""
    order = np.argsort(number, kind="stable")
    cuts = np.flatnonzero(np.diff(number[order])) + 1
    yield from (rows for rows in np.split(order, cuts) if len(rows))


@dataclass(slots=True)
class _Lookup:
    """Finds, for rows of a log, the connections of the capture with the same endpoints."""

    keys: Array
    earliest: Array
    """The earliest time at which each row was valid, ns; NOT_A_TIME if unknown."""
    latest: Array
    connections: Table
    candidates: dict[bytes, tuple[Array, Array]]
    """For each pair of endpoints the indexes of its connections, ordered by start, and whether the local endpoint is
    the responder."""

    @classmethod
    def of(cls, rows: Table, flows: Table, connections: Table) -> Self:
        keys = ends_of(rows)
        bounds = [rows[f"read_{end}_ns" if "method" in rows.columns else "time_ns"] for end in ("before", "after")]
        earliest, latest = (np.where(b == NOT_A_TIME, rows["time_ns"], b) for b in bounds)
        candidates = _candidates(keys, flows, connections)
        if (nameless := rows["ip_version"] == 0).any():
            candidates[bytes(keys[nameless][0])] = _main(connections, rows.take(nameless))
        return cls(keys, earliest, latest, connections, candidates)

    def as_one(self, rows: Array, tolerance_ns: int) -> tuple[int, bool]:
        """Return one connection for all rows: that with the longest time in common with them.

        The second element is True if the log is from the responder of this connection.
        """
        index, reverse = self._candidates_of(rows)
        if not len(index):
            return NA, False
        known = rows[self.latest[rows] != NOT_A_TIME]
        if len(known):
            start, end = (self.connections[name][index] for name in ("start_ns", "end_ns"))
            shared = np.minimum(end, self.latest[known].max()) - np.maximum(start, self.earliest[known].min())
        else:
            shared = np.full(len(index), 0 if len(index) == 1 else -1 - tolerance_ns)
        best = int(np.argmax(shared))
        if shared[best] < -tolerance_ns:
            return NA, False
        return int(self.connections["connection"][index[best]]), bool(reverse[best])

    def row_by_row(self, rows: Array, tolerance_ns: int) -> tuple[Array, Array]:
        """Return for each row the connection that began last before it, and whether the responder is local.

        A connection that ended more than the tolerance before the row is not used.
        """
        index, reverse = self._candidates_of(rows)
        if not len(index):
            return np.full(len(rows), NA), np.zeros(len(rows), dtype=bool)
        start, end = (self.connections[name][index] for name in ("start_ns", "end_ns"))
        last = np.maximum(np.searchsorted(start, self.latest[rows], side="right") - 1, 0)
        known = self.latest[rows] != NOT_A_TIME
        near = (self.latest[rows] >= start[last] - tolerance_ns) & (self.earliest[rows] <= end[last] + tolerance_ns)
        chosen = np.where(known, near, len(index) == 1)
        return np.where(chosen, self.connections["connection"][index[last]], NA), reverse[last] & chosen

    def _candidates_of(self, rows: Array) -> tuple[Array, Array]:
        nothing = np.empty(0, dtype=np.int64)
        return self.candidates.get(bytes(self.keys[rows[0]]), (nothing, nothing))


def _candidates(keys: Array, flows: Table, connections: Table) -> dict[bytes, tuple[Array, Array]]:
    pair = connections["forward_flow"] >> 1
    by_pair = np.argsort(pair, kind="stable")
    bounds = np.searchsorted(pair[by_pair], np.arange(len(flows) + 1))
    version = flows["ip_version"]
    ends = [(flows[f"address_{end}"], flows[f"port_{end}"]) for end in "ab"]
    by_address: dict[bytes, list[Array]] = {}
    for side in (0, 1):
        (local, local_port), (remote, remote_port) = ends[side], ends[1 - side]
        sent_by = _keys(version, local, remote, local_port, remote_port)
        for flow in np.flatnonzero(np.isin(sent_by, keys)).tolist():
            own = by_pair[bounds[flow] : bounds[flow + 1]]
            reverse = connections["forward_flow"][own] != 2 * flow + side
            by_address.setdefault(bytes(sent_by[flow]), []).append(np.stack([own, reverse]))
    return {key: _by_start(np.concatenate(parts, axis=1), connections) for key, parts in by_address.items()}


def _main(connections: Table, nameless: Table) -> tuple[Array, Array]:
    """Return the connection that has most of the segments, and whether the readings are its responder's.

    It is used for readings without endpoints.
    """
    segments = connections["segments"]
    largest = np.flatnonzero(2 * segments > segments.sum())
    sent, received = (nameless[f"total_{way}_bytes"].max() for way in ("sent", "received"))
    return largest, (connections["bulk_direction"][largest] == 1) != bool(received > sent)


def _by_start(candidates: Array, connections: Table) -> tuple[Array, Array]:
    order = np.argsort(connections["start_ns"][candidates[0]], kind="stable")
    return candidates[0][order], candidates[1][order].astype(bool)


_TIMESTAMPS_BYTES = 12  # RFC 7323, appendix A: with two NOPs
_MOVED = (
    "cwnd_segments", "cwnd_bytes", "ssthresh_segments", "ssthresh_bytes", "srtt_ns", "ca_state",
)  # fmt: skip
"""Variables that the arrival of a segment changes; sequence numbers and windows of the segment are not among them."""


def in_bytes(state: Table, *, directions: Table) -> Table:
    """Return JOINED_STATE with cwnd_bytes and ssthresh_bytes also where only segments were logged.

    The segment size is that of the nearest reading of the same sender that has one; else the handshake's: the
    smaller announced MSS, minus 12 bytes if timestamps are used. snd_mss_bytes is filled with it; the
    provenance counts the rows of each kind.

    Parameters
    ----------
    state : Table
        JOINED_STATE.
    directions : Table
        DIRECTIONS of the same capture.
    """
    mss, counts = state["snd_mss_bytes"].copy(), {"reading": 0, "handshake": 0}
    for rows in by_sender(state):
        lacking = rows[(mss[rows] == NA) & (state["cwnd_segments"][rows] != NA)]
        known = rows[state["snd_mss_bytes"][rows] != NA]
        if not len(lacking):
            continue
        if len(known):
            mss[lacking] = mss[known[_nearest(state["time_ns"][known], state["time_ns"][lacking])]]
            counts["reading"] += len(lacking)
        elif allowed := _handshake_mss(directions, int(state["connection"][rows[0]])):
            mss[lacking] = allowed
            counts["handshake"] += len(lacking)
    columns = dict(state.columns) | {"snd_mss_bytes": mss}
    for name in ("cwnd", "ssthresh"):
        segments, as_read = state[f"{name}_segments"], state[f"{name}_bytes"]
        both = (as_read == NA) & (segments != NA) & (mss != NA)
        columns[f"{name}_bytes"] = np.where(both, segments * mss, as_read)
    return Table(state.schema, columns, state.provenance | {"mss_taken_from": counts})


def with_ca_state(state: Table, events: Table) -> Table:
    """Return JOINED_STATE with the congestion state of tcp_probe's rows, from the recorded changes.

    Parameters
    ----------
    state : Table
        JOINED_STATE.
    events : Table
        JOINED_EVENTS of the same recording. Before its first change a sender is assumed to be in the state
        open, unless that change is to open. Nothing is assumed if no sender has a recorded change, unless the
        log states that changes were recorded.
    """
    if not _records_changes(events):
        return state
    ca_state = state["ca_state"].copy()
    for every in by_sender(state):
        rows = every[state["method"][every] == ReadBy.TCP_PROBE]
        changes = _changes(events, state, rows)
        last = np.searchsorted(events["time_ns"][changes], state["time_ns"][rows], side="left") - 1
        entered = np.append(events["ca_state"][changes], NA)
        before = NA if len(changes) and entered[0] == TcpCaState.OPEN else int(TcpCaState.OPEN)
        ca_state[rows] = np.where(last < 0, before, entered[last])
    return Table(state.schema, dict(state.columns) | {"ca_state": ca_state}, dict(state.provenance))


@dataclass(frozen=True)
class SenderLogs:
    """Readings and events of senders, with their connections in one capture.

    Attributes
    ----------
    state, events : Table
        TCP_STATE and TCP_EVENTS of all hosts.
    flows, connections, directions : Table
        FLOWS, CONNECTIONS and DIRECTIONS of the capture.
    """

    state: Table
    events: Table
    flows: Table
    connections: Table
    directions: Table

    @cached_property
    def _joined(self) -> tuple[Table, Table]:
        """JOINED_STATE and JOINED_EVENTS: the readings and events of all hosts, with their connections."""
        flows, connections = self.flows, self.connections
        events = join_events(self.events, flows=flows, connections=connections)
        return join(self.state, flows=flows, connections=connections), events

    def of_sender(self, connection: int, *, reverse: bool) -> tuple[Table, Table]:
        """Return JOINED_STATE and JOINED_EVENTS of the sender of one direction, with windows in bytes.

        Parameters
        ----------
        connection : int
            Its number in the capture, from 1.
        reverse : bool
            The direction of the data: False from the initiator, True from the responder.
        """
        state, events = (
            table.take((table["connection"] == connection) & (table["reverse"] == reverse)) for table in self._joined
        )
        state = in_bytes(state, directions=self.directions)
        traced = bool(np.any((events["event"] == TcpEvent.CA_STATE) & (events["ca_state"] != NA)))
        return (with_ca_state(state, events) if traced else state), events


def _records_changes(events: Table) -> bool:
    listed = events.provenance.get("header", {}).get("events") or ()
    return "tcp_cong_state_set" in listed or bool((events["event"] == TcpEvent.CA_STATE).any())


def _changes(events: Table, state: Table, rows: Array) -> Array:
    if not len(rows):
        return rows
    same = (events["event"] == TcpEvent.CA_STATE) & (events["ca_state"] != NA)
    same &= events["connection"] == state["connection"][rows[0]]
    return np.flatnonzero(same & (ends_of(events) == ends_of(state.take(rows[:1]))))


def applied(state: Table, *, events: Table | None = None) -> Table:
    """Return tcp_probe's rows with each value moved to the segment that caused it.

    A row of tcp_probe shows the state before its segment is processed; the next row shows the state after it.
    So the congestion variables (cwnd, ssthresh, SRTT, congestion state) move one row up; the last row of each
    socket is left out. If the retransmission timer expired between two rows (`events` shows the change to
    loss), the timer caused the value, and the value gets the time of the timeout. `read_before_ns` and
    `read_after_ns` are the two rows between which the value took effect.

    Parameters
    ----------
    state : Table
        JOINED_STATE; rows of other methods are left out.
    events : Table, optional
        JOINED_EVENTS of the same recording.
    """
    parts = [_applied(state, rows, events) for rows in _by_socket(state)]
    columns = {
        name: np.concatenate([part[name] for part in parts]) if parts else state[name][:0]
        for name in state.schema.names
    }
    order = np.argsort(columns["time_ns"], kind="stable")
    moved = {name: values[order] for name, values in columns.items()}
    return Table(state.schema, moved, state.provenance | {"applied": True})


def _applied(state: Table, rows: Array, events: Table | None) -> dict[str, Array]:
    here, following = rows[:-1], rows[1:]
    columns = {name: state[name][following if name in _MOVED else here] for name in state.schema.names}
    begin, end = state["time_ns"][here], state["time_ns"][following]
    columns["read_before_ns"], columns["read_after_ns"] = begin, end
    if events is not None and len(here):
        changes = _changes(events, state, rows)
        losses = events["time_ns"][changes[events["ca_state"][changes] == TcpCaState.LOSS]]
        first = np.searchsorted(losses, begin, side="right")
        expired = np.append(losses, np.iinfo(np.int64).max)[first]
        columns["time_ns"] = np.where(expired < end, expired, begin)
    return columns


def by_sender(state: Table) -> Iterator[Array]:
    """Yield the rows of each sender sorted by time; without a connection, each socket is a sender.

    Yields
    ------
    ndarray of int64, shape (n_rows_of_sender,)
    """
    of_connection = 2 * state["connection"] + state["reverse"]
    sender = np.where(state["connection"] == NA, -1 - state["socket"], of_connection)
    yield from _socket_groups(sender, state["time_ns"])


def _by_socket(state: Table) -> Iterator[Array]:
    probe = state["method"] == ReadBy.TCP_PROBE
    yield from _socket_groups(np.where(probe, state["socket"], NA), state["time_ns"])


def _socket_groups(number: Array, time_ns: Array) -> Iterator[Array]:
    order = np.lexsort((time_ns, number))
    order = order[number[order] != NA]
    cuts = np.flatnonzero(np.diff(number[order])) + 1
    yield from (rows for rows in np.split(order, cuts) if len(rows))


def _nearest(known_ns: Array, wanted_ns: Array) -> Array:
    """Return for each time in `wanted_ns` the index of the nearest time in `known_ns`, which ascends."""
    right = np.clip(np.searchsorted(known_ns, wanted_ns), 1, max(len(known_ns) - 1, 1))
    left = right - 1
    right = np.minimum(right, len(known_ns) - 1)
    nearer_left = wanted_ns - known_ns[left] <= known_ns[right] - wanted_ns
    return np.where(nearer_left, left, right)


def _handshake_mss(directions: Table, connection: int) -> int | None:
    """Return the payload of a full-sized segment in bytes, from the options of the handshake.

    It is None if the handshake was not captured.
    """
    row = 2 * (connection - 1)
    announced = directions["mss_bytes"][row : row + 2]
    if connection == NA or NA in announced:
        return None
    stamps = bool(directions["timestamps"][row : row + 2].all())
    return max(int(announced.min()) - (_TIMESTAMPS_BYTES if stamps else 0), 1)


class TcpPhase(IntEnum):
    """The phases of TCP_PHASES.

    Examples
    --------
    >>> mt.TcpPhase(session.phases()["phase"].iloc[0]).name
    'SLOW_START'
    """

    SLOW_START = 1
    CONGESTION_AVOIDANCE = 2
    REDUCTION = 3
    """The window shrinks without a loss: because of ECN, or of a drop in the host itself (CWR in Linux)."""
    RECOVERY = 4
    """Fast retransmit and fast recovery."""
    LOSS = 5
    """A retransmission timeout, until everything sent before it is acknowledged."""


_OF_CA_STATE = {
    TcpCaState.CWR: TcpPhase.REDUCTION,
    TcpCaState.RECOVERY: TcpPhase.RECOVERY,
    TcpCaState.LOSS: TcpPhase.LOSS,
}
_GROWS = 1.4
"""Minimum growth of the peak in slow start: with delayed ACKs, old senders grow by half per round trip, new ones
double."""
_MOST_ROUNDS = 10_000
"""Maximum number of round trips in the first slow start."""
_MIN_IDLE_GAP_NS = 10 * NS_PER_MS
"""Minimum idle gap before a retransmission counts as a timeout, ns; a quarter of the minimum RTT is added, since hosts
react sooner. Not measured."""


def phases_of_state(state: Table, *, events: Table | None = None) -> Table:
    """Return TCP_PHASES of one sender from its variables.

    Parameters
    ----------
    state : Table
        JOINED_STATE of one sender (one connection and direction), tcp_probe's rows with their congestion
        state (`with_ca_state`).
    events : Table, optional
        JOINED_EVENTS of the same recording; with them a timeout begins when it happened.

    Returns
    -------
    Table
        Readings without congestion state (from `ss` or siftr) cannot show recovery. They are used only if no
        reading has a congestion state; the phases are then marked `reconstructed`.
    """
    polled = state.take(state["method"] != ReadBy.TCP_PROBE)
    both = Table.concatenate(JOINED_STATE, [polled, applied(state, events=events)])
    points = both.take(np.lexsort((both["method"], both["time_ns"])))
    phase = _phase_of_rows(points)
    known = (phase != 0) & (points["time_ns"] != NOT_A_TIME)
    if (points["ca_state"][known] != NA).any():
        known &= points["ca_state"] != NA
    points, phase = points.take(known), phase[known]
    return _runs(points["time_ns"], phase, points["ca_state"] == NA)


def _phase_of_rows(points: Table) -> Array:
    """Return the TCP phase that each reading shows (`TcpPhase`); 0 if it shows none."""
    cwnd, ssthresh = points["cwnd_segments"], points["ssthresh_segments"]
    in_bytes = cwnd == NA
    cwnd = np.where(in_bytes, points["cwnd_bytes"], cwnd)
    ssthresh = np.where(in_bytes, points["ssthresh_bytes"], ssthresh)
    below = (ssthresh == NA) | (cwnd < ssthresh)
    phase: Array = np.where(below, int(TcpPhase.SLOW_START), int(TcpPhase.CONGESTION_AVOIDANCE))
    phase[cwnd == NA] = 0
    for ca_state, shown in _OF_CA_STATE.items():
        phase[points["ca_state"] == ca_state] = shown
    return phase


def _runs(time_ns: Array, phase: Array, reconstructed: Array) -> Table:
    """Return TCP_PHASES: an interval for each run of rows with the same phase."""
    if not len(phase):
        return Table.empty(TCP_PHASES)
    first = np.flatnonzero(np.diff(phase, prepend=0) != 0)
    begin = time_ns[first]
    columns = {
        "begin_after_ns": np.concatenate([begin[:1], time_ns[first[1:] - 1]]),
        "begin_ns": begin,
        "end_ns": np.append(begin[1:], time_ns[-1]),
        "phase": phase[first].astype(np.uint8),
        "reconstructed": reconstructed[first],
    }
    return Table(TCP_PHASES, columns)


@dataclass(slots=True)
class _Sender:
    """The packets of one direction, from the capture at its sender."""

    time_ns: Array
    sent: Array
    """Rows that occupy sequence numbers in this direction."""
    again: Array
    """Rows that are retransmissions."""
    arrived: Array
    """Rows of the other direction with an acknowledgment."""
    highest: Array
    """Highest byte sent before or in each row."""
    reached: Array
    """Highest byte acknowledged before or in each row."""
    flight: Array
    """Bytes outstanding after each row."""
    idle_gap_ns: int
    """Maximum time after an arrival for a retransmission that the arrival caused, ns."""


@dataclass(slots=True)
class _Episode:
    """The rows from a first retransmission to the ACK of everything that had been sent before it."""

    begin: int
    end: int
    loss: int | None
    """The first retransmission after an idle gap; None without one."""
    flight_bytes: int


def phases_of_packets(segments: Table, *, reverse: bool) -> Table:
    """Return TCP_PHASES of one direction, inferred from its packets, all marked `reconstructed`.

    Parameters
    ----------
    segments : Table
        TCP_SEGMENTS of one connection, captured at or near this direction's sender.
    reverse : bool
        False: the initiator's phases; True: the responder's.
    """
    sender = _sender(segments, reverse=reverse)
    if not len(sender.sent):
        return Table.empty(TCP_PHASES)
    episodes = _episodes(sender)
    marks = [(int(sender.sent[0]), TcpPhase.SLOW_START)]
    end = episodes[0].begin if episodes else len(sender.time_ns)
    if (ceased := _growth_ceased(sender, end)) is not None:
        marks.append((ceased, TcpPhase.CONGESTION_AVOIDANCE))
    ends = [*(episode.begin for episode in episodes[1:]), len(sender.time_ns)]
    for episode, until in zip(episodes, ends, strict=False):
        marks += _marks(episode, sender, until)
    rows = np.array([row for row, _ in marks])
    phase = np.array([int(phase) for _, phase in marks])
    last = max(int(sender.sent[-1]), int(sender.arrived[-1]) if len(sender.arrived) else 0)
    time_ns = sender.time_ns[np.append(rows, last)]
    return _runs(time_ns, np.append(phase, phase[-1]), np.ones(len(phase) + 1, dtype=bool))


def _sender(segments: Table, *, reverse: bool) -> _Sender:
    own = segments["reverse"] == reverse
    occupies = own & (segments["end_bytes"] > segments["seq_bytes"])
    probes = SegmentKind.ZERO_WINDOW_PROBE | SegmentKind.KEEP_ALIVE | SegmentKind.CAPTURE_DUPLICATE
    plain = (segments["kind"] & np.uint32(probes)) == 0
    again = occupies & plain & ((segments["kind"] & np.uint32(SegmentKind.RETRANSMISSION)) != 0)
    back = ~own & (segments["ack_bytes"] != NA)
    sampled = segments["rtt_ns"][own & (segments["rtt_ns"] > 0)]
    min_rtt_ns = int(sampled.min()) if len(sampled) else 0
    highest = np.maximum.accumulate(np.where(occupies, segments["end_bytes"], 0))
    reached = np.maximum.accumulate(np.where(back, segments["ack_bytes"], 0))
    return _Sender(
        segments["time_ns"],
        np.flatnonzero(occupies & plain),
        np.flatnonzero(again),
        np.flatnonzero(back),
        highest,
        reached,
        np.maximum(highest - reached, 0),
        _MIN_IDLE_GAP_NS + min_rtt_ns // 4,
    )


def _episodes(sender: _Sender) -> list[_Episode]:
    episodes: list[_Episode] = []
    idle = _idle(sender)
    at = 0
    while at < len(sender.again):
        begin = int(sender.again[at])
        point = sender.highest[max(begin - 1, 0)]
        end = int(np.searchsorted(sender.reached, point))
        if end < begin:  # a copy of what is acknowledged already
            at += 1
            continue
        following = int(np.searchsorted(sender.again, end)) if end < len(sender.time_ns) else len(sender.again)
        losses = sender.again[at:following][idle[at:following]]
        loss = int(losses[0]) if len(losses) else None
        episodes.append(_Episode(begin, end, loss, int(sender.flight[max(begin - 1, 0)])))
        at = max(following, at + 1)
    return episodes


def _idle(sender: _Sender) -> Array:
    """Return which retransmissions followed an idle gap: bool.

    An idle gap means that no segment which could have caused the retransmission arrived shortly before it.
    """
    before = np.searchsorted(sender.arrived, sender.again) - 1
    arrived_ns = np.append(sender.time_ns[sender.arrived], 0)[before]
    idle: Array = (before < 0) | (sender.time_ns[sender.again] - arrived_ns > sender.idle_gap_ns)
    return idle


def _growth_ceased(sender: _Sender, end: int) -> int | None:
    """Return the first row of the round trip from which on the outstanding data no longer grew by 40 %.

    In each round trip, the peak of the outstanding bytes is compared with all earlier peaks. The result is
    None if the peak grows in every round trip up to row `end`.
    """
    at, peak, ceased = 0, 0, None
    for _ in range(_MOST_ROUNDS):
        if at >= len(sender.sent):
            break
        row = int(sender.sent[at])
        answered = max(int(np.searchsorted(sender.reached, sender.highest[row])), row)
        if answered >= end:
            break
        highest = int(sender.flight[row : answered + 1].max())
        if highest >= _GROWS * peak:
            ceased = None
        elif ceased is None:
            ceased = row
        peak = max(peak, highest)
        at = max(int(np.searchsorted(sender.sent, answered)), at + 1)
    return ceased


def _marks(episode: _Episode, sender: _Sender, until: int) -> list[tuple[int, TcpPhase]]:
    """Return (row, phase) for each phase that begins in the episode or after it, up to row `until`."""
    marks = []
    if episode.loss != episode.begin:
        marks.append((episode.begin, TcpPhase.RECOVERY))
    if episode.loss is not None:
        marks.append((episode.loss, TcpPhase.LOSS))
    if episode.end >= until:
        return marks
    if episode.loss is None:
        return [*marks, (episode.end, TcpPhase.CONGESTION_AVOIDANCE)]
    marks.append((episode.end, TcpPhase.SLOW_START))
    half = np.flatnonzero(sender.flight[episode.end : until] >= episode.flight_bytes / 2)
    return [*marks, (episode.end + int(half[0]), TcpPhase.CONGESTION_AVOIDANCE)] if len(half) else marks
