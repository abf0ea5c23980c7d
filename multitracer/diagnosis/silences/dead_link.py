"""What the findings `outage` and `blackout` say alike: nothing came through, for how long, and which way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.case import Case, Finding, rows
from multitracer.diagnosis.limits.names import Part
from multitracer.diagnosis.packets.opening_and_end import is_forgotten
from multitracer.diagnosis.silences.mtu_hole import mtu_holes
from multitracer.diagnosis.silences.receiver_silences import arrivals_around, is_smaller_after, silences
from multitracer.tables import NA
from multitracer.words import ends

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.packets.dead_times import DeadTime
    from multitracer.diagnosis.silences.receiver_silences import ReceiverSilence

BLACKOUT_S = 10.0
"""An outage as long as this, or longer, is a blackout (paper 001)."""
RADIO_HELP = "Better coverage, or other handover parameters: the radio's log shows cell and handovers."
"""Where a log shows that there is a radio."""
_CHANCE = 1e-4
"""With which packets in a row are still lost by chance, at the rate at which others are lost: then it is no
outage."""
_LEAST_LOSS = 0.01
"""Taken for the rate where fewer were lost."""
_LEAST_UNANSWERED = 3
"""Packets in a row, the tries among them."""
_WAYS = {
    "both": "Nothing came through in either direction",
    "data": "None of the data came through",
    "acks": "The data came through, but nothing came back,",
    "": "Nothing came back",
}


def dead_link(case: Case, kind: str) -> Iterator[Finding]:
    """Yield a finding for each dead time in which tries failed; of each the caller says what it is called."""
    return (each._replace(kind=kind) for each in case.once(_dead_links))


def _dead_links(case: Case) -> list[Finding]:
    return [] if case.is_link_logged else list(_each_link(case))


def _each_link(case: Case) -> Iterator[Finding]:
    for each in silences(case):
        if each.part is not Part.ACKS and not is_smaller_after(case, each):
            yield _at_receiver(case, each)
    share = max(len(case.lost) / max(len(case.segments), 1), _LEAST_LOSS)
    holes = [dead.begin_ns for dead in case.once(mtu_holes)]
    for dead in case.dead_times:
        if not dead.failed:
            continue
        has_other_name = dead.begin_ns in holes or is_forgotten(case.transfer, dead)
        in_a_row = _in_a_row(dead)
        by_chance = in_a_row < _LEAST_UNANSWERED or share**in_a_row > _CHANCE
        if not by_chance and not has_other_name:
            yield _finding(case, dead)


def _at_receiver(case: Case, silence: ReceiverSilence) -> Finding:
    """Return what a receiver alone can tell: neither the tries that failed nor which way was dead."""
    lasted_s = case.link_s(silence.begin_ns, silence.end_ns)
    around = arrivals_around(case, silence)
    last_ns, next_ns = case.transfer.sender["time_ns"][around].tolist()
    sentence = (
        f"No data arrived for {case.link_s(last_ns, next_ns):.1f} s, {case.at_s(last_ns):.1f} s into the "
        "transfer, though some were on their way: what came then was the oldest missing, "
        f"which a timer had sent again after {lasted_s:.1f} s."
    )
    numbers = {"outage_s": lasted_s}
    evidence = rows("sender", around)
    begin_ns, end_ns, helps = silence.begin_ns, silence.end_ns, _help(case)
    return Finding("", begin_ns, end_ns, lasted_s, None, evidence, sentence, helps, numbers)


def _help(case: Case) -> str:
    """Return what would help a radio; "" where none was seen, so that the rule's own words hold."""
    return RADIO_HELP if case.transfer.has_radio else ""


def _in_a_row(dead: DeadTime) -> int:
    """Return how many packets were lost in a row at most: by both captures, or all that got no answer.

    Where no answer ever came, both captures show nothing of what was sent after the last packet in both.
    """
    if NA in (dead.lost_data, dead.answer):
        return dead.unanswered
    return min(dead.unanswered, dead.lost_data + dead.lost_acks) or dead.unanswered


def _finding(case: Case, dead: DeadTime) -> Finding:
    lasted_s, certain_s = (case.link_s(dead.begin_ns, end_ns) for end_ns in (dead.end_ns, dead.certain_ns))
    tries = "a try" if dead.failed == 1 else f"{dead.failed} tries"
    until = "and it never came back in this recording" if dead.answer == NA else "the next was answered"
    lasted = ends(f"{certain_s:.1f}", f"{lasted_s:.1f}")
    sentence = (
        f"{_WAYS[dead.way]} for {lasted} s, {case.at_s(dead.begin_ns):.1f} s into "
        f"the transfer: {dead.unanswered} packets got no answer, {tries} to repair it among them; {until}."
    )
    numbers = {"outage_s": lasted_s, "outage_certain_s": certain_s, "unanswered_packets": dead.unanswered}
    if dead.answer != NA:
        numbers["last_wait_s"] = lasted_s - certain_s
    if dead.lost_data != NA:
        numbers |= {"lost_packets": dead.lost_data, "lost_acks": dead.lost_acks}
    payload = int(case.transfer.sender["payload_bytes"][dead.tries].sum())
    answer = [] if dead.answer == NA else [dead.answer]
    evidence = rows("sender", [*dead.tries.tolist(), *answer])
    begin_ns, end_ns, helps = dead.begin_ns, dead.end_ns, _help(case)
    return Finding("", begin_ns, end_ns, lasted_s, payload, evidence, sentence, helps, numbers)
