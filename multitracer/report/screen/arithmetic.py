"""The arithmetic of the answer: how long the bytes take at the link's rate, or what a buffer lets through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.limits.names import Limit
from multitracer.report.limit_words import short
from multitracer.report.points.explained_panels import logged_bps
from multitracer.report.screen.known_cause import held_bytes as held
from multitracer.report.screen.numbers import round_trip
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import duration, rate, size

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.names import LimitShare
    from multitracer.report.drawn import Drawn

_NARROW = 1.2
"""Highest by lowest rate of a link that is named as one number. Not measured."""
_WIDE = 1.5
"""The same where the link was the limit, so that its rate was seen for most of the time. Not measured."""
_WORTH = 0.02
"""Share of the time from which on a term of the sum is told: as small as what has a row of its own."""
_CHANGES = {"rate-change", "handover", "competing-traffic", "path-change"}
"""Findings after which no single rate was that of the link for us."""


def arithmetic(diagnosis: Diagnosis, drawn: Drawn) -> str:
    """Return the arithmetic as a sentence; "" where no rate is known well, or it does not hold."""
    if diagnosis.headline.limit is Limit.SENDER_BUFFER:
        return _of_buffer(diagnosis, drawn)
    logged = logged_bps(diagnosis)
    if logged is not None:
        return _of_log(logged, drawn.direction["unique_bytes"], diagnosis.limited)
    known = None if _CHANGES & {each.kind for each in diagnosis.findings} else _known(diagnosis)
    sent, took_s = drawn.direction["unique_bytes"], diagnosis.limited.total_s
    if known is None or not sent:
        return ""
    name, bytes_per_s = known
    least_s = sent / bytes_per_s
    if least_s > took_s:
        return ""
    least, took = duration(least_s * NS_PER_S), duration(took_s * NS_PER_S)
    speed = rate(bytes_per_s * BITS_PER_BYTE)
    is_at_rate = name != "the link" or diagnosis.headline.limit is Limit.LINK
    longer = "" if is_at_rate else f", {duration((took_s - least_s) * NS_PER_S)} longer"
    return f"{size(sent)} at {name}'s {speed} take {least}; the transfer took {took}{longer}."


def _of_log(logged_bps: float, sent: int, limited: Limited) -> str:
    """Return how long the bytes take at the rate that a link's log states, and what the rest of T went on."""
    least_s, took_s = sent * BITS_PER_BYTE / logged_bps, limited.total_s
    can = f"The link can carry {rate(logged_bps)} by its log, headers included"
    if not 0 < least_s <= took_s:
        return f"{can}."
    least, took = duration(least_s * NS_PER_S), duration(took_s * NS_PER_S)
    return f"{can}: {size(sent)} alone take {least}; the transfer took {took}{_between(limited, least_s)}."


def _between(limited: Limited, least_s: float) -> str:
    """Return the sum of what else took time, the largest first; "" where the link carried less than that.

    What the link carried for longer than the bytes alone take are headers, and what it carried for others.
    """
    others = sorted(
        (each for each in limited.shares if each.limit is not Limit.LINK or each.part),
        key=lambda each: -each.seconds,
    )
    named = [each for each in others if each.share >= _WORTH]
    rest_s = limited.total_s - least_s - sum(each.seconds for each in named)
    if not named or sum(each.seconds for each in others) > limited.total_s - least_s:
        return ""
    sums: dict[str, float] = {}
    for each in named:
        sums[_term(each)] = sums.get(_term(each), 0.0) + each.seconds
    largest = sorted(sums.items(), key=lambda term: -term[1])
    terms = [f"{duration(seconds * NS_PER_S)} {term}" for term, seconds in largest]
    other = duration((limited.total_s - least_s) * NS_PER_S)
    return f". The other {other}: {', '.join(terms)}, {duration(rest_s * NS_PER_S)} headers and the rest"


def _term(share: LimitShare) -> str:
    return short(share.part) if share.limit is Limit.LINK else share.limit.label


def _of_buffer(diagnosis: Diagnosis, drawn: Drawn) -> str:
    """Return the rate of what a send buffer lets out in each round trip; "" where it is not known."""
    held_bytes, trip = held(diagnosis.limited), round_trip(diagnosis, drawn)
    if held_bytes is None or trip is None or diagnosis.transfer.speed != 1:
        return ""
    speed = rate(held_bytes * BITS_PER_BYTE * NS_PER_S / trip.usual_ns)
    return f"{size(held_bytes)} in each round trip of {duration(trip.usual_ns)} are {speed}."


def _known(diagnosis: Diagnosis) -> tuple[str, float] | None:
    """Return whose rate held one connection as a whole, and that rate, bytes/s."""
    limited = diagnosis.limited
    if diagnosis.transfer.speed != 1 or len(diagnosis.group.members) > 1 or limited.shown is None:
        return None
    if limited.seen is not None and limited.seen.policer is not None:
        return "the policer", float(limited.seen.policer.rate_bytes_per_s)
    link = limited.shown.link.rate
    most = _WIDE if diagnosis.headline.limit is Limit.LINK else _NARROW
    return None if link is None or link.high > most * link.low else ("the link", link.median)
