"""One direction of a connection as every log of a recording shows it: captures, the sender's state, the link.

A session may hold captures of both hosts, what their kernels said of their sockets, and what each side of a
radio link logged. Here they are brought together: the connection is the same one by its ends and time, so are
the readings; a link's log belongs to the host in whose folder it lies. The receiver's times are put onto the
sender's clock (docs/clock.md) where the recording's clocks are given and can be related.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.link_series import receiver_link_series, sender_link_series
from multitracer.analysis.phases import phases_of_packets, phases_of_state
from multitracer.analysis.sender_state import in_bytes, with_ca_state
from multitracer.analysis.series import (
    in_link_time,
    packet_series,
    receiver_series,
    rtt_series,
    state_series,
)
from multitracer.analysis.tcp_state import TOLERANCE_NS, join, join_events
from multitracer.clock.moved import Moved, moved
from multitracer.clock.relation import Clock
from multitracer.link import LINK_EVENTS, LINK_FRAMES
from multitracer.protocols.sock_diag import ReadBy, TcpEvent
from multitracer.recording import host_text
from multitracer.sender import JOINED_EVENTS, JOINED_STATE, TCP_EVENTS, TCP_PHASES, TCP_STATE
from multitracer.tables import NA, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from multitracer.clock.session_clock import Clocks
    from multitracer.recording import Part
    from multitracer.session import Session

UNKNOWN, NEAR_SENDER, NEAR_RECEIVER, BETWEEN = range(4)
"""Of `vantage` in the directions table."""

_LINK_LAYER = (LINK_FRAMES, LINK_EVENTS)


@dataclass(frozen=True, slots=True)
class SenderLogs:
    """What the hosts of a recording logged beside packets."""

    state: Table
    """TCP_STATE of all hosts together."""
    events: Table
    """TCP_EVENTS of all hosts together."""
    link: Mapping[str, dict[str, Table]] = field(default_factory=dict)
    """Host -> its side of the link: the tables `link_frames` and `link_events`."""
    addresses: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Host -> addresses that are its own, by the manifest or else by its log of TCP variables."""
    speed: float = 1.0
    """Link seconds in a recorded second (`Session.speed`)."""

    @classmethod
    def none(cls) -> SenderLogs:
        """Return the logs of a recording that has none."""
        return cls(Table.empty(TCP_STATE), Table.empty(TCP_EVENTS))

    @classmethod
    def of(cls, session: Session) -> SenderLogs:
        """Read the logs of a session; those that cannot be read are passed over with a warning there."""
        found: dict[str, list[Table]] = {TCP_STATE.name: [], TCP_EVENTS.name: []}
        declared = _declared(session)
        addresses = {host: set(own) for host, own in declared.items()}
        for log, tables in session.tables("tcp"):
            for name, table in tables.items():
                found.setdefault(name, []).append(table)
                if name == TCP_STATE.name and not declared.get(log.host):
                    addresses.setdefault(log.host, set()).update(_polled(table))
        return cls(
            Table.concatenate(TCP_STATE, found[TCP_STATE.name]),
            Table.concatenate(TCP_EVENTS, found[TCP_EVENTS.name]),
            _link_logs(session),
            {host: frozenset(own) for host, own in addresses.items()},
            session.speed,
        )

    def host_of(self, address: str) -> str | None:
        """Return the host that alone has an address, None if that is not known."""
        hosts = [host for host, own in self.addresses.items() if address in own]
        return hosts[0] if len(hosts) == 1 else None


def _declared(session: Session) -> dict[str, set[str]]:
    """Return the addresses that the manifest gives each host; what is no list of text is passed over."""
    hosts = session.manifest.hosts if session.manifest else {}
    found = {}
    for host, facts in hosts.items():
        named = facts.get("addresses")
        found[host] = {each for each in named if isinstance(each, str)} if isinstance(named, list) else set()
    return found


