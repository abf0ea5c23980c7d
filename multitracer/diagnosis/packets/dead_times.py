"""When nothing came back though data were outstanding and a timer tried again, by the packets alone.

Rules of the file
-----------------
- A dead time is what lies between two arrivals from the peer in which a timer (or a tail loss probe) sent
  data again. It begins with the last arrival, or with the first data after it, and ends when the try left
  that was answered: whether the path was back sooner nobody at this end can know. Until the last try that
  failed it is certain.
- Which try was answered, its echoed timestamp says; where it echoes none of them (a receiver that had the
  data keeps the older one, and some send none) it is the last that is older than the shortest round trip.
- A try that was not needed (`spurious`) proves that nothing was lost, only late: no dead time.
- Which way was dead is a fact of both captures. The sender alone knows only one case: an ACK that covers
  more than what was sent again and reported proves that the data had come through, and their ACKs had not.
- No dead time in a handshake: only data count as tries.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis import Kind
from multitracer.analysis.group import BEGIN_OR_END, has
from multitracer.analysis.two_points.packets import Outcome
from multitracer.analysis.verdicts import Cause, Necessity
from multitracer.capture import Mark
from multitracer.diagnosis.packets.sender_view import SenderView
from multitracer.tables import NA
from multitracer.tcp import Vantage
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.join.recorded_transfer import Pairs
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.tables import Array

_SOONEST = 0.8
"""Part of the shortest round trip within which nothing is answered: clocks and queues have grain."""
_DELAYED_SEGMENTS = 2  # RFC 9293, section 3.8.6.3: every second full segment
_DELAYED_ACK_NS = NS_PER_S // 2
"""An ACK is due for every second full segment, and within half a second (RFC 9293, section 3.8.6.3)."""


class DeadTime(NamedTuple):
    """A time without an answer."""

    begin_ns: int
    certain_ns: int
    """Until then: when the last try that failed was sent; `begin_ns` if none failed."""
    end_ns: int
    """When the first answered try was sent; when the peer sent something of its own, or the last packet."""
    tries: Array
    """Rows of `sender`: what the timer sent again meanwhile, in order."""
    failed: int
    """How many of these were not answered."""
    answer: int
    """Row of the ACK that ended it; NA if none came."""
    unanswered: int
    """Packets of ours that were on their way as it began, or were sent in it, and got no answer."""
    acks_proved: bool
    """Whether the answer proves that data had arrived of which no ACK had come."""
    lost_data: int
    """Packets of ours that both captures show to be lost in it; NA without a capture at the receiver."""
    lost_acks: int
    """The same of the peer's."""
    tries_came: bool
    """Whether both captures show that each try that failed had arrived."""

    @property
    def way(self) -> str:
        """Which way was dead: `both`, `data` or `acks`; empty if that is not shown."""
        if self.lost_data == NA or (self.tries_came and self.lost_acks):
            return "acks" if self.acks_proved or self.tries_came else ""
        return {(1, 1): "both", (1, 0): "data", (0, 1): "acks"}.get(
            (int(self.lost_data > 0), int(self.lost_acks > 0)), ""
        )

    @property
    def is_ack_loss(self) -> bool:
        """Whether what was lost in it was ACKs: more than data, or those of tries that came."""
        if self.lost_data == NA:
            return self.acks_proved
        return self.lost_acks > (0 if self.tries_came else self.lost_data)


def dead_times(transfer: Transfer) -> list[DeadTime]:
    """Return the dead times of a transfer in order, also those in which the first try was answered."""
    if transfer.layers.vantage is Vantage.NEAR_RECEIVER or not len(transfer.acks):
        return []
    verdicts, table = transfer.verdicts, transfer.sender
    timer = np.isin(verdicts["cause"], (Cause.TIMEOUT, Cause.TAIL_LOSS_PROBE))
    chosen = timer & (table["payload_bytes"][verdicts["row"]] > 0)
    rows, needless = verdicts["row"][chosen], verdicts["necessity"][chosen] == Necessity.SPURIOUS
    following = np.searchsorted(transfer.acks, rows)
    runs = [
        run
        for run in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(following)) + 1)
        if len(run) and following[run[0]] > 0 and not needless[run].any()
    ]
    if not runs:
        return []
    watch = _Watch(transfer)
    moments = watch.moments([rows[run] for run in runs], following[[run[0] for run in runs]])
    return [each for each in map(watch.dead_time, moments) if each is not None]


