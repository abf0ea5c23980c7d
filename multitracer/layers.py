"""One direction of a connection as every log of a recording shows it: both captures, and the sender's state.

A session may hold captures of both hosts, and what their kernels said of their sockets. Here they are brought
together: the connection is the same one by its ends and time, so are the readings. The receiver's times are
those of its own clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.phases import phases_of_packets, phases_of_state
from multitracer.analysis.sender_state import in_bytes, with_ca_state
from multitracer.analysis.series import packet_series, receiver_series, rtt_series, state_series
from multitracer.analysis.tcp_state import TOLERANCE_NS, join, join_events
from multitracer.protocols.sock_diag import TcpEvent
from multitracer.sender import JOINED_EVENTS, JOINED_STATE, TCP_EVENTS, TCP_PHASES, TCP_STATE
from multitracer.tables import NA, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.recording import Part
    from multitracer.session import Session

NEAR_SENDER, NEAR_RECEIVER = 1, 2
"""Of `vantage` in the directions table."""


@dataclass(frozen=True, slots=True)
class SenderLogs:
    """What the hosts of a recording logged of their TCP, all hosts together."""

    state: Table
    """TCP_STATE."""
    events: Table
    """TCP_EVENTS."""

    @classmethod
    def none(cls) -> SenderLogs:
        """Return the logs of a recording that has none."""
        return cls(Table.empty(TCP_STATE), Table.empty(TCP_EVENTS))

    @classmethod
    def of(cls, session: Session) -> SenderLogs:
        """Read the logs of a session; those that cannot be read are passed over with a warning there."""
        found: dict[str, list[Table]] = {TCP_STATE.name: [], TCP_EVENTS.name: []}
        for _, tables in session.tables("tcp"):
            for name, table in tables.items():
                found.setdefault(name, []).append(table)
        return cls(*(Table.concatenate(schema, found[schema.name]) for schema in (TCP_STATE, TCP_EVENTS)))


@dataclass(frozen=True, slots=True)
class Layers:
    """One direction of a connection in all logs of a recording."""

    part: Part
    """The capture nearest to the sender."""
    connection: int
    """Its number there, from 1."""
    reverse: bool
    """Whose data: False the initiator's, True the responder's."""
    receiver: Table | None
    """TCP_SEGMENTS of the same connection as captured at the receiver."""
    state: Table
    """JOINED_STATE of the sender, windows in bytes."""
    events: Table
    """JOINED_EVENTS of the sender."""

    @classmethod
    def of(
        cls,
        parts: Sequence[Part],
        logs: SenderLogs,
        part: Part,
        connection: int,
        *,
        reverse: bool | None = None,
    ) -> Layers:
        """Return what is known of a connection's direction.

        Parameters
        ----------
        parts : sequence of Part
            All captures of the recording.
        logs : SenderLogs
        part, connection : Part, int
            The connection, as numbered in that part; another part may show it nearer to its sender.
        reverse : bool, optional
            By default the direction with more unique bytes.
        """
        if reverse is None:
            reverse = bool(part.analysis.connections["bulk_direction"][connection - 1])
        views = [(part, connection), *_elsewhere(parts, part, connection)]
        near = [_vantage(*view, reverse=reverse) for view in views]
        sender = views[near.index(NEAR_SENDER)] if NEAR_SENDER in near else views[0]
        far = [v for v, where in zip(views, near, strict=True) if where == NEAR_RECEIVER and v is not sender]
        receiver = far[0][0].analysis.tcp_segments(far[0][1]) if far else None
        return cls(*sender, reverse, receiver, *_of_sender(logs, *sender, reverse=reverse))

    @property
    def vantage(self) -> int:
        """Where `part` was captured, as in the directions table."""
        return _vantage(self.part, self.connection, reverse=self.reverse)

    @property
    def segments(self) -> Table:
        """TCP_SEGMENTS in `part`."""
        return self.part.analysis.tcp_segments(self.connection)

    @property
    def has_more(self) -> bool:
        """Whether anything is known beyond one capture."""
        return self.receiver is not None or self.has_state

    @property
    def has_state(self) -> bool:
        """Whether the sender's variables were recorded."""
        return len(self.state) > 0

    def state_series(self) -> dict[str, Table]:
        """Return the series of the sender's own variables by label."""
        return state_series(self.state, events=self.events) if self.has_state else {}

    def receiver_series(self) -> dict[str, Table]:
        """Return the receiver's series by label, on the sender's scale."""
        if self.receiver is None:
            return {}
        return receiver_series(self.receiver, sender=self.segments, reverse=self.reverse)

    def series(self) -> dict[str, Table]:
        """Return every labelled series (SERIES) of the recording's logs, by label."""
        at_receiver = self.vantage == NEAR_RECEIVER
        found = packet_series(self.segments, reverse=self.reverse, at="Rcv" if at_receiver else "Snd")
        if not at_receiver:
            samples = self.part.analysis.rtt_samples(self.connection)
            found |= rtt_series(samples, reverse=self.reverse)
        return _relabelled(found, self.vantage) | self.receiver_series() | self.state_series()

    def phases(self) -> Table:
        """Return TCP_PHASES, from the sender's variables or else from its packets; empty at a receiver."""
        if self.has_state:
            return phases_of_state(self.state, events=self.events)
        if self.vantage == NEAR_RECEIVER:
            return Table.empty(TCP_PHASES)
        return phases_of_packets(self.segments, reverse=self.reverse)


