"""One direction of a connection at every capture point: its sender and receiver, and where it was captured.

Rules of the file
-----------------
- `multitracer.analysis.two_points` finds the same connection in another capture.
- Round trips show where a capture was made. If they do not decide, its host does, provided that one endpoint
  of the connection is among the addresses of that host alone.
- The sender's capture is the first one near the sender, else the requested one. The receiver's capture is one
  near the receiver; else one whose place is unknown; else one between the hosts whose round trip to the
  receiver is at most a millisecond.
- A capture near the sender that lacks many of the bytes that arrived began late, ended early or lost packets: then the
  one near the receiver tells more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.schemas.tcp import Vantage
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array

_NO_DISTANCE_NS = NS_PER_MS
"""Maximum round trip to the receiver, in ns, at which a capture counts as made at the receiver: one local link."""

_MOST_OF = 0.9
"""Minimum part of the bytes captured near the receiver that must be in a capture near the sender: all were sent. Not
measured."""

OPTIONS = ("mss", "window-scale", "sack", "timestamps")
"""Options of TCP that both SYNs must have to be used, but for the MSS, which has a default."""


@dataclass(frozen=True)
class ConnectionAtPoint:
    """A connection at one capture point.

    Attributes
    ----------
    capture : Capture
    connection : int
        Its number in that capture, from 1.
    reverse : bool
        The direction in terms of this capture: True if its responder sent the data.
    vantage : Vantage
        Where the capture was made, relative to the data's sender and receiver.
    is_turned : bool
        Whether initiator and responder are exchanged relative to the sender's capture.
    """

    capture: Capture
    connection: int
    reverse: bool
    vantage: Vantage
    is_turned: bool = False

    @property
    def number(self) -> int:
        """The connection's number in the recording, from 1."""
        return self.capture.offset + self.connection

    @property
    def host(self) -> str:
        """Name of the capture point."""
        return self.capture.point.name

    @property
    def unique_bytes(self) -> int:
        """Payload of its direction in this capture, each byte counted once."""
        return int(self.capture.analysis.directions["unique_bytes"][2 * (self.connection - 1) + self.reverse])

    @property
    def lasted_ns(self) -> int:
        """Time from its first packet in this capture to the last one, in ns."""
        begin, end = (self.capture.analysis.connections[name][self.connection - 1] for name in ("start_ns", "end_ns"))
        return int(end - begin)

    @property
    def ends(self) -> tuple[str, str]:
        """Addresses of the data's sender and receiver."""
        ends = self.capture.analysis.ends(self.connection)
        return (ends.dst, ends.src) if self.reverse else (ends.src, ends.dst)

    @property
    def offered_options(self) -> Array | None:
        """Which of `OPTIONS` the SYNs of initiator and responder have, as seen in the sender's capture.

        It is bool, shape (4, 2); None if one of both SYNs was not captured.
        """
        sides = self.capture.analysis.directions.take(slice(2 * self.connection - 2, 2 * self.connection))
        if not sides["syn"].all():
            return None
        has_mss, has_scale = (sides[name] != NA for name in ("mss_bytes", "window_scale"))
        offered = np.stack([has_mss, has_scale, sides["sack_permitted"], sides["timestamps"]])
        return offered[:, ::-1] if self.is_turned else offered

    def segments(self) -> Table:
        """Return TCP_SEGMENTS; `reverse` is defined as in the sender's capture."""
        table = self.capture.analysis.tcp_segments(self.connection)
        if not self.is_turned:
            return table
        return Table(table.schema, table.columns | {"reverse": ~table["reverse"]}, table.provenance)


Places = tuple[ConnectionAtPoint, ConnectionAtPoint | None]
"""The connection in the capture nearest to the data's sender, and in the one at its receiver, if any."""


