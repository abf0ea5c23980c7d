"""The packets behind an estimate, for a figure: each with its two stamps and the way it went."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.captures.directions import both_ways
from multitracer.clock.model.estimate import EventDirection, Evidence
from multitracer.clock.model.relation import Clock, Relation
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.capture import Capture
    from multitracer.clock.model.estimate import Estimate
    from multitracer.tables import Array

_LONGEST_DELAY_NS = 10 * NS_PER_S
"""A packet that was under way for longer may be drawn in the wrong interval; no number rests on it."""


def with_packets(estimates: Sequence[Estimate], near: Capture, far: Capture) -> list[Estimate]:
    """Return estimates of two captures with the packets that each covers, where they have none yet."""
    if all(estimate.points is not None for estimate in estimates):
        return list(estimates)
    ways = both_ways(near, far)
    rows = np.concatenate([ways.out.row, ways.back.row])
    order = np.argsort(rows, kind="stable")  # as captured: a clock that was set back repeats its stamps
    others = np.concatenate([ways.out.other_row, ways.back.other_row])
    direction = np.repeat(
        np.array([EventDirection.FORWARD, EventDirection.BACKWARD], dtype=np.int8),
        [len(ways.out), len(ways.back)],
    )
    start, end = near.segments["time_ns"][rows[order]], far.segments["time_ns"][others[order]]
    index = _intervals(estimates, start, end, direction[order])
    parts = [np.flatnonzero(index == i) for i in range(len(estimates))]
    return [
        replace(e, points=Evidence(start[part], end[part], direction[order][part]))
        for e, part in zip(estimates, parts, strict=True)
    ]


def _intervals(estimates: Sequence[Estimate], start: Array, end: Array, direction: Array) -> Array:
    """Return the interval of each packet, by its stamp there; one that was under way at a step by its delay.

    Of two lines the one counts on which it took the least time that is not negative.
    """
    relation = Relation(Clock("near"), Clock("far"), tuple(estimates))
    index = relation.intervals(start)
    for i, (earlier, later) in enumerate(pairwise(estimates)):
        left = earlier.last_ns, int(earlier.at(earlier.last_ns))
        away = np.minimum(np.abs(start - left[0]), np.abs(end - left[1]))
        near = np.flatnonzero(((index == i) | (index == i + 1)) & (away < _LONGEST_DELAY_NS))
        took = [direction[near] * (end[near] - e.at(start[near])) for e in (earlier, later)]
        slack = [e.bound_ns(start[near]) for e in (earlier, later)]
        cost = [np.where(t < -s, np.inf, np.abs(t)) for t, s in zip(took, slack, strict=True)]
        index[near] = np.where(cost[1] < cost[0], i + 1, i)
    return index
