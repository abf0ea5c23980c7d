"""The text of the first screen: what limited a transfer, in words and numbers.

The text consists of three numbers (rate, round-trip time, loss), a calculation (the time that the bytes take
at the link's rate, or the rate that a buffer allows), and the headline.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.clauses import MOSTLY, WORTH_SAYING
from multitracer.diagnosis.finding import cost_of
from multitracer.diagnosis.limits.names import Confidence, Limit, LimitSubtype
from multitracer.diagnosis.sentence import ENDED_IN
from multitracer.report.cause import AFTER_LOSSES, cause, confidence_of, held_bytes, lost_run, lost_segments
from multitracer.report.explained_panels import logged_bps
from multitracer.report.limit_words import SHORT, bounds, shares_of
from multitracer.report.markup import Markup, element, unbroken
from multitracer.schemas.tcp import GoodputBy, RoundTrips
from multitracer.tables import NA
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import count, duration, rate, share, size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Incident
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.report.connection_table import Drawn

_LASTED = r"[\d.,]+ [a-z]+(?: \d+ [a-z]+)?"
"""Pattern of a duration in a sentence: 27.5 s, 28 min 41 s."""
_BASIS = re.compile(rf"\(\d+ %(?: of {_LASTED})?, [a-z]+\)")
"""Pattern of the share and its basis in a headline; text on the link is inserted after it."""
_WEAK = re.compile(rf"\((\d+ %) of ({_LASTED}), weak\)")
"""Pattern of a weak share and its basis in a headline."""
_BEGINS = {"Mostly ": "So the limit was mostly ", "The largest part was ": "So the largest part was "}
"""First words of the sentence of a limit: alone, and after a sentence with its cause."""
_WAYS = {
    LimitSubtype.DATA: "the way of the data was dead",
    LimitSubtype.ACKS: "the way of the ACKs was dead",
    LimitSubtype.BOTH: "the path was dead both ways",
}
_PLAIN = {
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
"""Sentences of causes that contain no number."""
_UNREAD = "The receiving program read more slowly than data came, until its buffer was full."
"""Sentence for a closed window (RFC 9293, section 3.8.6): the buffer is full of unread data."""
_OF_THE_LINK = {"link-flow-control", "rlp-retransmission-burst", "rate-change"}
"""Kinds of findings that describe the link during its limit but do not explain the limit."""
_IN_HEADLINE = {"syn-unanswered", "connection-refused"}
"""Kinds of findings that the headline itself names."""
_WORTH_A_SENTENCE = 0.02
"""Minimum share of the time at which the headline mentions an outage. Not measured."""
_SHORT_WAIT = 0.1
"""Queueing delay, as a share of the minimum RTT, below which the queue is not significant (see limits.md)."""


def headline_text(diagnosis: Diagnosis) -> str:
    """Return the headline: the cause of the largest limit, the limit, and other notable events."""
    headline, first, run = diagnosis.headline, cause(diagnosis), lost_run(diagnosis)
    sentence = headline.sentence
    basis = _BASIS.search(sentence)
    if basis is None:
        return sentence
    logged = logged_bps(diagnosis) if headline.limit is Limit.LINK else None
    of_link = "" if logged is None else f"the radio carries {rate(logged)}"
    if first is not None and first.kind in _OF_THE_LINK:  # it tells more
        of_link = _words(diagnosis, first)
    if of_link:
        sentence = f"{sentence[: basis.end()]}: {of_link}{sentence[basis.end() :]}"
    root = _root(diagnosis, first)
    sentence = _within(diagnosis, sentence) if root else sentence
    # of a part of a limit, what all its parts took, as the limit's row shows; parts of the application are of
    # two ends, and have no sum
    complete = sum(each.share for each in shares_of(diagnosis) if each.limit is headline.limit)
    is_much = headline.part and complete - headline.share >= WORTH_SAYING
    basis = _BASIS.search(sentence)
    if basis is not None and is_much and headline.limit is not Limit.APPLICATION:
        sentence = f"{sentence[: basis.end()]}, the limit for {100 * complete:.0f} % in all{sentence[basis.end() :]}"
        sentence = sentence.replace("The largest part was ", "Mostly ", 1) if complete >= MOSTLY else sentence
    is_before = headline.limit in AFTER_LOSSES or "The largest part" in headline.sentence
    if root or (run is not None and headline.limit in AFTER_LOSSES):
        begin = next((each for each in _BEGINS if each in sentence), "")
        sentence = sentence.replace(begin, _BEGINS[begin], 1) if begin else sentence
    if run is None:  # an outage that took too little of the time for the headline is a sentence of its own
        own = [each for each in shares_of(diagnosis) if each.limit is Limit.OUTAGE]
        taken, after = sum(each.share for each in own), ""
        is_told = headline.limit is Limit.OUTAGE or ENDED_IN in sentence
        if not is_told and _WORTH_A_SENTENCE <= taken < WORTH_SAYING:
            faded = any(each.kind == "rlp-retransmission-burst" for each in diagnosis.incidents)
            why = ": the radio lost frames (a fade, or interference)" if faded else ""
            after = f"For {duration(sum(each.seconds for each in own) * NS_PER_S)} the path was interrupted{why}."
        return " ".join(filter(None, [root, sentence, after]))
    lasted = duration((run.end_ns - run.begin_ns) * diagnosis.transfer.speed)
    many = f"{run.segments:,} segments in a row were lost, {count(run.repairs, 'repair')} among them"
    dead = f"For {lasted} no data arrived, as in an outage: {many}."
    words = [dead, root, sentence] if is_before else [root, sentence, dead]
    return " ".join(filter(None, words))


def _within(diagnosis: Diagnosis, sentence: str) -> str:
    """Return the sentence with the bounds of a weak (inferred) share, without the confidence of its cause."""
    own = [each for each in shares_of(diagnosis) if each.limit is diagnosis.headline.limit]
    within, weak = bounds(own[0]) if len(own) == 1 else "", _WEAK.search(sentence)
    if not within or weak is None:
        return sentence
    share, complete = weak.groups()
    says = f"{within} of {complete}" if within.endswith(f" {share}") else f"{share} of {complete}, {within}"
    return f"{sentence[: weak.start()]}({says}){sentence[weak.end() :]}"


def _root(diagnosis: Diagnosis, first: Incident | None) -> str:
    """Return the sentence on the limit's cause, with its confidence.

    The result is "" if the headline already names the cause.
    """
    seen = diagnosis.limited.seen
    if diagnosis.headline.part is LimitSubtype.ZERO:
        return _UNREAD
    if first is not None:
        is_named = first.kind == "policer" and diagnosis.headline.part is LimitSubtype.POLICER
        words = "" if is_named or first.kind in _OF_THE_LINK | _IN_HEADLINE else _words(diagnosis, first)
        sure = confidence_of(first, diagnosis.limited.view)
        is_known = diagnosis.headline.limit is Limit.OUTAGE or sure is diagnosis.headline.confidence
        return f"{words[0].upper()}{words[1:]}{'' if is_known else f' ({sure.label})'}." if words else ""
    lost, of = lost_segments(diagnosis)
    if not lost or seen is None:
        return ""
    queue_ns = int(seen.delays.way_ns.max() - seen.delays.way_ns.min()) if len(seen.delays.way_ns) else 0
    flat = ""
    if 0 < queue_ns < _SHORT_WAIT * seen.floor_ns:
        waited = duration(queue_ns * diagnosis.transfer.speed)
        flat = f", but hardly in a full queue: none waited longer than {waited} in one"
    return f"{lost:,} of {count(of, 'segment')} were lost (why is not known{flat})."


def _words(diagnosis: Diagnosis, first: Incident) -> str:
    """Return a sentence that describes an incident; "" if it says only what the limit says."""
    numbers = diagnosis.findings[first.parts[0]].numbers
    if first.kind in ("outage", "blackout"):
        return _dead(diagnosis, first, numbers)
    if first.kind in _PLAIN:
        return _PLAIN[first.kind]
    cost = duration(first.cost_s * NS_PER_S)
    telling = {
        "policer": ("a policer let only {policed_bytes_per_s} through", "policed_bytes_per_s"),
        "ecn-marked": ("a router's ECN marks slowed the sender down {slowed_down:,.0f} times", "slowed_down"),
        "random-loss": ("{lost_packets:,.0f} packets were lost by chance, not by a full queue", "lost_packets"),
        "congestion-loss": ("a full queue dropped packets", ""),
        "link-flow-control": (
            f"the radio carries {{radio_bytes_per_s}}, and its far end stopped it for {cost} (xoff)",
            "radio_bytes_per_s",
        ),
        "rlp-retransmission-burst": (f"the radio lost frames, which it sent again for {cost}", ""),
        "rate-change": ("its rate changed from {rate_before_bps} to {rate_after_bps}", "rate_after_bps"),
    }
    words, needed = telling.get(first.kind, ("", ""))
    written: dict[str, object] = {}
    for name, number in numbers.items():  # names tell units; counts are as they are
        if name.endswith("_bytes_per_s"):
            written[name] = rate(number * BITS_PER_BYTE)
        elif name.endswith("_bps"):
            written[name] = rate(number)
        else:
            written[name] = duration(number * NS_PER_S) if name.endswith("_s") else number
    return "" if needed and needed not in numbers else words.format(**written)


def _dead(diagnosis: Diagnosis, first: Incident, numbers: Mapping[str, float]) -> str:
    """Return a text on the direction and duration of an outage.

    If the outage is the limit, the text gives the minimum duration.
    """
    if diagnosis.headline.limit is not Limit.OUTAGE:
        return f"the path was interrupted for {duration(first.cost_s * NS_PER_S)}"
    way = _WAYS.get(diagnosis.headline.part, "the path was dead")
    certain_s, waited_s = numbers.get("outage_certain_s", 0.0), numbers.get("last_wait_s", 0.0)
    lasted = f"{way} for at least {duration(certain_s * NS_PER_S)}" if certain_s > 0 else way
    backed_off = "exponential-back-off" in {diagnosis.findings[part].kind for part in first.parts}
    if not backed_off or waited_s <= 0:
        return lasted
    return f"{lasted}; the timer had backed off, and tried again only {duration(waited_s * NS_PER_S)} later"


_NEXT_TO_NOTHING = 0.02
"""Share of the time below which the cost of loss recovery is negligible. Not measured."""
_SHOWN_S = 0.0005
"""Minimum duration that is shown, in seconds."""


class RoundTripText(NamedTuple):
    """The RTT of a transfer for the first screen, in ns of link time."""

    min_ns: float
    typical_ns: float
    """Median of the RTT."""
    most_ns: float
    """95th percentile of the RTT."""
    is_inferred: bool
    """Whether the RTT is inferred from arrivals at the receiver, as minimum plus queueing delay."""

    @property
    def words(self) -> str:
        """Return minimum and median RTT as text; a common unit is written once: 70.8 → 406 ms."""
        minimum, typical = duration(self.min_ns), duration(self.typical_ns)
        number, _, unit = minimum.rpartition(" ")
        return f"{number if typical.endswith(f' {unit}') else minimum} → {typical}"


class SegmentLoss(NamedTuple):
    """Number of segments that were lost, late or retransmitted, and of all segments."""

    name: str
    segments: int
    of: int

    @property
    def words(self) -> str:
        """Return the share of these segments as text."""
        return share(self.segments, self.of) if self.segments else "none"


def goodput_bps(diagnosis: Diagnosis, drawn: Drawn) -> float | None:
    """Return the goodput of the transfer in bit/s of link time; None if it is not known."""
    speed = drawn.goodput_bps
    return None if speed is None or diagnosis.transfer.clock_steps else speed / diagnosis.transfer.speed


def round_trip(diagnosis: Diagnosis, drawn: Drawn) -> RoundTripText | None:
    """Return the median and the 95th percentile of the RTT; None if no RTT is known."""
    row, speed = drawn.direction, diagnosis.transfer.speed
    if not RoundTrips(row["rtt_absent"]):
        minimum, typical, most = (row[f"rtt_{name}_ns"] * speed for name in ("min", "p50", "p95"))
        return RoundTripText(minimum, typical, most, is_inferred=False)
    seen = diagnosis.limited.seen
    is_hidden = row["rtt_absent"] == RoundTrips.BELOW_GRAIN
    if is_hidden or seen is None or not seen.floor_ns or not len(seen.delays.way_ns):
        return None
    queue_ns = seen.delays.way_ns - seen.delays.way_ns.min()
    typical, most = (seen.floor_ns + float(np.quantile(queue_ns, share)) for share in (0.5, 0.95))
    return RoundTripText(seen.floor_ns * speed, typical * speed, most * speed, is_inferred=True)


def loss(diagnosis: Diagnosis, drawn: Drawn) -> SegmentLoss:
    """Return the number of lost segments.

    If it is not known, the result has the retransmitted segments, or those that filled holes.
    """
    seen, row = diagnosis.limited.seen, drawn.direction
    if seen is not None and len(seen.sends) and (seen.sends.lost != NA).all():
        return SegmentLoss("Lost", int(np.count_nonzero(seen.sends.lost == 1)), len(seen.sends))
    if drawn.is_at_receiver:
        return SegmentLoss("Lost or late", row["out_of_order"], row["data_segments"])
    return SegmentLoss("Sent again", row["retransmitted_segments"], row["data_segments"])


def numbers(diagnosis: Diagnosis, drawn: Drawn) -> Markup:
    """Return the three numbers of the diagnosed connection: goodput, RTT, loss."""
    row, speed = drawn.direction, goodput_bps(diagnosis, drawn)
    delivered, by = size(row["unique_bytes"]), drawn.goodput_by
    if speed is None:
        why = "the capture's clock was set meanwhile" if diagnosis.transfer.clock_steps else by.words
        is_sent = not by.is_known and by is not GoodputBy.ONE_MOMENT
        three = [("Sent" if is_sent else "Carried", delivered, f"no speed: {why}")]
    else:
        took = duration(row["goodput_ns"] * diagnosis.transfer.speed)
        three = [("Speed", rate(speed), f"{delivered} {by.words} in {took}")]
    trip = round_trip(diagnosis, drawn)
    if trip is None:
        three.append(("Round trip", "not known", RoundTrips(row["rtt_absent"]).words))
    else:
        how = ", inferred from arrivals" if trip.is_inferred else ""
        more = f"minimum → median{how}; 95th percentile {duration(trip.most_ns)}"
        three.append(("Round trip", trip.words, more))
    lost, repairs = loss(diagnosis, drawn), [s for s in diagnosis.limited.shares if s.limit is Limit.RECOVERY]
    repair, is_known = "", lost.segments > 0 and diagnosis.headline.limit is not Limit.UNKNOWN
    if is_known and sum(each.share_high for each in repairs) < _NEXT_TO_NOTHING:  # else the limit's row has it
        seconds = sum(each.seconds for each in repairs)
        is_weak = any(each.confidence is Confidence.WEAK for each in repairs)
        took = cost_of(duration(seconds * NS_PER_S), is_weak=is_weak)
        repair = f"; retransmitting them cost {took if seconds >= _SHOWN_S else 'no time'}"
    three.append((lost.name, lost.words, f"{lost.segments:,} of {count(lost.of, 'data segment')}{repair}"))
    cells = [
        element("div", element("dt", name), element("dd", value, element("small", unbroken(more))))
        for name, value, more in three
    ]
    return element("dl", cells, class_="three")


_NARROW = 1.2
"""Maximum ratio of highest to lowest rate at which a link's rate is given as one number. Not measured."""
_WIDE = 1.5
"""Like `_NARROW`, for a link that was the limit, so that its rate was visible most of the time. Not measured."""
_WORTH = 0.02
"""Minimum share of the time at which a term of the calculation is shown, as for rows."""
_CHANGES = {"rate-change", "handover", "competing-traffic", "path-change"}
"""Kinds of findings which mean that the rate available to the transfer was not constant."""


