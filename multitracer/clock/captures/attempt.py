"""What would hold of two captures with some jumps: estimates, and how well they make sense of the packets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from multitracer.clock.model.estimate import MOST_SKEW_PPM, Estimate

_LARGE_NS = 1e9
"""Larger than any contradiction of a believable attempt: one with a note is the last choice."""
_EXCLUDED = "the delays of the queues contradict causality; the error is all that causality allows"
_SHARP_PPM = 40.0
"""A rate known so well is right or by chance so. Of 200 runs with a clock 0.05 to 4 % off, those with a rate
that a quartz has were known to 70 ppm at best, those with the true one to 4 ppm."""
_NO_LOOSER = 1.02  # the same packets on either line: rounding and a packet more or less between jumps


@dataclass(frozen=True, slots=True)
class Attempt:
    """What would hold with some jumps, and how long the quickest packets of both directions need at least."""

    estimates: list[Estimate]
    least_ns: tuple[float, float]
    loose_ns: float
    """How far packets lie above the least delay of their direction, the means of both added."""

    @property
    def absurd_ns(self) -> float:
        """How far an offset lies outside of what causality allows it, in the worst interval."""
        return max(self._outside_ns(e) + _LARGE_NS * bool(e.notes) for e in self.estimates)

    @property
    def is_sharp(self) -> bool:
        """Whether it makes sense of all packets, with a rate that is known."""
        vague = max(e.skew_uncertainty_ppm for e in self.estimates)
        skew = max(abs(e.skew_ppm) for e in self.estimates)
        return self.absurd_ns <= 0 and vague < _SHARP_PPM and skew < MOST_SKEW_PPM

    def explains_more(self, other: Attempt) -> bool:
        """Whether packets lie about as close to the least delays, with no more jumps."""
        no_more = len(self.estimates) <= len(other.estimates)
        return no_more and self.loose_ns < _NO_LOOSER * other.loose_ns

    def _outside_ns(self, e: Estimate) -> float:
        lower, upper = _causality(e)
        out, back = self.least_ns
        return float(max(lower + back - e.offset_ns, e.offset_ns - (upper - out), 0))

    def believable(self) -> list[Estimate]:
        """Return the estimates; or what causality alone allows if it excludes one: all levels are wrong."""
        excluded = any(self._outside_ns(e) > 0 for e in self.estimates)
        return [_by_causality(e) for e in self.estimates] if excluded else self.estimates


def _causality(e: Estimate) -> tuple[int, int]:
    assert e.lower_ns is not None
    assert e.upper_ns is not None
    return e.lower_ns, e.upper_ns


def _by_causality(e: Estimate) -> Estimate:
    """Return the middle of what causality allows an estimate, with all of that as its error."""
    lower, upper = _causality(e)
    wide = (upper - lower) / 2 + e.uncertainty_ns
    return replace(e, offset_ns=(lower + upper) // 2, uncertainty_ns=wide, notes=(*e.notes, _EXCLUDED))
