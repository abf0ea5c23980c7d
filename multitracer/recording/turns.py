"""The efficiency of transactions over TCP, from captures at both hosts: of a request at one, of a reply at the other.

The bytes of a transaction are those of its turn of the connection: the client sends, the server answers, and the
client's next data begin the next turn. A turn is that of a transaction if it has exactly the lengths of both messages,
so the clock of the client may differ from that of its capture by as much as an RTT.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    turns = [turns for places in _conversations(recording) for turns in [_turns(places)] if len(turns.begin_ns)]
    for row in rows.tolist():
        arrived = _arrived(table, row, turns, recording.speed)
        if arrived:
            efficiency[row] = needed[row] / arrived
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
    """The turns of a connection: data of the client, then data of the server, in order of time.

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


def _arrived(table: Table, row: int, turns: Sequence[_Turns], speed: float) -> int:
    """Return the payload that arrived for a transaction; 0 if no turn can be told to be its own.

    It is the turn with the lengths of both messages that begins nearest to the transaction, within its RTT.
    """
    start_ns = int(table["start_ns"][row])
    nearest_ns, arrived = table["rtt_s"][row] / speed * NS_PER_S, 0
    for each in turns:
        is_like = (each.request == table["request_bytes"][row]) & (each.reply == table["reply_bytes"][row])
        distance_ns = np.where(is_like, np.abs(each.begin_ns - start_ns), np.iinfo(np.int64).max)
        place = int(distance_ns.argmin())
        if distance_ns[place] < nearest_ns:
            nearest_ns, arrived = float(distance_ns[place]), int(each.arrived[place])
    return arrived