class _Moment(NamedTuple):
    """Some tries between the same two arrivals, and what was known as the first of them left."""

    tries: Array
    """Rows of `sender`, int64, ascending, at least one."""
    following: int
    """Index in `transfer.acks` of the arrival after them, not 0."""
    begin: int
    """Row of the last arrival, or of the first data after it if nothing was waiting."""
    una: int
    """The highest ACK before them."""
    is_uncertain: bool
    """Whether, without SACK, duplicate ACKs may have told of what arrived behind a loss."""


class _Watch:
    """The sender's packets and, if they are there, the receiver's."""

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer
        self._view = SenderView(transfer)
        self._time = np.maximum.accumulate(transfer.sender["time_ns"])
        rtt = transfer.sender["rtt_ns"][transfer.data]
        number, analysis = transfer.layers.connection, transfer.layers.part.analysis
        agreed = analysis.directions["sack_permitted"][2 * (number - 1) : 2 * number].all()
        self._has_sacks = bool(agreed) or len(transfer.sacks) > 0
        self._soonest_ns = _SOONEST * int(rtt[rtt > 0].min()) if (rtt > 0).any() else 0.0

    def moments(self, tries: list[Array], following: Array) -> Iterator[_Moment]:
        """Return what was known at some tries before arrivals number `following`: int64, shape (n,)."""
        acks, data, view = self._transfer.acks, self._transfer.data, self._view
        last = acks[following - 1]
        begin, idle = last.copy(), np.flatnonzero(view.flight_bytes(last) <= 0)
        begin[idle] = data[np.searchsorted(data, last[idle])]
        duplicate = (self._transfer.sender["kind"][last] & np.uint32(Kind.DUPLICATE_ACK)) != 0
        uncertain = (duplicate | view.in_recovery(last)) & (not self._has_sacks)
        columns = (following, begin, view.acknowledged_by(last), uncertain)
        return map(_Moment, tries, *(column.tolist() for column in columns))

    def dead_time(self, moment: _Moment) -> DeadTime | None:
        """Return the time around some tries; None if all were answered."""
        acks, tries = self._transfer.acks, moment.tries
        first = self._heard_of(int(tries[-1]), moment.following)
        answer = int(acks[first]) if first < len(acks) else NA
        is_answer = answer != NA and self._answers(first)
        failed = self._failed(tries, answer) if is_answer else len(tries)
        if failed < 0:
            return None
        begin_ns, end_ns = (
            int(self._time[moment.begin]),
            int(self._time[tries[failed] if is_answer else answer]),
        )
        certain_ns = int(self._time[tries[failed - 1]]) if failed else begin_ns
        unanswered = self._outstanding(moment) + failed
        lost = self._lost(moment.una, certain_ns if failed else end_ns)
        proved = is_answer and self._proves_acks(moment, answer)
        answered = answer if is_answer else NA
        came = failed > 0 and bool(self._arrived[tries[:failed]].all())
        return DeadTime(
            begin_ns, certain_ns, end_ns, tries, failed, answered, unanswered, proved, *lost, came
        )

    def _heard_of(self, last_try: int, following: int) -> int:
        """Return the first arrival, from number `following` on, that the last try may have brought.

        Not what the peer had to say of its own, sooner than any answer could come: its timer went off, too.
        """
        acks, soonest_ns = self._transfer.acks, self._time[last_try] + self._soonest_ns
        while following < len(acks) and self._time[acks[following]] < soonest_ns:
            if self._answers(following):
                break
            following += 1
        return following

    def _answers(self, number: int) -> bool:
        """Return whether an arrival is an ACK, and not only what the peer had to say of its own."""
        table, row = self._transfer.sender, self._transfer.acks[number]
        own = table["payload_bytes"][row] > 0 or table["flags"][row] & BEGIN_OR_END
        grew = table["ack_bytes"][row] > (self._view.highest_acked[number - 1] if number else 0)
        return bool(grew or not own)

    def _failed(self, tries: Array, answer: int) -> int:
        """Return how many tries got no answer; -1 if what was answered is older than the first of them."""
        table = self._transfer.sender
        stamped = has(table["marks"][[answer, *tries]], Mark.HAS_TIMESTAMPS)
        if stamped.all():
            since = (table["tsecr"][answer] - table["tsval"][tries]).view(np.int32)
            if (since >= 0).any():
                return int(np.count_nonzero(since >= 0)) - 1
        return int(np.count_nonzero(self._time[tries] <= self._time[answer] - self._soonest_ns)) - 1

    def _outstanding(self, moment: _Moment) -> int:
        """Return how many packets before the first try were neither covered nor reported.

        One, the oldest, if what lay behind it may have arrived.
        """
        if moment.is_uncertain:
            return 1
        table = self._transfer.sender
        return -(-int(table["flight_sack_bytes"][moment.tries[0]]) // max(self._full_bytes, 1))

    def _proves_acks(self, moment: _Moment, answer: int) -> bool:
        """Return whether the answer covers all that was outstanding, and more than was sent again.

        What duplicate ACKs may have told of proves nothing. Nor does an ACK that may have been delayed: that
        of next to nothing, or of a receiver whose program does not read.
        """
        if moment.is_uncertain:
            return False
        table, tries, first = self._transfer.sender, moment.tries, int(moment.tries[0])
        before = int(self._transfer.acks[moment.following - 1])
        again = set(zip(table["seq_bytes"][tries].tolist(), table["end_bytes"][tries].tolist(), strict=True))
        others = int(table["flight_sack_bytes"][first]) - sum(end - begin for begin, end in again)
        waited_ns = (self._time[first] - self._time[before]) * self._transfer.speed
        edges = [int(table["ack_bytes"][row]) + int(table["window_bytes"][row]) for row in (before, answer)]
        reads = edges[1] > edges[0]
        due = others > (0 if waited_ns > _DELAYED_ACK_NS else _DELAYED_SEGMENTS * self._full_bytes)
        due &= reads or waited_ns > _DELAYED_ACK_NS
        sent = self._highest_data[self._transfer.data.searchsorted(first) - 1]
        return bool(due and table["ack_bytes"][answer] >= sent)

    def _lost(self, una: int, until_ns: int) -> tuple[int, int]:
        """Return how many packets both captures show to be lost, of the data and of their ACKs.

        Those count that carried, or acknowledged, more than `una`, and left up to a stamp.
        """
        if self._lost_ways is None:
            return NA, NA
        data, acks = (way.above(una, until_ns) for way in self._lost_ways)
        return data, acks

    @cached_property
    def _highest_data(self) -> Array:
        """Highest end of the data sent so far, at each segment with payload."""
        return np.asarray(np.maximum.accumulate(self._transfer.sender["end_bytes"][self._transfer.data]))

    @cached_property
    def _full_bytes(self) -> int:
        """Payload of the largest segment."""
        return int(self._transfer.sender["payload_bytes"][self._transfer.data].max())

    @cached_property
    def _arrived(self) -> Array:
        """Which rows of `sender` are packets of ours that the receiver's capture holds; none without one."""
        arrived, pairs = np.zeros(len(self._transfer.sender), dtype=bool), self._transfer.data_pairs
        if pairs is not None:
            arrived[pairs.sent[(pairs.arrived != NA) & (pairs.sent != NA)]] = True
        return arrived

    @cached_property
    def _lost_ways(self) -> list[_Lost] | None:
        """The data that were lost, and the ACKs; None where only one end was captured."""
        data, acks = self._transfer.data_pairs, self._transfer.ack_pairs
        sender, receiver = self._transfer.sender, self._transfer.receiver
        if data is None or acks is None or receiver is None:
            return None
        ours, theirs = _rows_lost(data), _rows_lost(acks)
        ours = ours[sender["payload_bytes"][ours] > 0]
        back_ns = self._transfer.receiver_time(receiver["time_ns"][theirs])
        return [
            _Lost.of(sender["end_bytes"][ours], sender["time_ns"][ours]),
            _Lost.of(receiver["ack_bytes"][theirs], back_ns),
        ]


class _Lost(NamedTuple):
    """What was lost one way, in the order in which it left."""

    left_ns: Array
    edge: Array
    """What each carried, or acknowledged, up to."""
    highest: Array
    """The highest edge so far: a thousand dead times ask, and each only for the last few packets."""

    @classmethod
    def of(cls, edge: Array, left_ns: Array) -> _Lost:
        order = np.argsort(left_ns, kind="stable")
        return cls(left_ns[order], edge[order], np.maximum.accumulate(edge[order]))

    def above(self, una: int, until_ns: int) -> int:
        """Return how many left up to a stamp and had an edge above `una`."""
        first, last = self.highest.searchsorted(una, "right"), self.left_ns.searchsorted(until_ns, "right")
        return int(np.count_nonzero(self.edge[first:last] > una))


def _rows_lost(pairs: Pairs) -> Array:
    """Return the rows, of the end that sent them, of what was lost."""
    return np.asarray(pairs.sent[(pairs.table["outcome"] == Outcome.LOST) & (pairs.sent != NA)])
