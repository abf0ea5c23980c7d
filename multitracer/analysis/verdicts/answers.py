"""Evidence in the ACKs: whether an earlier transmission or the retransmission itself caused them.

All rules assume a path that preserves the order of packets, and receivers that acknowledge the data they have.

In this file, `copies` are the retransmissions that are judged. The *earlier transmission* of a retransmission
is the last one before it with the same data. The file has the rules for timestamps (RFC 7323, section 5.4:
their tick, and when a segment left), for D-SACK (RFC 2883: the receiver reports an unneeded arrival), and for
records of arrivals (the receiver's trace, or another log of each segment's fate).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.intervals import BLOCK_ROWS, in_blocks, indexes, reduce_groups
from multitracer.analysis.two_points import match
from multitracer.analysis.verdicts.copies import CROSSING_NS
from multitracer.captured import CaptureMark, Flag
from multitracer.tables import NA
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from typing import Self

    from multitracer.analysis.verdicts.copies import Exchanges, Retransmissions
    from multitracer.tables import Array, Table

_JITTER_NS = NS_PER_MS // 5
"""Jitter of hosts, ns: if a round trip is shorter, its duration shows nothing."""
SURELY_EARLY = 0.75
"""Share of the minimum RTT below which an ACK is certainly too early: RTT samples may contain a delayed ACK, but the
ACK of a duplicate is immediate."""


def early(copies: Retransmissions) -> Array:
    """Return which retransmissions were acknowledged sooner after they were sent than the minimum RTT.

    Retransmissions that were acknowledged before they were sent are included.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    there = (copies.report < copies.nowhere) & ~sacked_before(copies)
    soon = copies.after_ns(copies.report) < sooner_than_answers_ns(copies)
    return there & ((copies.report < copies.row) | soon)


def ignored(copies: Retransmissions) -> Array:
    """Return which retransmissions had an early ACK that the sender must have discarded.

    Such an ACK was captured long before the retransmission. (An ACK that crosses a retransmission within the
    host is captured only shortly before.) With header compression, a damaged ACK appears in the capture, but
    TCP discards it with its SACK blocks because of its checksum.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    first = np.minimum(copies.answer, copies.unread)
    long_before: Array = -copies.after_ns(first) > CROSSING_NS
    return long_before & (first < copies.row) & ~sacked_before(copies)


def sacked_before(copies: Retransmissions) -> Array:
    """Return which retransmissions a SACK block had reported before they were sent.

    Reports that the receiver later discarded do not count. After a timeout a sender may have discarded its
    scoreboard (RFC 2018, section 8); many senders have none.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    before: Array = copies.sacked < copies.row
    return before


def eifel(copies: Retransmissions) -> tuple[Array, Array]:
    """Return two masks: ACKs that echo an earlier transmission, and ACKs that echo the retransmission.

    The masks have an element for each retransmission (RFC 3522). The first ACK that covers a retransmission echoes the
    segment that last moved the receiver's left edge (RFC 7323, section 4.3). If that segment was sent before the
    retransmission, the retransmission did not move the edge. This proves nothing if the retransmission is behind the
    left edge, because the ACK of the other segment may have been delayed until both had arrived. But the ACK was not
    delayed if data above had arrived before, since out-of-order data are acknowledged immediately. An echo belongs to
    the retransmission only if its timestamp differs from that of the earlier transmission, because clocks are coarse.

    Returns
    -------
    earlier, itself : ndarray of bool, shape (n_copies,)
    """
    answer, row = copies.answer, copies.row
    stamped = has(copies.of_rows("marks", row), CaptureMark.HAS_TIMESTAMPS)
    stamped &= has(copies.of_rows("marks", answer), CaptureMark.HAS_TIMESTAMPS)
    stamped &= (answer < copies.nowhere) & (answer > row)
    echo, own = copies.of_rows("tsecr", answer), copies.of_rows("tsval", row)
    edge = copies.reached_before(answer)
    at_edge = copies.begin <= edge
    older = (echo - own).view(np.int32) < 0
    earlier = stamped & older & (at_edge | _in_order_before(copies, edge, echo))
    newer = (own - copies.of_rows("tsval", copies.earlier)).view(np.int32) > 0
    itself = stamped & ~older & at_edge & (newer | (copies.earlier >= copies.nowhere))
    return earlier, itself


