"""The large sentence of the first screen: what limited the transfer, and right behind it why, plainly."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from multitracer.diagnosis.limits.names import Limit, Part
from multitracer.diagnosis.sentence import WORTH_SAYING
from multitracer.report.screen.cause import cause, confidence_of, lost_segments
from multitracer.report.screen.limit_rows import shares_of
from multitracer.report.screen.lost_run import lost_run
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import count, duration, rate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.diagnosis.incidents import Incident

_BASIS = re.compile(r"\(\d+%(?: of [\d.,]+ s)?, [a-z]+\)")
"""Where the sentence says on what its share rests: the cause stands behind it."""
_WAYS = {
    Part.DATA: "the way of the data was dead",
    Part.ACKS: "the way of the ACKs was dead",
    Part.BOTH: "the path was dead both ways",
}
_PLAIN = {
    "syn-unanswered": "nobody answered",
    "connection-refused": "the other end refused it",
    "syn-retransmitted": "its first packets were lost",
    "reset-by-peer": "the other end reset it",
    "dropped-call": "the call was dropped",
    "handover": "the phone changed its cell",
    "link-reset": "the link was reset, and lost what it held",
    "path-mtu-black-hole": "packets of full size do not pass the path",
    "idle-timeout": "the path had forgotten the idle connection",
    "header-decompressor-failure": "compressed headers could not be restored",
    "ack-loss": "the ACKs were lost on their way back",
    "exponential-back-off": "the timer waited longer each time",
    "local-buffer-overflow": "a buffer in the sender's own host overflowed",
    "reordering": "packets arrived out of order",
    "spurious-timeout": "the timer expired too early",
    "competing-retransmission": "TCP and the link repeated the same data",
    "competing-traffic": "others used it, too",
    "radio-limited": "the radio was weak",
}
"""Causes that need no number."""
_OF_THE_LINK = {"bufferbloat", "link-flow-control", "rlp-retransmission-burst", "rate-change"}
"""What the link did while it was the limit: it tells more of it, and is not why."""
_WORTH_A_SENTENCE = 0.02
"""Share of the time from which on an outage is told, too. Not measured."""


def lead(diagnosis: Diagnosis) -> str:
    """Return the headline with its cause behind the largest limit."""
    sentence = diagnosis.headline.sentence
    basis = _BASIS.search(sentence)
    if basis is None:
        return sentence
    return f"{sentence[: basis.end()]}{_because(diagnosis)}{sentence[basis.end() :]}{_lost(diagnosis)}"


def _because(diagnosis: Diagnosis) -> str:
    """Return the clause of the cause; "" where none is known, or the headline says it."""
    first = cause(diagnosis)
    if first is None:
        lost, of = lost_segments(diagnosis)
        return f", after {lost:,} of {count(of, 'segment')} were lost (why is not known)" if lost else ""
    words = _words(diagnosis, first)
    if not words or first.kind in _OF_THE_LINK:
        return words and f": {words}"
    sure = confidence_of(first, diagnosis.limited.view)
    is_told = diagnosis.headline.limit is Limit.OUTAGE or sure is diagnosis.headline.confidence
    return f", because {words}" + ("" if is_told else f" ({sure.label})")


def _words(diagnosis: Diagnosis, first: Incident) -> str:
    """Return in plain words what an incident was; "" for one that only names the limit."""
    numbers = diagnosis.findings[first.parts[0]].numbers
    if first.kind in ("outage", "blackout"):
        return _dead(diagnosis, first, numbers)
    if first.kind in _PLAIN:
        return _PLAIN[first.kind]
    cost = duration(first.cost_s * NS_PER_S)
    telling = {
        "policer": ("a policer let only {policed_bytes_per_s} through", "policed_bytes_per_s"),
        "ecn-marked": ("a router asked for it: {slowed_down:,.0f} times by ECN marks", "slowed_down"),
        "random-loss": (
            "{lost_packets:,.0f} packets were lost by chance, not by a full queue",
            "lost_packets",
        ),
        "congestion-loss": ("a full queue dropped packets", ""),
        "bufferbloat": ("its queue adds {added_delay_s} to a path of {unloaded_rtt_s}", "added_delay_s"),
        "link-flow-control": (f"for {cost} of that time its far end stopped it (xoff)", ""),
        "rlp-retransmission-burst": (f"the radio lost frames, which it sent again for {cost}", ""),
        "rate-change": ("its rate changed from {rate_before_bps} to {rate_after_bps}", "rate_after_bps"),
    }
    words, needed = telling.get(first.kind, ("", ""))
    return "" if needed and needed not in numbers else words.format(**_in_words(numbers))


def _in_words(numbers: Mapping[str, float]) -> dict[str, object]:
    """Return numbers with their units, as their names tell these; counts as they are."""
    written: dict[str, object] = {}
    for name, number in numbers.items():
        if name.endswith("_bytes_per_s"):
            written[name] = rate(number * BITS_PER_BYTE)
        elif name.endswith("_bps"):
            written[name] = rate(number)
        else:
            written[name] = duration(number * NS_PER_S) if name.endswith("_s") else number
    return written


def _dead(diagnosis: Diagnosis, first: Incident, numbers: Mapping[str, float]) -> str:
    """Return for how long which way was dead; where that is the limit, how long it was at least."""
    if diagnosis.headline.limit is not Limit.OUTAGE:
        return f"nothing came through for {duration(first.cost_s * NS_PER_S)}"
    way = _WAYS.get(diagnosis.headline.part, "the path was dead")
    certain_s = numbers.get("outage_certain_s", 0.0)
    return f"{way} for at least {duration(certain_s * NS_PER_S)}" if certain_s > 0 else way


def _lost(diagnosis: Diagnosis) -> str:
    """Return the sentence of a short outage, or of data that were lost in a row; "" where there were none."""
    run = lost_run(diagnosis)
    if run is None:
        return _short_outage(diagnosis)
    lasted = duration((run.end_ns - run.begin_ns) * diagnosis.transfer.speed)
    many = f"{run.segments:,} segments in a row were lost, {count(run.repairs, 'repair')} among them"
    return f" For {lasted} no data came through, as in an outage: {many}."


def _short_outage(diagnosis: Diagnosis) -> str:
    """Return the sentence of an outage that took too little of the time for the headline; "" without one."""
    own = [each for each in shares_of(diagnosis) if each.limit is Limit.OUTAGE]
    taken = sum(each.share for each in own)
    if diagnosis.headline.limit is Limit.OUTAGE or not _WORTH_A_SENTENCE <= taken < WORTH_SAYING:
        return ""
    lasted = duration(sum(each.seconds for each in own) * NS_PER_S)
    faded = any(each.kind == "rlp-retransmission-burst" for each in diagnosis.incidents)
    why = ": the radio lost frames (a fade, or interference)" if faded else ""
    return f" For {lasted} nothing came through{why}."
