"""What the sender's kernel reports of a retransmission: its trace points, and its congestion state.

Linux enters Loss on each expiry of the timer and resends the oldest segment at once; what it resends later in
Loss counts as slow start, what it resends in Recovery as fast, and in any other state only a probe is resent.
A segment that repeats numbers while the kernel reports no retransmission was refused by the host itself: the
kernel kept it at the head of what is to be sent (`tcp_transmit_skb` returned NET_XMIT_DROP).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.verdicts.words import Cause, Evidence
from multitracer.protocols.sock_diag import CaState, ReadBy, TcpEvent
from multitracer.tables import NA
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.analysis.verdicts.copies import Copies
    from multitracer.analysis.verdicts.trigger import Trigger
    from multitracer.tables import Array, Table

_AT_ONCE_NS = 5 * NS_PER_MS
"""Between a trace point and the packet that it speaks of; usually some microseconds."""
_LATE_NS = 100 * NS_PER_MS
"""The same on a host that was held between the two, or that paces what it sends."""
_CLOCKS_NS = NS_PER_MS // 20
"""How far the clock of the trace may be ahead of that of the capture."""
_LATELY_NS = 200 * NS_PER_MS
"""A reading of the sender's variables so long after a retransmission tells what state it was sent in."""
_OF_STATE = {CaState.LOSS: Cause.SLOW_START, CaState.RECOVERY: Cause.FAST}


def by_events(copies: Copies, events: Table, cause: Array, evidence: Array) -> None:
    """Correct `cause` and `evidence`, in place, by the trace points of the sender.

    Parameters
    ----------
    copies : Copies
    events : Table
        JOINED_EVENTS of this sender.
    cause : ndarray of uint8, shape (n_copies,)
        A `Cause`, as concluded from packets.
    evidence : ndarray of uint32, shape (n_copies,)
        Bits of `Evidence`.
    """
    if not len(copies):
        return
    resent = events.take(events["event"] == TcpEvent.RETRANSMISSION)
    changes = events.take((events["event"] == TcpEvent.CA_STATE) & (events["ca_state"] != NA))
    if len(changes):
        _by_state_changes(copies, changes, cause, evidence)
    if len(resent):
        _by_reports(copies, resent, cause, evidence)


def _by_state_changes(copies: Copies, changes: Table, cause: Array, evidence: Array) -> None:
    time_ns = copies.segments["time_ns"][copies.row]
    last = np.searchsorted(changes["time_ns"], time_ns, side="right") - 1
    state = np.append(changes["ca_state"], CaState.OPEN)[last]
    stated = np.zeros(len(copies), dtype=np.uint8)
    for ca_state, meaning in _OF_STATE.items():
        stated[state == ca_state] = meaning
    expired = changes["time_ns"][changes["ca_state"] == CaState.LOSS]
    first = np.searchsorted(time_ns, expired)
    near = first < len(copies)
    first, expired = first[near], expired[near]
    stated[first[time_ns[first] - expired < _AT_ONCE_NS]] = Cause.TIMEOUT
    known = stated != Cause.UNKNOWN
    cause[known] = stated[known]
    evidence[known] |= np.uint32(Evidence.CA_STATE)
    probes = (stated == Cause.UNKNOWN) & (cause == Cause.TIMEOUT) & (last >= 0)
    cause[probes] = Cause.TAIL_LOSS_PROBE
    evidence[probes] |= np.uint32(Evidence.CA_STATE)


def _by_reports(copies: Copies, resent: Table, cause: Array, evidence: Array) -> None:
    """Call it a local drop if a repeat has no report, or if its report shows that it was refused."""
    time_ns, report_ns = copies.segments["time_ns"][copies.row], resent["time_ns"]
    spoken_of = _spoken_of(time_ns, report_ns)
    known = spoken_of >= 0
    reported = _with_parts(copies, report_ns, spoken_of[known])
    refused = _with_parts(copies, report_ns, spoken_of[known & (resent["left_host"] == 0)])
    traced = (time_ns >= report_ns[0] - _AT_ONCE_NS) & (time_ns <= report_ns[-1] + _AT_ONCE_NS)
    unreported = (
        traced & ~reported & (copies.begin > copies.zero)
    )  # a SYN-ACK is resent where nothing is traced
    evidence[reported | unreported] |= np.uint32(Evidence.KERNEL_EVENT)
    cause[(cause == Cause.LOCAL_DROP) & reported] = Cause.TAIL_LOSS_PROBE  # in no recovery, and left the host
    cause[unreported | refused] = Cause.LOCAL_DROP