def _in_order_before(copies: Retransmissions, edge: Array, echo: Array) -> Array:
    """Return for which retransmissions the receiver cannot have delayed its ACK.

    It cannot if data above the retransmission, sent once and earlier, had arrived before. The echoed segment
    must not be a retransmission: that could have filled a hole whose ACK was lost.
    """
    answer, row = copies.answer, copies.row
    covered = copies.reached[np.minimum(answer, copies.nowhere - 1)]
    firsts, agains = copies.first_copy, copies.first_again
    above = np.zeros(len(copies), dtype=bool)
    for unit in (copies.end, covered - 1):
        cell = copies.grid.cell(unit)
        above |= (copies.end <= unit) & (unit < covered) & (firsts[cell] < row) & (agains[cell] > answer)
    first_again = np.append(row, len(copies.segments))[np.searchsorted(row, firsts[copies.grid.cell(edge)])]
    resent = (first_again >= answer) | ((echo - copies.of_rows("tsval", first_again)).view(np.int32) < 0)
    return above & resent


def f_rto(copies: Retransmissions, proved: Array, in_vain: tuple[Array, Array], *, within_ns: Array | int = 0) -> Array:
    """Return which retransmissions were acknowledged before some data below them arrived.

    Such an ACK left the receiver before those data arrived, and so before the retransmission, which was sent
    after them; an earlier transmission caused the ACK. The rule is used only if the arrival of those data is
    known to be that of their first transmission: they were sent once; they were acknowledged before a second
    transmission could be; or the second transmission is proved to be unneeded (not if the receiver discards
    reported data). The rule generalises the second ACK of RFC 5682.

    Parameters
    ----------
    proved : ndarray of bool
        Retransmissions of which an earlier transmission is known to have arrived.
    in_vain : ndarrays of int64, shape (n_copies,)
        The first sequence number for which this is known, and the first one behind.
    within_ns : int or ndarray of float64
        Time that is too short for any answer, as returned by `sooner_than_answers_ns`.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    known, reneged = np.zeros(len(copies), dtype=bool), copies.in_exchange(copies.reneged)
    dependent, on = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for begin in range(0, len(copies), BLOCK_ROWS):
        here = slice(begin, begin + BLOCK_ROWS)
        row, nowhere, report = copies.row[here], copies.nowhere[here], copies.report_of(here)
        there = (report < nowhere) & (report > row)
        lacking = copies.reached[np.minimum(report, nowhere - 1)]
        cell = copies.grid.cell(lacking)
        sent, again = copies.first_copy[cell], copies.first_again[cell]
        came = np.searchsorted(copies.reached, lacking, side="right")
        soon_ns = copies.of_rows("time_ns", came) - copies.of_rows("time_ns", again)
        first = (again > came) | (soon_ns < (within_ns[here] if isinstance(within_ns, np.ndarray) else within_ns))
        lacked = there & (sent < row) & (came < nowhere)
        which = np.minimum(np.searchsorted(copies.row, again), len(copies) - 1)
        is_lacking = (in_vain[0][which] <= lacking) & (lacking < in_vain[1][which])
        known[here] = lacked & first
        depends = indexes(lacked & ~first & (again < nowhere) & ~reneged[here] & is_lacking)
        dependent.append(depends + begin)
        on.append(which[depends])
    return _spread(known, np.concatenate(dependent), np.concatenate(on), proved, copies)


def _spread(known: Array, dependent: Array, on: Array, proved: Array, copies: Retransmissions) -> Array:
    """Return which retransmissions are known to be unneeded, directly or by another retransmission: bool.

    A retransmission is in the result if `known` is True for it, and so are those in `dependent` (int64) for which the
    retransmission in `on` is in the result or in `proved`. That one always ends at a higher sequence number, so one
    pass from the highest end downward finds all.
    """
    if not len(dependent):
        return known
    spread, shown = bytearray(known), bytearray(known | proved)
    in_order = np.argsort(-copies.end[dependent], kind="stable")
    for i, other in zip(in_blocks(dependent[in_order]), in_blocks(on[in_order]), strict=True):
        spread[i] = shown[other]
        shown[i] |= spread[i]
    return np.frombuffer(spread, dtype=bool)


def sooner_than_answers_ns(copies: Retransmissions) -> Array:
    """Return for each retransmission a time that is too short for any answer; 0 without an RTT sample.

    Returns
    -------
    ndarray of float64, ns, shape (n_copies,)
    """
    soon_ns: Array = np.maximum(SURELY_EARLY * np.maximum(copies.min_rtt_ns, 0) - _JITTER_NS, 0)
    return soon_ns


def held(copies: Retransmissions) -> Array:
    """Return which retransmissions carried data that the receiver already had, above a hole that was filled.

    The ACK that moves the left edge also covers data that were sent only once. So the receiver had these
    data, acknowledged the filled hole immediately (RFC 5681, section 4.2), and everything sent after the
    filling segment came too late.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    answer, row = copies.answer, copies.row
    there = (answer < copies.nowhere) & (answer > row)
    last = copies.before(answer)
    edge, covered = copies.reached[last], copies.reached[np.minimum(answer, copies.nowhere - 1)]
    resent_up_to = np.append(np.maximum.accumulate(np.maximum(copies.end, 0)), 0)
    beyond = covered > resent_up_to[np.searchsorted(row, last, side="right") - 1]
    filler = copies.first_again[copies.grid.cell(edge)]
    newer = (copies.of_rows("tsecr", answer) - copies.of_rows("tsval", filler)).view(np.int32) > 0
    by_filler = ~(newer & has(copies.of_rows("marks", answer), CaptureMark.HAS_TIMESTAMPS))
    behind: Array = there & beyond & (copies.begin > edge) & (filler < row) & by_filler
    return behind


