"""The bottleneck had data of the transfer queued or in service: it went as fast as the link goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.held import held, shown_s
from multitracer.diagnosis.limits.names import Limit
from multitracer.words import ends, rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.case import Case, Finding

KIND = "link-limited"
HELP = "A faster link, or less other traffic on it."
_RADIO_HELP = "A faster link, a better cell or fewer users."
_BITS = 8  # in a byte


def find(case: Case) -> Iterator[Finding]:
    """Yield at most one finding; where the link was logged its own findings tell."""
    shown = case.limited.shown
    limit = None if case.is_link_logged else held(case.limited, Limit.LINK)
    if limit is None or shown is None:
        return
    by_queue, by_bucket = (
        shown_s(case.limited, Limit.LINK, spans) for spans in (shown.link.by_queue, shown.link.by_bucket)
    )
    numbers, link_rate, how = limit.numbers, shown.link.rate, ""
    if link_rate is not None and by_bucket <= by_queue:
        low, middle, high = (value * _BITS for value in (link_rate.low, link_rate.median, link_rate.high))
        how = f", at {_in_words(low, middle, high)}"
        numbers |= {"rate_bps": middle, "rate_low_bps": low, "rate_high_bps": high}
    by = [("a queue", by_queue), ("the empty bucket of a policer", by_bucket)]
    shown_by = [f"{what} for {seconds:.1f} s" for what, seconds in by if seconds]
    shown_by.append("the rate for the rest" if shown_by else "the rate")
    sentence = (
        f"The link was the limit for {limit.seconds:.1f} s, {limit.share:.0%} of the time{how}; "
        f"it is shown by {', by '.join(shown_by)}."
    )
    finding = limit.finding(KIND, sentence, numbers, cost_s=0.0)
    yield finding._replace(help=_RADIO_HELP) if case.transfer.has_radio else finding


def _in_words(low_bps: float, middle_bps: float, high_bps: float) -> str:
    """Return a rate with its range: 1.93 Mbit/s of payload (1.85 to 1.95)."""
    number, _, unit = rate(middle_bps).partition(" ")
    around = ends(*(rate(each).removesuffix(f" {unit}") for each in (low_bps, high_bps)))
    return f"{number} {unit} of payload" + (f" ({around})" if around != number else "")
