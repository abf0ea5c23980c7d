"""What the readings of a sender's variables need before they are joined with its packets.

tcp_probe logs windows in segments without the segment's size, and the state *before* the segment that made it
fire; it does not log the congestion state at all. Here windows become bytes, each value moves to the segment
that brought it about, and the congestion state is taken from the trace point that reports its changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.sender.tcp_state import ends_of
from multitracer.protocols.sock_diag import CaState, ReadBy, TcpEvent
from multitracer.tables import NA, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Array

_TIMESTAMPS_BYTES = 12  # RFC 7323, appendix A: with two NOPs
_MOVED = (
    "cwnd_segments", "cwnd_bytes", "ssthresh_segments", "ssthresh_bytes", "srtt_ns", "ca_state",
)  # fmt: skip
"""What a segment changes when it arrives; numbers and windows in it are known before."""


def in_bytes(state: Table, *, directions: Table) -> Table:
    """Return JOINED_STATE with cwnd_bytes and ssthresh_bytes also where only segments were logged.

    The size of a segment is that of the nearest reading of the same sender that has it, else what the
    handshake allows: the smaller of both announced MSS, less 12 bytes for timestamps. snd_mss_bytes is
    filled with it; the provenance counts the rows of each kind.

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
    """Return JOINED_STATE with the congestion state of tcp_probe's rows, from its recorded changes.

    Parameters
    ----------
    state : Table
        JOINED_STATE.
    events : Table
        JOINED_EVENTS of the same recording. Before the first change a sender is taken for open, unless that
        change is to open; nothing is concluded if no change of anybody was recorded, and the log does not say
        that it would have been.
    """
    if not _records_changes(events):
        return state
    ca_state = state["ca_state"].copy()
    for every in by_sender(state):
        rows = every[state["method"][every] == ReadBy.TCP_PROBE]
        changes = _changes(events, state, rows)
        last = np.searchsorted(events["time_ns"][changes], state["time_ns"][rows], side="left") - 1
        entered = np.append(events["ca_state"][changes], NA)
        before = NA if len(changes) and entered[0] == CaState.OPEN else int(CaState.OPEN)
        ca_state[rows] = np.where(last < 0, before, entered[last])
    return Table(state.schema, dict(state.columns) | {"ca_state": ca_state}, dict(state.provenance))


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
    """Return tcp_probe's rows with each value at the segment that brought it about.

    A row of tcp_probe shows what its segment found. What that segment made of it is what the next row shows,
    so the congestion variables (cwnd, ssthresh, SRTT, congestion state) move one row up; the last row of each
    socket is left out. If the retransmission timer expired between two rows (`events` shows the change to
    loss), the timer brought the value about, and it stands at that time. `read_before_ns` and `read_after_ns`
    are the two rows between which the value took effect.

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
        losses = events["time_ns"][changes[events["ca_state"][changes] == CaState.LOSS]]
        first = np.searchsorted(losses, begin, side="right")
        expired = np.append(losses, np.iinfo(np.int64).max)[first]
        columns["time_ns"] = np.where(expired < end, expired, begin)
    return columns


def by_sender(state: Table) -> Iterator[Array]:
    """Yield the rows of each sender in order of time; without a connection, each socket is a sender.

    Yields
    ------
    ndarray of int64, shape (n_rows_of_sender,)
    """
    of_connection = 2 * state["connection"] + state["reverse"]
    sender = np.where(state["connection"] == NA, -1 - state["socket"], of_connection)
    yield from _groups(sender, state["time_ns"])


def _by_socket(state: Table) -> Iterator[Array]:
    probe = state["method"] == ReadBy.TCP_PROBE
    yield from _groups(np.where(probe, state["socket"], NA), state["time_ns"])


def _groups(number: Array, time_ns: Array) -> Iterator[Array]:
    order = np.lexsort((time_ns, number))
    order = order[number[order] != NA]
    cuts = np.flatnonzero(np.diff(number[order])) + 1
    yield from (rows for rows in np.split(order, cuts) if len(rows))


def _nearest(known_ns: Array, wanted_ns: Array) -> Array:
    """Return for each instant the index of the nearest known one; `known_ns` ascends."""
    right = np.clip(np.searchsorted(known_ns, wanted_ns), 1, max(len(known_ns) - 1, 1))
    left = right - 1
    right = np.minimum(right, len(known_ns) - 1)
    nearer_left = wanted_ns - known_ns[left] <= known_ns[right] - wanted_ns
    return np.where(nearer_left, left, right)


def _handshake_mss(directions: Table, connection: int) -> int | None:
    """Return the payload of a full segment as the handshake allows it; None if it was not captured."""
    row = 2 * (connection - 1)
    announced = directions["mss_bytes"][row : row + 2]
    if connection == NA or NA in announced:
        return None
    stamps = bool(directions["timestamps"][row : row + 2].all())
    return max(int(announced.min()) - (_TIMESTAMPS_BYTES if stamps else 0), 1)