def arithmetic(diagnosis: Diagnosis, drawn: Drawn) -> str:
    """Return the calculation as a sentence: the bytes at the rate of the link, or a buffer per round trip.

    "" if no rate is known well enough, or the calculated time is longer than the measured time.
    """
    headline, limited, group = diagnosis.headline, diagnosis.limited, diagnosis.group
    sent, took_s, logged = drawn.direction["unique_bytes"], limited.total_s, logged_bps(diagnosis)
    is_scaled = diagnosis.transfer.speed != 1
    if headline.limit is Limit.SENDER_BUFFER:
        held, trip = held_bytes(limited), round_trip(diagnosis, drawn)
        if held is None or trip is None or is_scaled:
            return ""
        speed = rate(held * BITS_PER_BYTE * NS_PER_S / trip.typical_ns)
        return f"{size(held)} in each round trip of {duration(trip.typical_ns)} are {speed}."
    if logged is not None:
        return _of_log(logged, sent, limited)
    if _CHANGES & {each.kind for each in diagnosis.findings} or not sent:
        return ""
    if is_scaled or len(group.members) > 1 or limited.shown is None:
        return ""
    link, most = limited.link_rate, _WIDE if headline.limit is Limit.LINK else _NARROW
    if limited.seen is not None and limited.seen.policer is not None:
        whose, bytes_per_s = "the policer", float(limited.seen.policer.rate_bytes_per_s)
    elif link is not None and link.high <= most * link.low:
        whose, bytes_per_s = "the link", link.median
    else:
        return ""
    least_s = sent / bytes_per_s
    if least_s > took_s:
        return ""
    is_at_rate = whose != "the link" or headline.limit is Limit.LINK
    longer = "" if is_at_rate else f", {duration((took_s - least_s) * NS_PER_S)} longer"
    alone = f"{size(sent)} at {whose}'s {rate(bytes_per_s * BITS_PER_BYTE)} take {duration(least_s * NS_PER_S)}"
    return f"{alone}; the transfer took {duration(took_s * NS_PER_S)}{longer}."


