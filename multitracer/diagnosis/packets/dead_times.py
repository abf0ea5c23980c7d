"""Dead times: nothing arrived although data were outstanding and a timer retransmitted; from packets alone.

A try is a retransmission by a timer, or a tail loss probe.

Rules of the file
-----------------
- A dead time lies between two arrivals from the peer, with at least one try between them. It begins with the
  last arrival, or with the first data after it. It ends when the answered try was sent, because the sender's
  capture cannot show whether the path worked earlier. It is certain until the last failed try.
- The echoed timestamp shows which try was answered. Without it (a receiver that had the data echoes the older
  one, and some send none), it is the last try that is older than the shortest round trip.
- An unneeded try (`spurious`) proves that data were late, not lost: no dead time.
- The direction that was dead follows from both captures. The sender's capture alone shows one case: an ACK
  that covers more than the data sent again and reported proves that the data had arrived and their ACKs were lost.
- A handshake has no dead time: only data count as tries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis import SegmentKind
from multitracer.analysis.group import BEGIN_OR_END, has
from multitracer.analysis.ranges import spread
from multitracer.analysis.verdicts import Necessity, RetransmissionCause
from multitracer.captured import CaptureMark
from multitracer.diagnosis.packets.sender_view import SenderView
from multitracer.schemas.tcp import Vantage
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array

_SOONEST = 0.8
"""Minimum part of the shortest round trip between a packet and its answer: clocks and queues are not exact."""
_DELAYED_SEGMENTS = 2  # RFC 9293, section 3.8.6.3: every second full segment
_DELAYED_ACK_NS = NS_PER_S // 2
"""Maximum delay of an ACK, in ns; an ACK is due for every second full segment (RFC 9293, section 3.8.6.3)."""


class DeadTime(NamedTuple):
    """An interval in which nothing arrived although data were outstanding and a timer retransmitted.

    Times are in ns on the sender's clock. A "try" is a retransmission by the timer, or a tail loss probe.
    """

    begin_ns: int
    certain_ns: int
    """End of the certain part: when the last failed try was sent; `begin_ns` if none failed."""
    end_ns: int
    """When the first answered try was sent; otherwise when the peer sent data of its own, or the last packet."""
    tries: Array
    """Rows of `sender` that the timer sent in it, in order."""
    failed: int
    """Number of tries without an answer."""
    answer: int
    """Row of the ACK that ended it; NA if there was none."""
    unanswered: int
    """Number of the sender's packets, in flight at its start or sent in it, without an answer."""
    acks_proved: bool
    """Whether the answer proves that data had arrived whose ACKs were lost."""
    lost_data: int
    """Number of the sender's packets that were lost in it, from both captures; NA without a capture at the receiver."""
    lost_acks: int
    """Number of the peer's packets that were lost in it, from both captures; NA without a capture at the receiver."""
    tries_came: bool
    """Whether both captures show that all failed tries had arrived."""

    @property
    def way(self) -> str:
        """The direction that failed: `both`, `data` or `acks`; empty if unknown."""
        if self.lost_data == NA or (self.tries_came and self.lost_acks):
            return "acks" if self.acks_proved or self.tries_came else ""
        return {(1, 1): "both", (1, 0): "data", (0, 1): "acks"}.get(
            (int(self.lost_data > 0), int(self.lost_acks > 0)), ""
        )

    @property
    def is_ack_loss(self) -> bool:
        """Whether ACKs were lost, not data: more ACKs than data were lost, or the retransmissions arrived."""
        if self.lost_data == NA:
            return self.acks_proved
        return self.lost_acks > (0 if self.tries_came else self.lost_data)


