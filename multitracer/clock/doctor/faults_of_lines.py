"""Faults of the line that relates two clocks: a rate that no quartz has, packets that no line explains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.clock.doctor.complaints import Complaint
from multitracer.clock.model.estimate import MOST_SKEW_PPM
from multitracer.words import time_error

if TYPE_CHECKING:
    from multitracer.clock.model.relation import Relation

EFFECT_FIRST = "effect-first"
"""The code of what any fault may bring about: it is told where no other explains it."""
_NO_QUARTZ_PPM = 1.1 * MOST_SKEW_PPM
"""NTP takes no clock for faster; a tenth more, since two estimates of the same clocks differ a little."""
_PPM_OF_PERCENT = 10_000.0  # by definition: a hundredth in millionths


def rate(relation: Relation, source: str, reference: str) -> Complaint | None:
    """One clock runs faster or slower than any quartz."""
    estimate = max(relation.estimates, key=lambda e: abs(e.skew_ppm) - e.skew_uncertainty_ppm)
    skew, error = estimate.skew_ppm, estimate.skew_uncertainty_ppm
    if abs(skew) - error < _NO_QUARTZ_PPM:
        return None
    percent, wide = abs(skew) / _PPM_OF_PERCENT, error / _PPM_OF_PERCENT
    than = f"{'faster' if skew > 0 else 'slower'} than {reference}"
    return Complaint(
        "rate",
        source,
        f"{source} runs {percent:,.3f} ± {wide:,.3f} % {than}, "
        f"and quartzes differ by {MOST_SKEW_PPM / _PPM_OF_PERCENT:g} % at most: one of the two is of a "
        "simulation or a virtual machine, or its stamps are in a wrong unit",
        "none is needed between the two, which are mapped at this rate; find out which is wrong, since every "
        "duration and rate that it shows alone is off by as much",
        shift_ns=0,
    )


def effect_first(relation: Relation, source: str, reference: str) -> Complaint | None:
    """Packets arrive before they are sent, whatever line relates the clocks."""
    worst = max(relation.estimates, key=lambda e: e.crossed_ns)
    if not worst.crossed_ns:
        return None
    bound_ns = float(worst.bound_ns((worst.first_ns + worst.last_ns) // 2))
    return Complaint(
        EFFECT_FIRST,
        source,
        f"packets arrive up to {time_error(worst.crossed_ns)} before they are sent, whatever offset and rate "
        f"relate {source} and {reference}: one of the two clocks stood still, jumped unseen, or has coarse "
        "stamps",
        f"none; the two are known against each other to ± {time_error(bound_ns)} only",
        shift_ns=0,
    )
