"""Which socket and which connection a reading of a sender's variables belongs to.

A socket is told from the next one on the same ports by its cookie; without one by its inode; without either
by what only a new socket does: a counter that falls, or a handshake after data. So no counter that restarts
becomes a negative rate. A connection of a capture is found by both ends' addresses and ports, and by time;
readings of a log that names no ends (`ss | grep cwnd`) are those of the connection that has most of the
capture's segments, if one has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.protocols.sock_diag import ReadBy, TcpState
from multitracer.sender import JOINED_EVENTS, JOINED_STATE
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from multitracer.tables import Array

TOLERANCE_NS = NS_PER_S
"""How far a socket's life may lie outside the connection's packets: clocks differ, and sockets linger."""

_ENDPOINTS = ("ip_version", "address_local", "address_remote", "port_local", "port_remote")
_COUNTERS = (
    "total_sent_bytes",
    "total_acked_bytes",
    "total_received_bytes",
    "total_retransmitted_segments",
)
_OPENING = (TcpState.SYN_SENT, TcpState.SYN_RECV)


def number_sockets(state: Table) -> Array:
    """Return the socket of each row of TCP_STATE.

    Returns
    -------
    ndarray of int32, shape (n_rows,)
        From 1, in the order of their first rows.
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
    """Return both ends of each row of TCP_STATE or TCP_EVENTS as one comparable value.

    Returns
    -------
    ndarray of bytes (S38), shape (n_rows,)
    """
    return _keys(*(rows[name] for name in _ENDPOINTS))


def _keys(version: Array, local: Array, remote: Array, local_port: Array, remote_port: Array) -> Array:
    """Return both ends as one comparable value a row."""
    parts = (version, local, remote, local_port.astype(">u2"), remote_port.astype(">u2"))
    raw = [np.ascontiguousarray(part).view(np.uint8).reshape(len(part), part.itemsize) for part in parts]
    width = sum(part.shape[1] for part in raw) + 1
    joined = np.concatenate([*raw, np.ones((len(version), 1), np.uint8)], axis=1)
    return np.ascontiguousarray(joined).view(f"S{width}").reshape(-1)


def _numbered(keys: Array) -> Array:
    inverse: Array = np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return inverse


def _lives(state: Table, ends: Array) -> Array:
    """Return how many sockets without a cookie began before or at each row, by ends, method and time."""
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
    """Return a counter; where `ss` left it out beside other variables it is 0, and may have fallen to it."""
    values = state[name]
    left_out = (state["method"] == ReadBy.SS) & (state["cwnd_segments"] != NA) & (values == NA)
    return np.where(left_out, 0, values)


def _last_known(values: Array, same: Array) -> Array:
    """Return the last known value before each row within rows that are the `same` as the one before."""
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
        TCP_STATE, of one source or several together.
    flows, connections : Table
        FLOWS and CONNECTIONS of one capture.
    tolerance_ns : int
        How far a socket's readings may lie outside the connection's packets.

    Returns
    -------
    Table
        A socket with a cookie belongs to one connection, that with which it shares most time. A row without
        one belongs to the connection that had begun last. Rows that match nothing have none; the provenance
        counts the sockets of these.
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


def join_events(
    events: Table, *, flows: Table, connections: Table, tolerance_ns: int = TOLERANCE_NS
) -> Table:
    """Return JOINED_EVENTS: each event belongs to the connection of its ends that had begun last."""
    lookup = _Lookup.of(events, flows, connections)
    connection = np.full(len(events), NA, dtype=np.int32)
    reverse = np.zeros(len(events), dtype=bool)
    for rows in _groups(_numbered(lookup.keys)):
        connection[rows], reverse[rows] = lookup.row_by_row(rows, tolerance_ns)
    columns = dict(events.columns) | {"connection": connection, "reverse": reverse}
    return Table(JOINED_EVENTS, columns, dict(events.provenance))


def _groups(number: Array) -> Iterator[Array]:
    """Yield the rows of each number, in order."""
    order = np.argsort(number, kind="stable")
    cuts = np.flatnonzero(np.diff(number[order])) + 1
    yield from (rows for rows in np.split(order, cuts) if len(rows))


@dataclass(slots=True)
class _Lookup:
    """Finds the connections between the ends of a row."""

    keys: Array
    earliest: Array
    """When each row held at the earliest, NOT_A_TIME if unknown."""
    latest: Array
    connections: Table
    candidates: dict[bytes, tuple[Array, Array]]
    """Ends -> indexes of connections in order of their starts, and whether the local end is the responder."""

    @classmethod
    def of(cls, rows: Table, flows: Table, connections: Table) -> Self:
        keys = ends_of(rows)
        bounds = [
            rows[f"read_{end}_ns" if "method" in rows.columns else "time_ns"] for end in ("before", "after")
        ]
        earliest, latest = (np.where(b == NOT_A_TIME, rows["time_ns"], b) for b in bounds)
        candidates = _candidates(keys, flows, connections)
        if (nameless := rows["ip_version"] == 0).any():
            candidates[bytes(keys[nameless][0])] = _main(connections, rows.take(nameless))
        return cls(keys, earliest, latest, connections, candidates)

    def as_one(self, rows: Array, tolerance_ns: int) -> tuple[int, bool]:
        """Return the connection that shares most time with all the rows together."""
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
        """Return for each row the connection that had begun last, if it had not ended long before."""
        index, reverse = self._candidates_of(rows)
        if not len(index):
            return np.full(len(rows), NA), np.zeros(len(rows), dtype=bool)
        start, end = (self.connections[name][index] for name in ("start_ns", "end_ns"))
        last = np.maximum(np.searchsorted(start, self.latest[rows], side="right") - 1, 0)
        known = self.latest[rows] != NOT_A_TIME
        near = (self.latest[rows] >= start[last] - tolerance_ns) & (
            self.earliest[rows] <= end[last] + tolerance_ns
        )
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
    """Return the connection with most of the segments, and whether the readings are its responder's."""
    segments = connections["segments"]
    largest = np.flatnonzero(2 * segments > segments.sum())
    sent, received = (nameless[f"total_{way}_bytes"].max() for way in ("sent", "received"))
    return largest, (connections["bulk_direction"][largest] == 1) != bool(received > sent)


def _by_start(candidates: Array, connections: Table) -> tuple[Array, Array]:
    order = np.argsort(connections["start_ns"][candidates[0]], kind="stable")
    return candidates[0][order], candidates[1][order].astype(bool)
