"""The large sentence of the first screen: what made a transfer slow, then the limit that this made."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from multitracer.diagnosis.limits.names import Limit, Part
from multitracer.diagnosis.sentence import MOSTLY, WORTH_SAYING
from multitracer.report.limit_words import bounds
from multitracer.report.points.explained_panels import logged_bps
from multitracer.report.screen.cause import AFTER_LOSSES, cause, confidence_of, lost_segments
from multitracer.report.screen.limit_rows import shares_of
from multitracer.report.screen.lost_run import lost_run
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import count, duration, rate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.diagnosis.incidents import Incident

_LASTED = r"[\d.,]+ [a-z]+(?: \d+ [a-z]+)?"
"""A length of time in a sentence: 27.5 s, 28 min 41 s."""
_BASIS = re.compile(rf"\(\d+%(?: of {_LASTED})?, [a-z]+\)")
"""Where the sentence says on what its share rests: what the link did stands behind it."""
_WEAK = re.compile(rf"\((\d+%) of ({_LASTED}), weak\)")
"""The same of a share that is weak."""
_BEGINS = {"Mostly ": "So the limit was mostly ", "The largest part was ": "So the largest part was "}
"""How the sentence of a limit begins, and how it does behind its cause."""
_WAYS = {
    Part.DATA: "the way of the data was dead",
    Part.ACKS: "the way of the ACKs was dead",
    Part.BOTH: "the path was dead both ways",
}
_PLAIN = {
    "syn-unanswered": "nobody answered",
    "connection-refused": "the other end refused the connection",
    "syn-retransmitted": "the first packets of the connection were lost",
    "reset-by-peer": "the other end reset the connection",
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
    "competing-traffic": "others used the link, too",
    "radio-limited": "the radio was weak",
}
"""Causes that need no number."""
_UNREAD = "The receiving program read more slowly than data came, until its buffer was full."
"""What a closed window says (RFC 9293, section 3.8.6): the buffer holds only what nobody has read."""
_OF_THE_LINK = {"link-flow-control", "rlp-retransmission-burst", "rate-change"}
"""What the link did while it was the limit: it tells more of it, and is not why."""
_WORTH_A_SENTENCE = 0.02
"""Share of the time from which on an outage is told, too. Not measured."""
_SHORT_WAIT = 0.1
"""Of the shortest round trip: who waited less met no queue to speak of (limits.md: the link's own bound)."""


def lead(diagnosis: Diagnosis) -> str:
    """Return the headline; what made the largest limit stands before it, what else happened behind it."""
    sentence, first, run = diagnosis.headline.sentence, cause(diagnosis), _lost_in_a_row(diagnosis)
    basis = _BASIS.search(sentence)
    if basis is None:
        return sentence
    words = _of_the_link(diagnosis, first)
    if words:
        sentence = f"{sentence[: basis.end()]}: {words}{sentence[basis.end() :]}"
    root = _root(diagnosis, first)
    begins = run if run and _is_before(diagnosis) else ""
    behind = ["" if begins else run, "" if run else _short_outage(diagnosis)]
    leads_to = root or (begins and diagnosis.headline.limit in AFTER_LOSSES)
    sentence = _in_all(diagnosis, _within(diagnosis, sentence) if root else sentence)
    return " ".join(filter(None, [begins, root, _so(sentence) if leads_to else sentence, *behind]))


def _of_the_link(diagnosis: Diagnosis, first: Incident | None) -> str:
    """Return what the link did while it was the limit, or else the rate by its log; "" without both."""
    if first is not None and first.kind in _OF_THE_LINK:
        return _words(diagnosis, first)
    logged = logged_bps(diagnosis) if diagnosis.headline.limit is Limit.LINK else None
    return "" if logged is None else f"the radio carries {rate(logged)}"


def _so(sentence: str) -> str:
    """Return the sentence of a limit as what its cause led to."""
    for begin, behind in _BEGINS.items():
        if begin in sentence:
            return sentence.replace(begin, behind, 1)
    return sentence


def _within(diagnosis: Diagnosis, sentence: str) -> str:
    """Return the sentence with the bounds of a weak share: how sure its cause is has been told before."""
    own = [each for each in shares_of(diagnosis) if each.limit is diagnosis.headline.limit]
    within, weak = bounds(own[0]) if len(own) == 1 else "", _WEAK.search(sentence)
    if not within or weak is None:
        return sentence
    share, whole = weak.groups()
    says = f"{within} of {whole}" if within.endswith(f" {share}") else f"{share} of {whole}, {within}"
    return f"{sentence[: weak.start()]}({says}){sentence[weak.end() :]}"


def _in_all(diagnosis: Diagnosis, sentence: str) -> str:
    """Return the sentence of a part of a limit with what all its parts took, which the limit's row shows.

    Parts of the application are of two ends, and have no sum.
    """
    headline, basis = diagnosis.headline, _BASIS.search(sentence)
    whole = sum(each.share for each in shares_of(diagnosis) if each.limit is headline.limit)
    is_little = not headline.part or whole - headline.share < WORTH_SAYING
    if basis is None or is_little or headline.limit is Limit.APPLICATION:
        return sentence
    sentence = f"{sentence[: basis.end()]}, the limit for {whole:.0%} in all{sentence[basis.end() :]}"
    return sentence.replace("The largest part was ", "Mostly ", 1) if whole >= MOSTLY else sentence


def _root(diagnosis: Diagnosis, first: Incident | None) -> str:
    """Return the sentence of what made the limit, and how sure it is; "" where the headline says it."""
    if diagnosis.headline.part is Part.ZERO:
        return _UNREAD
    if first is None:
        return _lost_somehow(diagnosis)
    words = _words(diagnosis, first)
    if not words or first.kind in _OF_THE_LINK:
        return ""
    sure = confidence_of(first, diagnosis.limited.view)
    is_told = diagnosis.headline.limit is Limit.OUTAGE or sure is diagnosis.headline.confidence
    return f"{words[0].upper()}{words[1:]}{'' if is_told else f' ({sure.label})'}."


def _lost_somehow(diagnosis: Diagnosis) -> str:
    """Return how many segments were lost where nothing tells why; "" without any."""
    lost, of = lost_segments(diagnosis)
    seen = diagnosis.limited.seen
    if not lost or seen is None:
        return ""
    queue_ns = int(seen.delays.way_ns.max() - seen.delays.way_ns.min()) if len(seen.delays.way_ns) else 0
    waited = duration(queue_ns * diagnosis.transfer.speed)
    flat = (
        f", but hardly in a full queue: none waited longer than {waited} in one"
        if 0 < queue_ns < _SHORT_WAIT * seen.floor_ns
        else ""
    )
    return f"{lost:,} of {count(of, 'segment')} were lost (why is not known{flat})."


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
        "ecn-marked": ("a router's ECN marks slowed the sender down {slowed_down:,.0f} times", "slowed_down"),
        "random-loss": (
            "{lost_packets:,.0f} packets were lost by chance, not by a full queue",
            "lost_packets",
        ),
        "congestion-loss": ("a full queue dropped packets", ""),
        "link-flow-control": (
            f"the radio carries {{radio_bytes_per_s}}, and its far end stopped it for {cost} (xoff)",
            "radio_bytes_per_s",
        ),
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
    certain_s, waited_s = numbers.get("outage_certain_s", 0.0), numbers.get("last_wait_s", 0.0)
    lasted = f"{way} for at least {duration(certain_s * NS_PER_S)}" if certain_s > 0 else way
    backed_off = "exponential-back-off" in {diagnosis.findings[part].kind for part in first.parts}
    if not backed_off or waited_s <= 0:
        return lasted
    return f"{lasted}; the timer had backed off, and tried again only {duration(waited_s * NS_PER_S)} later"


def _is_before(diagnosis: Diagnosis) -> bool:
    """Return whether data that were lost in a row count for more than the largest limit."""
    headline = diagnosis.headline
    return headline.limit in AFTER_LOSSES or "The largest part" in headline.sentence


def _lost_in_a_row(diagnosis: Diagnosis) -> str:
    """Return the sentence of data that were lost in a row; "" where there were none."""
    run = lost_run(diagnosis)
    if run is None:
        return ""
    lasted = duration((run.end_ns - run.begin_ns) * diagnosis.transfer.speed)
    many = f"{run.segments:,} segments in a row were lost, {count(run.repairs, 'repair')} among them"
    return f"For {lasted} no data came through, as in an outage: {many}."


def _short_outage(diagnosis: Diagnosis) -> str:
    """Return the sentence of an outage that took too little of the time for the headline; "" without one."""
    own = [each for each in shares_of(diagnosis) if each.limit is Limit.OUTAGE]
    taken = sum(each.share for each in own)
    if diagnosis.headline.limit is Limit.OUTAGE or not _WORTH_A_SENTENCE <= taken < WORTH_SAYING:
        return ""
    lasted = duration(sum(each.seconds for each in own) * NS_PER_S)
    faded = any(each.kind == "rlp-retransmission-burst" for each in diagnosis.incidents)
    why = ": the radio lost frames (a fade, or interference)" if faded else ""
    return f"For {lasted} nothing came through{why}."