def dead_times(transfer: Transfer) -> list[DeadTime]:
    """Return the dead times of a transfer in order: nothing arrived although a timer retransmitted data.

    Those whose first retransmission was answered are included. The list is empty for a capture near the receiver.
    """
    if transfer.vantage is Vantage.NEAR_RECEIVER or not len(transfer.acks):
        return []
    verdicts, table = transfer.verdicts, transfer.sender
    timer = np.isin(verdicts["cause"], (RetransmissionCause.TIMEOUT, RetransmissionCause.TAIL_LOSS_PROBE))
    chosen = timer & (table["payload_bytes"][verdicts["row"]] > 0)
    rows, needless = verdicts["row"][chosen], verdicts["necessity"][chosen] == Necessity.SPURIOUS
    if not len(rows):
        return []
    following = np.searchsorted(transfer.acks, rows)
    first = np.flatnonzero(np.diff(following, prepend=-1))
    last = np.append(first[1:], len(rows))
    chosen = (following[first] > 0) & ~np.logical_or.reduceat(needless, first)
    if not chosen.any():
        return []
    first, last = first[chosen], last[chosen]
    of, at = spread(first, last)
    end = np.cumsum(last - first)
    tries = _Tries(rows[at], of, end - (last - first), end, following[first])
    return _Watch(transfer, tries).dead_times()


class _Tries(NamedTuple):
    """Runs of retransmissions by the timer ("tries"); a run lies between two arrivals from the peer."""

    row: Array
    """Rows of `sender`, int64, ascending; at least one per run."""
    of: Array
    """Index of the run of each try."""
    begin: Array
    """Index in `row` of the first try of each run."""
    end: Array
    """Index in `row` after the last try of each run."""
    following: Array
    """Index in `transfer.acks` of the arrival after each run, not 0."""


