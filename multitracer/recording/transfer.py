"""One transfer: one direction of one TCP connection in every log of a recording, with joint results.

The captures are those nearest to its sender and at its receiver. Readings of TCP variables belong to the
connection if endpoints and time match. A link log belongs to the host in whose folder it lies. All times of
`sender`, `state`, `events` and `near` are on the clock of the sender's host; those of `receiver` and `far`
are on the clock of the receiver's host, and `receiver_time` converts them. Series, radio logs and positions
are on the sender's clock (docs/clock.md). Link time is recorded time x `speed`: a run at 20 times real speed
has the same link. A missing log gives None or an empty table, never an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from multitracer.analysis.group import SegmentKind, has
from multitracer.analysis.intervals import indexes, places
from multitracer.analysis.parallel import FEWEST_ROWS, begin
from multitracer.analysis.sender_state import phases_of_packets, phases_of_state
from multitracer.analysis.series.labelled import (
    assigned_series,
    assigns_rates,
    in_link_time,
    packet_series,
    rate_series,
    receiver_link_series,
    receiver_series,
    rlp3_frames,
    rtt_series,
    sender_link_series,
    state_series,
)
from multitracer.analysis.trust import step_of_stamps_ns, steps_between
from multitracer.analysis.two_points import PacketOutcome, compare
from multitracer.analysis.verdicts import OtherLogs, judge
from multitracer.captured import Flag
from multitracer.clock.model.relation import Clock, PlacementStatus
from multitracer.manifest import Variables
from multitracer.protocols.link_events import STREAM_BITS
from multitracer.recording.inputs import RADIO_CONTEXT_LAYERS
from multitracer.recording.join import Fate, Join, join
from multitracer.recording.places import places_of
from multitracer.schemas.radio import RADIO
from multitracer.schemas.sender import JOINED_EVENTS, JOINED_STATE, TCP_PHASES
from multitracer.schemas.tcp import Vantage
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.trust import ClockStep
    from multitracer.clock.moved_table import Moved
    from multitracer.logs import HostLog
    from multitracer.recording.hosts import LinkSide
    from multitracer.recording.places import ConnectionAtPoint
    from multitracer.recording.radio_context import RadioContext
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array

SLOT_NS = 20 * NS_PER_MS
"""Duration of an RLP frame in ns, if the log does not state it (3GPP TS 24.022)."""
LINK = "link"
"""Key in a table's provenance: the relation of its clock, if the time stamps alone were used."""
STAMPS = "its stamps alone"
_PREFIXES = {Vantage.UNKNOWN: "Tcp_", Vantage.BETWEEN: "TcpMid_"}
"""Label prefixes for captures that were not made at the sender."""


