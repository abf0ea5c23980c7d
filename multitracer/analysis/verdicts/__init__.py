"""A verdict on every retransmission: its cause, whether it was needed, and the evidence for both.

Files: `answers.py` has the evidence from ACKs (timestamps, F-RTO, minimum RTT, D-SACK, the receiver's clock,
the receiver's trace, the link's log). `copies.py` has the retransmissions with their ACKs and SACKs.
`trigger.py` finds the cause, from packets, from the sender's kernel, or in a capture made elsewhere. `judge`
combines the evidence: a record of arrivals decides; without one, a proof that an earlier transmission arrived
has priority over a sign that it did not. docs/verdicts.md has the rules.

Reasons for these rules. If a receiver's trace or the link's log shows the arrivals, they are facts that nothing
overrides. From the sender's packets alone, an ACK that only an earlier transmission can have caused is a proof. Signs
of loss are weaker, since a lost ACK or a queue can also cause them. Without a proof or a sign the verdict is
`undecided`, because a wrong verdict costs a user more than none. Each rule was kept, limited or removed by its results
on transfers of known truth (tests/corpus; goals: precision 98 %, recall 95 %). For example, late ACKs of a narrow link
made 102 of 109 verdicts `necessary` wrong, so retransmissions that follow a spurious one are exempt. Causes are
compared with the kernel's own counters in every recorded session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import SegmentKind
from multitracer.analysis.verdicts.answers import (
    acknowledged_in_time,
    answered_in_vain,
    arrived_at,
    before_any_answer,
    behind_proved,
    came_at,
    dsacked,
    early,
    eifel,
    f_rto,
    had_before,
    held,
    hole,
    ignored,
    left_before,
    lost_behind,
    reported_ranges,
    sacked_before,
    sooner_than_answers_ns,
    undisputed,
)
from multitracer.analysis.verdicts.copies import Exchanges, Retransmissions
from multitracer.analysis.verdicts.trigger import (
    by_events,
    by_readings,
    causes,
    passed_before,
    trigger_away,
    trigger_of,
    unacknowledged_at_sender,
)
from multitracer.analysis.verdicts.words import Necessity, RetransmissionCause, VerdictEvidence, evidence_words, word
from multitracer.schemas.tcp import VERDICTS
from multitracer.tables import NA, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.tables import Array

__all__ = [
    "Necessity",
    "OtherLogs",
    "RetransmissionCause",
    "VerdictEvidence",
    "evidence_words",
    "judge",
    "judge_all",
    "word",
]

_SPEAKS_FOR_ARRIVAL = np.uint32(
    VerdictEvidence.EIFEL
    | VerdictEvidence.F_RTO
    | VerdictEvidence.EARLY_ACK
    | VerdictEvidence.HELD
    | VerdictEvidence.SACKED
    | VerdictEvidence.PASSED_BEFORE
    | VerdictEvidence.EARLY_STAMP
    | VerdictEvidence.ACK_IGNORED
)
_SPEAKS_FOR_LOSS = np.uint32(
    VerdictEvidence.ECHOED
    | VerdictEvidence.HOLE
    | VerdictEvidence.LOST_BEHIND
    | VerdictEvidence.NO_D_SACK
    | VerdictEvidence.RENEGED
)
"""Signs of loss in the sender's packets; those that a receiver's trace refutes are removed from the evidence."""
_AT_SENDER = (0, 1)
"""Values of `vantage` in the directions table: near the sender, or not known to be elsewhere."""


@dataclass(frozen=True, slots=True)
class OtherLogs:
    """Data about one direction from other logs than the capture at its sender."""

    receiver: Table | None = None
    """TCP_SEGMENTS of the same connection as captured at the receiver."""
    came: Callable[[], Array | None] = lambda: None
    """Returns, for each row of the sender's segments, its row in the receiver's trace, as `came_at` does; None:
    `came_at` is called."""
    came_back: Callable[[], Array | None] = lambda: None
    """The same for the segments that the receiver sent."""
    arrived: Array | None = None
    """For each row of the sender's segments, int8, from the link's log: 1 if it reached the receiving TCP intact, 0 if
    it did not, NA unknown. The receiver's trace has priority."""
    state: Table | None = None
    """JOINED_STATE of the sender."""
    events: Table | None = None
    """JOINED_EVENTS of the sender."""


_NOTHING = OtherLogs()


def judge(segments: Table, sacks: Table, *, reverse: bool, vantage: int, logs: OtherLogs = _NOTHING) -> Table:
    """Return VERDICTS: one row for each retransmission of a direction, in capture order.

    Parameters
    ----------
    segments, sacks : Table
        TCP_SEGMENTS and TCP_SACK_BLOCKS of one connection.
    reverse : bool
        False: the initiator's data; True: the responder's.
    vantage : int
        Location of the capture point, as in the directions table. Away from the sender, only conclusions that
        the order of packets proves are drawn, and the cause uses only what the sender must have seen.
    logs : OtherLogs
        Data from other logs.
    """
    exchange = Exchanges.one(segments, sacks, reverse=reverse)
    return _judged(exchange, logs, at_sender=vantage in _AT_SENDER)


