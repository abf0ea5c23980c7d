"""The time between two jumps of a clock: what packets lie in it, and the jumps measured by all of these."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from multitracer.clock.steps import Step, after, certainly, least
from multitracer.clock.ways import Way, Ways

_FEWEST = 5
"""Packets of a direction on each side of a jump; fewer do not tell how dense the least delays lie."""


def refined(ways: Ways, steps: list[Step], *, slot_ns: float) -> list[Step]:
    """Return the jumps as the least delays of the whole intervals beside each tell them, if that is better.

    Parameters
    ----------
    ways : Ways
        The packets without jumps and skew, as long as packets of no length would take.
    steps : list of Step
        The jumps as they were measured at their places. If both directions ask for the same correction, it is
        made: a queue that stood before a jump and not after it falsifies one of them only.
    slot_ns : float
        Time between two slots of the link, 0 for none.
    """
    both = (ways.out, ways.back)
    ordered = sorted(steps, key=lambda step: sum(int((~after(way, step)).sum()) for way in both))
    found = []
    for n, step in enumerate(ordered):
        moves = []
        for way in both:
            parts = [_between(way, ordered, n + k).delay_ns for k in (0, 1)]
            if min(map(len, parts)) < _FEWEST:
                break
            (low, width), (high, height) = (least(part) for part in parts)
            moves.append((way.sign * (high - low), 3 * (width + height) + 1e5 + slot_ns))
        found.append(_corrected(step, moves) if len(moves) == 2 else step)
    return found


def _corrected(step: Step, moves: list[tuple[float, float]]) -> Step:
    (one, error), (other, wrong) = moves
    weight = wrong**2 / (error**2 + wrong**2)
    together = max(abs(one - other) / 2, min(error, wrong))
    if abs(one - other) > error + wrong or together >= step.error_ns:
        return step
    return replace(step, shift_ns=step.shift_ns + one * weight + other * (1 - weight), error_ns=together)


@dataclass(frozen=True, slots=True)
class Interval:
    """The time between two jumps.

    Parameters
    ----------
    first_ns, last_ns : float
        Of A's clock without its jumps, after `Ways.first_ns`.
    a_shift_ns, b_shift_ns : float
        By how much the jumps before it have moved each clock.
    error_ns : float
        Half-width of the 95 % interval of these shifts, as far as they are not certain.
    ways : Ways
        Its packets, without the jumps.
    """

    first_ns: float
    last_ns: float
    a_shift_ns: float
    b_shift_ns: float
    error_ns: float
    ways: Ways


def intervals(
    ways: Ways, steps: list[Step], *, offset_ns: float, skew: float, margin_ns: float
) -> list[Interval]:
    """Return the intervals between jumps in order of time.

    Parameters
    ----------
    ways : Ways
        The packets without the jumps, as `find_steps` returns them.
    steps : list of Step
        The jumps.
    offset_ns, skew : float
        B - A at time 0, and how much faster B runs, without the jumps.
    margin_ns : float
        By how much the offset may be off: so much is kept from a jump where B's stamps tell its moment.
    """
    moments = sorted(
        ((*_moment(ways, step, offset_ns, skew, margin_ns), step) for step in steps), key=lambda m: m[:2]
    )
    times = np.concatenate([ways.out.time_ns, ways.back.time_ns])
    lasts = [last for last, _, _ in moments] + [float(times.max())]
    firsts = [float(times.min())] + [first for _, first, _ in moments]
    ordered = [step for _, _, step in moments]
    error = float(np.sqrt(sum(step.error_ns**2 for step in ordered)))
    found = []
    for n, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
        shift = {c: sum(s.shift_ns for s in ordered[:n] if s.clock == c) for c in ("a", "b")}
        out, back = (_between(way, ordered, n) for way in (ways.out, ways.back))
        part = Ways(out, back, ways.first_ns, ways.base_ns)
        found.append(Interval(first, max(first, last), -shift["a"], shift["b"], error, part))
    return found


def _between(way: Way, ordered: list[Step], number: int) -> Way:
    """Return the packets that were stamped after so many of the jumps."""
    jumps = np.zeros(len(way), dtype=np.int64)
    for step in ordered:
        jumps += after(way, step)
    return way.take(jumps == number)


def _moment(ways: Ways, step: Step, offset_ns: float, skew: float, margin_ns: float) -> tuple[float, float]:
    """Return between which times, by A's clock without jumps, the jump was for certain.

    Whichever clock jumped, a packet stamped before it had been sent before, and one stamped after it arrived
    after it: so nothing hangs on which of the two clocks it was, where no packet was under way to tell.
    """
    last, first = -np.inf, np.inf
    for way in (ways.out, ways.back):
        (earlier, later), here = certainly(way, step), way.time_ns
        there = here + way.sign * way.delay_ns - offset_ns - skew * here
        sent, arrived = (here, there + margin_ns) if way.sign > 0 else (there - margin_ns, here)
        last = max(last, float(sent[earlier].max(initial=-np.inf)))
        first = min(first, float(arrived[later].min(initial=np.inf)))
    return min(last, first), first