def before_any_answer(copies: Retransmissions) -> Array:
    """Return which retransmissions were sent after an earlier transmission arrived, but before its ACK.

    We assume that each unneeded transmission that arrives is acknowledged immediately. If all data were
    acknowledged, and fewer ACKs repeat that number than there were transmissions to cause them, then one of
    the transmissions caused the first ACK, later ones caused the repetitions, and those before had no ACK.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    answered = (copies.answer < copies.nowhere) & (copies.answer > copies.row)
    could = np.flatnonzero(answered & ~early(copies))
    lost = np.zeros(len(copies), dtype=bool)
    answer, first, group, size = np.unique(
        copies.answer[could], return_index=True, return_inverse=True, return_counts=True
    )
    rank = np.arange(len(could)) - first[group]
    repeated = _repetitions(copies, answer)
    everything = copies.reached[answer] >= copies.highest[answer]
    lost[could] = (everything & (repeated < size))[group] & (rank < (size - repeated)[group])
    return lost


def _repetitions(copies: Retransmissions, answer: Array) -> Array:
    """Return for each answer (row of an ACK) how many later ACKs without payload have the same ACK number.

    ACKs are counted until the number grows.
    """
    segments = copies.segments
    grows = np.searchsorted(copies.reached, copies.reached[answer], side="right")
    many = grows - answer - 1
    of = np.repeat(np.arange(len(answer)), many)
    row = np.arange(len(of)) + np.repeat(answer + 1 - (np.cumsum(many) - many), many)
    repeats = copies.back[row] & (segments["ack_bytes"][row] == copies.reached[row])
    repeats &= (segments["payload_bytes"][row] == 0) & ~has(segments["flags"][row], Flag.FIN)
    return np.bincount(of[repeats], minlength=len(answer))


def hole(copies: Retransmissions) -> Array:
    """Return which retransmissions had an earlier transmission that later data overtook (a hole).

    An ACK or SACK of the later data shows this while the data of the earlier transmission are missing.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    known = (copies.earlier < copies.nowhere) & (copies.report > copies.row)
    last = np.minimum(copies.report, copies.nowhere) - 1
    highest = copies.highest[np.minimum(copies.earlier, copies.nowhere - 1)]
    overtaken: Array = (copies.sacked_up_to[last] > highest) | _overtaken_by_echo(copies, last)
    return known & overtaken


