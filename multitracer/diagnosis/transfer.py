"""One transfer: one direction of one TCP connection, in every log of a session, and what they together say.

All times of `sender`, `state`, `events` and `near` are of the sender's host's clock; those of `receiver` and
`far` are of the receiver's, and `receiver_time` maps them. Radio logs are brought onto the sender's clock.
Link time is recorded time x `speed`: a run at 20 times real speed has the same link. A log that is missing
gives None or an empty table, never a guess.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import parsers
from multitracer.analysis import SegmentKind
from multitracer.analysis.group import has
from multitracer.analysis.intervals import places
from multitracer.analysis.parallel import FEWEST_ROWS, begin, meanwhile
from multitracer.analysis.two_points import PacketOutcome, compare
from multitracer.analysis.verdicts import OtherLogs, judge
from multitracer.captured import Flag
from multitracer.clock.doctor.examination import contradiction
from multitracer.clock.model.relation import Clock, PlacementStatus
from multitracer.clock.moved_table import moved
from multitracer.clock.session_clock import host_of
from multitracer.diagnosis.join import Fate, Join, join
from multitracer.errors import MultiTracerError
from multitracer.manifest import Variables
from multitracer.recording.layers import Layers, data_hosts
from multitracer.recording.radios import each_radio
from multitracer.schemas.radio import RADIO
from multitracer.schemas.tcp import Vantage
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.analysis import Analysis
    from multitracer.logs import HostLog
    from multitracer.recording.hosts import LinkSide
    from multitracer.recording.places import ConnectionAtPoint
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array


@dataclass(frozen=True)
class Transfer:
    """One direction of one connection in every log of a session, and what is concluded from them.

    Attributes
    ----------
    layers : Layers
        The two captures and the sender's state, as other rooms use them.
    sender : Table
        TCP_SEGMENTS of both directions as captured nearest to the data's sender.
    receiver : Table or None
        TCP_SEGMENTS of both directions as captured at the receiver, by its own clock.
    receiver_place : Place or None
        The capture at the receiver.
    near, far : LinkSide or None
        The link's log at the data's sender and at its receiver. `near.frames["sent"]` are data frames on
        their way to the receiver, `far.frames[~sent]` the same frames as they arrived.
    radio : tuple of (str, Table)
        Host and RADIO of each radio log, on the sender's clock.
    recording : Recording or None
        What it was made of; its clocks relate the two captures.
    """

    layers: Layers
    sender: Table
    receiver: Table | None = None
    receiver_place: ConnectionAtPoint | None = None
    near: LinkSide | None = None
    far: LinkSide | None = None
    radio: tuple[tuple[str, Table], ...] = ()
    recording: Recording | None = None

    @classmethod
    def of(
        cls, recording: Recording, connection: int | None = None, *, reverse: bool | None = None
    ) -> Transfer:
        """Return what a recording holds of one transfer.

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
        part, number = recording.chosen(connection)
        bounds = part.analysis.partition.bounds
        packets = int(bounds[2 * number] - bounds[2 * number - 2])
        if packets >= FEWEST_ROWS and not recording.inputs.listed:  # logs are parsed by one thread
            begin(lambda: recording.clocks)
            layers = Layers.before_clocks(recording, part, number, reverse=reverse)
        else:
            with meanwhile(packets, lambda: recording.clocks):
                layers = Layers.of(recording, part, number, reverse=reverse)
        receiver = layers.at_receiver
        sides = recording.hosts.link if recording.inputs.holds("link") else {}
        near, far = data_hosts(recording, layers.at_sender, layers.at_receiver) if sides else (None, None)
        transfer = cls(
            layers,
            layers.segments,
            None if receiver is None else receiver.segments(),
            receiver,
            sides.get(near or ""),
            sides.get(far or ""),
            recording=recording,
        )
        return replace(transfer, radio=tuple(radio_tables(transfer, recording)))

    # --- which is which ---

    @property
    def reverse(self) -> bool:
        """Whose data: False the initiator's, True the responder's."""
        return self.layers.reverse

    @property
    def sender_host(self) -> str:
        """Name of the host that sent the data; empty if no capture or log of it is there."""
        if self.layers.vantage is not Vantage.NEAR_RECEIVER:
            return self.layers.at_sender.host
        return self.near.host if self.near is not None else ""

    @property
    def receiver_host(self) -> str:
        """Name of the host that received the data; empty if no capture or log of it is there."""
        if self.receiver_place is not None:
            return self.receiver_place.host
        return self.far.host if self.far is not None else ""

    @property
    def has_radio(self) -> bool:
        """Whether a log of a radio, or of a link over one, shows that there was one."""
        return bool(self.radio) or self.near is not None or self.far is not None

    @property
    def state(self) -> Table:
        """JOINED_STATE of the sender: cwnd_bytes, snd_wnd_bytes, notsent_bytes, rto_ns, ... over time."""
        return self.layers.state

    @property
    def events(self) -> Table:
        """JOINED_EVENTS of the sender: its kernel's retransmissions and changes of ca_state."""
        return self.layers.events

    @cached_property
    def sent(self) -> Array:
        """Rows of `sender` in the data direction, in capture order: data, SYN, FIN, probes, pure ACKs."""
        return np.flatnonzero(self.sender["reverse"] == self.reverse)

    @cached_property
    def data(self) -> Array:
        """Rows of `sender` with payload in the data direction, retransmissions included."""
        return self.sent[self.sender["payload_bytes"][self.sent] > 0]

    @cached_property
    def payload_bytes(self) -> Array:
        """Payload of each of `data`."""
        payload: Array = self.sender["payload_bytes"][self.data]
        return payload

    @cached_property
    def rtt_ns(self) -> Array:
        """Round trips of `data`, where one above 0 was measured."""
        rtt = self.sender["rtt_ns"][self.data]
        return rtt[rtt > 0]

    @cached_property
    def occupying(self) -> Array:
        """Rows of `sender` in the data direction that occupy sequence space (data, SYN, FIN), in order."""
        return self.sent[self.sender["end_bytes"][self.sent] > self.sender["seq_bytes"][self.sent]]

    @cached_property
    def acks(self) -> Array:
        """Rows of `sender` in the direction of the acknowledgments, in capture order."""
        return np.flatnonzero(self.sender["reverse"] != self.reverse)

    @cached_property
    def retransmitted(self) -> Array:
        """Rows of `sender`: segments with payload of which a unit was sent before (Kind.RETRANSMISSION)."""
        again: Array = self.data[
            (self.sender["kind"][self.data] & np.uint32(SegmentKind.RETRANSMISSION)) != 0
        ]
        return again

    @property
    def variables(self) -> Variables:
        """Experiment variables of the manifest. Data of unknown origin."""
        manifest = self.recording.manifest if self.recording is not None else None
        return manifest.variables if manifest is not None else Variables()

    @cached_property
    def counters(self) -> dict[str, dict[str, int]]:
        """Host -> kernel counter (`TcpRetransSegs`) -> its growth during the run; empty if not recorded."""
        return counters_of(self.recording) if self.recording is not None else {}

    def counted(self, counter: str, *, at_receiver: bool = False) -> int | None:
        """Return by how much a kernel counter of a host grew: `TcpRetransSegs`; None if it was not recorded.

        Of the sender's host, else of the receiver's: all connections of that host's namespace together.
        """
        side = self.receiver_host if at_receiver else self.sender_host
        return self.counters.get(side, {}).get(counter)

    @cached_property
    def sacks(self) -> Table:
        """TCP_SACK_BLOCKS; `row` is that in `sender`."""
        return self.layers.part.analysis.sack_blocks(self.layers.connection)

    # --- times ---

    @property
    def speed(self) -> float:
        """How much faster than real time the link ran; 1 where it is unknown."""
        return self.layers.speed

    @property
    def slot_ns(self) -> int:
        """Time of a frame in link time, 20 ms where the link's log does not tell."""
        stated = [_positive(side.facts.get("slot_ns")) for side in self.sides]
        return round(next((value for value in stated if value), SLOT_NS))

    @property
    def sides(self) -> list[LinkSide]:
        """The link logs that are there, the sender's first."""
        return [side for side in (self.near, self.far) if side is not None]

    @property
    def is_sender_trace(self) -> bool:
        """Whether `sender` was captured at the sender (and not at the receiver or between)."""
        return self.layers.vantage is Vantage.NEAR_SENDER

    @property
    def without_time(self) -> int:
        """How many of its segments carry no time."""
        views = [self.sender, *([] if self.receiver is None else [self.receiver])]
        return sum(int(np.count_nonzero(view["time_ns"] == NOT_A_TIME)) for view in views)

    @cached_property
    def time_ns(self) -> Array:
        """When each row of `sender` was captured, made to never fall: int64, ns."""
        time: Array = self.sender["time_ns"]
        return np.maximum.accumulate(time) if (time[1:] < time[:-1]).any() else time

    @cached_property
    def begin_ns(self) -> int:
        """When the sender's first SYN left; its first segment if no SYN was captured."""
        syn = self.sent[has(self.sender["flags"][self.sent], Flag.SYN)]
        rows = syn if len(syn) else np.arange(len(self.sender))
        return int(self.sender["time_ns"][rows].min())

    @cached_property
    def _completed_ns(self) -> int | None:
        """When the ACK of the last unit arrived; None if it never did."""
        if not len(self.occupying):
            return None
        end = int(self.sender["end_bytes"][self.occupying].max())
        covering = self.acks[self.sender["ack_bytes"][self.acks] >= end]
        return int(self.sender["time_ns"][covering[0]]) if len(covering) else None

    @property
    def is_complete(self) -> bool:
        """Whether all that was sent (the FIN too) was acknowledged; otherwise the outcome is `dropped`."""
        return self._completed_ns is not None

    @property
    def end_ns(self) -> int:
        """When the ACK of the last byte (of the FIN, if there was one) arrived; else the last packet."""
        last = int(self.sender["time_ns"].max())
        return last if self._completed_ns is None else self._completed_ns

    @property
    def total_s(self) -> float:
        """T of the account, in link time, seconds."""
        return (self.end_ns - self.begin_ns) * self.speed / NS_PER_S

    def receiver_time(self, stamps_ns: Array) -> Array:
        """Return stamps of the receiver's capture on the sender's clock; as they are if nothing relates them.

        By the session's graph of clocks, as figures and reports do it (docs/clock.md).

        Stamps are int64, ns, of any shape, and so is what is returned.
        """
        clocks = self.recording.clocks if self.recording is not None else None
        if clocks is None or self.receiver_place is None:
            return stamps_ns
        ends = (clocks.of_point(place.host) for place in (self.receiver_place, self.layers.at_sender))
        placed = clocks.place(stamps_ns, *ends, with_bounds=False)
        return stamps_ns if (placed.status == PlacementStatus.UNPLACED).all() else placed.time_ns

    @cached_property
    def came_ns(self) -> Array:
        """When each row of `receiver` was captured there, by the sender's clock; none without it."""
        return self.receiver_time(
            np.empty(0, np.int64) if self.receiver is None else self.receiver["time_ns"]
        )

    # --- both captures ---

    @cached_property
    def data_pairs(self) -> Pairs | None:
        """The data direction at both captures; None without one at the receiver."""
        return self._pairs(reverse=self.reverse)

    @cached_property
    def ack_pairs(self) -> Pairs | None:
        """The direction of the acknowledgments at both captures: `sent` rows are the receiver's."""
        return self._pairs(reverse=not self.reverse)

    def _pairs(self, *, reverse: bool) -> Pairs | None:
        if self.receiver_place is None:
            return None
        places = [self.layers.at_sender, self.receiver_place]
        if reverse != self.reverse:
            places.reverse()
        near, far = ((place.part.analysis, place.connection) for place in places)
        own_reverse = reverse != places[0].is_turned
        is_turned = self.receiver_place.is_turned
        matched = compare(*near, *far, reverse=own_reverse, is_turned=is_turned).pairs
        return Pairs(matched, _renumbered(matched["near_row"], *near), _renumbered(matched["far_row"], *far))

    # --- concluded ---

    @cached_property
    def joined(self) -> Join | None:
        """Segments, packets and frames, joined; None without the link's log at the sender."""
        return join(self)

    @cached_property
    def verdicts(self) -> Table:
        """VERDICTS: cause and necessity of each retransmission, by all that is known of the transfer.

        The receiver's capture says what arrived, and what the receiver had said by then. But damaged segments
        stand in it under the numbers of others; where there are such, the link's logs say what arrived.
        """
        joined = self.joined if self.receiver is None or self._is_misnumbered else None
        by_link = joined is not None and joined.delivery is not None
        receiver = None if by_link else self.receiver
        logs = OtherLogs(
            receiver=receiver,
            came=self._came,
            came_back=self._came_back,
            arrived=joined.arrived if joined is not None and by_link else None,
            state=self.state if len(self.state) else None,
            events=self.events if len(self.events) else None,
        )
        vantage = self.layers.vantage
        return judge(self.sender, self.sacks, reverse=self.reverse, vantage=vantage, logs=logs)

    def _came(self) -> Array | None:
        """Return per row of `sender` its row in `receiver`, NA for none; None if not compared."""
        return (
            None if self.data_pairs is None else self._paired(self.data_pairs.sent, self.data_pairs.arrived)
        )

    def _came_back(self) -> Array | None:
        """Return the same of what the receiver sent."""
        return None if self.ack_pairs is None else self._paired(self.ack_pairs.arrived, self.ack_pairs.sent)

    def _paired(self, own: Array, theirs: Array) -> Array:
        """Return per row of `sender` its row in `receiver`, of pairs of which one may be NA; NA for none."""
        rows = np.full(len(self.sender), NA, dtype=np.int64)
        both = np.flatnonzero((own != NA) & (theirs != NA))
        rows[own[both]] = theirs[both]
        return rows

    @property
    def _is_misnumbered(self) -> bool:
        """Whether segments arrived with the headers of others: the header decompressor was out of step."""
        return self.joined is not None and bool((self.joined.carriages["fate"] == Fate.DAMAGED).any())


