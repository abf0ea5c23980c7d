"""One direction of a connection as every log of a recording shows it: captures, the sender's state, the link.

The captures are those nearest to its sender and at its receiver; readings are the connection's by its ends
and time; a link's log belongs to the host in whose folder it lies. The receiver's times are put onto the
sender's clock (docs/clock.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from multitracer.analysis.sender_state import phases_of_packets, phases_of_state
from multitracer.analysis.series.labelled import (
    in_link_time,
    packet_series,
    receiver_link_series,
    receiver_series,
    rtt_series,
    sender_link_series,
    state_series,
)
from multitracer.clock.moved_table import Moved, moved
from multitracer.recording.places import places_of
from multitracer.recording.surroundings import LAYERS, Surroundings, onto
from multitracer.schemas.sender import JOINED_EVENTS, JOINED_STATE, TCP_PHASES
from multitracer.schemas.tcp import Vantage
from multitracer.tables import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.recording.part import PointCapture
    from multitracer.recording.places import ConnectionAtPoint
    from multitracer.recording.recording import Recording


@dataclass(frozen=True)
class Layers:
    """One direction of a connection in all logs of a recording.

    Attributes
    ----------
    at_sender : ConnectionAtPoint
        The capture nearest to the data's sender, by which the connection is numbered and oriented.
    at_receiver : Place or None
        The capture at the data's receiver.
    state : Table
        JOINED_STATE of the sender, windows in bytes.
    events : Table
        JOINED_EVENTS of the sender.
    link : mapping of str to Table
        RlpSnd_* and RlpRcv_*: SERIES by label, on the sender's clock.
    without_link : str
        Why there is no RlpSnd_*, though the link was logged; empty otherwise.
    speed : float
        Link seconds in a recorded second.
    recording : Recording or None
        What it was made of.
    """

    at_sender: ConnectionAtPoint
    at_receiver: ConnectionAtPoint | None
    state: Table
    events: Table
    link: Mapping[str, Table] = field(default_factory=dict)
    without_link: str = ""
    speed: float = 1.0
    recording: Recording | None = None

    @classmethod
    def of(
        cls, recording: Recording, part: PointCapture, connection: int, *, reverse: bool | None = None
    ) -> Layers:
        """Return what is known about a direction of a connection; the parameters are those of `places_of`."""
        layers = cls.before_clocks(recording, part, connection, reverse=reverse)
        recording.clocks  # noqa: B018  # kept there; what their logs warn of is told whatever is asked for
        return layers

    @classmethod
    def before_clocks(
        cls, recording: Recording, part: PointCapture, connection: int, *, reverse: bool | None = None
    ) -> Layers:
        """Return the same while another thread may relate the clocks: they are not asked for.

        What is known of each segment, which needs no clock, is found at once.
        """
        near, far = places_of(recording, part, connection, reverse=reverse)
        if far is not None:
            near.segments(), far.segments()
        if not recording.inputs.listed:
            state, events = Table.empty(JOINED_STATE), Table.empty(JOINED_EVENTS)
        else:
            state, events = recording.hosts.of_sender(near.part, near.connection, reverse=near.reverse)
        link, without_link = _link(recording, near, far)
        return cls(near, far, state, events, link, without_link, recording.speed, recording)

    # --- the sender's capture ---

    @property
    def part(self) -> PointCapture:
        """The capture nearest to the sender."""
        return self.at_sender.part

    @property
    def connection(self) -> int:
        """The connection's number there, from 1."""
        return self.at_sender.connection

    @property
    def reverse(self) -> bool:
        """Whose data: False the initiator's, True the responder's."""
        return self.at_sender.reverse

    @property
    def vantage(self) -> Vantage:
        """Where `part` was captured."""
        return self.at_sender.vantage

    @cached_property
    def segments(self) -> Table:
        """TCP_SEGMENTS in `part`."""
        return self.at_sender.segments()

    # --- what else there is ---

    @property
    def is_related(self) -> bool:
        """Whether there is a capture at the receiver, and clocks that relate it to the sender's."""
        if self.at_receiver is None or self.recording is None:
            return False
        return self.recording.clocks is not None

    @cached_property
    def clock(self) -> Moved | None:
        """How the receiver's times were mapped to the sender's clock; None if the two are not related."""
        receiver, clocks = self.at_receiver, None if self.recording is None else self.recording.clocks
        if receiver is None or clocks is None:
            return None
        ends = (clocks.of_point(place.host) for place in (receiver, self.at_sender))
        return moved(receiver.segments(), clocks, *ends)

    @property
    def receiver(self) -> Table | None:
        """TCP_SEGMENTS of the same connection as captured at the receiver, on the sender's clock."""
        return None if self.clock is None else self.clock.table

    @property
    def has_more(self) -> bool:
        """Whether anything is known beyond one capture."""
        return self.receiver is not None or self.has_state or bool(self.link) or bool(self.surroundings)

    @property
    def has_state(self) -> bool:
        """Whether the sender's variables were recorded."""
        return len(self.state) > 0

    def logged(self, layer: str, table: str) -> list[tuple[str, Table]]:
        """Return host and table of each log of a layer that has the table, on the sender's clock."""
        if self.recording is None:
            return []
        point = self.at_sender.host
        return [
            (log.host, onto(self.recording.clocks, point, log.host, {table: each})[table])
            for log, each in self.recording.tables(layer, table)
        ]

    @cached_property
    def surroundings(self) -> Surroundings | None:
        """The radio and the road, on the sender's clock; None where no log of them was recorded."""
        if self.recording is None or not any(map(self.recording.inputs.holds, LAYERS)):
            return None
        return self.recording.surroundings(self.at_sender.host)

    def state_series(self) -> dict[str, Table]:
        """Return the series of the sender's own variables by label."""
        return state_series(self.state, events=self.events) if self.has_state else {}

    def receiver_series(self) -> dict[str, Table]:
        """Return the receiver's series by label, on the sender's scale."""
        if self.receiver is None:
            return {}
        series = receiver_series(self.receiver, sender=self.segments, reverse=self.reverse)
        for table in series.values():
            table.provenance |= {"clock": self.clock.sentence} if self.clock else {}
        return series

    @cached_property
    def series(self) -> dict[str, Table]:
        """Every labelled series (SERIES) of the recording's logs, by label; in link time."""
        is_at_receiver = self.vantage is Vantage.NEAR_RECEIVER
        series = packet_series(self.segments, reverse=self.reverse, at="Rcv" if is_at_receiver else "Snd")
        if not is_at_receiver:
            samples = self.part.analysis.rtt_samples(self.connection)
            series |= rtt_series(samples, reverse=self.reverse)
        series = _relabelled(series, self.vantage)
        series |= self.receiver_series() | self.state_series() | dict(self.link)
        series |= self.surroundings.series if self.surroundings else {}
        origin_ns = self.part.capture.first_ns or 0
        return {k: in_link_time(s, speed=self.speed, origin_ns=origin_ns) for k, s in series.items()}

    @cached_property
    def phases(self) -> Table:
        """TCP_PHASES, from the sender's variables or else from its packets; empty at a receiver."""
        if self.has_state:
            return phases_of_state(self.state, events=self.events)
        if self.vantage is Vantage.NEAR_RECEIVER:
            return Table.empty(TCP_PHASES)
        return phases_of_packets(self.segments, reverse=self.reverse)