def lost_behind(copies: Retransmissions) -> Array:
    """Return which retransmissions are at the left edge, while all data behind them were lost and resent.

    The next data must have been acknowledged a round trip after their retransmission. If only ACKs were late,
    the ACKs of the next data would follow immediately.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    edge, behind = copies.reached[copies.before(copies.answer)], np.zeros(len(copies), dtype=bool)
    some = indexes((copies.begin <= edge) & (edge < copies.end))
    del edge
    _, which = np.unique(copies.answer[some], return_inverse=True)
    some = some[np.bincount(which)[which] == 1]  # one at the left edge for each answer
    row, answer, nowhere, min_rtt_ns = (
        column[some] for column in (copies.row, copies.answer, copies.nowhere, copies.min_rtt_ns)
    )
    answered = (min_rtt_ns != NA) & (answer < nowhere) & (answer > row)
    lacking = copies.reached[np.minimum(answer, nowhere - 1)]
    outstanding = lacking < copies.highest[np.maximum(row - 1, copies.first[some])]
    again = copies.first_again[copies.grid.cell(lacking)]
    came = np.searchsorted(copies.reached, lacking, side="right")
    min_ns = SURELY_EARLY * min_rtt_ns
    late = copies.of_rows("time_ns", came) - copies.of_rows("time_ns", again) >= min_ns
    late &= copies.of_rows("time_ns", answer) - copies.segments["time_ns"][row] >= min_ns
    behind[some] = answered & outstanding & late & (again < came) & (came < nowhere)
    return behind


def behind_proved(copies: Retransmissions, proved: Array) -> Array:
    """Return which retransmissions belong to a run of adjacent ones after an unneeded one.

    In such a run the ACKs of the first transmissions are arriving at the rate of the link. On a narrow link,
    their spacing equals that of ACKs of the retransmissions.

    Parameters
    ----------
    copies : Retransmissions
    proved : ndarray of bool, shape (n_copies,)
        Retransmissions that were certainly not needed.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    begins = np.append(True, copies.begin[1:] != copies.end[:-1])[: len(copies)]
    since = np.maximum.accumulate(np.where(begins, np.arange(len(copies)), 0))
    count = np.append(0, np.cumsum(proved))
    behind: Array = count[:-1] > count[since]
    return behind


def _overtaken_by_echo(copies: Retransmissions, last: Array) -> Array:
    """Return for which retransmissions an ACK echoes later data but does not cover the earlier transmission.

    The last ACK up to row `last` is examined. Later data are those sent after the earlier transmission.
    """
    segments = copies.segments
    is_stamped = has(copies.of_rows("marks", copies.earlier), CaptureMark.HAS_TIMESTAMPS)
    if not is_stamped.any():
        return is_stamped
    back = copies.back & has(segments["marks"], CaptureMark.HAS_TIMESTAMPS)
    acks = np.append(-1, np.flatnonzero(back & (segments["ack_bytes"] != NA)))
    newest = acks[np.searchsorted(acks, last, side="right") - 1]
    stamped = (newest > copies.earlier) & is_stamped
    since = (segments["tsecr"][newest] - copies.of_rows("tsval", copies.earlier)).view(np.int32)
    lacks = (copies.begin <= copies.reached[last]) & (copies.reached[last] < copies.end)
    overtaken: Array = stamped & (since > 0) & lacks
    return overtaken


