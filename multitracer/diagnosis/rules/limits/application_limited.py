"""The sending program had nothing to send: it wrote at its own pace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.held import held, is_weak, or_full_buffer, writes_in_words
from multitracer.diagnosis.limits.limited import stretches
from multitracer.diagnosis.limits.names import Limit, LimitSubtype

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding

KIND = "application-limited"
HELP = "A change of the program that sends: TCP could have carried more."
_MIN = 0.2
"""Minimum share of the time. On recordings of known cause, the rule also claimed up to 15 % of the time,
which a full send buffer had taken."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding if the application limited the sender for at least the share `_MIN` of the time."""
    limit = held(diagnosis.limited, Limit.APPLICATION, LimitSubtype.WRITES, minimum=_MIN)
    if limit is None:
        return
    limited = diagnosis.limited
    weak = is_weak(limited, Limit.APPLICATION, LimitSubtype.WRITES)
    spans = stretches(limited, Limit.APPLICATION, LimitSubtype.WRITES)
    did, gaps = writes_in_words(limited, *spans, is_weak=weak)
    sentence = (
        f"The sending program {did} for {limit.seconds:.1f} s, {100 * limit.share:.0f} % of the time{gaps}"
        f"{or_full_buffer(limited)}."
    )
    yield limit.finding(KIND, sentence)
