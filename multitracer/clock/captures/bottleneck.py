"""The two directions between two captures, each with what its packets show of the link that they took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.captures.directions import Way, Ways
from multitracer.clock.captures.own_queue import doubt_ns, is_consistent, own_queue_ns, without_mistakes
from multitracer.clock.captures.raster import raster_ns
from multitracer.clock.captures.serialization import Spacing, slowest_ns_per_byte, spacing
from multitracer.clock.captures.steps import ClockLabel, Step, certainly

if TYPE_CHECKING:
    from multitracer.capture import Capture
    from multitracer.tables import Array


_LONG_REACH = 64
"""Packets before each one whose queue is taken off where only the place of a jump is looked for."""


@dataclass(frozen=True, slots=True)
class Side:
    """One direction with what is known of its link; delays are without the queue of the own packets."""

    way: Way
    spaced: Spacing | None
    guess_ns_per_byte: float
    slot_ns: float
    arrived_ns: Array
    slowest_ns_per_byte: float
    """What arrived in the busiest time would not have come through a slower link."""
    doubt_ns: float = 0.0
    """By how much the least delay may be higher, if the own queue was reckoned wrongly (`own_queue`)."""

    @property
    def flat_ns(self) -> Array:
        """Delays as packets of length 0 would have them: float64, ns, shape (n_packets,)."""
        return self.way.delay_ns - self.guess_ns_per_byte * self.way.size_bytes


def sides_of(near: Capture, far: Capture, ways: Ways, steps: list[Step]) -> list[Side]:
    """Return both directions of two captures with their links, as far as the packets show them."""
    both = (ways.out, ways.back)
    measured = [spacing(way) for way in both]
    guesses = [_guess(measured[0], measured[1]), _guess(measured[1], measured[0])]
    usual = np.array([g * float(np.median(way.size_bytes)) for g, way in zip(guesses, both, strict=True)])
    sides = []
    for way, spaced, guess in zip(both, measured, guesses, strict=True):
        arrived = way.sent_ns + way.delay_ns
        slot = raster_ns(arrived, spaced_ns=usual)
        slowest = slowest_ns_per_byte(arrived, way.size_bytes)
        delay = way.delay_ns
        if spaced is not None:
            ends = (near, far, way.row) if way.sign > 0 else (far, near, way.other_row)
            waited = own_queue_ns(*ends, spaced, jumps=_zones(way, steps))
            flat = delay - spaced.ns_per_byte * way.size_bytes
            if is_consistent(flat, waited):
                waited = without_mistakes(flat, waited)
                order = np.argsort(way.row if way.sign > 0 else way.other_row)
                usual_ns = spaced.ns_per_byte * float(np.median(way.size_bytes))
                doubt = doubt_ns(flat[order], waited[order], usual_ns)
                shorter = way.shifted(delay - waited)
                sides.append(Side(shorter, spaced, guess, slot, arrived, slowest, doubt))
                continue
        sides.append(Side(way, None, guess, slot, arrived, slowest))
    return sides


def _zones(way: Way, steps: list[Step]) -> list[tuple[int, int]]:
    """Return where the clock of the side that sent may have jumped."""
    clock: ClockLabel = "a" if way.sign > 0 else "b"
    return [step.zone for step in steps if step.clock == clock]


def unqueued(
    near: Capture, far: Capture, ways: Ways, sides: list[Side], steps: list[Step]
) -> tuple[Ways, Ways]:
    """Return the packets as if they had no length, and as if they had also found the link empty."""
    flat, free = [], []
    for way, side in zip((ways.out, ways.back), sides, strict=True):
        delay = way.delay_ns - side.guess_ns_per_byte * way.size_bytes
        flat.append(way.shifted(delay))
        if side.spaced is not None:
            ends = (near, far, way.row) if way.sign > 0 else (far, near, way.other_row)
            delay = delay - own_queue_ns(*ends, side.spaced, jumps=_zones(way, steps), reach=_LONG_REACH)
        free.append(way.shifted(delay))
    first, base = ways.first_ns, ways.base_ns
    return Ways(flat[0], flat[1], first, base), Ways(free[0], free[1], first, base)


def _guess(own: Spacing | None, other: Spacing | None) -> float:
    if own is not None:
        return own.ns_per_byte
    return other.ns_per_byte if other is not None else 0.0


def arrivals_without_jump(side: Side, steps: list[Step]) -> Array:
    """Return one direction's arrivals in the longest time without a jump of the clock that stamped them.

    Returns
    -------
    ndarray of float64, ns, shape (n_packets,)
    """
    clock: ClockLabel = "b" if side.way.sign > 0 else "a"
    number = np.zeros(len(side.way), dtype=np.int64)
    known = np.ones(len(side.way), dtype=bool)
    for step in steps:
        if step.clock == clock:
            before, later = certainly(side.way, step)
            number, known = number + later, known & (before | later)
    arrived: Array = side.arrived_ns[known & (number == np.argmax(np.bincount(number[known], minlength=1)))]
    return arrived