def judge_all(segments: Table, sacks: Table, bounds: Array, side: Array, vantage: Array) -> Table:
    """Return VERDICTS of directions of many connections, from one capture alone.

    Parameters
    ----------
    segments, sacks : Table
        TCP_SEGMENTS and TCP_SACK_BLOCKS of the connections, one after the other.
    bounds : ndarray of int64, shape (n_connections + 1,)
        Connection c has rows bounds[c]:bounds[c + 1].
    side : ndarray of int64, shape (n_directions,)
        The directions: 2 c for the data of the initiator of connection c, 2 c + 1 for those of the responder.
    vantage : ndarray of uint8, shape of `side`
        The location of the capture point (`Vantage`) for each direction.
    """
    tables = []
    near = np.isin(vantage, _AT_SENDER)
    for chosen, at_sender in ((side[near], True), (side[~near], False)):
        for rows, exchanges in Exchanges.side_by_side(segments, sacks, bounds, chosen):
            judged = _judged(exchanges, _NOTHING, at_sender=at_sender)
            for name in ("row", "earlier_row", "answer_row"):
                judged.columns[name] = np.append(rows, NA)[judged[name]]
            tables.append(judged)
    return Table.concatenate(VERDICTS, tables)


def _judged(exchanges: Exchanges, logs: OtherLogs, *, at_sender: bool) -> Table:
    """Return VERDICTS of the judged directions.

    Other logs may be used only if there is one judged direction.
    """
    copies = Retransmissions.of(exchanges, at_sender=at_sender)
    cause, why = _cause(copies, logs) if at_sender else causes(copies, trigger_away(copies))
    necessity, proof = _necessity(copies, at_sender=at_sender)
    if logs.arrived is not None and at_sender:
        _by_arrivals(copies, logs.arrived, necessity, proof)
    if logs.receiver is not None:
        _by_receiver(copies, logs, logs.receiver, necessity, proof)
    _settle_local_drops(cause, necessity)
    if not at_sender:
        open_still = (cause == RetransmissionCause.UNKNOWN) | (necessity == Necessity.UNDECIDED)
        why[open_still] |= np.uint32(VerdictEvidence.NOT_AT_SENDER)
    return _table(copies, cause, necessity, why | proof)


def _cause(copies: Retransmissions, logs: OtherLogs) -> tuple[Array, Array]:
    trigger = trigger_of(copies)
    cause, evidence = causes(copies, trigger)
    if logs.state is not None:
        by_readings(copies, trigger, logs.state, cause, evidence)
    if logs.events is not None:
        by_events(copies, logs.events, cause, evidence)
    unseen = (copies.segments["kind"][copies.row] & np.uint32(SegmentKind.OUT_OF_ORDER)) != 0
    evidence[unseen] |= np.uint32(VerdictEvidence.FIRST_COPY_UNSEEN)
    return cause, evidence


@dataclass(frozen=True, slots=True)
class _Signs:
    """For each retransmission, evidence from one trace, as masks of shape (n_copies,)."""

    proofs: dict[VerdictEvidence, Array]
    """An earlier transmission arrived: an ACK that this retransmission did not cause proves it."""
    arrived: dict[VerdictEvidence, Array]
    """An earlier transmission arrived."""
    needed: dict[VerdictEvidence, Array]
    """No earlier transmission arrived."""
    lost: Array
    """No ACK of an earlier transmission reached the sender."""
    unclear: Array
    """It is unknown whether such an ACK reached the sender."""


def _necessity(copies: Retransmissions, *, at_sender: bool) -> tuple[Array, Array]:
    """Return two arrays, from one trace alone: whether each retransmission was needed, and the evidence.

    Their values are those of `Necessity` and `VerdictEvidence`.
    """
    signs = _signs(copies, at_sender=at_sender)
    necessity = np.full(len(copies), Necessity.UNDECIDED, dtype=np.uint8)
    necessity[_any(signs.needed)] = Necessity.NECESSARY
    necessity[_any(signs.proofs) | _any(signs.arrived)] = Necessity.SPURIOUS
    necessity[signs.lost] = Necessity.ACK_LOST
    necessity[signs.unclear] = Necessity.UNDECIDED
    evidence = np.zeros(len(copies), dtype=np.uint32)
    for shown_by, decisive in (
        (signs.proofs | signs.arrived, necessity != Necessity.NECESSARY),
        (signs.needed, necessity == Necessity.NECESSARY),
    ):
        for bit, shown in shown_by.items():
            evidence[shown & decisive] |= np.uint32(bit)
    evidence[copies.answer >= copies.nowhere] |= np.uint32(VerdictEvidence.NO_ANSWER)
    return necessity, evidence


