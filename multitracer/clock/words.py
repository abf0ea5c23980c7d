"""What is known of two clocks, in a sentence for an engineer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.clock.sources.snapshots import ONE_KERNEL
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from multitracer.clock.model.graph import Path

_ROUNDS_UP = 0.9995  # with three digits 999.5 µs is shown as 1 ms
_DRIFT_THAT_COUNTS_PPM = 0.005  # less would be shown as 0.00 or 0.01 ppm


def span(ns: float) -> str:
    """Return an error as it is said: 1.2 ms, 340 ns."""
    for unit_ns, name in ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs")):
        if abs(ns) >= _ROUNDS_UP * unit_ns:
            return (
                f"{ns / unit_ns:,.3g} {name}" if abs(ns) < 1000 * unit_ns else f"{ns / unit_ns:,.0f} {name}"
            )
    return f"{ns:.0f} ns"


def seconds(ns: int) -> str:
    """Return an offset exactly enough to compare it by eye: +2.400148 s."""
    return f"{ns / NS_PER_S:+,.6f} s"


def accuracy(path: Path, *, source: str, target: str, bound_ns: float) -> str:
    """Return in one line how the times of one host came onto the clock of another, and how sure that is.

    Parameters
    ----------
    path : sequence of Relation
        From the clock of `source` to that of `target`.
    source, target : str
        The two hosts.
    bound_ns : float
        Half-width of the 95 % interval of the stamps that matter.
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
    said = f"{span(abs(offset))} {ahead} {target}"
    more = f" and {drift}" if abs(skew) > _DRIFT_THAT_COUNTS_PPM else ""
    return (
        f"the clock of {source} was {said}{more}{stepped}; its times are shown on that of {target}, "
        f"± {span(bound_ns)} (95 %; {methods}, {evidence:,} observations)"
    )