def _with_parts(copies: Copies, report_ns: Array, spoken_of: Array) -> Array:
    """Return the packets that reports refer to: what is resent as one may be cut into several segments.

    The report comes after the last of them, so none lies between.
    """
    reported = np.zeros(len(copies), dtype=bool)
    reported[spoken_of] = True
    time_ns = copies.segments["time_ns"][copies.row]
    together = (np.diff(time_ns) < _AT_ONCE_NS) & (np.diff(np.searchsorted(report_ns, time_ns)) == 0)
    part_of_next = together & (copies.end[:-1] == copies.begin[1:])
    for at in np.flatnonzero(part_of_next)[::-1].tolist():
        reported[at] |= reported[at + 1]
    return reported


def _spoken_of(time_ns: Array, report_ns: Array) -> Array:
    """Return the packet that each report refers to, -1 for none: the last one before it that is still free.

    What finds none so may lie behind its report by as much as the two clocks are apart, or far before it.
    """
    spoken_of = np.full(len(report_ns), -1)
    for ahead_ns, reach_ns in ((0, _AT_ONCE_NS), (_CLOCKS_NS, _AT_ONCE_NS), (_LATE_NS, 2 * _LATE_NS)):
        waiting = np.flatnonzero(spoken_of < 0)
        free = np.setdiff1d(np.arange(len(time_ns)), spoken_of)
        last = _last_free(time_ns[free], report_ns[waiting] + ahead_ns, reach_ns)
        spoken_of[waiting[last >= 0]] = free[last[last >= 0]]
    return spoken_of


def _last_free(time_ns: Array, report_ns: Array, reach_ns: int) -> Array:
    """Return for each report the last packet before it that no report before it has taken; else -1."""
    behind = np.searchsorted(time_ns, report_ns, side="right").tolist()
    sent, taken = time_ns.tolist(), np.full(len(report_ns), -1)
    free: list[int] = []
    seen = 0
    for report, (end, at) in enumerate(zip(behind, report_ns.tolist(), strict=True)):
        free.extend(range(seen, end))
        seen = max(seen, end)
        if free and at - sent[free[-1]] < reach_ns:
            taken[report] = free.pop()
    return taken


def by_readings(copies: Copies, trigger: Trigger, state: Table, cause: Array, evidence: Array) -> None:
    """Correct `cause` and `evidence`, in place, by readings of the sender's variables.

    Parameters
    ----------
    state : Table
        JOINED_STATE of this sender; tcp_probe's rows, which show the state before a segment, are left out.
    cause : ndarray of uint8, shape (n_copies,)
        A `Cause`, as concluded so far.
    evidence : ndarray of uint32, shape (n_copies,)
        Bits of `Evidence`.
    """
    polled = state.take(state["method"] != ReadBy.TCP_PROBE)
    polled = polled.take(np.argsort(polled["time_ns"], kind="stable"))
    if not len(polled) or not len(copies):
        return
    time_ns = copies.segments["time_ns"][copies.row]
    at = np.searchsorted(polled["time_ns"], time_ns)
    there = at < len(polled)
    at = np.minimum(at, len(polled) - 1)
    there &= polled["time_ns"][at] - time_ns < _LATELY_NS
    open_to_it = there & (cause != Cause.LOCAL_DROP)
    for ca_state, meaning in _OF_STATE.items():
        rows = open_to_it & (polled["ca_state"][at] == ca_state)
        cause[rows] = np.where(trigger.silent[rows], Cause.TIMEOUT, meaning)
        evidence[rows] |= np.uint32(Evidence.CA_STATE)
    fell = open_to_it & (polled["ca_state"][at] == NA) & _fell(polled, at)
    collapsed = fell & (polled["cwnd_segments"][at] == 1) & trigger.silent
    cause[collapsed] = Cause.TIMEOUT
    cause[fell & (cause == Cause.UNKNOWN)] = Cause.FAST
    evidence[fell] |= np.uint32(Evidence.CWND_DROP)


def _fell(polled: Table, at: Array) -> Array:
    """Return before which readings the congestion window was larger."""
    before, now = polled["cwnd_segments"][np.maximum(at - 1, 0)], polled["cwnd_segments"][at]
    fell: Array = (at > 0) & (before != NA) & (now != NA) & (now < before)
    return fell
