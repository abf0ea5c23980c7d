"""Description of the relation of two clocks in one sentence, for users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.clock.sources.paired_stamps import ONE_KERNEL
from multitracer.words import time_error

if TYPE_CHECKING:
    from multitracer.clock.model.relation import ClockPath

_DRIFT_THAT_COUNTS_PPM = 0.005  # less would be shown as 0.00 or 0.01 ppm


def accuracy(path: ClockPath, *, source: str, target: str, bound_ns: float) -> str:
    """Return a sentence with the conversion from one host's clock to another's, and its accuracy.

    Parameters
    ----------
    path : sequence of Relation
        The relations from the clock of `source` to that of `target`.
    source, target : str
        The two hosts.
    bound_ns : float
        Half-width of the 95 % interval of the converted times.
    """
    if not path or all(relation.method == ONE_KERNEL for relation in path):
        return f"{source} and {target} share one clock"
    methods = ", ".join(dict.fromkeys(relation.method for relation in path))
    evidence = min(relation.evidence for relation in path)
    first = path[0].estimates[0]
    start = first.first_ns
    there = start
    for relation in path:
        there = int(relation.estimates[0].at(there))
    offset, skew = start - there, -sum(relation.estimates[0].skew_ppm for relation in path)
    ahead = "ahead of" if offset > 0 else "behind"
    drift = f"{'gains' if skew > 0 else 'loses'} {abs(skew):.2f} ppm"
    steps = max(len(relation.estimates) for relation in path) - 1
    stepped = f", with {steps} step{'s' if steps > 1 else ''} in between" if steps else ""
    ahead_by = f"{time_error(abs(offset))} {ahead} {target}"
    more = f" and {drift}" if abs(skew) > _DRIFT_THAT_COUNTS_PPM else ""
    return (
        f"the clock of {source} was {ahead_by}{more}{stepped}; its times are shown on that of {target}, "
        f"± {time_error(bound_ns)} (95 %; {methods}, {evidence:,} observations)"
    )