def places_of(recording: Recording, capture: Capture, connection: int, *, reverse: bool | None = None) -> Places:
    """Return a connection's direction at two capture points: nearest to its sender, and at its receiver.

    The first capture defines the direction and the connection number; the second element is None if there is
    no capture at the receiver.

    Parameters
    ----------
    recording : Recording
    capture, connection : Capture, int
        The connection, as numbered in that capture; another capture may be nearer to the sender.
    reverse : bool, optional
        Whose data: False the initiator's, True the responder's; by default the endpoint that sent more bytes.
    """
    reverse = capture.analysis.bulk_direction(connection) if reverse is None else reverse
    views = [(capture, connection, reverse)]  # the connection at every capture that holds it
    for other in recording.captures:
        if other is capture or not len(other):
            continue
        there = recording.counterparts(capture, other).of(connection)
        if there is not None:
            views.append((other, there.connection, reverse != there.is_turned))
    places = [ConnectionAtPoint(*view, vantage_of(recording, *view[:2], reverse=view[2])) for view in views]
    sender = next((place for place in places if place.vantage is Vantage.NEAR_SENDER), places[0])
    receiver = next((place for place in places if place.vantage is Vantage.NEAR_RECEIVER), sender)
    has_gaps = sender.unique_bytes < _MOST_OF * receiver.unique_bytes
    if has_gaps and (_ends_early(sender, receiver) or not _has_state(recording, sender)):
        sender = receiver
    others = [replace(place, is_turned=place.reverse != sender.reverse) for place in places if place is not sender]
    if sender.vantage is Vantage.NEAR_RECEIVER:
        return sender, None
    for suits in (
        lambda place: place.vantage is Vantage.NEAR_RECEIVER,
        lambda place: place.vantage is Vantage.UNKNOWN,
        _is_at_receiver,
    ):
        for place in others:
            if suits(place):
                return sender, place
    return sender, None


def _ends_early(place: ConnectionAtPoint, other: ConnectionAtPoint) -> bool:
    """Return whether a capture holds much less of a connection's time than another."""
    return place.lasted_ns < _MOST_OF * other.lasted_ns


def _has_state(recording: Recording, place: ConnectionAtPoint) -> bool:
    """Return whether the sender's variables were recorded: with them a capture with gaps tells more than another."""
    state, _ = recording.hosts.of_sender(place.capture, place.connection, reverse=place.reverse)
    return bool(len(state))


def distinct_connections(recording: Recording, most: int) -> tuple[list[int], set[int]]:
    """Return the connections with data, by descending bytes, and the set of their copies.

    A connection that was captured at several points is listed once, at the capture point nearest to
    the sender of its data; the others are copies.

    Parameters
    ----------
    recording : Recording
    most : int
        Number of connections of a capture point whose counterparts are looked for: those with most bytes.
    """
    sizes = np.concatenate([capture.analysis.unique_bytes() for capture in recording.captures] or [np.empty(0)])
    order = [int(row) + 1 for row in np.argsort(-sizes, kind="stable") if sizes[row] > 0]
    if len(recording.captures) < 2:
        return order, set()
    numbers: dict[int, None] = {}
    for number in order[: most * len(recording.captures)]:
        capture, n = recording.numbered(number)
        numbers.setdefault(places_of(recording, capture, n)[0].number)
    rest = order[most * len(recording.captures) :]
    same = set(order) - set(numbers) - set(rest)
    return [*numbers, *(each for each in rest if each not in numbers)], same


def vantage_of(recording: Recording, capture: Capture, connection: int, *, reverse: bool) -> Vantage:
    """Return where a capture was made: near the data's sender, near the receiver, or between them.

    `connection` counts from 1. Where the packets do not decide, the user's option or the hosts do. Round
    trips alone do not decide at a host's own interface if the peer answers late, or never.
    """
    by_packets = Vantage(capture.analysis.directions["vantage"][2 * (connection - 1) + reverse])
    if by_packets in (Vantage.NEAR_SENDER, Vantage.NEAR_RECEIVER):
        return by_packets
    if recording.sender_point is not None:
        is_bulk = reverse == capture.analysis.bulk_direction(connection)
        at_sender = is_bulk == (capture.point.name == recording.sender_point)
        return Vantage.NEAR_SENDER if at_sender else Vantage.NEAR_RECEIVER
    if recording.folder is None:
        return by_packets
    sender, receiver = map(recording.hosts.owner, ConnectionAtPoint(capture, connection, reverse, by_packets).ends)
    if sender == receiver:
        return by_packets
    known = {sender: Vantage.NEAR_SENDER, receiver: Vantage.NEAR_RECEIVER}
    return known.get(capture.point.name, by_packets)


def _is_at_receiver(place: ConnectionAtPoint) -> bool:
    row = 2 * (place.connection - 1) + place.reverse
    rtt_ns = int(place.capture.analysis.directions["rtt_min_ns"][row])
    return place.vantage is Vantage.BETWEEN and rtt_ns != NOT_A_TIME and rtt_ns <= _NO_DISTANCE_NS
