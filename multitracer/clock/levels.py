"""How long a packet of no length would take one way: the least delay at each size, and what may lie below it.

The delay of a packet is ``level + size / rate + gap`` with a gap >= 0 (queue, jitter, slots). Of each class
of sizes only the least delay and how dense the next ones lie matter: with density f just above the least,
the gap of the least one is exponential with rate n * f; f is estimated from the spacing of the lowest ones,
so that the gap follows Lomax' law. In a slotted link a gap of up to a slot is as likely as none. A part of
the classes may know nothing (a queue that never emptied while they were sent): each density has a broad
floor.

The result is a joint posterior of level and seconds per byte on a grid: without an assumption on the rates,
an offset from it would have an error of half the difference of two serialization times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_CLASSES = 12
_LOWEST = (3, 4, 5, 7, 10, 14, 20, 30)
_OUTLIER = 1.5
_GAPS = 160
_LEAST_GAP_NS, _LARGEST_GAP_NS = 300.0, 2e10


@dataclass(frozen=True, slots=True)
class SizeClass:
    """The least delay of one class of sizes, and how far below it the truth may lie."""

    least_ns: float
    size_bytes: float
    scale_ns: float
    """Mean gap; infinite where nothing is known of it."""
    order: float
    """Of Lomax' law: the number of spacings on which the scale rests."""


@dataclass(frozen=True, slots=True)
class Level:
    """Posterior of one direction on a grid.

    Parameters
    ----------
    ns_per_byte : ndarray, shape (n_rates,)
    level_ns : ndarray, shape (n_rates, n_gaps)
    log_density : ndarray, shape (n_rates, n_gaps)
        Logarithm of the probability of each cell, not normalised.
    """

    ns_per_byte: Array
    level_ns: Array
    log_density: Array

    def draw(self, uniform: Array, within: Array) -> tuple[Array, Array]:
        """Return level and rate for uniform numbers; `within` spreads over the width of a cell."""
        mass = np.exp(self.log_density - self.log_density.max())
        cumulative = np.cumsum(mass.ravel())
        cell = np.searchsorted(cumulative, uniform * cumulative[-1]).clip(max=mass.size - 1)
        rate, gap = np.divmod(cell, mass.shape[1])
        upper = self.level_ns[rate, gap]
        lower = self.level_ns[rate, np.minimum(gap + 1, mass.shape[1] - 1)]
        return upper + (lower - upper) * within, self.ns_per_byte[rate]


def classes(delay_ns: Array, size_bytes: Array, *, ns_per_byte: float, slot_ns: float) -> list[SizeClass]:
    """Return the classes of sizes of one direction.

    Parameters
    ----------
    delay_ns, size_bytes : ndarray, shape (n_packets,)
        Delays without the clocks' skew, and IP lengths.
    ns_per_byte : float
        Roughly; only within a class are delays brought to one size by it.
    slot_ns : float
        Time between two slots of the link, 0 for none.
    """
    sizes = np.unique(size_bytes)
    if len(sizes) > _CLASSES:
        edges = np.quantile(size_bytes, np.linspace(0, 1, _CLASSES + 1)[1:-1])
    else:
        edges = sizes[1:]
    number = np.searchsorted(edges, size_bytes, side="right")
    found = [
        _size_class(delay_ns[mine], size_bytes[mine], ns_per_byte, slot_ns)
        for mine in (np.flatnonzero(number == n) for n in np.unique(number))
    ]
    known = [c.scale_ns for c in found if np.isfinite(c.scale_ns)]
    pooled = 3 * max(known, default=np.inf)
    return [c if np.isfinite(c.scale_ns) else SizeClass(c.least_ns, c.size_bytes, pooled, 1.0) for c in found]


def _size_class(delay: Array, size: Array, ns_per_byte: float, slot_ns: float) -> SizeClass:
    flat = delay - ns_per_byte * size
    first = int(np.argmin(flat))
    kept = np.sort(np.partition(flat, min(len(flat), _LOWEST[-1]) - 1)[: _LOWEST[-1]])
    best = (np.inf, 1.0)
    for k in _LOWEST:
        if k <= len(kept):
            scale = max(kept[k - 1] - kept[0], slot_ns / 2, _LEAST_GAP_NS) / (k - 2)
            best = min(best, (scale, k - 1.0))
    return SizeClass(float(delay[first]), float(size[first]), *best)


def level_posterior(
    found: list[SizeClass], ns_per_byte: Array, log_prior: Array, *, slot_ns: float, broad_ns: float
) -> Level:
    """Return the posterior of level and rate.

    Parameters
    ----------
    found : list of SizeClass
    ns_per_byte, log_prior : ndarray, shape (n_rates,)
        Candidates, with the logarithm of the prior mass of each.
    slot_ns : float
        Time between two slots of the link, 0 for none.
    broad_ns : float
        How far off the least delay of a class may be that knows nothing.
    """
    least = np.array([c.least_ns for c in found])
    size = np.array([c.size_bytes for c in found])
    highest = (least[None, :] - ns_per_byte[:, None] * size[None, :]).min(axis=1)
    gap = np.geomspace(_LEAST_GAP_NS, _LARGEST_GAP_NS, _GAPS)
    gap = np.concatenate([[0.0], gap])
    level = highest[:, None] - gap[None, :]
    width = np.diff(gap, append=gap[-1] * 1.1)
    log_density = log_prior[:, None] + np.log(width)[None, :]
    for c in found:
        above = c.least_ns - ns_per_byte[:, None] * c.size_bytes - (level - width[None, :] / 2)
        log_density = log_density + np.log(_gap_density(above, c, slot_ns, broad_ns))
    return Level(ns_per_byte, level, log_density)


def _gap_density(gap: Array, c: SizeClass, slot_ns: float, broad_ns: float) -> Array:
    """Return the density of the gap: flat within a slot, then Lomax' law, over a broad floor."""
    astray = 1 / (1 + c.order) ** _OUTLIER
    floor = astray / broad_ns / (1 + gap / broad_ns) ** 2
    if not np.isfinite(c.scale_ns):
        return np.asarray(floor)
    beyond = np.maximum(gap - slot_ns, 0.0)
    tail = (1 + beyond / (c.order * c.scale_ns)) ** -(c.order + 1)
    density: Array = (1 - astray) * tail / (slot_ns + c.scale_ns) + floor
    return density
