"""Evidence in what answered a retransmission: an ACK that an earlier copy must have elicited, or cannot have.

All of it rests on a path that keeps the order of packets, and on receivers that acknowledge what they hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.verdicts.reports import CROSSING_NS
from multitracer.captured import Flag, Mark
from multitracer.tables import NA
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.analysis.verdicts.copies import Copies
    from multitracer.tables import Array


_JITTER_NS = NS_PER_MS // 5
"""Of hosts: where a round trip takes less, its length says nothing."""
SURELY_EARLY = 0.75
"""Of the shortest round trip: samples may hold a delay of the ACK that the answer to a duplicate has not."""


def early(copies: Copies) -> Array:
    """Return which were reported sooner than the shortest round trip after they were sent.

    Or acknowledged before they were sent.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    there = (copies.report < copies.nowhere) & ~sacked_before(copies)
    soon = copies.after_ns(copies.report) < sooner_than_answers_ns(copies)
    return there & ((copies.report < copies.row) | soon)


def ignored(copies: Copies) -> Array:
    """Return which had been reported so long before that the sender cannot have taken the ACK for good.

    An ACK that crosses a retransmission within the host is younger. With header compression a damaged ACK
    passes the capture, and TCP discards it for its checksum, with the SACK blocks in it.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    first = np.minimum(copies.answer, copies.unread)
    long_before: Array = -copies.after_ns(first) > CROSSING_NS
    return long_before & (first < copies.row) & ~sacked_before(copies)


def sacked_before(copies: Copies) -> Array:
    """Return which a SACK had reported before they were sent, and the receiver kept them.

    After a timeout a sender may have dropped its scoreboard (RFC 2018, section 8); many have none.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    before: Array = copies.sacked < copies.row
    return before


def eifel(copies: Copies) -> tuple[Array, Array]:
    """Return which ACKs echo an earlier copy, and which echo the retransmission itself (RFC 3522).

    The first ACK that covers a retransmission echoes what last moved the receiver's left edge (RFC 7323,
    section 4.3). If that was sent before, the retransmission cannot have moved it. Of one that lay behind
    the left edge this says nothing: the ACK of what moved it may have been delayed until both had arrived.
    It cannot have been where data from above had arrived before it; those are acknowledged at once.
    An echo is the retransmission's only if its timestamp is not the earlier copy's, too: clocks are coarse.

    Returns
    -------
    earlier, itself : ndarray of bool, shape (n_copies,)
    """
    answer, row = copies.answer, copies.row
    stamped = has(copies.of_rows("marks", row), Mark.HAS_TIMESTAMPS)
    stamped &= has(copies.of_rows("marks", answer), Mark.HAS_TIMESTAMPS)
    stamped &= (answer < copies.nowhere) & (answer > row)
    echo, own = copies.of_rows("tsecr", answer), copies.of_rows("tsval", row)
    edge = copies.reached_before(answer)
    at_edge = copies.begin <= edge
    older = (echo - own).view(np.int32) < 0
    earlier = stamped & older & (at_edge | _in_order_before(copies, edge, echo))
    newer = (own - copies.of_rows("tsval", copies.earlier)).view(np.int32) > 0
    itself = stamped & ~older & at_edge & (newer | (copies.earlier >= copies.nowhere))
    return earlier, itself


def _in_order_before(copies: Copies, edge: Array, echo: Array) -> Array:
    """Return behind which data had arrived that were sent once, before it, so that no ACK was delayed.

    Nor may what is echoed be a retransmission: it would have filled a hole of which no ACK came through.
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


def f_rto(
    copies: Copies, proved: Array, in_vain: tuple[Array, Array], *, within_ns: Array | int = 0
) -> Array:
    """Return which were reported by an ACK that lacks data sent before, of which the first copy came later.

    Such an ACK left the receiver before these data arrived, so before the retransmission behind them did.
    That it was their first copy is known if they were sent once, or acknowledged before the next could be,
    or if the next is proved to have come in vain (but not where the receiver throws away what it held). It
    generalises the second ACK of RFC 5682.

    Parameters
    ----------
    proved : ndarray of bool
        Of which retransmissions an earlier copy is known to have arrived.
    in_vain : ndarrays of int64, shape (n_copies,)
        The first unit of which that is known, and the first behind.
    within_ns : int or ndarray of float64
        So soon nothing is answered, as of `sooner_than_answers_ns`.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    report = copies.report
    there = (report < copies.nowhere) & (report > copies.row)
    lacking = copies.reached[np.minimum(report, copies.nowhere - 1)]
    cell = copies.grid.cell(lacking)
    sent, again = copies.first_copy[cell], copies.first_again[cell]
    came = np.searchsorted(copies.reached, lacking, side="right")
    soon_ns = copies.of_rows("time_ns", came) - copies.of_rows("time_ns", again)
    first = (again > came) | (soon_ns < within_ns)
    lacked = there & (sent < copies.row) & (came < copies.nowhere)
    depends = lacked & (again < copies.nowhere) & ~copies.in_talk(copies.reneged)
    which = np.minimum(np.searchsorted(copies.row, again), max(len(copies) - 1, 0))
    begin, end = (each[which] for each in in_vain)
    depends &= (begin <= lacking) & (lacking < end)
    return _spread(lacked & first, depends, proved, copies, again)


def _spread(known: Array, depends: Array, proved: Array, copies: Copies, again: Array) -> Array:
    """Return what is known, or depends on a retransmission at row `again` that is known or proved.

    That one ends further on, so one pass from the highest end downward settles all.
    """
    which = np.minimum(np.searchsorted(copies.row, again), max(len(copies) - 1, 0)).tolist()
    order = np.argsort(-copies.end, kind="stable")
    spread, shown = known.tolist(), (known | proved).tolist()
    for i in order[depends[order] & ~known[order]].tolist():
        spread[i] = shown[which[i]]
        shown[i] = shown[i] or spread[i]
    return np.array(spread, dtype=bool)


