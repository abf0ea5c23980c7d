"""How long the bytes take at the rate of the link, beside how long the transfer took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.limits.names import Limit
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import duration, rate, size

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.report.drawn import Drawn

NARROW = 1.2
"""Highest by lowest rate of a link that is named as one number. Not measured."""
_WIDE = 1.5
"""The same where the link was the limit, so that its rate was seen for most of the time. Not measured."""
_CHANGES = {"rate-change", "handover", "competing-traffic", "path-change"}
"""Findings after which no single rate was that of the link for us."""


def least_time(diagnosis: Diagnosis, drawn: Drawn) -> str:
    """Return the arithmetic as a sentence; "" where no rate is known well, or it does not hold."""
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
    return f"{size(sent)} at {name}'s {speed} take {least}; the transfer took {took}."


def _known(diagnosis: Diagnosis) -> tuple[str, float] | None:
    """Return whose rate held one connection as a whole, and that rate, bytes/s."""
    limited = diagnosis.limited
    if diagnosis.transfer.speed != 1 or len(diagnosis.group.members) > 1 or limited.shown is None:
        return None
    if limited.seen is not None and limited.seen.policer is not None:
        return "the policer", float(limited.seen.policer.rate_bytes_per_s)
    link = limited.shown.link.rate
    most = _WIDE if diagnosis.headline.limit is Limit.LINK else NARROW
    return None if link is None or link.high > most * link.low else ("the link", link.median)