_RATES_HZ = np.array([1, 2, 10, 100, 250, 1000, 1_000_000])
"""Typical rates of timestamp clocks, Hz: RFC 7323, 5.4, allows 1 to 1000; in use are 2 (old BSD), 10, 100, 250 and
1000, and 10^6 (Linux 6.7)."""
_APART = 0.1
"""Maximum relative distance of a measured rate from a typical one, caused by delays of the first and the last packet.
"""
_MIN_NS = NS_PER_S
"""Minimum time for the measurement of a rate, ns."""
_DRIFT = 2e-4
"""Maximum drift between a host's clock and that of the capture: 100 ppm each."""
_TICKS_APART = 1 << 33
"""Ticks between two judged directions: more than timestamps can differ."""


def since(stamps: Array, origin: Array) -> Array:
    """Return the distance in ticks from `origin` to `stamps`, for timestamps that wrap around at 2^32.

    The distance is less than 2^31 (RFC 7323, 5.2); it is negative if a timestamp lies before its origin.

    Parameters
    ----------
    stamps, origin : ndarray of uint32, same shape
        Timestamp values in ticks; they wrap around at 2^32.

    Returns
    -------
    ndarray of int64, ticks, same shape
        From -2^31 to 2^31 - 1.
    """
    ticks: Array = (stamps - origin).view(np.int32).astype(np.int64)
    return ticks


@dataclass(frozen=True, slots=True)
class Stamped:
    """The segments with timestamps that one side sent in each judged direction."""

    exchanges: Exchanges
    rows: Array
    bounds: Array
    """Judged direction t has rows[bounds[t]:bounds[t + 1]]."""

    @classmethod
    def of(cls, exchanges: Exchanges, side: Array) -> Self:
        """Return the segments with timestamps among the rows of a mask.

        Parameters
        ----------
        exchanges : Exchanges
        side : ndarray of bool, shape (n_segments,)
            Segments that one side of each judged direction sent.
        """
        rows = np.flatnonzero(side & has(exchanges.segments["marks"], CaptureMark.HAS_TIMESTAMPS))
        return cls(exchanges, rows, np.searchsorted(rows, exchanges.bounds))

    @property
    def exchange(self) -> Array:
        """The judged direction of each of `rows`: int64, shape (n_rows,)."""
        return np.repeat(np.arange(len(self.exchanges)), np.diff(self.bounds))

    @property
    def first(self) -> Array:
        """Index in `rows` of each judged direction's first segment: int64, shape (n_exchanges,).

        It is undefined for a direction without segments.
        """
        first: Array = np.append(self.rows, 0)[self.bounds[:-1]]
        return first

    @property
    def last(self) -> Array:
        """Index in `rows` of each judged direction's last segment: int64, shape (n_exchanges,).

        It is undefined for a direction without segments.
        """
        last: Array = np.append(self.rows, 0)[self.bounds[1:] - 1]
        return last

    def since_first(self, stamps: Array, exchange: Array) -> Array:
        """Return the distance of timestamps, in ticks, from the first one of their judged direction.

        Parameters
        ----------
        stamps : ndarray of uint32, ticks, shape (n,)
            Timestamp values; they wrap around at 2^32.
        exchange : ndarray of int64, shape (n,)
            The judged direction of each.

        Returns
        -------
        ndarray of int64, ticks, shape (n,)
            Values of judged direction t lie around t * 2^33, so directions never mix.
        """
        origin = self.exchanges.segments["tsval"][self.first]
        apart: Array = since(stamps, origin[exchange]) + exchange * _TICKS_APART
        return apart


