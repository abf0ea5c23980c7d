"""The efficiency of transactions over TCP, from captures at both hosts: of a request at one, of a reply at the other.

The bytes of a transaction are those of its turn of the connection: the client sends, the server answers, and the
client's next data begin the next turn. A turn is that of a transaction if it has exactly the lengths of both messages,
so the clock of the client may differ from that of its capture by as much as an RTT.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.series.labelled import sequence_shift
from multitracer.recording.places import distinct_connections, places_of
from multitracer.schemas.tcp import Vantage
from multitracer.tables import Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.recording.places import ConnectionAtPoint
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array

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