@dataclass(frozen=True)
class Transfer:
    """One direction of one connection in every log of a recording, and the conclusions from them.

    Attributes
    ----------
    recording : Recording
        The recording of the transfer; its clocks relate the two captures.
    at_sender : ConnectionAtPoint
        The capture nearest to the data's sender, which defines connection number and direction.
    at_receiver : ConnectionAtPoint or None
        The capture at the data's receiver.
    sender : Table
        TCP_SEGMENTS of both directions as captured nearest to the data's sender.
    receiver : Table or None
        TCP_SEGMENTS of both directions as captured at the receiver, by its own clock.
    state : Table
        JOINED_STATE of the sender: cwnd_bytes, snd_wnd_bytes, notsent_bytes, rto_ns, ... over time.
    events : Table
        JOINED_EVENTS of the sender: its kernel's retransmissions and changes of ca_state.
    near, far : LinkSide or None
        The link's log at the data's sender and at its receiver. `near.frames["sent"]` are data frames on
        their way to the receiver, `far.frames[~sent]` the same frames as they arrived.
    judged : Table or None
        VERDICTS, if they were computed together with those of other transfers (`short_transfers.py`).
    """

    recording: Recording
    at_sender: ConnectionAtPoint
    at_receiver: ConnectionAtPoint | None
    sender: Table
    receiver: Table | None
    state: Table
    events: Table
    near: LinkSide | None = None
    far: LinkSide | None = None
    judged: Table | None = None

    @classmethod
    def of(cls, recording: Recording, connection: int | None = None, *, reverse: bool | None = None) -> Transfer:
        """Return one transfer of a recording.

        Parameters
        ----------
        recording : Recording
        connection : int, optional
            Its number in the recording, from 1; by default the one with the most unique bytes.
        reverse : bool, optional
            Whose data: False the initiator's, True the responder's; by default the one with more bytes.

        Raises
        ------
        InputError
            If there is no such connection.
        """
        capture, number = recording.chosen(connection)
        bounds = capture.analysis.partition.bounds
        is_large = bounds[2 * number] - bounds[2 * number - 2] >= FEWEST_ROWS
        if is_large:
            begin(lambda: recording.clocks)
        near, far = places_of(recording, capture, number, reverse=reverse)
        sender, receiver = near.segments(), None if far is None else far.segments()
        if not recording.inputs.listed:
            state, events = Table.empty(JOINED_STATE), Table.empty(JOINED_EVENTS)
        else:
            state, events = recording.hosts.of_sender(near.capture, near.connection, reverse=near.reverse)
        transfer = cls(recording, near, far, sender, receiver, state, events)
        if recording.inputs.holds("link"):
            sides = [recording.hosts.link.get(host or "") for host in transfer.hosts]
            transfer = replace(transfer, near=sides[0], far=sides[1])
        if recording.inputs.listed or not is_large:
            recording.clocks  # noqa: B018  # kept there; what their logs warn of is told whatever is asked for
        return transfer

    # --- which is which ---

    @property
    def reverse(self) -> bool:
        """Whose data: False the initiator's, True the responder's."""
        return self.at_sender.reverse

    @property
    def vantage(self) -> Vantage:
        """Where `sender` was captured, relative to the data's sender and receiver."""
        return self.at_sender.vantage

    @property
    def sender_host(self) -> str:
        """Name of the host that sent the data; empty if no capture or log of that host exists."""
        if self.vantage is not Vantage.NEAR_RECEIVER:
            return self.at_sender.host
        return self.near.host if self.near is not None else ""

    @property
    def receiver_host(self) -> str:
        """Name of the host that received the data; empty if no capture or log of that host exists."""
        if self.at_receiver is not None:
            return self.at_receiver.host
        return self.far.host if self.far is not None else ""

    @cached_property
    def hosts(self) -> tuple[str | None, str | None]:
        """The hosts that sent and received the data; None for an unknown one.

        A host is found by the addresses of the hosts, else by the place of the captures. If two hosts logged
        the link and one of them is known, the other endpoint is the other host.
        """
        near, far = map(self.recording.hosts.owner, self.at_sender.ends)
        if self.vantage is Vantage.NEAR_RECEIVER:
            far = far or self.at_sender.host
        elif self.vantage is Vantage.NEAR_SENDER or self.at_receiver is not None:
            near = near or self.at_sender.host
        far = far or (self.at_receiver.host if self.at_receiver is not None else None)
        sides = set(self.recording.hosts.link)
        return near or _other(sides, far), far or _other(sides, near)

    @property
    def has_radio(self) -> bool:
        """Whether a radio log, or a log of a link over radio, shows that a radio was used."""
        return bool(self.radio) or self.near is not None or self.far is not None

    @property
    def has_state(self) -> bool:
        """Whether the sender's variables were recorded."""
        return len(self.state) > 0

    @property
    def has_more(self) -> bool:
        """Whether the recording has any data on the transfer besides one capture."""
        return self.clock is not None or self.has_state or bool(self.link) or bool(self.radio_context)

    @cached_property
    def sent(self) -> Array:
        """Rows of `sender` in the data direction, in capture order: data, SYN, FIN, probes, pure ACKs."""
        return indexes(self.sender["reverse"] == self.reverse)

    @cached_property
    def data(self) -> Array:
        """Rows of `sender` with payload in the data direction, retransmissions included."""
        return self.sent[self.sender["payload_bytes"][self.sent] > 0]

    @cached_property
    def payload_bytes(self) -> Array:
        """Payload bytes of each row of `data`: int64."""
        payload: Array = self.sender["payload_bytes"][self.data]
        return payload

    @property
    def both_unique_bytes(self) -> tuple[int, int]:
        """The unique payload bytes of this direction, and of the other one, where `sender` was captured."""
        place = self.at_sender
        row = 2 * (place.connection - 1)
        own, other = place.capture.analysis.directions["unique_bytes"][row : row + 2][:: -1 if place.reverse else 1]
        return int(own), int(other)

    @cached_property
    def rtt_ns(self) -> Array:
        """Round-trip times of the segments in `data`, in ns; only those above 0."""
        rtt = self.sender["rtt_ns"][self.data]
        return rtt[rtt > 0]

    @cached_property
    def occupying(self) -> Array:
        """Rows of `sender` in the data direction that occupy sequence space (data, SYN, FIN), in order."""
        return self.sent[self.sender["end_bytes"][self.sent] > self.sender["seq_bytes"][self.sent]]

    @cached_property
    def acks(self) -> Array:
        """Rows of `sender` in the direction of the acknowledgments, in capture order."""
        return indexes(self.sender["reverse"] != self.reverse)

    @cached_property
    def retransmitted(self) -> Array:
        """Rows of `sender`: segments with payload of which a byte was sent before (Kind.RETRANSMISSION)."""
        again: Array = self.data[(self.sender["kind"][self.data] & np.uint32(SegmentKind.RETRANSMISSION)) != 0]
        return again

    @cached_property
    def sacks(self) -> Table:
        """TCP_SACK_BLOCKS; `row` is the row in `sender`."""
        return self.at_sender.capture.analysis.sack_blocks(self.at_sender.connection)

    @cached_property
    def untranslated(self) -> Array:
        """Rows of `sender` whose SACK blocks a middlebox did not translate; `sacks` is without them."""
        rows = self.at_sender.capture.analysis.untranslated(self.at_sender.connection)
        mine: Array = rows[self.sender["reverse"][rows] != self.reverse]
        return mine

    @property
    def variables(self) -> Variables:
        """Experiment variables of the manifest; without a manifest, the default variables."""
        manifest = self.recording.manifest
        return manifest.variables if manifest is not None else Variables()

    # --- times ---

    @property
    def speed(self) -> float:
        """Speed of the link relative to real time; 1 if unknown."""
        return self.recording.speed

    @property
    def slot_ns(self) -> int:
        """Duration of a frame in link time, ns; 20 ms if the link log does not state it."""
        stated = [_positive(side.facts.get("slot_ns")) for side in self.sides]
        return round(next((value for value in stated if value), SLOT_NS))

    @property
    def sides(self) -> list[LinkSide]:
        """The existing link logs, the sender's first."""
        return [side for side in (self.near, self.far) if side is not None]

    @property
    def is_sender_trace(self) -> bool:
        """Whether `sender` was captured at the sender, not at the receiver or between."""
        return self.vantage is Vantage.NEAR_SENDER

    @property
    def without_time(self) -> int:
        """The number of segments of the transfer without a time stamp."""
        views = [self.sender, *([] if self.receiver is None else [self.receiver])]
        return sum(int(np.count_nonzero(view["time_ns"] == NOT_A_TIME)) for view in views)

    @cached_property
    def clock_steps(self) -> list[ClockStep]:
        """The steps of the clock of `sender`'s capture between the first and the last packet of the connection."""
        capture = self.at_sender.capture
        analysis, tables = capture.analysis, capture.tables
        is_known = any(note.code == "clock-step" for note in analysis.trust.notes)
        if not is_known or len(analysis.partition.direction) != len(tables.segments):
            return []
        bounds, number = analysis.partition.bounds, self.at_sender.connection
        rows = analysis.partition.order[bounds[2 * number - 2] : bounds[2 * number]]
        steps = steps_between(tables, analysis.partition, analysis.directions)
        first, last = int(rows.min(initial=len(tables.segments))), int(rows.max(initial=-1))
        return [step for step in steps if first < step.after_row and last > step.before_row]

    @property
    def stamp_step_ns(self) -> float:
        """The step of the time stamps of `sender`'s capture, in ns, if it is coarse; else 0."""
        return max(map(step_of_stamps_ns, self.at_sender.capture.tables.files), default=0.0)

    @cached_property
    def time_ns(self) -> Array:
        """Capture time of each row of `sender`, corrected so that it never decreases: int64, ns."""
        time: Array = self.sender["time_ns"]
        return np.maximum.accumulate(time) if (time[1:] < time[:-1]).any() else time

    @cached_property
    def begin_ns(self) -> int:
        """Time of the sender's first SYN; if no SYN was captured, of its first segment."""
        syn = self.sent[has(self.sender["flags"][self.sent], Flag.SYN)]
        rows = syn if len(syn) else np.arange(len(self.sender))
        return int(self.sender["time_ns"][rows].min())

    @cached_property
    def _completed_ns(self) -> int | None:
        """Arrival time of the ACK of the last byte (or FIN), in ns; None if it never arrived."""
        if not len(self.occupying):
            return None
        end = int(self.sender["end_bytes"][self.occupying].max())
        covering = self.acks[self.sender["ack_bytes"][self.acks] >= end]
        return int(self.sender["time_ns"][covering[0]]) if len(covering) else None

    @property
    def is_complete(self) -> bool:
        """Whether all data (and the FIN) were acknowledged; otherwise the outcome is `dropped`."""
        return self._completed_ns is not None

    @property
    def end_ns(self) -> int:
        """Arrival time of the ACK of the last byte (or FIN), in ns; without it, time of the last packet."""
        last = int(self.sender["time_ns"].max())
        return last if self._completed_ns is None else self._completed_ns

    @property
    def total_s(self) -> float:
        """Duration of the transfer, from `begin_ns` to `end_ns`, in seconds of link time."""
        return (self.end_ns - self.begin_ns) * self.speed / NS_PER_S

    @property
    def is_related(self) -> bool:
        """Whether there is a capture at the receiver, and its clock can be converted to the sender's."""
        return self.at_receiver is not None and self.recording.clocks is not None

    @cached_property
    def clock(self) -> Moved | None:
        """The conversion of the receiver's times to the sender's clock; None if the two are not related."""
        clocks = self.recording.clocks
        if clocks is None or self.at_receiver is None or self.receiver is None:
            return None
        from multitracer.clock.moved_table import moved

        ends = (clocks.of_point(place.host) for place in (self.at_receiver, self.at_sender))
        return moved(self.receiver, clocks, *ends)

    def receiver_time(self, stamps_ns: Array) -> Array:
        """Return times of the receiver's capture on the sender's clock; unchanged if it is not related.

        The conversion is that of figures and reports (docs/clock.md).

        Argument and result are int64, ns, of any shape.
        """
        clocks = self.recording.clocks
        if clocks is None or self.at_receiver is None:
            return stamps_ns
        ends = (clocks.of_point(place.host) for place in (self.at_receiver, self.at_sender))
        placed = clocks.place(stamps_ns, *ends, with_bounds=False)
        return stamps_ns if (placed.status == PlacementStatus.UNPLACED).all() else placed.time_ns

    @cached_property
    def came_ns(self) -> Array:
        """Capture time of each row of `receiver`, by the sender's clock, in ns; empty without `receiver`."""
        return self.receiver_time(np.empty(0, np.int64) if self.receiver is None else self.receiver["time_ns"])

    # --- both captures ---

    @cached_property
    def data_pairs(self) -> Pairs | None:
        """The packets of the data direction, matched in both captures; None without one at the receiver."""
        return self._pairs(reverse=self.reverse)

    @cached_property
    def ack_pairs(self) -> Pairs | None:
        """The packets of the ACK direction, matched between both captures; None without one at the receiver.

        In it, `sent` are rows of the receiver's capture.
        """
        return self._pairs(reverse=not self.reverse)

    def _pairs(self, *, reverse: bool) -> Pairs | None:
        if self.at_receiver is None:
            return None
        captured = [self.at_sender, self.at_receiver]
        if reverse != self.reverse:
            captured.reverse()
        near, far = ((place.capture.analysis, place.connection) for place in captured)
        own_reverse = reverse != captured[0].is_turned
        is_turned = self.at_receiver.is_turned
        matched = compare(*near, *far, reverse=own_reverse, is_turned=is_turned).pairs
        rows = []
        for name, (analysis, number) in (("near_row", near), ("far_row", far)):
            # rows of the capture as rows of the connection's table; NA stays NA
            bounds, of_capture = analysis.partition.bounds, matched[name]
            own = analysis.partition.order[bounds[2 * number - 2] : bounds[2 * number]]
            begin = int(own.min(initial=len(analysis.partition.direction)))
            if int(own.max(initial=-1)) - begin + 1 != len(own):
                # two directions, each in order, which a stable sort makes use of
                of_capture = np.where(of_capture == NA, NA, places(np.sort(own, kind="stable"), of_capture))
            elif begin:  # they follow each other, as rows of the table do
                of_capture = np.where(of_capture == NA, NA, of_capture - begin)
            rows.append(of_capture)
        return Pairs(matched, *rows)

    # --- concluded ---

    @cached_property
    def joined(self) -> Join | None:
        """The join of segments, packets and frames; None without a link log at the sender."""
        return join(self)

    @cached_property
    def verdicts(self) -> Table:
        """VERDICTS: cause and necessity of each retransmission, from all logs of the transfer.

        The receiver's capture shows what arrived, and what the receiver had acknowledged by then. Damaged
        segments have wrong sequence numbers in it; if there are any, the link logs show what arrived instead.
        """
        if self.judged is not None:
            return self.judged
        joined = self.joined if self.receiver is None or self._is_misnumbered else None
        by_link = joined is not None and joined.delivery is not None
        receiver = None if by_link else self.receiver
        logs = OtherLogs(
            receiver=receiver,
            came=partial(self._row_at_receiver, of_acks=False),
            came_back=partial(self._row_at_receiver, of_acks=True),
            arrived=joined.arrived if joined is not None and by_link else None,
            state=self.state if len(self.state) else None,
            events=self.events if len(self.events) else None,
        )
        return judge(self.sender, self.sacks, reverse=self.reverse, vantage=self.vantage, logs=logs)

    def _row_at_receiver(self, *, of_acks: bool) -> Array | None:
        """Return for each row of `sender` its row in `receiver`, for one direction.

        It is NA for a row that the receiver's capture does not have, and for the other direction. The result
        is None without a capture at the receiver.
        """
        pairs = self.ack_pairs if of_acks else self.data_pairs
        if pairs is None:
            return None
        own, theirs = (pairs.arrived, pairs.sent) if of_acks else (pairs.sent, pairs.arrived)
        rows = np.full(len(self.sender), NA, dtype=np.int64)
        both = indexes((own != NA) & (theirs != NA))
        rows[own[both]] = theirs[both]
        return rows

    @property
    def _is_misnumbered(self) -> bool:
        """Whether segments arrived with wrong headers, because the header decompressor was out of step."""
        return self.joined is not None and bool((self.joined.carriages["fate"] == Fate.DAMAGED).any())

    # --- series, by label, on the sender's clock ---

    @cached_property
    def link(self) -> dict[str, Table]:
        """The series RlpSnd_*, RlpRcv_* and Link_*: SERIES by label."""
        series: dict[str, Table] = {}
        if not self.sides or self.hosts[0] is None:
            return series
        from multitracer.recording.radio_context import onto

        for side, of_side in ((self.near, sender_link_series), (self.far, receiver_link_series)):
            if side is not None:
                frames, assigned = side.frames, {}
                if assigns_rates(side.events):
                    frames = rlp3_frames(side.events, stream=self.own_stream)
                    assigned = assigned_series(side.events, stream=self.own_stream) if side is self.near else {}
                made = of_side(frames, side.events) | assigned
                series |= onto(self.recording.clocks, self.at_sender.host, side.host, made)
        return series

    @cached_property
    def own_stream(self) -> int:
        """Number of the stream that carries the transfer, in the log of a side that serves several mobiles.

        It is NA if the log has several streams, and none of them carries packets of the transfer.
        """
        for side, names in ((self.near, "piece_sent"), (self.far, "piece_received")):
            if side is None:
                continue
            rows = side.rows(names)
            rows = rows[side.events["offset_bytes"][rows] != NA]
            stream = side.events["offset_bytes"][rows] >> STREAM_BITS
            if len(stream) and (stream == stream[0]).all():
                return int(stream[0])
            mine = np.isin(side.events["ip_id"][rows], self.sender["ip_id"][self.sent])
            mine &= np.isin(side.events["seq"][rows], self.sender["seq"][self.sent])
            known, packets = np.unique(stream[mine], return_counts=True)
            if len(known):
                return int(known[packets.argmax()])
        return NA

    @property
    def without_link(self) -> str:
        """A text that says why there is no RlpSnd_* although the link was logged; else empty."""
        if self.near is not None or not self.recording.inputs.holds("link") or not self.recording.hosts.link:
            return ""
        if self.hosts[0] is None:
            return "which host sent the data is not known; manifest.json may name its addresses"
        return f"no log of the link at {self.hosts[0]!r}"

    def state_series(self) -> dict[str, Table]:
        """Return the series of the sender's TCP variables by label."""
        return state_series(self.state, events=self.events) if self.has_state else {}

    def receiver_series(self) -> dict[str, Table]:
        """Return the receiver's series by label, with sequence numbers as in the sender's capture."""
        if self.clock is None:
            return {}
        series = receiver_series(self.clock.table, sender=self.sender, reverse=self.reverse)
        for table in series.values():
            table.provenance |= {"clock": self.clock.sentence}
        return series

    @cached_property
    def series(self) -> dict[str, Table]:
        """Every labelled series (SERIES) of the recording's logs, by label; in link time."""
        is_at_receiver = self.vantage is Vantage.NEAR_RECEIVER
        series = packet_series(self.sender, reverse=self.reverse, at="Rcv" if is_at_receiver else "Snd")
        if not is_at_receiver:
            samples = self.at_sender.capture.analysis.rtt_samples(self.at_sender.connection)
            series |= rtt_series(samples, reverse=self.reverse)
        series = self._named(series) | self.receiver_series() | self.state_series() | self.link
        return self._in_link_time(series | (self.radio_context.series if self.radio_context else {}))

    @cached_property
    def rates(self) -> dict[str, Table]:
        """Goodput and throughput in bit/s (SERIES) by label, where `sender` was captured first; in link time."""
        at: Literal["Snd", "Rcv"] = "Rcv" if self.vantage is Vantage.NEAR_RECEIVER else "Snd"
        series = self._named(rate_series(self.sender, reverse=self.reverse, at=at, speed=self.speed))
        if self.clock is not None:
            series |= rate_series(self.clock.table, reverse=self.reverse, at="Rcv", speed=self.speed)
        return self._in_link_time(series)

    def _named(self, series: dict[str, Table]) -> dict[str, Table]:
        """Return series of `sender` with labels that name the place of its capture."""
        prefix = _PREFIXES.get(self.vantage, "TcpSnd_")
        named = {label.replace("TcpSnd_", prefix): table for label, table in series.items()}
        return {
            label: Table(table.schema, table.columns, table.provenance | {"label": label})
            for label, table in named.items()
        }

    def _in_link_time(self, series: dict[str, Table]) -> dict[str, Table]:
        origin_ns = self.at_sender.capture.tables.first_ns or 0
        return {k: in_link_time(s, speed=self.speed, origin_ns=origin_ns) for k, s in series.items()}

    @cached_property
    def phases(self) -> Table:
        """TCP_PHASES: slow start, recovery and so on, from the sender's variables, else from its packets.

        It is empty if the capture was made at the receiver.
        """
        if self.has_state:
            return phases_of_state(self.state, events=self.events)
        if self.vantage is Vantage.NEAR_RECEIVER:
            return Table.empty(TCP_PHASES)
        return phases_of_packets(self.sender, reverse=self.reverse)

    # --- other logs ---

    def logged(self, layer: str, table: str) -> list[tuple[str, Table]]:
        """Return host and table of each log of a layer that has the table, on the sender's clock."""
        from multitracer.recording.radio_context import onto

        point = self.at_sender.host
        return [
            (log.host, onto(self.recording.clocks, point, log.host, {table: each})[table])
            for log, each in self.recording.tables(layer, table)
        ]

    @cached_property
    def radio_context(self) -> RadioContext | None:
        """The radio and position data, on the sender's clock; None if no such log was recorded."""
        if not any(map(self.recording.inputs.holds, RADIO_CONTEXT_LAYERS)):
            return None
        return self.recording.radio_context(self.at_sender.host)

    @cached_property
    def radio(self) -> tuple[tuple[str, Table], ...]:
        """Host and RADIO of each radio log, on the sender's clock: of the chosen phone, else of the transfer's ends.

        Logs of other hosts are used only if neither end has one: they may be of phones elsewhere. A log whose
        clock cannot be related adds a warning to the recording. Of a phone with several SIM cards, the card with most
        readings is used, because the cells of two cards are independent. A log that the packets contradict is left
        out: it belongs to another time, or to another modem.
        """
        radios: list[tuple[str, Table]] = []
        logs = list(self.recording.tables("radio", RADIO.name))
        if not logs:
            return ()
        if self.recording.phone is not None:
            context = self.radio_context
            paths = set() if context is None else {each.path for each in context.chosen_radio}
            logs = [(log, table) for log, table in logs if log.path in paths]
        else:
            logs = [(log, table) for log, table in logs if log.host in self.hosts] or logs
        from multitracer.clock.doctor.examination import contradiction
        from multitracer.recording.phones import each_radio

        for log, table in logs:
            placed, reason = self._on_senders_clock(log.host, table)
            if contradiction(placed, self.at_sender.capture.tables) is not None:
                self.recording.warn_once(
                    f"{log.path}: left out of the causes, because it says that no network served while "
                    "packets were answered: its clock is off, or its modem is another one; correct its times"
                )
                continue
            if reason:
                self.recording.warn_once(f"{log.path}: its readings are used as they are stamped: {reason}")
            elif self._is_apart(placed):
                number = self.at_sender.number
                self.recording.warn_once(
                    f"{log.path}: no reading lies in the time of connection {number}, so its radio is not "
                    "known; is its clock or time zone right? `multitracer align` compares them"
                )
            radio = each_radio(placed)[0][0]
            if reason or not self._is_linked(log, table):
                radio = Table(radio.schema, radio.columns, radio.provenance | {LINK: STAMPS})
            radios.append((log.host, radio))
        return tuple(radios)

    def _is_linked(self, log: HostLog, table: Table) -> bool:
        """Return whether a log's clock is linked to a host's clock by more than the log's time stamps.

        Such links are readings of the host's clock in the log, an entry in the manifest of the recording, or,
        for a host without a capture, the relation that was found for its clock.
        """
        from multitracer.clock.session_clock import host_of

        recording = self.recording
        captured = {host_of(recording, capture.point) for capture in recording.captures}
        if "clock" in table.provenance or log.host not in captured:
            return True
        manifest, folder = recording.manifest, recording.folder
        listed = {each.path for each in manifest.files} if manifest is not None else set()
        return folder is None or Path(log.path).relative_to(folder).as_posix() in listed

    def _on_senders_clock(self, host: str, table: Table) -> tuple[Table, str]:
        """Return a host's table with times on the sender's clock, and an empty text.

        If that is not possible, the table is unchanged and the text gives the reason.
        """
        clocks = self.recording.clocks
        if clocks is None:
            return table, ""
        source, target = Clock(host), clocks.of_point(self.at_sender.host)
        if source == target or not len(table):
            return table, ""
        from multitracer.clock.moved_table import moved

        there = moved(table, clocks, source, target)
        return there.table, "" if there.placed else there.sentence

    def _is_apart(self, table: Table) -> bool:
        """Return whether all readings of a table lie before the transfer, or all after it.

        A transfer between two readings is shorter than their distance: the clock need not be wrong.
        """
        time_ns = table["time_ns"]
        time_ns = time_ns[time_ns != NOT_A_TIME]
        return bool(len(time_ns)) and bool((time_ns < self.begin_ns).all() or (time_ns > self.end_ns).all())


class Pairs(NamedTuple):
    """The packets of one direction, matched between both captures.

    `sent` has rows of the sending endpoint's table.
    """

    table: Table
    """PACKET_PAIRS; `near` is the endpoint that sent this direction, `far` the one that received it, each by
    its own clock."""
    sent: Array
    """Rows in the table of the sending endpoint; NA if only the other endpoint captured the packet."""
    arrived: Array
    """Rows in the table of the receiving endpoint; NA if the packet was not captured there."""

    @property
    def lost(self) -> Array:
        """Whether each packet was sent and did not arrive: bool, one value for each row of `table`."""
        mask: Array = self.table["outcome"] == PacketOutcome.LOST
        return mask


def _positive(value: object) -> float | None:
    """Return a number of a log or manifest; None if it is no number above 0."""
    try:
        number = float(value) if isinstance(value, str | int | float) else 0.0
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None


def _other(hosts: set[str], known: str | None) -> str | None:
    """Return the host of the two that is not `known`; None if `known` is not one of them."""
    others = hosts - {known}
    return next(iter(others)) if known in hosts and len(others) == 1 else None