SLOT_NS = 20 * NS_PER_MS
"""Time of an RLP frame, where the log does not tell (3GPP TS 24.022)."""


class Pairs(NamedTuple):
    """Packets of one direction as both captures show them; rows of `Transfer.sender` and `.receiver`."""

    table: Table
    """PACKET_PAIRS; `near` is the end that sent this direction, `far` the end that received it, each by its
    own clock."""
    sent: Array
    """Rows in the table of the end that sent them; NA if only the other end saw it."""
    arrived: Array
    """Rows in the table of the end where they arrived; NA if it saw none."""

    @property
    def lost(self) -> Array:
        """Which packets left and did not arrive: bool, a value for each row of `table`."""
        mask: Array = self.table["outcome"] == PacketOutcome.LOST
        return mask


def _renumbered(rows: Array, analysis: Analysis, number: int) -> Array:
    """Return rows of the capture as rows of a connection's table; NA stays NA."""
    bounds = analysis.partition.bounds
    first = 2 * (number - 1)
    own = analysis.partition.order[bounds[first] : bounds[first + 2]]
    begin = int(own.min(initial=len(analysis.partition.direction)))
    if int(own.max(initial=-1)) - begin + 1 == len(own):  # they follow each other, as rows of the table do
        return rows if begin == 0 else np.where(rows == NA, NA, rows - begin)
    # two directions, each in order, which a stable sort makes use of
    return np.where(rows == NA, NA, places(np.sort(own, kind="stable"), rows))