def tick_ns(stamped: Stamped) -> Array:
    """Return for each judged direction the length of the sender's tick; NA if unknown.

    Returns
    -------
    ndarray of int64, ns, shape (n_exchanges,)
    """
    segments, first, last = stamped.exchanges.segments, stamped.first, stamped.last
    ticks = since(segments["tsval"][last], segments["tsval"][first])
    span_ns = segments["time_ns"][last] - segments["time_ns"][first]
    measurable = (np.diff(stamped.bounds) > 1) & (ticks > 0) & (span_ns >= _MIN_NS)
    rate = np.where(measurable, ticks, 1) * NS_PER_S / np.where(measurable, span_ns, 1)
    nearest = _RATES_HZ[np.argmin(np.abs(np.log(_RATES_HZ[:, None] / rate)), axis=0)]
    measurable &= np.abs(rate / nearest - 1) < _APART
    return np.where(measurable, NS_PER_S // nearest, NA)


def left_before(copies: Retransmissions, min_ns: Array | int) -> Array:
    """Return which retransmissions cannot have caused their ACK, because it was sent too early.

    The ACK's own timestamp shows when it left the receiver. The fastest ACK gives the relation between the
    receiver's clock and the capture's. The timestamp of a SYN-ACK shows no time: with SYN cookies Linux writes the
    options of the SYN into its lowest six bits, and a proxy that opens the connection has a clock of its own.

    Parameters
    ----------
    min_ns : int, or ndarray of float64 of shape (n_copies,)
        Minimum time from a retransmission to the capture of its ACK.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    segments = copies.segments
    back = Stamped.of(copies.exchanges, copies.back & ~has(segments["flags"], Flag.SYN))
    tick, exchange = tick_ns(back), back.exchange
    if not (tick != NA).any():
        return np.zeros(len(copies), dtype=bool)
    time_ns = segments["time_ns"][back.rows]
    left_ns = since(segments["tsval"][back.rows], segments["tsval"][back.first][exchange]) * tick[exchange]
    fastest_ns = left_ns + reduce_groups(np.minimum, time_ns - left_ns, back.bounds, empty=0)[exchange]
    error_ns = tick + _DRIFT * (segments["time_ns"][back.last] - segments["time_ns"][back.first])
    place = np.minimum(np.searchsorted(back.rows, copies.report), len(back.rows) - 1)
    there = (back.rows[place] == copies.report) & (copies.report > copies.row) & (copies.report < copies.nowhere)
    sent_ns = segments["time_ns"][copies.row]
    early: Array = there & (fastest_ns[place] + error_ns[copies.exchange] < sent_ns + min_ns)
    early &= tick[copies.exchange] != NA
    return early


_MOST_COPIES = 64
"""Maximum number of transmissions of a range that are examined for a D-SACK: TCP gives up long before."""


def dsacked(copies: Retransmissions) -> Array:
    """Return for each retransmission the row of the D-SACK that reports it; `nowhere` without one.

    A D-SACK reports the last transmission of its range that was sent at least a minimum RTT before and is not
    matched with a later D-SACK. So each of several retransmissions has its own D-SACK.

    Returns
    -------
    ndarray of int64, shape (n_copies,)
    """
    reported, sacks = copies.nowhere.copy(), copies.exchanges.sacks
    mine = np.flatnonzero(sacks["dsack"] & copies.back[sacks["row"]])
    if not len(mine) or not len(copies):
        return reported
    order = np.lexsort((copies.row, copies.begin))
    starts, ends, rows = copies.begin[order], copies.end[order], copies.row[order]
    time_ns, min_ns = copies.segments["time_ns"], SURELY_EARLY * np.maximum(copies.min_rtt_ns, 0)
    ripe_ns = time_ns[rows] + min_ns[order]
    left, ack_rows = sacks["left_bytes"][mine], sacks["row"][mine]
    firsts, lasts = (np.searchsorted(starts, left, side=side) for side in ("left", "right"))
    partly = (firsts == lasts) & (firsts > 0)  # the receiver had only a part of it: it begins before
    firsts[partly] = np.searchsorted(starts, starts[firsts[partly] - 1])
    free = np.ones(len(copies), dtype=bool)
    for i in range(len(mine) - 1, -1, -1):
        first, at = int(firsts[i]), int(ack_rows[i])
        last = first + int(np.searchsorted(rows[first : lasts[i]], at))
        near = np.arange(max(first, last - _MOST_COPIES), last)
        near = near[(ends[near] > left[i]) & free[near]]
        ripe = near[ripe_ns[near] <= time_ns[at]]
        chosen = ripe if len(ripe) else near
        if len(chosen):
            free[chosen[-1]] = False
            reported[order[chosen[-1]]] = at
    return reported


def reported_ranges(copies: Retransmissions, reported: Array) -> tuple[Array, Array]:
    """Return begin and end of the range of sequence numbers that each retransmission's D-SACK reports.

    The end is the number after the last one. If segments are joined before the capture (offload), the D-SACK reports
    only one of them, and the others may have been needed. Without a D-SACK, the range is that of the retransmission.

    Parameters
    ----------
    reported : ndarray of int64, shape (n_copies,)
        From `dsacked`.

    Returns
    -------
    ndarrays of int64, shape (n_copies,)
    """
    sacks = copies.exchanges.sacks
    mine = sacks["dsack"] & copies.back[sacks["row"]]
    rows, left, right = (sacks[name][mine] for name in ("row", "left_bytes", "right_bytes"))
    if not len(rows):
        return copies.begin, copies.end
    at = np.minimum(np.searchsorted(rows, reported), len(rows) - 1)
    known = rows[at] == reported
    return np.where(known, left[at], copies.begin), np.where(known, right[at], copies.end)


def peers_send_sack(copies: Retransmissions) -> Array:
    """Return for each judged direction whether the receiver of its data sent SACK blocks.

    Returns
    -------
    ndarray of bool, shape (n_exchanges,)
    """
    rows = copies.exchanges.sacks["row"]
    return copies.exchanges.have(rows[copies.back[rows]])


def undisputed(copies: Retransmissions, reported: Array) -> Array:
    """Return which retransmissions a receiver that sends D-SACKs acknowledged without a D-SACK.

    The ACK must be late enough to be an answer. A SYN or a FIN alone is never reported, because a D-SACK
    block reports data.

    Parameters
    ----------
    copies : Retransmissions
    reported : ndarray of int64, shape (n_copies,)
        Row of the D-SACK that reports each copy; `copies.nowhere` without one.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    answered = peers_send_sack(copies)[copies.exchange] & (copies.min_rtt_ns != NA)
    answered &= (copies.answer < copies.nowhere) & (copies.answer > copies.row)
    answered &= copies.of_rows("payload_bytes", copies.row) > 0
    late = copies.after_ns(copies.answer) >= copies.min_rtt_ns
    undisputed: Array = answered & late & (reported == copies.nowhere)
    return undisputed


def answered_in_vain(copies: Retransmissions, reported: Array) -> Array:
    """Return which retransmissions have a first ACK that an unneeded transmission of their data caused.

    Parameters
    ----------
    copies : Retransmissions
    reported : ndarray of int64, shape (n_copies,)
        Row of the D-SACK that reports each copy; `copies.nowhere` without one.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    in_vain = (reported == copies.answer) & (reported < copies.nowhere)
    answered = np.zeros(len(copies), dtype=bool)
    if not in_vain.any():
        return answered
    some = indexes(np.isin(copies.answer, copies.answer[in_vain]))  # only those of one answer may be alike
    row, in_vain = copies.row[some], in_vain[some]
    _, which = np.unique(np.stack([copies.begin[some], copies.answer[some]]), axis=1, return_inverse=True)
    last = np.full(len(some), -1)
    np.maximum.at(last, which.reshape(-1)[in_vain], row[in_vain])
    answered[some] = row <= last[which.reshape(-1)]
    return answered


def had_before(copies: Retransmissions, arrived: Array) -> tuple[Array, Array]:
    """Return two masks: which retransmissions the receiver did not need, and for which ones this is known.

    A retransmission was not needed if an earlier transmission of its data had arrived.

    Parameters
    ----------
    arrived : ndarray of int8, shape (n_segments,)
        For each row of `segments`: 1 if it reached the receiving TCP intact, 0 if it did not, NA unknown.

    Returns
    -------
    had, known : ndarray of bool, shape (n_copies,)
    """
    of_sent = arrived[copies.sent]
    near = copies.near()
    had = copies.covered_before(of_sent == 1, near)
    might_have = copies.covered_before(of_sent != 0, near)
    return had, had | ~might_have


def came_at(segments: Table, receiver: Table, *, reverse: bool) -> Array:
    """Return for each row of `segments` its row in the receiver's trace; NA if it is not there.

    Parameters
    ----------
    segments, receiver : Table
        TCP_SEGMENTS of one connection at both endpoints.
    reverse : bool
        The direction; rows of the other one are NA.

    Returns
    -------
    ndarray of int64, shape (n_segments,)
        From 0, or NA.
    """
    own, there = (np.flatnonzero(t["reverse"] == reverse) for t in (segments, receiver))
    near, far = match(segments, own, receiver, there)
    came = np.full(len(segments), NA, dtype=np.int64)
    came[own[near]] = there[far]
    return came


def arrived_at(segments: Table, came: Array, *, reverse: bool) -> Array:
    """Return for each row of `segments` whether the receiver's trace contains it.

    Parameters
    ----------
    came : ndarray of int64, shape (n_segments,)
        Rows of the receiver's trace, or NA, as returned by `came_at`.

    Returns
    -------
    ndarray of int8, shape (n_segments,)
        1 if it does, 0 if it does not, NA before the begin and after the end of that trace, and in the other direction.
    """
    there = came != NA
    arrived = np.full(len(segments), NA, dtype=np.int8)
    if there.any():
        known = slice(int(there.argmax()), len(there) - int(there[::-1].argmax()))
        arrived[known][segments["reverse"][known] == reverse] = 0
        arrived[there] = 1
    return arrived


def acknowledged_in_time(copies: Retransmissions, came: Array, back: Array, there: int) -> Array:
    """Return which retransmissions arrived only after an ACK of their data had been sent.

    Only ACKs that reached the sender count. If a retransmission never arrived, the next transmission of its
    first byte that arrived is used instead.

    Parameters
    ----------
    copies : Retransmissions
    came, back : ndarray of int64, shape (n_segments,)
        Row of each segment in the receiver's trace, or NA, as returned by `came_at`: for this direction, and
        for the other.
    there : int
        Number of rows of that trace.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    came = np.where(came == NA, there, came)
    near = np.flatnonzero(back != NA)
    reached = np.zeros(there, dtype=np.int64)
    reached[back[near]] = np.maximum.accumulate(copies.segments["ack_bytes"][near])
    highest = np.maximum.accumulate(reached)
    before = np.maximum(_with_later_copies(copies, came) - 1, 0)
    in_time: Array = highest[before] >= copies.end
    return in_time


def _with_later_copies(copies: Retransmissions, came: Array) -> Array:
    """Return for each retransmission the row at which it arrived in the receiver's trace.

    If it did not arrive, it is the row of the next transmission of its first byte that did. The path
    preserves the order: of the later transmissions, the one that arrived first is the next.
    """
    order = np.lexsort((copies.row, copies.begin))[::-1]
    group = np.zeros(len(order), dtype=np.int64)
    np.cumsum(np.diff(copies.begin[order]) != 0, out=group[1:])
    # a minimum that begins anew with each group: earlier groups lie above by whole spans
    span = int(came.max(initial=0)) + 1
    lowered = np.minimum.accumulate(came[copies.row[order]] - group * span) + group * span
    first = np.empty(len(order), dtype=np.int64)
    first[order] = lowered
    return first
