"""The bottleneck had data of the transfer queued or in service: the transfer was as fast as the link."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.held import WORTH, held, link_in_words
from multitracer.diagnosis.limits.names import Confidence, Limit
from multitracer.units import BITS_PER_BYTE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding
    from multitracer.diagnosis.limits.limited import Limited

KIND = "link-limited"
HELP = "A faster link, or less other traffic on it."
_RADIO_HELP = "A faster link, a better cell or fewer users."


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if the link was the limit; none with a link log, which has its own rules."""
    limit = None if diagnosis.is_link_logged else held(diagnosis.limited, Limit.LINK)
    if limit is None or diagnosis.limited.shown is None or _is_slight(diagnosis.limited):
        return
    numbers, (rate, shown_by) = limit.numbers, link_in_words(diagnosis.limited)
    if rate and diagnosis.limited.link_rate is not None:
        low, middle, high = (value * BITS_PER_BYTE for value in diagnosis.limited.link_rate[:3])
        numbers |= {"rate_bps": middle, "rate_low_bps": low, "rate_high_bps": high}
    how = f", at {rate}" if rate else ""
    sentence = (
        f"The link was the limit for {limit.seconds:.1f} s, {100 * limit.share:.0f} % of the time{how}; "
        f"it is shown by {shown_by}."
    )
    finding = limit.finding(KIND, sentence, numbers, cost_s=0.0)
    yield finding._replace(help=_RADIO_HELP) if diagnosis.transfer.has_radio else finding


def _is_slight(limited: Limited) -> bool:
    """Return whether the link is the limit for too short a time to be told, where weak time counts half.

    Where a delay varies without a queue, a weak link is most often another limit: of 404 recordings, six of seven.
    """
    mine = (limited.cells.limit == Limit.LINK) & ~limited.is_theirs
    counts = np.where(limited.confidence[mine] == Confidence.WEAK, 0.5, 1.0)
    return float((limited.seconds[mine] * counts).sum()) < WORTH * limited.total_s
