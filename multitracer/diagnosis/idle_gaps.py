"""Intervals in which nothing arrived, and the findings about their reason that packets allow.

The input is a `Diagnosis`, with its dead times (from the sender's capture) or the outages among its limits (from a
receiver's capture alone). The results, for the rules, are the idle gaps of a receiver that chance does not explain
(`idle_gaps`), and the findings that `outage` and `blackout` share (`dead_link`): duration, direction, and the
retransmissions that failed.

Rules: each interval has one name. A dead time of a path MTU black hole, or of a connection that the other
endpoint forgot, is no outage. Neither is one that chance explains at the rate of the other losses. The dead
direction is named only if a capture shows it. If the link was logged, its log is used instead of `dead_link`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.names import Limit, LimitSubtype, Viewpoint
from multitracer.diagnosis.packets.mtu_holes import MIN_SMALLER
from multitracer.diagnosis.packets.opening_and_end import is_forgotten
from multitracer.tables import NA
from multitracer.units import NS_PER_S
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.packets.dead_times import DeadTime
    from multitracer.tables import Array

BLACKOUT_S = 10.0
"""Minimum duration of a blackout, in s; a shorter one is an outage (paper 001)."""
RADIO_HELP = "Better coverage, or other handover parameters: the radio's log shows cell and handovers."
"""The remedy if a log shows that a radio was used."""
_CHANCE = 1e-4
"""Maximum probability of an outage if the packets in a row were lost by chance, at the rate of the other
losses; above it, there is no finding."""
_MIN_LOSS = 0.01
"""Minimum loss rate that is assumed for this probability."""
_MIN_UNANSWERED = 3
"""Minimum number of unanswered packets in a row, including the retransmissions."""
_WAYS = {
    "both": "No packet arrived in either direction",
    "data": "No data arrived",
    "acks": "The data arrived, but no ACK came back",
    "": "No ACK came back",
}


def dead_link(diagnosis: Diagnosis, kind: str) -> Iterator[Finding]:
    """Yield a finding for each interval in which nothing arrived and retransmissions failed."""
    if diagnosis.is_link_logged:
        return
    for each in idle_gaps(diagnosis):
        if each.part is not LimitSubtype.ACKS and not is_smaller_after(diagnosis, each):
            yield _at_receiver(diagnosis, kind, each)
    share = max(len(diagnosis.lost) / max(len(diagnosis.segments), 1), _MIN_LOSS)
    holes = [dead.begin_ns for dead in diagnosis.mtu_holes]
    for dead in diagnosis.dead_times:
        if not dead.failed or dead.begin_ns in holes or is_forgotten(diagnosis.opening, dead):
            continue
        # packets that were lost in a row at most: by both captures, or all that were not acknowledged; where no
        # ACK ever came, both captures show nothing of what was sent after the last packet in both
        in_a_row = dead.unanswered
        if NA not in (dead.lost_data, dead.answer):
            in_a_row = min(dead.unanswered, dead.lost_data + dead.lost_acks) or dead.unanswered
        if in_a_row < _MIN_UNANSWERED or share**in_a_row > _CHANCE:
            continue
        lasted_s, certain_s = (diagnosis.link_s(dead.begin_ns, end_ns) for end_ns in (dead.end_ns, dead.certain_ns))
        until = "the next one was" if dead.answer != NA else _without_answer(diagnosis, dead)
        sentence = (
            f"{_WAYS[dead.way]} {_span(diagnosis.at_s(dead.begin_ns), certain_s, lasted_s)}: "
            f"{dead.unanswered} packets were not acknowledged, {count(dead.failed, 'retransmission')} among them; "
            f"{until}."
        )
        numbers = {"outage_s": lasted_s, "outage_certain_s": certain_s, "unanswered_packets": dead.unanswered}
        if dead.answer != NA:
            numbers["last_wait_s"] = lasted_s - certain_s
        if dead.lost_data != NA:
            numbers |= {"lost_packets": dead.lost_data, "lost_acks": dead.lost_acks}
        payload = int(diagnosis.transfer.sender["payload_bytes"][dead.tries].sum())
        evidence = rows("sender", [*dead.tries.tolist(), *([] if dead.answer == NA else [dead.answer])])
        times_ns = dead.begin_ns, dead.end_ns
        helps = RADIO_HELP if diagnosis.transfer.has_radio else ""  # or the rule's own words
        yield Finding(kind, *times_ns, lasted_s, payload, evidence, sentence, helps, numbers)


def _span(from_s: float, certain_s: float, lasted_s: float) -> str:
    """Return when a dead time began and ended, in s of the transfer; its end may be known only between two times."""
    shortest, longest = (f"{each:.1f} s" for each in (certain_s, lasted_s))
    if shortest == longest:
        return f"for {longest}, from {from_s:.1f} s to {from_s + lasted_s:.1f} s of the transfer"
    return f"for at least {shortest} and at most {longest}, from {from_s:.1f} s of the transfer on"


def _without_answer(diagnosis: Diagnosis, dead: DeadTime) -> str:
    """Return words about the end of a dead time in which no retransmission was acknowledged."""
    transfer = diagnosis.transfer
    last_ns = int(transfer.sender["time_ns"][transfer.acks].max(initial=dead.begin_ns))
    return "then the peer sent data" if last_ns >= dead.end_ns else "nor was any later one in this recording"


def _at_receiver(diagnosis: Diagnosis, kind: str, idle_gap: ReceiverIdleGap) -> Finding:
    """Return a finding for an idle gap in a receiver's capture.

    Such a capture shows neither the failed retransmissions nor the direction that failed.
    """
    lasted_s = diagnosis.link_s(idle_gap.begin_ns, idle_gap.end_ns)
    around = arrivals_around(diagnosis, idle_gap)
    last_s, next_s = (diagnosis.at_s(each) for each in diagnosis.transfer.sender["time_ns"][around].tolist())
    sentence = (
        f"No data arrived for {next_s - last_s:.1f} s, from {last_s:.1f} s to {next_s:.1f} s of the transfer, though "
        "some had been sent: what arrived then was the oldest that was missing, "
        f"retransmitted by a timer after {lasted_s:.1f} s."
    )
    numbers = {"outage_s": lasted_s}
    evidence = rows("sender", around)
    begin_ns, end_ns = idle_gap.begin_ns, idle_gap.end_ns
    helps = RADIO_HELP if diagnosis.transfer.has_radio else ""  # or the rule's own words
    return Finding(kind, begin_ns, end_ns, lasted_s, None, evidence, sentence, helps, numbers)


_SHORTEST_TIMEOUT_NS = NS_PER_S // 5
"""Linux's minimum retransmission timeout, in ns; with a longer one, fewer tries have failed."""
_OPTIONS_BYTES = 40
"""Maximum size of TCP options, in bytes, by which a segment may be smaller (RFC 9293, section 3.1)."""


