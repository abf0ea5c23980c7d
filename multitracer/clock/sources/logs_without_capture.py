"""Relation of logs (of an unknown host, or of a host without a capture) to captures, by common events.

A log of TCP variables shows the acknowledged bytes, a link log the packets that the link accepted and
delivered, a radio log the times without transmission. Each kind has its own estimator; of several captures,
the one with the smallest uncertainty is used.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Flag
from multitracer.clock.model.estimate import Estimate, EventDirection
from multitracer.clock.model.relation import Clock, Relation
from multitracer.clock.model.skew_posterior import corridor
from multitracer.clock.sources.stalls import relate_radio
from multitracer.errors import ClockError
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.capture import CaptureTables
    from multitracer.tables import Array, Table

    Columns = tuple[Array, Array, Array]
    Ends = tuple[bytes, bytes, int, int]
    from collections.abc import Callable, Iterator, Mapping

    from multitracer.logs import LogSource

    Found = list[Estimate]

# A capture's clock and the clock of a link log of the same host, by the packets that both name.
#
# A packet is captured on its way out before the link takes it (`packet_queued`, `ppp_sent`), and on its way
# in after the link gave it up (`ppp_received`). The log names each by IP identification and TCP sequence
# number, so that every packet bounds the offset from one side and the two kinds together from both.


LINK_PACKETS = "link log: packets handed over"
_SLACK_NS = 2e6  # two processes of one host stamp a packet a little apart. Not measured
_MIN = 5  # with fewer packets one that is mistaken decides
_SENT = ("packet_queued", "ppp_sent")
_RECEIVED = ("ppp_received",)


def relate_link(capture: CaptureTables, events: Table) -> list[Estimate]:
    """Return the relation of a link log to a capture at the same host.

    Parameters
    ----------
    capture : CaptureTables
        A capture at the side of the log; its clock is `from`.
    events : Table
        `link_events`, their clock is `to`.

    Raises
    ------
    ClockError
        If too few packets are in both, or only packets of one direction.
    """
    parts = [_shared(capture, events, kind, EventDirection.FORWARD) for kind in _SENT]
    parts += [_shared(capture, events, kind, EventDirection.BACKWARD) for kind in _RECEIVED]
    start, end, direction = (np.concatenate(column) for column in zip(*parts, strict=True))
    if len(start) < _MIN:
        raise ClockError(
            f"{LINK_PACKETS}: cannot determine the clock offset, because capture and log have "
            f"{len(start)} packets in common; what would help: a capture at the interface above the "
            "link, of the same time"
        )
    return [corridor(start, end, direction, method=LINK_PACKETS, slack_ns=_SLACK_NS)]


def _shared(capture: CaptureTables, events: Table, kind: str, direction: int) -> tuple[Array, Array, Array]:
    """Return time in the capture, time in the log, and direction of each packet that both contain.

    In the log, only events of `kind` are used.
    """
    rows = np.flatnonzero((events["event"] == kind) & (events["ip_id"] != NA) & (events["seq"] != NA))
    named = _names(events["ip_id"][rows], events["seq"][rows])
    seen = _names(capture.segments["ip_id"], capture.segments["seq"])
    once_named, once_seen = _once(named), _once(seen)
    _, mine, theirs = np.intersect1d(seen[once_seen], named[once_named], assume_unique=True, return_indices=True)
    time = capture.segments["time_ns"][once_seen[mine]]
    return time, events["time_ns"][rows[once_named[theirs]]], np.full(len(mine), direction, dtype=np.int8)


def _names(ip_id: Array, seq: Array) -> Array:
    names: Array = (ip_id.astype(np.int64) << 32) + seq.astype(np.int64)
    return names


def _once(names: Array) -> Array:
    """Return the indexes of the names that occur exactly once; repeated names are ambiguous."""
    _, first, count = np.unique(names, return_index=True, return_counts=True)
    indexes: Array = first[count == 1]
    return indexes


# A capture's clock and the clock of a log of TCP variables, by the bytes that were acknowledged.
#
# The first reading that shows a byte acknowledged came after the ACK for it was captured, and the last one
# that does not came before: the sender's oldest unacknowledged number (`snd_una`) ties each reading between
# two packets. tcp_probe reads before it applies its segment; that reading lies *at* the ACK, and is not
# later.


ACKNOWLEDGED_BYTES = "TCP state: bytes acknowledged"
"""Name of the method. The capture records an ACK after the network card received it, and before TCP processes it."""
_TCP_PROBE = 2
"""ReadBy.TCP_PROBE of `multitracer.protocols.sock_diag`."""
_VOTES, _MOST_READINGS = 3, 400
"""Number of readings that must agree on the ACK of a count of acknowledged bytes, and maximum number of readings used.
"""


def relate_state(capture: CaptureTables, state: Table) -> list[Estimate]:
    """Return the relation of a log of TCP variables to a capture at the same host.

    Parameters
    ----------
    capture : CaptureTables
        A capture at the host of the log; its clock is `from`.
    state : Table
        `tcp_state`, its clock is `to`. Rows without `snd_una` are skipped.

    Raises
    ------
    ClockError
        If no connection has readings that match its ACKs.
    """
    parts = [_of_connection(capture, state, ends) for ends in _connections(state)]
    single = []
    for part in parts:
        with contextlib.suppress(ClockError):
            single.append((corridor(*part, method=ACKNOWLEDGED_BYTES, slack_ns=_SLACK_NS), part))
    if not single:
        raise ClockError(
            f"{ACKNOWLEDGED_BYTES}: cannot determine the clock offset, because no reading of the "
            "acknowledged bytes matches ACKs of its connection in the capture; what would help: "
            "readings every 50 ms by collectors.tcp_info, at the captured host"
        )
    single.sort(key=lambda one: one[0].at_pivot_ns)
    return [_together(single)]


def _together(single: list[tuple[Estimate, Columns]]) -> Estimate:
    """Return one estimate from all connections that agree with the most certain one.

    A log of all connections of a machine may include both endpoints of a connection; the ACKs of one of these
    are not at this capture point.
    """
    estimate, kept = single[0]
    for _, part in single[1:]:
        more = (
            np.concatenate([kept[0], part[0]]),
            np.concatenate([kept[1], part[1]]),
            np.concatenate([kept[2], part[2]]),
        )
        with contextlib.suppress(ClockError):
            wider = corridor(*more, method=ACKNOWLEDGED_BYTES, slack_ns=0.0)
            if wider.at_pivot_ns <= estimate.at_pivot_ns:
                estimate, kept = wider, more
    return estimate


def _connections(state: Table) -> list[Ends]:
    names = ("address_local", "address_remote", "port_local", "port_remote")
    rows = np.flatnonzero((state["snd_una"] != NA) | (state["total_acked_bytes"] != NA))
    columns = [state[name][rows].tolist() for name in names]
    return sorted({(bytes(a), bytes(b), int(p), int(q)) for a, b, p, q in zip(*columns, strict=True)})


def _of_connection(capture: CaptureTables, state: Table, ends: Ends) -> Columns:
    """Return time in the capture, time in the log, and direction of the events in a connection's readings."""
    time, number = _acks(capture, ends)
    rows, una = _readings(state, ends, number)
    place = np.searchsorted(number, una, side="left").clip(max=max(len(number) - 1, 0))
    seen = number[place] == una if len(number) else np.zeros(len(una), dtype=bool)
    rows, place = rows[seen], place[seen]
    rows, place = _at_next_ack(state, rows, place, len(number))
    last = place + 1 >= len(number)
    after, before = rows, rows[~last]
    return (
        np.concatenate([time[place], time[place[~last] + 1]]),
        np.concatenate([state["read_after_ns"][after], state["read_before_ns"][before]]),
        np.repeat(
            np.array([EventDirection.FORWARD, EventDirection.BACKWARD], dtype=np.int8), [len(after), len(before)]
        ),
    )