def _signs(copies: Retransmissions, *, at_sender: bool) -> _Signs:
    echoed, itself = eifel(copies)
    reported = dsacked(copies)
    duplicate = reported < copies.nowhere
    idle = undisputed(copies, reported)
    # a receiver that takes filler and copy together (GRO) acknowledges both at once and disputes neither
    proofs = {VerdictEvidence.HELD: held(copies) & ~idle, VerdictEvidence.SACKED: sacked_before(copies)}
    arrived = {VerdictEvidence.EIFEL: echoed, VerdictEvidence.D_SACK: duplicate}
    needed = {
        VerdictEvidence.ECHOED: itself,
        VerdictEvidence.HOLE: hole(copies),
        VerdictEvidence.NO_D_SACK: idle,
        VerdictEvidence.RENEGED: copies.reneged,
    }
    if at_sender:
        proofs[VerdictEvidence.EARLY_ACK], arrived[VerdictEvidence.ACK_IGNORED] = (early(copies), ignored(copies))
        lost, unclear = arrived[VerdictEvidence.ACK_IGNORED], np.zeros(len(copies), dtype=bool)
    else:
        proofs[VerdictEvidence.PASSED_BEFORE] = passed_before(copies)
        lost, unclear = unacknowledged_at_sender(copies)
    within_ns = sooner_than_answers_ns(copies) if at_sender else 0
    proofs[VerdictEvidence.EARLY_STAMP] = left_before(copies, within_ns)
    undone = np.where(_any(proofs) | echoed, copies.nowhere, reported)
    proofs[VerdictEvidence.F_RTO] = f_rto(
        copies, _any(proofs | arrived), reported_ranges(copies, undone), within_ns=within_ns
    )
    del undone, within_ns
    if at_sender:
        needed[VerdictEvidence.LOST_BEHIND] = lost_behind(copies) & ~behind_proved(copies, _any(proofs | arrived))
    unanswered = answered_in_vain(copies, reported) | before_any_answer(copies)
    unanswered &= (echoed | duplicate) & ~_any(proofs)
    return _Signs(proofs, arrived, needed, unanswered | lost, unclear)


def _any(signs: dict[VerdictEvidence, Array]) -> Array:
    has_any: Array = np.logical_or.reduce(list(signs.values()))
    return has_any


def _settle_local_drops(cause: Array, necessity: Array) -> None:
    """Correct `cause` and `necessity`, in place, for retransmissions after a drop in the sending host.

    A transmission that the host dropped cannot have arrived, so its retransmission was needed.
    """
    refused = cause == RetransmissionCause.LOCAL_DROP
    arrived = (necessity == Necessity.SPURIOUS) | (necessity == Necessity.ACK_LOST)
    cause[refused & arrived] = RetransmissionCause.TAIL_LOSS_PROBE
    necessity[refused & (necessity == Necessity.UNDECIDED)] = Necessity.NECESSARY


def _by_arrivals(copies: Retransmissions, arrived: Array, necessity: Array, evidence: Array) -> None:
    """Correct `necessity` and `evidence`, in place, where it was recorded which segments arrived."""
    had, known = had_before(copies, arrived)
    duplicate = (evidence & np.uint32(VerdictEvidence.D_SACK)) != 0
    proved = necessity == Necessity.SPURIOUS
    necessity[known & ~had] = Necessity.NECESSARY
    necessity[had & ~proved] = Necessity.ACK_LOST
    necessity[had & proved] = Necessity.SPURIOUS
    evidence[known & ~had & ~duplicate] &= ~np.uint32(
        VerdictEvidence.EIFEL | VerdictEvidence.F_RTO | VerdictEvidence.EARLY_ACK
    )
    evidence[known] |= np.uint32(VerdictEvidence.LINK_LOG)


def _by_receiver(copies: Retransmissions, logs: OtherLogs, receiver: Table, necessity: Array, evidence: Array) -> None:
    """Correct `necessity` and `evidence`, in place, by what the receiver's capture shows."""
    segments = copies.segments
    reverse = bool(segments["reverse"][copies.exchanges.own].any())
    row = logs.came()
    row = came_at(segments, receiver, reverse=reverse) if row is None else row
    arrived = arrived_at(segments, row, reverse=reverse)
    had, known = had_before(copies, arrived)
    back = logs.came_back()
    back = came_at(segments, receiver, reverse=not reverse) if back is None else back
    in_time = acknowledged_in_time(copies, row, back, len(receiver))
    necessity[known] = np.where(
        had[known], np.where(in_time[known], Necessity.SPURIOUS, Necessity.ACK_LOST), Necessity.NECESSARY
    )
    evidence[known & had] &= ~_SPEAKS_FOR_LOSS
    evidence[known & ~had] &= ~_SPEAKS_FOR_ARRIVAL
    evidence[known] |= np.uint32(VerdictEvidence.RECEIVER)


def _table(copies: Retransmissions, cause: Array, necessity: Array, evidence: Array) -> Table:
    columns = {
        "row": copies.row,
        "earlier_row": np.where(copies.earlier < copies.nowhere, copies.earlier, NA),
        "answer_row": np.where(copies.report < copies.nowhere, copies.report, NA),
        "cause": cause,
        "necessity": necessity,
        "evidence": evidence,
    }
    return Table(VERDICTS, columns)