def sooner_than_answers_ns(copies: Copies) -> Array:
    """Return a time that is too short for any answer; 0 if no round trip was measured.

    Returns
    -------
    ndarray of float64, ns, shape (n_copies,)
    """
    soon_ns: Array = np.maximum(SURELY_EARLY * np.maximum(copies.min_rtt_ns, 0) - _JITTER_NS, 0)
    return soon_ns


def held(copies: Copies) -> Array:
    """Return which the receiver held already when an earlier one filled the hole below them.

    The ACK that moves the left edge covers data which were never resent: so they were held, the hole's filler
    was acknowledged at once (RFC 5681, section 4.2), and what was sent behind the filler came too late.

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
    by_filler = ~(newer & has(copies.of_rows("marks", answer), Mark.HAS_TIMESTAMPS))
    behind: Array = there & beyond & (copies.begin > edge) & (filler < row) & by_filler
    return behind


def before_any_answer(copies: Copies) -> Array:
    """Return which, though an earlier copy had arrived, came before any ACK of that had got through.

    Each copy that arrives in vain is acknowledged at once. If everything sent was acknowledged, and fewer
    such ACKs repeat that number than there were copies to elicit them, then one of the copies elicited the
    first: the later ones account for the repetitions, those before had no answer.

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


def _repetitions(copies: Copies, answer: Array) -> Array:
    """Return how many ACKs without payload repeat the number of each answer before it grows."""
    segments = copies.segments
    grows = np.searchsorted(copies.reached, copies.reached[answer], side="right")
    many = grows - answer - 1
    of = np.repeat(np.arange(len(answer)), many)
    row = np.arange(len(of)) + np.repeat(answer + 1 - (np.cumsum(many) - many), many)
    repeats = copies.back[row] & (segments["ack_bytes"][row] == copies.reached[row])
    repeats &= (segments["payload_bytes"][row] == 0) & ~has(segments["flags"][row], Flag.FIN)
    return np.bincount(of[repeats], minlength=len(answer))


def hole(copies: Copies) -> Array:
    """Return of which the earlier copy was overtaken: what was sent after it was reported before it.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    known = (copies.earlier < copies.nowhere) & (copies.report > copies.row)
    last = np.minimum(copies.report, copies.nowhere) - 1
    highest = copies.highest[np.minimum(copies.earlier, copies.nowhere - 1)]
    overtaken: Array = (copies.sacked_up_to[last] > highest) | _overtaken_by_echo(copies, last)
    return known & overtaken


def lost_behind(copies: Copies) -> Array:
    """Return behind which, at the left edge, all was lost: the next data had to be resent and answered too.

    Were only the ACKs late, those of the next data would follow at once, not a round trip after their copy.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    answered = (copies.min_rtt_ns != NA) & (copies.answer < copies.nowhere) & (copies.answer > copies.row)
    lacking = copies.reached[np.minimum(copies.answer, copies.nowhere - 1)]
    outstanding = lacking < copies.highest[copies.before(copies.row)]
    edge = copies.reached[copies.before(copies.answer)]
    at_edge = (copies.begin <= edge) & (edge < copies.end)
    answers, which = np.unique(copies.answer, return_inverse=True)
    once = np.bincount(which[at_edge], minlength=len(answers))[which] == 1
    again = copies.first_again[copies.grid.cell(lacking)]
    came = np.searchsorted(copies.reached, lacking, side="right")
    least_ns = SURELY_EARLY * copies.min_rtt_ns
    late = copies.of_rows("time_ns", came) - copies.of_rows("time_ns", again) >= least_ns
    late &= copies.after_ns(copies.answer) >= least_ns
    behind: Array = answered & at_edge & once & outstanding & late & (again < came) & (came < copies.nowhere)
    return behind


def behind_proved(copies: Copies, proved: Array) -> Array:
    """Return which continue a run of adjacent copies of which an earlier one was not needed.

    Then the ACKs of the first copies are arriving, at the pace of the link: a narrow one spaces them as far
    apart as answers to the second copies would be.

    Parameters
    ----------
    copies : Copies
    proved : ndarray of bool, shape (n_copies,)
        Which were certainly not needed.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    begins = np.append(True, copies.begin[1:] != copies.end[:-1])[: len(copies)]
    since = np.maximum.accumulate(np.where(begins, np.arange(len(copies)), 0))
    count = np.append(0, np.cumsum(proved))
    behind: Array = count[:-1] > count[since]
    return behind


def _overtaken_by_echo(copies: Copies, last: Array) -> Array:
    """Return whether the last ACK up to `last` lacks it, and echoes what was sent after the earlier copy."""
    segments = copies.segments
    is_stamped = has(copies.of_rows("marks", copies.earlier), Mark.HAS_TIMESTAMPS)
    if not is_stamped.any():
        return is_stamped
    back = copies.back & has(segments["marks"], Mark.HAS_TIMESTAMPS)
    acks = np.append(-1, np.flatnonzero(back & (segments["ack_bytes"] != NA)))
    newest = acks[np.searchsorted(acks, last, side="right") - 1]
    stamped = (newest > copies.earlier) & is_stamped
    since = (segments["tsecr"][newest] - copies.of_rows("tsval", copies.earlier)).view(np.int32)
    lacks = (copies.begin <= copies.reached[last]) & (copies.reached[last] < copies.end)
    overtaken: Array = stamped & (since > 0) & lacks
    return overtaken