def _at_next_ack(state: Table, rows: Array, place: Array, acks: int) -> tuple[Array, Array]:
    """Return the rows of readings and the index of the ACK that caused each of them.

    Readings of tcp_probe are moved from the previous ACK to the one that triggered them. Of readings with the
    same number, only the last was triggered by the ACK that acknowledged more.
    """
    probed = state["method"][rows] == _TCP_PROBE
    if not probed.any():
        return rows, place
    newest = np.append(np.diff(place) != 0, True)
    kept = ~probed | (newest & (place + 1 < acks))
    return rows[kept], (place + probed)[kept]


def _readings(state: Table, ends: Ends, number: Array) -> tuple[Array, Array]:
    """Return the rows of a connection's readings, and the ACK number of each, on the axis of `number`."""
    names = ("address_local", "address_remote", "port_local", "port_remote")
    wanted = (np.void(ends[0]), np.void(ends[1]), *ends[2:])
    chosen = np.logical_and.reduce([state[name] == value for name, value in zip(names, wanted, strict=True)])
    absolute, counted = (chosen & (state[name] != NA) for name in ("snd_una", "total_acked_bytes"))
    if absolute.any():
        rows = np.flatnonzero(absolute)
        origin = int(number[0]) if len(number) else 0
        return rows, origin + _unwrapped(state["snd_una"][rows], origin)
    rows = np.flatnonzero(counted)
    acked = state["total_acked_bytes"][rows]
    return rows, acked + _origin(acked, number)


