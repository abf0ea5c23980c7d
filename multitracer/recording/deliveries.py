"""The flows of a recording over WTCP and TCP: what each delivered, according to the capture at its receiver.

Rules of the file
-----------------
- A WTCP connection is recognised by its handshake (`parsers._wtcp`). It is matched between captures by its
  endpoints, in order of time.
- A capture is at an endpoint if the manifest lists the endpoint's address for the host of the capture.
  Without a manifest, it is at the endpoint that answers the handshake within a millisecond there.
- Delivered bytes are those that the receiver's capture shows for the first time. Repeated packets are those
  that the sender's capture shows again. Without a capture at the receiver, delivered bytes are those that the
  receiver acknowledges, and the number of packets is unknown.

Flows on one time axis count link seconds since the first packet of their recording. The axis is the clock of
the capture point at which most flows are received, so that flows with one receiver, or with several receivers
on one host, need no other clock.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.deliveries import (
    acknowledged_bytes,
    in_time_order,
    mean_rate_bps,
    rate_commands,
    tcp_deliveries,
    wtcp_data,
    wtcp_deliveries,
)
from multitracer.captured import WTCP_SYN
from multitracer.clock.moved_table import moved
from multitracer.endpoints import host_port
from multitracer.recording.inputs import STANDARD_INPUT, UNREADABLE
from multitracer.recording.places import places_of
from multitracer.schemas.tcp import Vantage
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS, NS_PER_S
from multitracer.wtcp import DELIVERIES, RATE_COMMANDS, WTCP_FLOWS, WtcpCapture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.endpoints import Endpoints
    from multitracer.recording.capture import Capture
    from multitracer.recording.places import ConnectionAtPoint
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Numbers

_SAME_HOST_NS = NS_PER_MS
"""Maximum response time, in ns, of the host on which the capture was made; the limit that `views` uses."""
MOST_FLOWS = 30
"""Maximum number of TCP connections whose flows are returned, those with the most bytes: more curves in one
plot cannot be told apart."""
NO_RECEIVER = "no capture was made at its receiver"


@dataclass(frozen=True, slots=True)
class RecordedFlow:
    """One direction of a connection, over WTCP or TCP.

    Attributes
    ----------
    ends : Endpoints
        The data's sender first.
    name : str
        HOST:PORT > HOST:PORT, with host names where they are known.
    transport : str
        "wtcp", or the congestion control that the sender's log names, else "tcp".
    point : str
        Capture point at the receiver; "" without one.
    begin_ns : int
        Time of the first packet of the connection at `point`, on its clock; NOT_A_TIME if unknown.
    table : Table
        DELIVERIES at `point`; empty without a capture at the receiver.
    delivered_bytes : int or None
        Payload that reached the receiver, each byte counted once; None if unknown.
    repeated_packets : int or None
        Packets with payload that the sender sent again; None without a capture at the sender.
    reverse : bool
        Whether the host that opened the connection receives the data.
    speed : float
        Link seconds per recorded second.
    commands : Table
        RATE_COMMANDS at `point`; empty for TCP, and without a capture at the receiver.
    """

    ends: Endpoints
    name: str
    transport: str
    point: str
    begin_ns: int
    table: Table
    delivered_bytes: int | None
    repeated_packets: int | None
    reverse: bool = False
    speed: float = 1.0
    commands: Table = field(default_factory=lambda: Table.empty(RATE_COMMANDS))

    @property
    def delivered_packets(self) -> int | None:
        """Packets that delivered new payload to the receiver; None without a capture there."""
        return len(self.table) if self.point else None

    @property
    def rate_bps(self) -> float | None:
        """Delivered bits per link second, from the first packet to the last with new payload.

        It is None if unknown.
        """
        return mean_rate_bps(self.table, self.begin_ns, speed=self.speed) if self.point else None


@dataclass(frozen=True, slots=True)
class _Seen:
    """A WTCP connection at one capture point, with its packets in the window."""

    point: str
    packets: Table
    number: int
    at_initiator: bool
    at_responder: bool

    def is_at(self, *, responder: bool) -> bool:
        """Return whether the capture was made at the responder (if `responder`) or at the initiator."""
        return self.at_responder if responder else self.at_initiator


def wtcp_flows(recording: Recording) -> list[RecordedFlow]:
    """Return the WTCP flows that carried data, in the order of their connections in the captures."""
    seen: dict[tuple[Endpoints, int], list[_Seen]] = {}
    for capture in recording.captures:
        wtcp, before = _wtcp_of(recording, capture), Counter[object]()
        for number, (ends, packets) in enumerate(zip(wtcp.ends, wtcp.apart(), strict=True)):
            here = _seen(recording, capture.point.name, number, ends, packets)
            seen.setdefault((ends, before[ends]), []).append(here)
            before[ends] += 1
    flows = (_wtcp_flow(recording, ends, each, way) for (ends, _), each in seen.items() for way in (0, 1))
    return [flow for flow in flows if flow is not None]


def wtcp_table(flows: Sequence[RecordedFlow]) -> Table:
    """Return the flows as a table WTCP_FLOWS."""
    rows = [
        (
            flow.name, *flow.ends, flow.point, flow.begin_ns, _or_na(flow.delivered_bytes),
            _or_na(flow.delivered_packets), _or_na(flow.repeated_packets),
            np.nan if flow.rate_bps is None else flow.rate_bps,
        )
        for flow in flows
    ]  # fmt: skip
    cells = zip(*rows, strict=True) if rows else [() for _ in WTCP_FLOWS]
    columns = {c.name: np.array(each, c.dtype) for c, each in zip(WTCP_FLOWS, cells, strict=True)}
    return Table(WTCP_FLOWS, columns)


def _or_na(value: int | None) -> int:
    return NA if value is None else value


def _wtcp_of(recording: Recording, capture: Capture) -> WtcpCapture:
    """Return the WTCP connections of a capture point.

    Its files are read again for this if they contain a SYN of WTCP.
    """
    if not any(WTCP_SYN in file.protocols for file in capture.tables.files):
        return WtcpCapture()
    from parsers._wtcp import read_wtcp  # noqa: PLC0415  # few captures hold any

    if any(file.path == STANDARD_INPUT for file in capture.tables.files):
        recording.warn_once("-: the WTCP in it is not read; name a file, which is read twice")
        return WtcpCapture()
    try:
        wtcp = read_wtcp(capture.tables.files)
    except UNREADABLE as error:
        recording.warn_once(f"{capture.point.name}: the WTCP in it is not read: {error}")
        return WtcpCapture()
    for reason, count in wtcp.skipped.items():
        recording.warn_once(f"{capture.point.name}: {count:,} packets of WTCP not used: {reason}")
    return wtcp


def _seen(recording: Recording, point: str, number: int, ends: Endpoints, packets: Table) -> _Seen:
    owners = [recording.hosts.owner(host) if recording.folder else None for host in (ends.src, ends.dst)]
    near = _answers(packets)
    at = [near[i] if owner is None else owner == point for i, owner in enumerate(owners)]
    return _Seen(point, packets.within(*recording.bounds_ns), number, *at)


def _answers(packets: Table) -> tuple[bool, bool]:
    """Return two values: whether the capture is at the initiator, and whether it is at the responder.

    It is at an endpoint that answers the handshake within `_SAME_HOST_NS`.
    """
    is_responder, time_ns = packets["flow"] & 1 == 1, packets["time_ns"]
    if not is_responder.any():
        return False, False
    answer = int(np.argmax(is_responder))
    after = answer + np.flatnonzero(~is_responder[answer:])
    responder = answer > 0 and _is_at_once(time_ns[answer - 1], time_ns[answer])
    return len(after) > 0 and _is_at_once(time_ns[answer], time_ns[after[0]]), responder


def _is_at_once(before_ns: int, after_ns: int) -> bool:
    known = NOT_A_TIME not in (before_ns, after_ns)
    return known and 0 <= int(after_ns) - int(before_ns) <= _SAME_HOST_NS


def _wtcp_flow(recording: Recording, ends: Endpoints, places: list[_Seen], way: int) -> RecordedFlow | None:
    """Return the data of one direction of a WTCP connection; None if it carried no data.

    `way` is 0 for the data of its initiator, 1 for those of its responder.
    """
    if not any(wtcp_data(each.packets, 2 * each.number + way).any() for each in places):
        return None
    receiver = next((each for each in places if each.is_at(responder=way == 0)), None)
    sender = next((each for each in places if each.is_at(responder=way == 1)), None)
    table, begin_ns, point, delivered = Table.empty(DELIVERIES), NOT_A_TIME, "", None
    commands = Table.empty(RATE_COMMANDS)
    if receiver is not None:
        packets, point = receiver.packets, receiver.point
        table, _ = wtcp_deliveries(packets, 2 * receiver.number + way)
        commands = rate_commands(packets, 2 * receiver.number + way)
        begin_ns = _first_ns(packets["time_ns"])
        delivered = int(table["new_bytes"].sum())
    else:
        known = [acknowledged_bytes(each.packets, 2 * each.number + way) for each in places]
        delivered = max((each for each in known if each is not None), default=None)
    again_sent = wtcp_deliveries(sender.packets, 2 * sender.number + way)[1] if sender else None
    return RecordedFlow(
        ends=ends if way == 0 else _turned(ends),
        name=_name(recording, ends if way == 0 else _turned(ends)),
        transport="wtcp",
        point=point,
        begin_ns=begin_ns,
        table=table,
        delivered_bytes=delivered,
        repeated_packets=again_sent,
        reverse=bool(way),
        speed=recording.speed,
        commands=commands,
    )


def _turned(ends: Endpoints) -> Endpoints:
    return ends._replace(src=ends.dst, sport=ends.dport, dst=ends.src, dport=ends.sport)


def _first_ns(time_ns: np.ndarray) -> int:
    timed = time_ns[time_ns != NOT_A_TIME]
    return int(timed.min()) if len(timed) else NOT_A_TIME


def _name(recording: Recording, ends: Endpoints) -> str:
    owner = recording.hosts.owner if recording.folder else lambda _: None
    near, far = (
        f"{owner(host)}:{port}" if owner(host) else host_port(host, port)
        for host, port in ((ends.src, ends.sport), (ends.dst, ends.dport))
    )
    return f"{near} > {far}"


def tcp_flows(recording: Recording) -> list[RecordedFlow]:
    """Return the TCP flows with data of the `MOST_FLOWS` largest connections, in order of start."""
    flows: dict[tuple[int, int, bool], RecordedFlow] = {}
    for capture, number in recording.largest(MOST_FLOWS):
        rows = capture.analysis.directions["unique_bytes"][2 * number - 2 : 2 * number]
        for reverse in np.flatnonzero(rows).astype(bool).tolist():
            sender, receiver = places_of(recording, capture, number, reverse=reverse)
            at = receiver or sender
            if (id(at.capture), at.connection, at.reverse) not in flows:
                flow = _tcp_flow(recording, sender, at)
                flows[id(at.capture), at.connection, at.reverse] = flow
    return sorted(flows.values(), key=lambda flow: flow.begin_ns)


def _tcp_flow(recording: Recording, sender: ConnectionAtPoint, at: ConnectionAtPoint) -> RecordedFlow:
    """Return a flow with the data that its receiver's capture shows, or without one, its sender's capture."""
    both = at.capture.analysis.ends(at.connection)
    ends = _turned(both) if at.reverse else both
    row = 2 * at.connection - 2 + at.reverse
    is_here = at is not sender or at.vantage is Vantage.NEAR_RECEIVER
    table = Table.empty(DELIVERIES)
    if is_here:
        table = tcp_deliveries(at.capture.analysis.tcp_segments(at.connection), reverse=at.reverse)
    start_ns = int(at.capture.analysis.connections["start_ns"][at.connection - 1])
    again = int(
        sender.capture.analysis.directions["retransmitted_segments"][2 * sender.connection - 2 + sender.reverse]
    )
    return RecordedFlow(
        ends=ends,
        name=_name(recording, ends),
        transport=_control(recording, sender),
        point=at.host if is_here else "",
        begin_ns=start_ns,
        table=table,
        delivered_bytes=int(at.capture.analysis.directions["unique_bytes"][row]) if is_here else None,
        repeated_packets=again if sender.vantage is Vantage.NEAR_SENDER else None,
        reverse=at.reverse,
        speed=recording.speed,
    )


def _control(recording: Recording, sender: ConnectionAtPoint) -> str:
    """Return the congestion control that the sender's log names, else "tcp"."""
    if not recording.inputs.listed:
        return "tcp"
    state, _ = recording.hosts.of_sender(sender.capture, sender.connection, reverse=sender.reverse)
    names = [str(name) for name in state["congestion_control"].tolist() if name]
    return names[-1] if names else "tcp"