class _Watch:
    """Evidence about runs of retransmissions, from the sender's capture and, if there is one, the receiver's.

    Arrays without a comment have shape (n_runs,). `answer` are rows of `sender`; NA for none.
    """

    def __init__(self, transfer: Transfer, tries: _Tries) -> None:
        self._transfer, self._tries = transfer, tries
        self._table, self._acks, self._time = transfer.sender, transfer.acks, transfer.time_ns
        self._view = SenderView(transfer)
        number, analysis = transfer.at_sender.connection, transfer.at_sender.capture.analysis
        agreed = analysis.directions["sack_permitted"][2 * (number - 1) : 2 * number].all()
        is_usable = bool(agreed) and not len(transfer.untranslated)
        self._has_sacks = is_usable or len(transfer.sacks) > 0
        self._soonest_ns = _SOONEST * int(transfer.rtt_ns.min()) if len(transfer.rtt_ns) else 0.0
        self._full_bytes = int(transfer.payload_bytes.max())
        self._before = self._acks[tries.following - 1]
        duplicate = (self._table["kind"][self._before] & np.uint32(SegmentKind.DUPLICATE_ACK)) != 0
        self._uncertain = (duplicate | self._view.in_recovery(self._before)) & (not self._has_sacks)
        """For each run, whether duplicate ACKs may have reported data that arrived after a loss; False with SACK."""
        self._uncertain_repair = self._repairs_in_flight() & (not self._has_sacks)
        """For each run, whether a repair was in flight: its ACK covers what had arrived behind it; False with SACK."""

    def dead_times(self) -> list[DeadTime]:
        """Return a dead time for each run of retransmissions; runs with only answered ones are left out."""
        tries, time, data = self._tries, self._time, self._transfer.data
        following = self._heard_of()
        answer = np.append(self._acks, NA)[following]
        is_answer = (answer != NA) & self._answers(np.minimum(following, len(self._acks) - 1))
        failed = np.where(is_answer, self._failed(answer), tries.end - tries.begin)

        # from the last arrival, or from the first data after it if nothing was waiting
        begin = np.array(self._before)
        idle = np.flatnonzero(self._view.flight_bytes(begin) <= 0)
        begin[idle] = data[np.searchsorted(data, begin[idle])]
        begin_ns = time[begin]
        ended = np.where(is_answer, tries.row[np.minimum(tries.begin + failed, len(tries.row) - 1)], answer)
        certain_ns = time[tries.row[tries.begin + np.maximum(failed, 1) - 1]]
        certain_ns = np.where(failed > 0, certain_ns, begin_ns)
        end_ns = time[ended]

        # packets before the first try that were neither covered nor reported; only the oldest for sure, if
        # what lay behind it may have arrived
        flight = self._table["flight_sack_bytes"][tries.row[tries.begin]]
        outstanding = np.where(self._uncertain, 1, -(-flight // max(self._full_bytes, 1)))

        # tries failed, and both captures show that each that did had arrived
        pairs, arrived = self._transfer.data_pairs, np.zeros(len(self._table), dtype=bool)
        if pairs is not None:
            arrived[pairs.sent[(pairs.arrived != NA) & (pairs.sent != NA)]] = True
        missing = np.append(0, np.cumsum(~arrived[tries.row]))
        came = (failed > 0) & (missing[tries.begin + np.maximum(failed, 0)] == missing[tries.begin])
        columns = (
            begin_ns,
            certain_ns,
            end_ns,
            tries.begin,
            tries.end,
            failed,
            np.where(is_answer, answer, NA),
            outstanding + failed,
            is_answer & self._proves_acks(answer),
            *self._lost(np.where(failed > 0, certain_ns, end_ns)),
            came,
        )
        kept = failed >= 0
        rows = zip(*(column[kept].tolist() for column in columns), strict=True)
        return [
            DeadTime(begin, certain, end, tries.row[first:last], *rest)
            for begin, certain, end, first, last, *rest in rows
        ]

    def _repairs_in_flight(self) -> Array:
        """Return for each run whether data that were sent again, because they were lost, had no ACK yet: bool."""
        verdicts = self._transfer.verdicts
        repairs = verdicts["row"][verdicts["necessity"] == Necessity.NECESSARY]
        highest = np.append(0, np.maximum.accumulate(self._table["end_bytes"][repairs]))
        before = np.searchsorted(repairs, self._tries.row[self._tries.begin])
        return np.asarray(highest[before] > self._view.acknowledged_by(self._before))

    def _heard_of(self) -> Array:
        """Return for each run the first arrival that its last retransmission may have caused.

        The result is an index in `transfer.acks`, or the length of `transfer.acks` if there is none. An arrival that
        only carries the peer's own data, and comes sooner than any answer can, is left out: the peer's timer sent it.
        """
        acks, following = self._acks, np.asarray(self._tries.following)
        soonest_ns = self._time[self._tries.row[self._tries.end - 1]] + self._soonest_ns
        at = np.minimum(following, len(acks) - 1)
        early = (following < len(acks)) & (self._time[acks[at]] < soonest_ns) & ~self._answers(at)
        if not early.any():
            return following
        answering = np.flatnonzero(self._answers(np.arange(len(acks))))
        answered = np.append(answering, len(acks))[np.searchsorted(answering, following)]
        due = np.maximum(np.searchsorted(self._time[acks].astype(np.float64), soonest_ns), following)
        return np.asarray(np.minimum(answered, due))

    def _answers(self, number: Array) -> Array:
        """Return which arrivals are answers: ACKs that do more than carry the peer's own data (bool)."""
        table, row = self._table, self._acks[number]
        own = (table["payload_bytes"][row] > 0) | ((table["flags"][row] & BEGIN_OR_END) != 0)
        acked = np.where(number > 0, self._view.highest_acked[np.maximum(number - 1, 0)], 0)
        return np.asarray((table["ack_bytes"][row] > acked) | ~own)

    def _failed(self, answer: Array) -> Array:
        """Return for each run how many of its retransmissions had no answer.

        It is -1 if the answered packet is older than the first retransmission.
        """
        table, tries = self._table, self._tries
        of_answer = answer[tries.of]
        is_unstamped = ~has(table["marks"][tries.row], CaptureMark.HAS_TIMESTAMPS)
        is_echoed = (table["tsecr"][of_answer] - table["tsval"][tries.row]).view(np.int32) >= 0
        is_older = self._time[tries.row] <= self._time[of_answer] - self._soonest_ns
        masks = np.stack([is_unstamped, is_echoed, is_older])
        unstamped, echoed, older = np.add.reduceat(masks, tries.begin, axis=1, dtype=np.int64)  # of each run
        stamped = (unstamped == 0) & has(table["marks"][answer], CaptureMark.HAS_TIMESTAMPS)
        return np.asarray(np.where(stamped & (echoed > 0), echoed, older) - 1)

    def _proves_acks(self, answer: Array) -> Array:
        """Return for each answer whether it proves that data had arrived whose ACKs were lost: bool.

        It must cover all outstanding data, and more than was sent again. Data that duplicate ACKs may have
        reported prove nothing, nor does the ACK of a repair without SACK. Neither does an ACK that may have been
        delayed: one for very few data, or of a receiver whose program does not read.
        """
        table, data, tries = self._table, self._transfer.data, self._tries
        first = tries.row[tries.begin]
        begin, end = (table[f"{edge}_bytes"][tries.row] for edge in ("seq", "end"))
        units = np.add.reduceat(end - begin, tries.begin)  # that each run repeats, each range once
        for run in np.flatnonzero(tries.end - tries.begin > 1).tolist():
            inside = slice(tries.begin[run], tries.end[run])
            ranges = set(zip(begin[inside].tolist(), end[inside].tolist(), strict=True))
            units[run] = sum(right - left for left, right in ranges)
        others = table["flight_sack_bytes"][first] - units
        waited_ns = (self._time[first] - self._time[self._before]) * self._transfer.speed
        edge, edge_before = (table["ack_bytes"][row] + table["window_bytes"][row] for row in (answer, self._before))
        is_late = waited_ns > _DELAYED_ACK_NS
        due = others > np.where(is_late, 0, _DELAYED_SEGMENTS * self._full_bytes)
        due &= (edge > edge_before) | is_late
        highest = np.maximum.accumulate(table["end_bytes"][data])
        sent = highest[np.searchsorted(data, first) - 1]
        return np.asarray(due & (table["ack_bytes"][answer] >= sent) & ~self._uncertain & ~self._uncertain_repair)

    def _lost(self, until_ns: Array) -> list[Array]:
        """Return how many data packets and how many ACKs were lost, from both captures.

        Only packets count that carried, or acknowledged, more than was acknowledged before, and that were
        sent until `until_ns`; NA with only one capture.
        """
        una = self._view.acknowledged_by(self._before)
        data, acks = self._transfer.data_pairs, self._transfer.ack_pairs
        sender, receiver = self._table, self._transfer.receiver
        if data is None or acks is None or receiver is None:
            return [np.full(len(una), NA)] * 2
        ours, theirs = (way.sent[way.lost & (way.sent != NA)] for way in (data, acks))
        ours = ours[sender["payload_bytes"][ours] > 0]
        ways = (
            (sender["end_bytes"][ours], sender["time_ns"][ours]),
            (receiver["ack_bytes"][theirs], self._transfer.receiver_time(receiver["time_ns"][theirs])),
        )
        lost = []
        for way in ways:  # what each carried, or acknowledged, up to, and when it left
            edge, left_ns = (column[np.argsort(way[1], kind="stable")] for column in way)
            # a thousand dead times ask, and each only for the last few packets
            first = np.maximum.accumulate(edge).searchsorted(una, "right")
            last = left_ns.searchsorted(until_ns, "right")
            many = np.where(last - first == 1, np.append(edge, NA)[first] > una, 0)
            for at in np.flatnonzero(last - first > 1).tolist():
                many[at] = np.count_nonzero(edge[first[at] : last[at]] > una[at])
            lost.append(many)
        return lost


def timeouts(transfer: Transfer) -> tuple[Array, Array]:
    """Return the rows of `sender` that the retransmission timer sent, and a number for each.

    The number is 1 for the first timeout of a segment, 2 for the next one without new acknowledged data (its
    timer was doubled), and so on.
    """
    verdicts, begin = transfer.verdicts, transfer.sender["seq_bytes"]
    rows = verdicts["row"][verdicts["cause"] == RetransmissionCause.TIMEOUT]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = begin[rows][1:] != begin[rows][:-1]
    starts = np.flatnonzero(first)
    since = np.repeat(starts, np.diff(np.append(starts, len(rows))))
    return rows, np.arange(len(rows)) - since + 1
