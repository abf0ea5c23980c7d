"""What limited one transfer: intervals that partition its time, each with limit, subtype and confidence.

A log of the link has priority over packets (`by_link_log`, docs/limits.md). `of_both_directions` follows a wait for
the peer to what held the peer's own data back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.intervals import BLOCK_ROWS, distinct, first_painters, indexes, places
from multitracer.analysis.parallel import meanwhile
from multitracer.analysis.ranges import within
from multitracer.analysis.verdicts.words import Necessity
from multitracer.captured import Flag
from multitracer.clock.model.relation import PlacementStatus
from multitracer.diagnosis.account.link_account import LinkAccount, link_account
from multitracer.diagnosis.account.uses import Use, UseCause
from multitracer.diagnosis.limits.at_receiver import at_receiver
from multitracer.diagnosis.limits.at_sender import Opening, at_sender, opening
from multitracer.diagnosis.limits.gaps import ROUND, UNEXPLAINED
from multitracer.diagnosis.limits.names import (
    FORWARD,
    JOINED,
    REVERSE,
    Confidence,
    Limit,
    LimitShare,
    LimitSubtype,
    Viewpoint,
    by_limit,
)
from multitracer.diagnosis.limits.observed import NOT_CAPTURED
from multitracer.diagnosis.limits.partition import Cells, RuleEvidence, partition
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.packets.opening_and_end import failed_opening
from multitracer.recording.transfer import Transfer
from multitracer.schemas.findings import LIMITS
from multitracer.schemas.tcp import Vantage
from multitracer.tables import Table
from multitracer.units import NS_PER_S
from multitracer.words import count

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.link import Rates
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.tables import Array, Document

_INTERVAL = ("begin_ns", "end_ns", "limit", "part", "direction", "confidence", "evidence")
_ONE_TIME = "all packets carry the same time"
_MOST_ABOVE_MEAN = 2.0
"""Maximum ratio of the link's median rate to its mean while it was the limit. On 187 views of recordings of known cause
it is at most 1.7; of packets whose options were cut it is 33 million."""
_NEAR_MEAN, _FAR_BELOW_MEAN = 1.25, 2.5
"""Ratios of the mean to the median. Up to the first the median of a steady link is wrong by that much: 1.03 to 1.22 on
links of known rate. From the second on it says nothing: a link that became four times slower for most of the time has
2.4, one connection of eight on a link 2.9 to 3.9, a cellular link that stalls again and again 45."""
CLOCK_STEPPED = (
    "the clock of the capture was set within this transfer, {}by {:+.3f} s, so that no time and no rate over it can "
    "be told"
)
_BEGUN_BEFORE = "the connection began before the capture, which holds no data of it"
_NO_DATA_HERE = "no data arrived where it was captured; only the other end knows whether any were sent"


_M, _I, _W = Confidence.MEASURED, Confidence.INFERRED, Confidence.WEAK
_LOOSE = dict.fromkeys((Limit.RECOVERY, Limit.SLOW_START, Limit.CONGESTION_WINDOW), _W)
"""Limits with weak confidence: 75 to 90 % of their seconds were right on 467 recordings of known cause; of
all other limits, 93 % or more."""
_BY_VIEW: dict[Viewpoint, dict[Limit, Confidence]] = {
    Viewpoint.LINK_LOG: dict.fromkeys(Limit, _M),
    Viewpoint.BOTH_ENDS: dict.fromkeys(Limit, _M) | _LOOSE,
    Viewpoint.SENDER_STATE: dict.fromkeys(Limit, _I) | _LOOSE | {Limit.HANDSHAKE: _M, Limit.SENDER_BUFFER: _M},
    Viewpoint.SENDER: dict.fromkeys(Limit, _I) | _LOOSE | {Limit.HANDSHAKE: _M, Limit.SENDER_BUFFER: _W},
    Viewpoint.RECEIVER: dict.fromkeys(Limit, _I) | _LOOSE | {Limit.SENDER_BUFFER: _W},
    Viewpoint.NOWHERE: dict.fromkeys(Limit, _W),
}


_INSTEAD = {
    Limit.SLOW_START: Limit.CONGESTION_WINDOW,
    Limit.CONGESTION_WINDOW: Limit.SLOW_START,
    Limit.SENDER_BUFFER: Limit.CONGESTION_WINDOW,
    Limit.OUTAGE: Limit.RECOVERY,
    Limit.RECOVERY: Limit.OUTAGE,
}
"""The alternative limit for each weak limit; an unknown interval may have any limit."""


@dataclass(frozen=True)
class Limited:
    """What limited one transfer.

    Attributes
    ----------
    transfer : Transfer
    view : Viewpoint
        The logs that were used.
    cells : Cells
        The intervals of the transfer, with the limit of each.
    account : LinkAccount
        The account of its link: the evidence, if the link was logged.
    seen : Observed or None
        The transfer with all times converted to the sender's clock; None if packets show nothing, or the
        link log is used.
    shown : RuleEvidence or None
        The evidence of each rule.
    reason : str
        Why the limits of all or part of it are unknown, in words; else empty.
    other : Limited or None
        The same intervals from the other direction of the connection: its transfer, its evidence, times on its clock.
        None if only this direction was examined.
    theirs : Array or None
        Which intervals have the limit of the other direction's data: bool, shape (n_cells,). None if none have.
    """

    transfer: Transfer
    view: Viewpoint
    cells: Cells
    account: LinkAccount
    seen: Observed | None = None
    shown: RuleEvidence | None = None
    reason: str = ""
    other: Limited | None = None
    theirs: Array | None = None

    @cached_property
    def confidence(self) -> Array:
        """The `Confidence` of each interval: uint8, shape (n_cells,).

        It is the measured precision of the rule in that view, if the capture holds enough data (limits.md).
        """
        own = self._own_confidence()
        if self.other is None or self.theirs is None:
            return own
        return np.where(self.theirs, self.other._own_confidence(), own)  # the same class

    @cached_property
    def is_reverse(self) -> Array:
        """Whose data each limit held back: False the initiator's, True the responder's; bool, shape (n_cells,)."""
        return self.is_theirs ^ self.transfer.reverse

    @property
    def is_theirs(self) -> Array:
        """Which intervals have the limit of the other direction's data: bool, shape (n_cells,)."""
        return np.zeros(len(self.cells.begin), dtype=bool) if self.theirs is None else self.theirs

    @cached_property
    def own(self) -> Cells:
        """The intervals that have a limit of this direction's data."""
        cells = self.cells
        return cells if self.theirs is None else Cells(*(column[~self.theirs] for column in cells))

    def side(self, *, reverse: bool) -> Limited:
        """Return the limits as the direction with the given data sees them, with its evidence."""
        return self if self.other is None or reverse == self.transfer.reverse else self.other

    def from_other(self, time_ns: Array) -> Array:
        """Return times of the other direction's sender on the clock of this one: int64, ns, shape (n,)."""
        return time_ns if self.other is None else _on_clock(self.other, self, time_ns)

    def _own_confidence(self) -> Array:
        table = np.array([int(_BY_VIEW[self.view][limit]) for limit in Limit], dtype=np.uint8)
        weak = frozenset() if self.seen is None else self.seen.weak
        table[[Limit.UNKNOWN, *weak]] = int(_W)
        if self.shown is not None and self.shown.link.rate is not None and self.link_rate is None:
            table[Limit.LINK] = int(_W)  # what was delivered contradicts it
        sure = table[self.cells.limit]
        nagle = (self.cells.limit == Limit.APPLICATION) & (self.cells.part == LimitSubtype.NAGLE)
        sure[nagle] = np.maximum(sure[nagle], np.uint8(_I))  # no log shows the socket's option
        sure[self.cells.possible] = int(_W)
        return np.asarray(sure)

    @property
    def seconds(self) -> Array:
        """Length of each interval in link time: float64, s, shape (n_cells,)."""
        return np.asarray((self.cells.end - self.cells.begin) * self.transfer.speed / NS_PER_S)

    @property
    def begin_ns(self) -> int:
        """Time of the connection's first SYN, or else of the first captured packet, in ns."""
        return int(self.cells.begin[0]) if len(self.cells.begin) else 0

    @cached_property
    def total_s(self) -> float:
        """The duration of the transfer in seconds of link time."""
        return float(self.seconds.sum())

    @property
    def link_limited_share(self) -> float:
        """Share of the transfer's time in which the link was the limit, 0 to 1; NaN if no log shows the limits."""
        if self.view is Viewpoint.NOWHERE or not self.total_s > 0:
            return float("nan")
        return sum(each.seconds for each in self.shares if each.limit is Limit.LINK) / self.total_s

    @cached_property
    def link_rate(self) -> Rates | None:
        """The rate of the link while it was the limit; None if it is unknown.

        It is also None if twice the bytes would have been delivered meanwhile: a busy link delivers at its rate. Where
        the rate varied so much that its median is far from the mean, the mean stands in its place; so does that of the
        whole transfer, if it is a little higher: of a steady link, that shows the error of the median.
        """
        rate = None if self.shown is None else self.shown.link.rate
        begin, end = stretches(self, Limit.LINK)
        passed_ns = int((end - begin).sum())
        if rate is None or self.seen is None or not passed_ns or not len(self.seen.answers):
            return rate
        answers, half_ns = self.seen.answers, self.seen.floor_ns // 2  # an answer tells what the link served before
        done = [np.interp(edge + half_ns, answers.time_ns, answers.delivered) for edge in (begin, end)]
        mean = float((done[1] - done[0]).sum()) / passed_ns * NS_PER_S
        if rate.median > _MOST_ABOVE_MEAN * mean:
            return None
        overall = float(np.ptp(answers.delivered)) / max(int(self.cells.end[-1] - self.cells.begin[0]), 1) * NS_PER_S
        if _FAR_BELOW_MEAN * rate.median < mean:
            return rate.at(min(mean, rate.largest))
        is_error = rate.median < overall <= _NEAR_MEAN * rate.median
        return rate.at(min(overall, rate.largest)) if is_error else rate

    @cached_property
    def shares(self) -> list[LimitShare]:
        """One row for each limit, subtype and direction, the largest first; their seconds sum to `total_s`."""
        cells, sure, seconds, names = self.cells, self.confidence, self.seconds, len(LimitSubtype)
        key = (cells.limit * names + cells.part) * 2 + self.is_reverse
        total = max(float(seconds.sum()), 1e-12)
        weak = sure == Confidence.WEAK
        spare = np.bincount(cells.limit[weak], seconds[weak], minlength=len(Limit))
        rows = []
        for each in distinct(key).tolist():
            named, mine = each // 2, key == each
            limit, part = Limit(named // names), LimitSubtype(named % names)
            own, firm = float(seconds[mine].sum()), float(seconds[mine & ~weak].sum())
            instead = sum(float(spare[other]) for other, this in _INSTEAD.items() if this is limit)
            instead += float(spare[Limit.UNKNOWN]) if limit is not Limit.UNKNOWN else 0.0
            by_sureness = np.bincount(sure[mine], seconds[mine], minlength=len(Confidence))
            high = min((own + instead) / total, 1.0)
            most = Confidence(int(by_sureness.argmax() if own else sure[mine].max()))
            rows.append(LimitShare(limit, part, own, own / total, firm / total, high, most, bool(each % 2)))
        rows = sorted(rows, key=lambda row: -row.seconds)
        doubtful = self._doubtful(rows)
        return [row._replace(confidence=Confidence.WEAK) if row in doubtful else row for row in rows]

    def _doubtful(self, rows: list[LimitShare]) -> list[LimitShare]:
        """Return the rows whose time is certain, but not that they are this limit, or the largest one."""
        failed = failed_opening(self.transfer)
        if failed is not None and not failed.is_certain:
            return rows
        sums = by_direction(rows, self.transfer)
        first = next(iter(by_limit(rows)), None)
        key = next((each for each in sums if each[0] is first), None)
        own = [row for row in rows if key is not None and is_of(row, key)]
        other = max((share for (limit, _), share in sums.items() if limit is not first), default=0.0)
        if sum(row.share_low for row in own) >= other:
            own = []  # else it is the largest by what may be another limit
        return own + [row for row in rows if self.may_be_lost(row)]

    def may_be_lost(self, row: LimitShare) -> bool:
        """Return whether a wait for the other program may have been for one of its packets that was lost on the way."""
        return row.part is LimitSubtype.PEER and is_asked_in_vain(self.side(reverse=row.reverse))

    @cached_property
    def table(self) -> Table:
        """The table LIMITS: one row per interval."""
        cells = self.cells
        columns = {
            "begin_ns": cells.begin,
            "end_ns": cells.end,
            "limit": np.array([Limit(each).label for each in cells.limit], dtype="U17"),
            "part": np.array([LimitSubtype(each).label if each else "" for each in cells.part], dtype="U8"),
            "direction": np.where(self.is_reverse, REVERSE, FORWARD),
            "confidence": np.array([Confidence(each).label for each in self.confidence], dtype="U8"),
            "seconds": self.seconds,
            "evidence": self._evidence(),
        }
        return Table(LIMITS, columns, {"view": self.view.label, "reason": self.reason})

    def intervals(self) -> list[Document]:
        """Return all intervals as `diagnose --json --intervals` writes them."""
        table, begin = self.table, self.begin_ns
        per_ns = self.transfer.speed / NS_PER_S
        return [
            {
                "begin_ns": left,
                "end_ns": right,
                "begin_s": round((left - begin) * per_ns, 6),
                "end_s": round((right - begin) * per_ns, 6),
                "limit": limit,
                "part": part or None,
                "direction": direction,
                "confidence": sure,
                "evidence": evidence.split(),
            }
            for left, right, limit, part, direction, sure, evidence in zip(
                *(table[name].tolist() for name in _INTERVAL), strict=True
            )
        ]

    def _evidence(self) -> Array:
        """Return the first and the last row in each interval, of the `sender` table of the limit's direction."""
        own = self._own_evidence()
        if self.other is None or self.theirs is None:
            return own
        return np.where(self.theirs, self.other._own_evidence(), own)  # the same class

    def _own_evidence(self) -> Array:
        time = self.transfer.time_ns
        if not len(time):
            return np.full(len(self.cells.begin), "", dtype="U48")
        first = np.minimum(np.searchsorted(time, self.cells.begin), len(time) - 1)
        last = np.maximum(np.searchsorted(time, self.cells.end, side="right") - 1, first)
        words = [f"sender:{a} sender:{b}" for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        return np.array(words, dtype="U48")


_NEEDLESS = 2  # copies sent needlessly that show losses of ACKs: a single one may be a late ACK. Not measured


def by_direction(rows: list[LimitShare], transfer: Transfer) -> dict[tuple[Limit, bool], float]:
    """Return the share of each limit and direction, largest first; those of `JOINED` have the transfer's."""
    sums: dict[tuple[Limit, bool], float] = {}
    for row in rows:
        key = row.limit, transfer.reverse if row.limit in JOINED else row.reverse
        sums[key] = sums.get(key, 0.0) + row.share
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def is_of(row: LimitShare, key: tuple[Limit, bool]) -> bool:
    """Return whether a row belongs to a key of `by_direction`."""
    return row.limit is key[0] and (row.limit in JOINED or row.reverse == key[1])


def is_asked_in_vain(limited: Limited) -> bool:
    """Return whether packets of the peer were lost before the only capture: data had to be sent again needlessly."""
    if limited.view not in (Viewpoint.SENDER, Viewpoint.SENDER_STATE):
        return False
    verdicts = limited.transfer.verdicts
    is_needless = np.isin(verdicts["necessity"], (Necessity.SPURIOUS, Necessity.ACK_LOST))
    return int(np.count_nonzero(is_needless)) >= _NEEDLESS


def limited(transfer: Transfer) -> Limited:
    """Return what limited a transfer, its direction alone: by the log of its link, or else by its packets."""
    transfer.radio  # noqa: B018  # what its logs warn of is told whatever limited it
    account, time = link_account(transfer), transfer.time_ns
    opens = opening(transfer) if len(time) else Opening(0, 0, None)
    begin = opens.begin_ns
    end = max(int(time[-1]), begin) if len(time) else 0
    if (without := _without_data(transfer, account, opens, end)) is not None:
        return without
    if account.is_logged:
        return Limited(transfer, Viewpoint.LINK_LOG, by_link_log(account, begin), account)
    if steps := transfer.clock_steps:
        largest_s = max((step.step_ns for step in steps), key=abs) / NS_PER_S
        many = "" if len(steps) == 1 else f"{count(len(steps), 'time')}, at most "
        reason = CLOCK_STEPPED.format(many, largest_s)
        return Limited(transfer, _view(transfer), _all(begin, end, Limit.UNKNOWN), account, reason=reason)
    with meanwhile(len(transfer.sender), lambda: (transfer.data_pairs, transfer.ack_pairs)):
        assert transfer.verdicts is not None  # all ask for both
    view = _view(transfer)
    seen = at_receiver(transfer) if view is Viewpoint.RECEIVER else at_sender(transfer, view, opens)
    if not len(seen.sends) or seen.end_ns <= seen.begin_ns:
        reason = _ONE_TIME if len(seen.sends) else "no data were seen"
        return Limited(transfer, view, _all(begin, end, Limit.UNKNOWN), account, reason=reason)
    shown = RuleEvidence.of(seen)
    cells = partition(seen, shown)
    reasons = ((shown.missing, NOT_CAPTURED), (shown.unexplained, UNEXPLAINED))
    reason = "; ".join(words for spans, words in reasons if spans.total_ns)
    reason = reason if (cells.limit == Limit.UNKNOWN).any() else ""
    return Limited(transfer, view, cells, account, seen, shown, reason)


# --- both directions ---

_WORTH_FOLLOWING = 0.01
"""Minimum share of T that the wait for the peer, or the peer's data after T, must take: one percent is the least that
the first sentence can say. To find the other direction's limits takes as long as to find those of this one."""
_BLOCKED = (
    Limit.OUTAGE,
    Limit.LINK,
    Limit.RECOVERY,
    Limit.RECEIVER_WINDOW,
    Limit.SENDER_BUFFER,
    Limit.SLOW_START,
    Limit.CONGESTION_WINDOW,
)
"""Limits of a direction that has data outstanding or unsent, beside Nagle's algorithm."""
_WAITS = (LimitSubtype.PEER, LimitSubtype.REPAIR, LimitSubtype.LATENCY)
"""Waits for the other direction: for its program, for a lost request, for data in transit."""
_INFERRED_WINDOWS = (Limit.SLOW_START, Limit.CONGESTION_WINDOW)
"""Limits that remain where no rule applies: seen from the receiver, nothing shows that more data were to be sent."""


def of_both_directions(one: Limited) -> Limited:
    """Return the limits of a connection: a wait for the peer is followed to what held the peer's data back.

    - Where the limit is the application with the subtype PEER, the limit of the other direction takes its place while
      that direction has data outstanding or unsent. For the subtype REPAIR, only an outage, a recovery or a
      queue does; for LATENCY, a limit that keeps data longer than a round trip, but no window that merely may be one.
    - After the last payload byte of this direction, the limits of the other one follow until its own last byte.
    - If the one capture is the receiver's, an outage that the other direction shows there is one of this direction,
      too, and so are answers that are late: nothing arrived, so what this direction's packets suggest rests on none.

    The other direction is examined only if the wait is long enough, or if data of it were sent again.
    """
    own, place = one.cells, one.transfer.at_sender
    if one.view is Viewpoint.NOWHERE or one.account.is_logged or not len(own.begin):
        return one
    its = one.transfer.at_receiver or place  # the sender of the other direction: some of its data never came here
    directions, row = its.capture.analysis.directions, 2 * (its.connection - 1) + (not its.reverse)
    if not directions["unique_bytes"][row]:
        return one
    is_idle = own.limit == Limit.APPLICATION.value
    asks = is_idle & ((own.part == LimitSubtype.PEER.value) | (own.part == LimitSubtype.REPAIR.value))
    late = is_idle & (own.part == LimitSubtype.LATENCY.value)
    last_ns = one.transfer.receiver_time(directions["last_payload_ns"][row : row + 1])
    rest_ns = max(int(last_ns[0] - own.end[-1]), 0)
    floor_ns = 0 if one.seen is None else one.seen.floor_ns
    late_ns = np.maximum((own.end - own.begin)[late] - round(ROUND * floor_ns), 0)
    waited_ns = max(int((own.end - own.begin)[asks].sum() + late_ns.sum()), rest_ns)
    is_long = waited_ns > _WORTH_FOLLOWING * (int(own.end[-1] - own.begin[0]) + rest_ns)
    if not is_long and not directions["retransmitted_bytes"][row]:
        return one
    other = Transfer.of(one.transfer.recording, place.number, reverse=not place.reverse)
    return one if other.without_time else _joined(one, limited(other))


def _joined(limited: Limited, alone: Limited) -> Limited:
    """Return the limits of one direction, joined with those of the other one, `alone`."""
    own, its = limited.cells, alone.cells
    if alone.view is Viewpoint.NOWHERE or not len(its.begin) or max(limited.total_s, alone.total_s) <= 0:
        return limited
    here = its._replace(begin=_on_clock(alone, limited, its.begin), end=_on_clock(alone, limited, its.end))
    edges = distinct(np.concatenate([own.begin, own.end, here.begin, here.end]))
    edges = edges[edges >= own.begin[0]]
    begin, end = edges[:-1], edges[1:]
    mine, at = within(begin, own.begin, own.end), within(begin, here.begin, here.end)
    theirs = (at >= 0) & ((mine < 0) | _is_followed(limited, alone, mine, at))

    # both in one column, as equal neighbours become one; nothing is known between both, if clocks leave a gap
    columns = []
    for name, unknown in (("limit", Limit.UNKNOWN), ("part", LimitSubtype.NONE), ("possible", True)):
        ours = np.where(mine >= 0, getattr(own, name)[mine], unknown)
        both = np.where(theirs, getattr(its, name)[at], ours)
        columns.append(both.astype(bool if name == "possible" else np.int16))
    limit, part, possible = columns
    cells = Cells(begin, end, limit, part + theirs * len(LimitSubtype), possible).joined()
    theirs, part = cells.part >= len(LimitSubtype), cells.part % len(LimitSubtype)
    cells = cells._replace(part=part)
    moved = cells._replace(begin=_on_clock(limited, alone, cells.begin), end=_on_clock(limited, alone, cells.end))
    return replace(limited, cells=cells, theirs=theirs, other=replace(alone, cells=moved, theirs=~theirs))


def _is_followed(limited: Limited, alone: Limited, mine: Array, at: Array) -> Array:
    """Return where the limit of the other direction takes the place of this one's: bool.

    `mine` and `at` are the intervals of both directions at each place. Data that are in transit for a round trip after
    the peer sent them held nothing back.
    """
    own, its = limited.cells, alone.cells
    nagle = (its.limit == Limit.APPLICATION) & (its.part == LimitSubtype.NAGLE)
    held = np.isin(its.limit, _BLOCKED) | nagle
    is_window = np.isin(its.limit, _INFERRED_WINDOWS)
    if alone.view is Viewpoint.RECEIVER:
        held &= ~is_window
    held &= ~is_window | _has_several_flights(alone)
    floor_ns = max((each.seen.floor_ns for each in (limited, alone) if each.seen is not None), default=0)
    spans = Spans.of(its.begin[held], its.end[held])
    spans = spans.where(spans.length_ns > ROUND * floor_ns)
    held &= spans.holds(its.begin)
    asks = own.limit == Limit.APPLICATION
    peer, repair, late_ask = (asks & (own.part == part) for part in _WAITS)
    out, late = its.limit == Limit.OUTAGE, (its.limit == Limit.LINK) & its.possible
    is_here = alone.transfer.at_sender.host == limited.transfer.at_sender.host
    blind = (own.limit != Limit.HANDSHAKE) & (is_here and limited.view is Viewpoint.RECEIVER)
    is_queue = (its.limit == Limit.LINK) & ~its.possible
    is_more = held & (out | is_queue | (its.limit == Limit.RECOVERY))  # than that a request was lost
    followed = (peer[mine] & held[at]) | (repair[mine] & is_more[at]) | (late_ask[mine] & (held & ~is_window)[at])
    return np.asarray(followed | (blind[mine] & (out | late)[at]))


def _has_several_flights(limited: Limited) -> Array:
    """Return in which intervals new segments were sent for half a round trip or more; behind one flight none waits."""
    cells, seen = limited.cells, limited.seen
    if seen is None or not len(seen.fresh):
        return np.zeros(len(cells.begin), dtype=bool)
    times = seen.sends.time_ns[seen.fresh]
    first, last = np.searchsorted(times, cells.begin), np.searchsorted(times, cells.end) - 1
    lasted_ns = times[np.maximum(last, 0)] - times[np.minimum(first, len(times) - 1)]
    return np.asarray(lasted_ns > seen.floor_ns // 2)


def _on_clock(source: Limited, target: Limited, time_ns: Array) -> Array:
    """Return times on the clock of one direction's sender on that of the other one's, in ascending order.

    If nothing relates the clocks, both begin with the connection.
    """
    host, other = source.transfer.at_sender.host, target.transfer.at_sender.host
    if host == other:
        return time_ns
    clocks = source.transfer.recording.clocks
    if clocks is not None:
        placed = clocks.place(time_ns, clocks.of_point(host), clocks.of_point(other), with_bounds=False)
        if not (placed.status == PlacementStatus.UNPLACED).any():
            return np.maximum.accumulate(placed.time_ns)
    return time_ns + (target.begin_ns - source.begin_ns)


def shown_s(limited: Limited, limit: Limit, spans: Spans) -> float:
    """Return the link time in seconds in which a limit of this direction was in effect, within `spans`."""
    overlap_ns = spans.overlap_ns(*stretches(limited, limit))
    return float(overlap_ns.sum()) * limited.transfer.speed / NS_PER_S


def stretches(limited: Limited, limit: Limit, part: LimitSubtype | None = None) -> tuple[Array, Array]:
    """Return begin and end of each interval in which a limit (or one subtype of it) of this direction was in effect.

    For the limit APPLICATION, each new segment ends an interval.

    Returns
    -------
    begin, end : ndarray of int64, ns, shape (n_times,)
    """
    cells = limited.cells
    mine = (cells.limit == limit) & ~limited.is_theirs
    if part is not None:
        mine &= cells.part == part
    begin, end = cells.begin[mine], cells.end[mine]
    opens = np.ones(len(begin), dtype=bool)
    opens[1:] = begin[1:] > end[:-1]
    closes = np.append(opens[1:], True)[: len(end)]
    begin, end = begin[opens], end[closes]
    if limit is not Limit.APPLICATION or limited.shown is None or not len(begin):
        return begin, end
    sent = limited.shown.idle_gap.end
    inside = [sent[:0]]
    for first in range(0, len(sent), BLOCK_ROWS):
        some = sent[first : first + BLOCK_ROWS]
        at = places(begin, some, "right") - 1
        inside.append(some[(at >= 0) & (begin[at] < some) & (some < end[at])])
    sent = np.concatenate(inside)
    if not len(sent):
        return begin, end
    return distinct(np.concatenate([begin, sent])), distinct(np.concatenate([end, sent]))


def _without_data(transfer: Transfer, account: LinkAccount, opens: Opening, end: int) -> Limited | None:
    """Return the limits of a connection without data in this direction; None if it has data.

    The only limit is the handshake, since nobody waited for data after it. If the packets do not show even
    this, the limit is unknown, and the reason is stated.
    """
    flags, many, begin = transfer.sender["flags"], len(transfer.sender), opens.begin_ns
    is_syn = has(flags, Flag.SYN)
    if is_syn.any() and (is_syn | has(flags, Flag.RST)).all():  # SYNs, and refusals of them
        return Limited(transfer, _view(transfer), _all(begin, end, Limit.HANDSHAKE), account)
    reason = ""
    if len(transfer.sent) in (0, many):
        reason = "only one direction was captured" if many else "there are no packets of it"
    elif len(transfer.data):
        return None
    elif (transfer.sender["payload_bytes"] > 0).any():
        reason = "no data were sent in this direction"
    elif _view(transfer) is Viewpoint.RECEIVER:
        reason = _NO_DATA_HERE
    elif not is_syn.any():
        reason = _BEGUN_BEFORE
    if reason:
        return Limited(transfer, Viewpoint.NOWHERE, _all(begin, end, Limit.UNKNOWN), account, reason=reason)
    return Limited(transfer, _view(transfer), _all(begin, max(opens.opened_ns, begin), Limit.HANDSHAKE), account)


def _view(transfer: Transfer) -> Viewpoint:
    """Return which logs of the transfer are used to find its limits."""
    if transfer.vantage is Vantage.NEAR_RECEIVER:
        return Viewpoint.RECEIVER
    pairs = transfer.data_pairs
    if pairs is not None and transfer.is_related and (pairs.arrived >= 0).any():
        return Viewpoint.BOTH_ENDS
    return Viewpoint.SENDER_STATE if len(transfer.state) else Viewpoint.SENDER


def _all(begin: int, end: int, limit: Limit) -> Cells:
    one = np.array([0])
    return Cells(one + begin, one + end, one + int(limit), one + int(LimitSubtype.NONE), one != 0)


_LIMITS: dict[Use, tuple[Limit, LimitSubtype]] = {
    Use.USEFUL: (Limit.LINK, LimitSubtype.NONE),
    Use.OTHER: (Limit.LINK, LimitSubtype.NONE),
    Use.ARQ: (Limit.LINK, LimitSubtype.ARQ),
    Use.ACCESS: (Limit.LINK, LimitSubtype.ACCESS),
    Use.XOFF: (Limit.LINK, LimitSubtype.XOFF),
    Use.OUTAGE: (Limit.OUTAGE, LimitSubtype.NONE),
    Use.HANDSHAKE: (Limit.HANDSHAKE, LimitSubtype.NONE),
    Use.IDLE_APP: (Limit.APPLICATION, LimitSubtype.WRITES),
    Use.IDLE_RWND: (Limit.RECEIVER_WINDOW, LimitSubtype.NONE),
    Use.IDLE_SNDBUF: (Limit.SENDER_BUFFER, LimitSubtype.NONE),
    Use.IDLE_RTO: (Limit.RECOVERY, LimitSubtype.TIMER),
    Use.IDLE_CWND: (Limit.CONGESTION_WINDOW, LimitSubtype.NONE),
    Use.WASTED: (Limit.RECOVERY, LimitSubtype.NONE),
    Use.REDUNDANT: (Limit.RECOVERY, LimitSubtype.NONE),
    Use.UNKNOWN: (Limit.UNKNOWN, LimitSubtype.NONE),
}
_BY_CAUSE: dict[tuple[Use, UseCause], tuple[Limit, LimitSubtype]] = {
    (Use.IDLE_CWND, UseCause.RECOVERY): (Limit.RECOVERY, LimitSubtype.FAST),
    (Use.IDLE_CWND, UseCause.SLOW_START): (Limit.SLOW_START, LimitSubtype.NONE),
    (Use.IDLE_APP, UseCause.NAGLE): (Limit.APPLICATION, LimitSubtype.NAGLE),
    (Use.WASTED, UseCause.REFUSED): (Limit.LINK, LimitSubtype.NONE),
    (Use.WASTED, UseCause.UNFINISHED): (Limit.LINK, LimitSubtype.NONE),
}
"""Limits of uses for which the cause decides. Data that the receiver no longer wanted, or that were in
transit at the end, were not lost: the link has them queued or in service."""


def by_link_log(account: LinkAccount, begin_ns: int) -> Cells:
    """Return the limits that follow from the log of the link, as intervals.

    They cover the time from the first SYN to the ACK of the last payload byte.
    """
    uses, transfer, table = account.uses, account.transfer, account.transfer.sender
    end_ns = transfer.end_ns
    if len(transfer.data):
        fin = (table["flags"][transfer.data] & 1).astype(np.int64)
        last = int((table["end_bytes"][transfer.data] - fin).max())
        covering = transfer.acks[table["ack_bytes"][transfer.acks] >= last]
        end_ns = int(table["time_ns"][covering[0]]) if len(covering) else end_ns

    begin, end = np.minimum(uses["begin_ns"], end_ns), np.minimum(uses["end_ns"], end_ns)
    some = indexes(end > begin)
    edges = distinct(np.concatenate([[begin_ns, end_ns], begin[some], end[some]]))
    edges = edges[(edges >= begin_ns) & (edges <= end_ns)]
    left = np.searchsorted(edges, np.maximum(begin[some], begin_ns))
    right = np.searchsorted(edges, np.maximum(end[some], begin_ns))
    real = right > left
    owner = first_painters(left[real], right[real], max(len(edges) - 1, 0))

    names = np.zeros((len(Use), len(UseCause) + 1, 2), dtype=np.int64)
    for use, named in _LIMITS.items():
        names[use] = named
    for (use, cause), named in _BY_CAUSE.items():
        names[use, cause] = named
    limit, part = names[uses["use"][some][real], uses["cause"][some][real]].T
    limit, part = np.append(limit, Limit.HANDSHAKE)[owner], np.append(part, LimitSubtype.NONE)[owner]
    return Cells(edges[:-1], edges[1:], limit, part, np.zeros(len(limit), dtype=bool)).joined()