@dataclass(frozen=True, slots=True)
class FlowCurve:
    """The payload that one flow delivered to its receiver, over time.

    Attributes
    ----------
    session : str
        Name of the session's folder or first file.
    flow : str
        HOST:PORT > HOST:PORT.
    transport : str
        As in `RecordedFlow`.
    time_s : ndarray of float64, shape (n,)
        When the packets with new payload arrived, ascending.
    new_bytes : ndarray of int64, shape (n,)
        New payload of each of these packets.
    until_s : float
        Time of the last packet of the recording, or the end of the window.
    commanded_s, commanded_packets_per_s : ndarray of float64, shape (m,)
        Times and sending rates that acknowledgments of WTCP command; empty for TCP.
    """

    session: str
    flow: str
    transport: str
    time_s: Array
    new_bytes: Numbers
    until_s: float
    commanded_s: Array = field(default_factory=lambda: np.empty(0))
    commanded_packets_per_s: Array = field(default_factory=lambda: np.empty(0))


def flow_curves(recording: Recording) -> tuple[list[FlowCurve], list[str]]:
    """Return the curves of flows with a capture at their receiver, and sentences about all other flows."""
    flows = [*tcp_flows(recording), *wtcp_flows(recording)]
    known = sorted((flow for flow in flows if flow.point), key=lambda flow: -(flow.delivered_bytes or 0))
    without = [f"{flow.name}: {NO_RECEIVER}" for flow in flows if not flow.point][:MOST_FLOWS]
    if len(known) > MOST_FLOWS:
        without.append(f"{recording.name}: {len(known) - MOST_FLOWS:,} flows with fewer bytes are not drawn")
        known = known[:MOST_FLOWS]
    if not flows:
        without = [f"{recording.name}: no packet of its captures carries data of TCP or WTCP"]
    point = Counter(flow.point for flow in known).most_common(1)[0][0] if known else ""
    first_ns, last_ns = _capture_span(recording, point)
    end_ns = recording.bounds_ns[1]
    last_ns = last_ns if end_ns is None else min(last_ns, end_ns)
    session = recording.folder.name if recording.folder else recording.name
    scale = recording.speed / NS_PER_S
    curves = []
    for flow in known:
        time_ns, new_bytes = in_time_order(_on_clock_of(recording, point, flow, flow.table))
        commands = _on_clock_of(recording, point, flow, flow.commands)
        commands = commands.take(commands["time_ns"] != NOT_A_TIME)
        at_s, commanded_s = ((each - first_ns) * scale for each in (time_ns, commands["time_ns"]))
        whose, until_s = (session, flow.name, flow.transport), (last_ns - first_ns) * scale
        curves.append(FlowCurve(*whose, at_s, new_bytes, until_s, commanded_s, commands["packets_per_s"]))
    return sorted(curves, key=lambda curve: curve.time_s[0] if len(curve.time_s) else np.inf), without


def _on_clock_of(recording: Recording, point: str, flow: RecordedFlow, table: Table) -> Table:
    """Return a table of a flow with times on the clock of a capture point.

    If the clocks are not related, times are unchanged, and a warning is added.
    """
    if flow.point == point or recording.clocks is None:
        return table
    clocks = recording.clocks
    placed = moved(table, clocks, clocks.of_point(flow.point), clocks.of_point(point))
    if not placed.placed and placed.sentence:
        recording.warn_once(f"{flow.name}: {placed.sentence}")
    return placed.table


def _capture_span(recording: Recording, point: str) -> tuple[int, int]:
    """Return the first and last packet time of all captures, on the clock of a point, in ns."""
    ends: list[int] = []
    for capture in recording.captures:
        files = capture.tables.files
        times = [time for file in files for time in (file.first_ns, file.last_ns) if time is not None]
        stamps = np.array([min(times), max(times)] if times else [], np.int64)
        if capture.point.name != point and recording.clocks is not None:
            clocks = recording.clocks
            stamps = clocks.place(stamps, clocks.of_point(capture.point.name), clocks.of_point(point)).time_ns
        ends += stamps[stamps != NOT_A_TIME].tolist()
    return (min(ends), max(ends)) if ends else (0, 0)