_PREFIXES = {Vantage.UNKNOWN: "Tcp_", Vantage.BETWEEN: "TcpMid_"}


def _relabelled(series: dict[str, Table], vantage: Vantage) -> dict[str, Table]:
    """Return the series with labels that do not claim the sender's end of a capture made elsewhere."""
    prefix = _PREFIXES.get(vantage)
    if prefix is None:
        return series
    named = {label.replace("TcpSnd_", prefix): table for label, table in series.items()}
    return {
        label: Table(table.schema, table.columns, table.provenance | {"label": label})
        for label, table in named.items()
    }


def _link(
    recording: Recording, sender: ConnectionAtPoint, receiver: ConnectionAtPoint | None
) -> tuple[dict[str, Table], str]:
    """Return the series of the link under one direction, and why those of its sender are missing."""
    if not recording.inputs.holds("link") or not recording.hosts.link:
        return {}, ""
    near, far = data_hosts(recording, sender, receiver)
    if near is None:
        return {}, "which host sent the data is not known; manifest.json may name its addresses"
    series: dict[str, Table] = {}
    for host, of_side in ((near, sender_link_series), (far, receiver_link_series)):
        side = recording.hosts.link.get(host or "")
        if side is not None:
            series |= onto(recording.clocks, sender.host, side.host, of_side(side.frames, side.events))
    return series, "" if near in recording.hosts.link else f"no log of the link at {near!r}"


def data_hosts(
    recording: Recording, sender: ConnectionAtPoint, receiver: ConnectionAtPoint | None
) -> tuple[str | None, str | None]:
    """Return the hosts that sent and received the data; None for one that is not known.

    By whose addresses they are; else by where they were captured; with one of two hosts known that logged the
    link, the other end is the other host.
    """
    near, far = map(recording.hosts.owner, sender.ends)
    if sender.vantage is Vantage.NEAR_RECEIVER:
        far = far or sender.host
    elif sender.vantage is Vantage.NEAR_SENDER or receiver is not None:
        near = near or sender.host
    far = far or (receiver.host if receiver is not None else None)
    sides = set(recording.hosts.link)
    return near or _other(sides, far), far or _other(sides, near)


def _other(hosts: set[str], known: str | None) -> str | None:
    """Return the second of two hosts, if the first is the known one."""
    others = hosts - {known}
    return next(iter(others)) if known in hosts and len(others) == 1 else None