def _relabelled(series: dict[str, Table], vantage: int) -> dict[str, Table]:
    """Return the series with labels that do not claim the sender's end of a capture made elsewhere."""
    prefix = {0: "Tcp_", 3: "TcpMid_"}.get(vantage)
    if prefix is None:
        return series
    named = {label.replace("TcpSnd_", prefix): table for label, table in series.items()}
    return {
        label: Table(table.schema, table.columns, table.provenance | {"label": label})
        for label, table in named.items()
    }


def _vantage(part: Part, connection: int, *, reverse: bool) -> int:
    return int(part.analysis.directions["vantage"][2 * (connection - 1) + reverse])


def _elsewhere(parts: Sequence[Part], part: Part, connection: int) -> list[tuple[Part, int]]:
    """Return the connection in other captures: that with the same ends which shares most time with it."""
    others = [(other, _same(part, connection, other)) for other in parts if other is not part]
    return [(other, there) for other, there in others if there is not None]


def _same(part: Part, connection: int, other: Part) -> int | None:
    ends = part.endpoints(connection - 1, connection)[0]
    alike = [n for n in other.with_endpoint(ends.src, ends.sport) if other.endpoints(n - 1, n)[0] == ends]
    here, there = part.analysis.connections, other.analysis.connections
    begin, end = (int(here[name][connection - 1]) for name in ("start_ns", "end_ns"))

    def shared_ns(n: int) -> int:
        return min(end, int(there["end_ns"][n - 1])) - max(begin, int(there["start_ns"][n - 1]))

    best = max(alike, key=shared_ns, default=None)
    return best if best is not None and shared_ns(best) > -TOLERANCE_NS else None


def _of_sender(logs: SenderLogs, part: Part, connection: int, *, reverse: bool) -> tuple[Table, Table]:
    """Return JOINED_STATE and JOINED_EVENTS of the sender of one direction."""
    if not len(logs.state):
        return Table.empty(JOINED_STATE), Table.empty(JOINED_EVENTS)
    flows, connections = part.capture.flows, part.analysis.connections
    joined = join(logs.state, flows=flows, connections=connections)
    events = join_events(logs.events, flows=flows, connections=connections)
    state, events = (
        t.take((t["connection"] == connection) & (t["reverse"] == reverse)) for t in (joined, events)
    )
    state = in_bytes(state, directions=part.analysis.directions)
    traced = bool(np.any((events["event"] == TcpEvent.CA_STATE) & (events["ca_state"] != NA)))
    return (with_ca_state(state, events) if traced else state), events