def _origin(acked: Array, number: Array) -> int:
    """Return the ACK number at which a counter of acknowledged bytes was 0, as most readings show it."""
    some = np.unique(acked)[:_MOST_READINGS]
    away = (number[: 8 * _MOST_READINGS, None] - some[None, :]).ravel()
    if not len(away):
        return 1 << 40
    values, votes = np.unique(away, return_counts=True)
    return int(values[np.argmax(votes)]) if votes.max() >= _VOTES else 1 << 40


def _acks(capture: CaptureTables, ends: Ends) -> tuple[Array, Array]:
    """Return the capture time of each ACK of new data, and its unwrapped ACK number (int64), ascending."""
    local, remote, port, far_port = ends
    flows, segments = capture.flows, capture.segments
    a, b, p, q = (flows[name] for name in ("address_a", "address_b", "port_a", "port_b"))
    first = (a == np.void(remote)) & (b == np.void(local)) & (p == far_port) & (q == port)
    second = (a == np.void(local)) & (b == np.void(remote)) & (p == port) & (q == far_port)
    wanted = np.concatenate([2 * np.flatnonzero(first), 2 * np.flatnonzero(second) + 1])
    rows = np.flatnonzero(np.isin(segments["flow"], wanted) & (segments["flags"] & Flag.ACK > 0))
    if not len(rows):
        return segments["time_ns"][rows], segments["ack"][rows].astype(np.int64)
    origin = int(segments["ack"][rows[0]])
    number = origin + _unwrapped(segments["ack"][rows], origin)
    new = np.concatenate([[True], number[1:] > np.maximum.accumulate(number)[:-1]])
    return segments["time_ns"][rows[new]], number[new]


def _unwrapped(number: Array, origin: int) -> Array:
    """Return 32-bit numbers as int64 distances from an origin within 2^31."""
    away: Array = (number.astype(np.int64) - origin + (1 << 31)) % (1 << 32) - (1 << 31)
    return away


def relations_of_logs(
    source: LogSource, captures: Mapping[str, CaptureTables], refused: list[str]
) -> Iterator[Relation]:
    """Yield the relations of the clocks of logs from other hosts to those of the captures.

    Parameters
    ----------
    source : LogSource
    captures : mapping of str to Capture
        The capture of each host.
    refused : list of str
        A sentence is appended for each log that cannot be related.
    """
    for layer, estimator in _ESTIMATORS.items():
        if source.folder is not None and layer != "radio":
            continue  # these two need the capture of the very host, whose clock is then the log's own
        for log, tables in source.logs(layer):
            if log.host not in captures and captures:
                yield from _best(Clock(log.host), tables, captures, estimator, refused)


def _best(
    clock: Clock,
    tables: dict[str, Table],
    captures: Mapping[str, CaptureTables],
    estimator: Callable[[CaptureTables, dict[str, Table]], Found],
    refused: list[str],
) -> Iterator[Relation]:
    """Yield the relation of a log to one capture: the capture that gives the smallest uncertainty.

    If no capture gives a relation, nothing is yielded and a sentence is added to `refused`.
    """
    relations, reasons = [], []
    for host, capture in captures.items():
        try:
            relations.append(Relation(Clock(host), clock, tuple(estimator(capture, tables))))
        except ClockError as error:
            reasons.append(f"{host} and {clock.host}: {error}")
    if relations:
        yield min(relations, key=lambda relation: relation.estimates[0].uncertainty_ns)
    else:
        refused += reasons


def _of_state(capture: CaptureTables, tables: dict[str, Table]) -> Found:
    return relate_state(capture, tables["tcp_state"])


def _of_link(capture: CaptureTables, tables: dict[str, Table]) -> Found:
    return relate_link(capture, tables["link_events"])


def _of_radio(capture: CaptureTables, tables: dict[str, Table]) -> Found:
    return relate_radio(capture, tables["radio"])


_ESTIMATORS = {"tcp": _of_state, "link": _of_link, "radio": _of_radio}
"""For each layer of a log the function that relates it to a capture."""
