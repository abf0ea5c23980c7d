"""One transfer as it was recorded: the evidence that joins, accounts and rules work on.

A transfer is one direction of one TCP connection. All times of `sender`, `state`, `events` and `near` are
of the sender's host's clock; those of `receiver` and `far` are of the receiver's, and `clock` maps them.
Link time is recorded time x `speed`: a run at 20 times real speed has the same link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis import Kind
from multitracer.analysis.group import has
from multitracer.analysis.intervals import places
from multitracer.analysis.two_points.packets import Outcome, compare
from multitracer.capture import Flag
from multitracer.clock.model.relation import Status
from multitracer.diagnosis.join.kernel_counters import counters_of
from multitracer.diagnosis.once import Once, kept
from multitracer.manifest import Variables
from multitracer.tables import NA, NOT_A_TIME
from multitracer.tcp import Vantage
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis import Analysis
    from multitracer.recording.hosts import LinkSide
    from multitracer.recording.layers import Layers
    from multitracer.recording.recording import Recording
    from multitracer.recording.views import Place
    from multitracer.tables import Array, Table

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
        mask: Array = self.table["outcome"] == Outcome.LOST
        return mask


@dataclass(frozen=True)
class Recorded(Once):
    """One direction of one connection in every log of a session.

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
    receiver_place: Place | None = None
    near: LinkSide | None = None
    far: LinkSide | None = None
    radio: tuple[tuple[str, Table], ...] = ()
    recording: Recording | None = None

    # --- which is which ---

    @property
    def reverse(self) -> bool:
        """Whose data: False the initiator's, True the responder's."""
        return self.layers.reverse

    @property
    def sender_host(self) -> str:
        """Name of the host that sent the data; empty if no capture or log of it is there."""
        if self.layers.vantage is not Vantage.NEAR_RECEIVER:
            return self.layers.view.sender.host
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

    @kept
    def sent(self) -> Array:
        """Rows of `sender` in the data direction, in capture order: data, SYN, FIN, probes, pure ACKs."""
        return np.flatnonzero(self.sender["reverse"] == self.reverse)

    @kept
    def data(self) -> Array:
        """Rows of `sender` with payload in the data direction, retransmissions included."""
        return self.sent[self.sender["payload_bytes"][self.sent] > 0]

    @kept
    def payload_bytes(self) -> Array:
        """Payload of each of `data`."""
        payload: Array = self.sender["payload_bytes"][self.data]
        return payload

    @kept
    def rtt_ns(self) -> Array:
        """Round trips of `data`, where one above 0 was measured."""
        rtt = self.sender["rtt_ns"][self.data]
        return rtt[rtt > 0]

    @kept
    def occupying(self) -> Array:
        """Rows of `sender` in the data direction that occupy sequence space (data, SYN, FIN), in order."""
        return self.sent[self.sender["end_bytes"][self.sent] > self.sender["seq_bytes"][self.sent]]

    @kept
    def acks(self) -> Array:
        """Rows of `sender` in the direction of the acknowledgments, in capture order."""
        return np.flatnonzero(self.sender["reverse"] != self.reverse)

    @kept
    def retransmitted(self) -> Array:
        """Rows of `sender`: segments with payload of which a unit was sent before (Kind.RETRANSMISSION)."""
        again: Array = self.data[(self.sender["kind"][self.data] & np.uint32(Kind.RETRANSMISSION)) != 0]
        return again

    @property
    def variables(self) -> Variables:
        """Experiment variables of the manifest. Data of unknown origin."""
        manifest = self.recording.manifest if self.recording is not None else None
        return manifest.variables if manifest is not None else Variables()

    @kept
    def counters(self) -> dict[str, dict[str, int]]:
        """Host -> kernel counter (`TcpRetransSegs`) -> its growth during the run; empty if not recorded."""
        return counters_of(self.recording) if self.recording is not None else {}

    def counted(self, counter: str, *, at_receiver: bool = False) -> int | None:
        """Return by how much a kernel counter of a host grew: `TcpRetransSegs`; None if it was not recorded.

        Of the sender's host, else of the receiver's: all connections of that host's namespace together.
        """
        side = self.receiver_host if at_receiver else self.sender_host
        return self.counters.get(side, {}).get(counter)

    @kept
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

    @kept
    def time_ns(self) -> Array:
        """When each row of `sender` was captured, made to never fall: int64, ns."""
        time: Array = self.sender["time_ns"]
        return np.maximum.accumulate(time) if (time[1:] < time[:-1]).any() else time

    @kept
    def begin_ns(self) -> int:
        """When the sender's first SYN left; its first segment if no SYN was captured."""
        syn = self.sent[has(self.sender["flags"][self.sent], Flag.SYN)]
        rows = syn if len(syn) else np.arange(len(self.sender))
        return int(self.sender["time_ns"][rows].min())

    @kept
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
        ends = (clocks.of_point(place.host) for place in (self.receiver_place, self.layers.view.sender))
        placed = clocks.place(stamps_ns, *ends, with_bounds=False)
        return stamps_ns if (placed.status == Status.UNPLACED).all() else placed.time_ns

    @kept
    def came_ns(self) -> Array:
        """When each row of `receiver` was captured there, by the sender's clock; none without it."""
        return self.receiver_time(
            np.empty(0, np.int64) if self.receiver is None else self.receiver["time_ns"]
        )

    # --- both captures ---

    @kept
    def data_pairs(self) -> Pairs | None:
        """The data direction at both captures; None without one at the receiver."""
        return self._pairs(reverse=self.reverse)

    @kept
    def ack_pairs(self) -> Pairs | None:
        """The direction of the acknowledgments at both captures: `sent` rows are the receiver's."""
        return self._pairs(reverse=not self.reverse)

    def _pairs(self, *, reverse: bool) -> Pairs | None:
        if self.receiver_place is None:
            return None
        places = [self.layers.view.sender, self.receiver_place]
        if reverse != self.reverse:
            places.reverse()
        near, far = ((place.part.analysis, place.connection) for place in places)
        own_reverse = reverse != places[0].is_turned
        is_turned = self.receiver_place.is_turned
        matched = compare(*near, *far, reverse=own_reverse, is_turned=is_turned).pairs
        return Pairs(matched, _renumbered(matched["near_row"], *near), _renumbered(matched["far_row"], *far))


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