def _polled(state: Table) -> set[str]:
    """Return the addresses of polled sockets; a kernel's trace tells of those in other namespaces too."""
    own = state["method"] != ReadBy.TCP_PROBE
    ends = zip(state["ip_version"][own].tolist(), state["address_local"][own].tolist(), strict=True)
    return {host_text(version, address) for version, address in set(ends)}


def _link_logs(session: Session) -> dict[str, dict[str, Table]]:
    found: dict[str, list[dict[str, Table]]] = {}
    for log, tables in session.tables("link"):
        found.setdefault(log.host, []).append(tables)
    return {host: logs[0] if len(logs) == 1 else _together(logs) for host, logs in found.items()}


def _together(logs: list[dict[str, Table]]) -> dict[str, Table]:
    return {s.name: Table.concatenate(s, [tables[s.name] for tables in logs]) for s in _LINK_LAYER}


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
    """TCP_SEGMENTS of the same connection as captured at the receiver, on the sender's clock."""
    state: Table
    """JOINED_STATE of the sender, windows in bytes."""
    events: Table
    """JOINED_EVENTS of the sender."""
    vantage: int = UNKNOWN
    """Where `part` was captured, as in the directions table, or by the hosts' addresses."""
    link: dict[str, Table] = field(default_factory=dict)
    """RlpSnd_* and RlpRcv_*: SERIES by label."""
    without_link: str = ""
    """Why there is no RlpSnd_*, though the link was logged; empty otherwise."""
    speed: float = 1.0
    """Link seconds in a recorded second."""
    clock: Moved | None = None
    """How the receiver's times came onto the sender's clock; None without the recording's clocks."""

    @classmethod
    def of(  # what a caller has of a recording
        cls,
        parts: Sequence[Part],
        logs: SenderLogs,
        part: Part,
        connection: int,
        *,
        reverse: bool | None = None,
        clocks: Clocks | None = None,
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
        clocks : Clocks, optional
            Of the recording; without them the receiver's times are those of its own clock.
        """
        if reverse is None:
            reverse = bool(part.analysis.connections["bulk_direction"][connection - 1])
        views = [(part, connection), *_elsewhere(parts, part, connection, clocks)]
        near = [_vantage(logs, *view, reverse=reverse) for view in views]
        at = near.index(NEAR_SENDER) if NEAR_SENDER in near else 0
        sender = views[at]
        far = [v for v, where in zip(views, near, strict=True) if where == NEAR_RECEIVER and v is not sender]
        receiver = far[0][0].analysis.tcp_segments(far[0][1]) if far else None
        clock = None
        if receiver is not None and clocks is not None:
            ends = (clocks.of_point(p.point.name) for p in (far[0][0], sender[0]))
            clock = moved(receiver, clocks, *ends)
            receiver = clock.table
        state = _of_sender(logs, *sender, reverse=reverse)
        link = _link(logs, *sender, reverse=reverse, clocks=clocks)
        return cls(*sender, reverse, receiver, *state, near[at], *link, logs.speed, clock)

    @property
    def segments(self) -> Table:
        """TCP_SEGMENTS in `part`."""
        return self.part.analysis.tcp_segments(self.connection)

    @property
    def has_more(self) -> bool:
        """Whether anything is known beyond one capture."""
        return self.receiver is not None or self.has_state or bool(self.link)

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
        found = receiver_series(self.receiver, sender=self.segments, reverse=self.reverse)
        for table in found.values():
            table.provenance |= {"clock": self.clock.sentence} if self.clock else {}
        return found

    def series(self) -> dict[str, Table]:
        """Return every labelled series (SERIES) of the recording's logs, by label; in link time."""
        at_receiver = self.vantage == NEAR_RECEIVER
        found = packet_series(self.segments, reverse=self.reverse, at="Rcv" if at_receiver else "Snd")
        if not at_receiver:
            samples = self.part.analysis.rtt_samples(self.connection)
            found |= rtt_series(samples, reverse=self.reverse)
        found = _relabelled(found, self.vantage) | self.receiver_series() | self.state_series() | self.link
        origin_ns = self.part.capture.first_ns or 0
        return {k: in_link_time(s, speed=self.speed, origin_ns=origin_ns) for k, s in found.items()}

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


def _ends(part: Part, connection: int, *, reverse: bool) -> tuple[str, str]:
    """Return the addresses of a direction's sender and receiver."""
    ends = part.endpoints(connection - 1, connection)[0]
    return (ends.dst, ends.src) if reverse else (ends.src, ends.dst)


def _vantage(logs: SenderLogs, part: Part, connection: int, *, reverse: bool) -> int:
    """Return where a capture was made; where its packets leave that open, by whose addresses its host has.

    Round trips alone leave it open at a host's own interface if the peer answers late, or not at all.
    """
    by_packets = int(part.analysis.directions["vantage"][2 * (connection - 1) + reverse])
    if by_packets not in {UNKNOWN, BETWEEN}:
        return by_packets
    sender, receiver = map(logs.host_of, _ends(part, connection, reverse=reverse))
    if sender == receiver:
        return by_packets
    return {sender: NEAR_SENDER, receiver: NEAR_RECEIVER}.get(part.point.name, by_packets)


def _link(
    logs: SenderLogs, part: Part, connection: int, *, reverse: bool, clocks: Clocks | None
) -> tuple[dict[str, Table], str]:
    """Return the series of the link under one direction, and why those of its sender are missing."""
    if not logs.link:
        return {}, ""
    sender, receiver = map(logs.host_of, _ends(part, connection, reverse=reverse))
    vantage = _vantage(logs, part, connection, reverse=reverse)
    sender = part.point.name if sender is None and vantage == NEAR_SENDER else sender
    receiver = part.point.name if receiver is None and vantage == NEAR_RECEIVER else receiver
    if sender is None:
        return {}, "which host sent the data is not known; manifest.json may name its addresses"
    found: dict[str, Table] = {}
    for host, series in ((sender, sender_link_series), (receiver, receiver_link_series)):
        if host is not None and host in logs.link:
            own = series(*(logs.link[host][schema.name] for schema in _LINK_LAYER))
            found |= own if clocks is None else _onto(part, host, own, clocks)
    return found, "" if sender in logs.link else f"no log of the link at {sender!r}"


def _onto(part: Part, host: str, series: dict[str, Table], clocks: Clocks) -> dict[str, Table]:
    """Return the series of a host on the clock of a capture."""
    source, target = Clock(host), clocks.of_point(part.point.name)
    if source == target:
        return series
    return {label: moved(table, clocks, source, target).table for label, table in series.items()}


def _elsewhere(
    parts: Sequence[Part], part: Part, connection: int, clocks: Clocks | None
) -> list[tuple[Part, int]]:
    """Return the connection in other captures: that with the same ends which shares most time with it."""
    others = [(other, _same(part, connection, other, clocks)) for other in parts if other is not part]
    return [(other, there) for other, there in others if there is not None]


def _same(part: Part, connection: int, other: Part, clocks: Clocks | None) -> int | None:
    ends = part.endpoints(connection - 1, connection)[0]
    alike = [n for n in other.with_endpoint(ends.src, ends.sport) if other.endpoints(n - 1, n)[0] == ends]
    begin, end = _lasted(part, connection)

    def shared_ns(n: int) -> int:
        first, last = _lasted(other, n)
        if clocks is not None:
            ends = clocks.of_point(other.point.name), clocks.of_point(part.point.name)
            there = clocks.place(np.array([first, last]), *ends)
            first, last = there.time_ns.tolist() if not there.reason else (first, last)
        return min(end, last) - max(begin, first)

    best = max(alike, key=shared_ns, default=None)
    return best if best is not None and shared_ns(best) > -TOLERANCE_NS else None


def _lasted(part: Part, connection: int) -> tuple[int, int]:
    table = part.analysis.connections
    return int(table["start_ns"][connection - 1]), int(table["end_ns"][connection - 1])


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