class ReceiverIdleGap(NamedTuple):
    """An interval without new data although the sender had outstanding data."""

    begin_ns: int
    end_ns: int
    part: LimitSubtype
    """`acks` if delivered data arrived again and again, else NONE: nothing arrived."""


def idle_gaps(diagnosis: Diagnosis) -> Iterator[ReceiverIdleGap]:
    """Yield the idle gaps in a receiver's capture that are too long to be chance losses.

    Nothing is yielded if the sender's capture is used.
    """
    shown = diagnosis.limited.shown
    if diagnosis.limited.view is not Viewpoint.RECEIVER or shown is None:
        return
    spans, cells = shown.out.spans, diagnosis.limited.own
    held = cells.limit == Limit.OUTAGE
    for begin, end, part in zip(spans.begin.tolist(), spans.end.tolist(), shown.out.part, strict=True):
        is_limit = bool((held & (cells.begin < end) & (cells.end > begin)).any())
        if is_limit and not _by_chance(diagnosis, begin, end):
            yield ReceiverIdleGap(begin, end, LimitSubtype(int(part)))


def _by_chance(diagnosis: Diagnosis, begin_ns: int, end_ns: int) -> bool:
    """Return whether random losses, at the rate of the other losses, explain the failed retransmissions.

    The timer doubles with each retransmission, so a few losses cause a long gap.
    """
    seen = diagnosis.limited.seen
    assert seen is not None
    sends = seen.sends
    before = (sends.needed | sends.by_timer)[sends.time_ns <= begin_ns]
    share = max(float(before.mean()) if len(before) else 0.0, _MIN_LOSS)
    timeout_ns = max(_SHORTEST_TIMEOUT_NS, seen.trip_ns, seen.floor_ns)
    tries = int(np.log2((end_ns - begin_ns) / timeout_ns + 1))
    return bool(share ** (tries + 1) > _CHANCE)


def is_smaller_after(diagnosis: Diagnosis, idle_gap: ReceiverIdleGap) -> bool:
    """Return whether full-size segments arrived only before the gap, and many smaller ones after it."""
    seen = diagnosis.limited.seen
    assert seen is not None
    size, time = seen.sends.end - seen.sends.begin, seen.sends.time_ns
    before, after = size[time <= idle_gap.begin_ns], size[time >= idle_gap.end_ns]
    return len(after) >= MIN_SMALLER and int(before.max(initial=0)) > int(after.max()) + _OPTIONS_BYTES


def arrivals_around(diagnosis: Diagnosis, idle_gap: ReceiverIdleGap) -> Array:
    """Return two rows: the last data before an idle gap, and the segment that ended the gap."""
    seen = diagnosis.limited.seen
    assert seen is not None
    sends = seen.sends
    ended_by = sends.row[np.searchsorted(sends.time_ns, idle_gap.end_ns)]
    arrived = np.sort(sends.row)
    return np.array([arrived[max(int(np.searchsorted(arrived, ended_by)) - 1, 0)], ended_by])


def repeated_in(diagnosis: Diagnosis, idle_gap: ReceiverIdleGap) -> list[int]:
    """Return the rows of segments in an idle gap that repeat data which had already arrived."""
    seen = diagnosis.limited.seen
    assert seen is not None
    sends = seen.sends
    inside = (sends.time_ns >= idle_gap.begin_ns) & (sends.time_ns <= idle_gap.end_ns)
    return [int(row) for row in sends.row[inside & sends.again & ~sends.needed]]