def _of_log(logged_bps: float, sent: int, limited: Limited) -> str:
    """Return a sentence: the time of the bytes at the link's logged rate, and the use of the other time.

    The link was busy for longer than the bytes take, because of headers and cross traffic. If the link was
    busy for a shorter time, the function returns "".
    """
    least_s, took_s = sent * BITS_PER_BYTE / logged_bps, limited.total_s
    can = f"The link can carry {rate(logged_bps)} by its log, headers included"
    if not 0 < least_s <= took_s:
        return f"{can}."
    others = sorted(
        (each for each in limited.shares if each.limit is not Limit.LINK or each.part), key=lambda each: -each.seconds
    )
    named, between = [each for each in others if each.share >= _WORTH], ""
    if named and sum(each.seconds for each in others) <= took_s - least_s:
        sums: dict[str, float] = {}
        for each in named:
            name = SHORT[each.part] if each.limit is Limit.LINK else each.limit.label
            sums[name] = sums.get(name, 0.0) + each.seconds
        largest = sorted(sums.items(), key=lambda term: -term[1])
        terms = ", ".join(f"{duration(seconds * NS_PER_S)} {name}" for name, seconds in largest)
        rest = duration((took_s - least_s - sum(each.seconds for each in named)) * NS_PER_S)
        other = duration((took_s - least_s) * NS_PER_S)
        between = f". The other {other}: {terms}, {rest} headers and the rest"
    minimum, took = duration(least_s * NS_PER_S), duration(took_s * NS_PER_S)
    return f"{can}: {size(sent)} alone take {minimum}; the transfer took {took}{between}."