def _positive(value: object) -> float | None:
    """Return a number that a log or a manifest tells, None if it is none or not above 0."""
    try:
        number = float(value) if isinstance(value, str | int | float) else 0.0
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None


_BEFORE, _AFTER = "nstat_before.json", "nstat_after.json"
_MOST_LINES = 10_000  # bounds memory; nstat prints some hundred lines


def counters_of(recording: Recording) -> dict[str, dict[str, int]]:
    """Return by how much each counter grew on each host whose folder holds nstat's two readings.

    What is damaged is skipped with a warning of the recording.
    """
    if recording.folder is None:
        return {}
    inputs = recording.inputs
    hosts = sorted({point.name for point in inputs.points} | {log.host for log in inputs.listed})
    growth = {}
    for host in hosts:
        before, after = (_reading(recording, recording.folder / host, name) for name in (_BEFORE, _AFTER))
        if before is not None and after is not None:
            growth[host] = {name: count - before.get(name, 0) for name, count in after.items()}
    return growth


def _reading(recording: Recording, folder: Path, name: str) -> dict[str, int] | None:
    """Return the counters of one reading, plain or compressed; None if there is none that can be read."""
    paths = [path for path in sorted(folder.glob(f"{name}*")) if path.is_file() and not path.is_symlink()]
    if not paths:
        return None
    try:
        text = "".join(islice(parsers.read_lines(str(paths[0])), _MOST_LINES))
        counters = json.loads(text)["kernel"]
        return {counter: count for counter, count in counters.items() if type(count) is int}
    except (MultiTracerError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        recording.notes.append(f"{paths[0]}: not what nstat writes ({error}); skipped")
        return None


LINK = "link"
"""In the provenance of a table: what its times rest on, where that is no more than the stamps themselves."""
STAMPS = "its stamps alone"


def radio_tables(transfer: Transfer, recording: Recording) -> Iterator[tuple[str, Table]]:
    """Yield host and RADIO of each radio log; what cannot be placed in time is a warning of the recording.

    Of a phone with several cards it is that with most readings: two cards change no cell of each other. A log
    that the packets contradict is left out: whatever it tells was at another time, or of another modem.
    """
    for log, table in recording.tables("radio", RADIO.name):
        placed, reason = _on_senders_clock(transfer, recording, log.host, table)
        if contradiction(placed, transfer.layers.part.capture) is not None:
            recording.warn_once(
                f"{log.path}: left out of the causes, because it says that no network served while packets "
                "were answered: its clock is off, or its modem is another one; correct its times"
            )
            continue
        if reason:
            recording.warn_once(f"{log.path}: its readings are used as they are stamped: {reason}")
        elif _is_apart(transfer, placed):
            number = transfer.layers.at_sender.number
            recording.warn_once(
                f"{log.path}: no reading lies in the time of connection {number}, so its radio is not known; "
                "is its clock or time zone right? `multitracer align` compares them"
            )
        radio = each_radio(placed)[0][0]
        if reason or not _is_linked(recording, log, table):
            radio = Table(radio.schema, radio.columns, radio.provenance | {LINK: STAMPS})
        yield log.host, radio


def _is_linked(recording: Recording, log: HostLog, table: Table) -> bool:
    """Return whether more than its stamps links a log to the clock of a host.

    That is readings of the host's clock among its own, its place in the manifest of the recording, or, of a
    host without a capture, the relation by which it was placed.
    """
    if "clock" in table.provenance or log.host not in _captured_hosts(recording):
        return True
    manifest, folder = recording.manifest, recording.folder
    listed = {each.path for each in manifest.files} if manifest is not None else set()
    return folder is None or Path(log.path).relative_to(folder).as_posix() in listed


def _captured_hosts(recording: Recording) -> set[str]:
    return {host_of(recording, part.point) for part in recording.parts}


def _on_senders_clock(transfer: Transfer, recording: Recording, host: str, table: Table) -> tuple[Table, str]:
    """Return a table of a host with its times on the sender's clock, or as it is and why."""
    clocks = recording.clocks
    if clocks is None:
        return table, ""
    source, target = Clock(host), clocks.of_point(transfer.layers.at_sender.host)
    if source == target or not len(table):
        return table, ""
    there = moved(table, clocks, source, target)
    return there.table, "" if there.placed else there.sentence


def _is_apart(transfer: Transfer, table: Table) -> bool:
    """Return whether no reading lies in the time of a transfer."""
    time_ns = table["time_ns"]
    time_ns = time_ns[time_ns != NOT_A_TIME]
    inside = (time_ns >= transfer.begin_ns) & (time_ns <= transfer.end_ns)
    return bool(len(time_ns)) and not inside.any()
