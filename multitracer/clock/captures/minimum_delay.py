"""Minimum delay of a packet of zero length in one direction, with its uncertainty.

The delay of a packet is ``level + size / rate + gap`` with a gap >= 0 (queue, jitter, slots). For each class of sizes
only the minimum delay and the density of the next ones are used. With density f just above the minimum, the gap of the
minimum is exponential with rate n * f. Since f is estimated from the spacing of the lowest delays, the gap has a Lomax
distribution. In a link with slots, all gaps up to a slot are equally probable. Some classes may carry no information (a
queue that was never empty while they were sent), so each density has a broad floor.

The result is a joint posterior of level and time per byte on a grid. Without a prior on the rates, the offset
would have an error of half the difference of two transmission times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Array


_CLASSES = 12
"""Maximum number of size classes: more would have too few packets each, because sizes form few clusters. Not measured.
"""
_LOWEST = (3, 4, 5, 7, 10, 14, 20, 30)
"""Numbers of lowest delays from which the density is estimated; the highest density is used, so no single number
decides."""
_OUT_OF_QUESTION = 12.0  # in units of log likelihood: e^-12, six in a million
_BLUNT_OF = 5
"""Number of lowest delays that show whether the density rises from zero; with more, the bulk of the packets decides."""
_ASTRAY = 0.02
"""Prior probability that the minimum of two delays carries no information on the level."""
_GAPS = 160
"""Number of gaps on the grid: 1 µs to 20 s in steps of 11 %, finer than the error of any minimum delay on slow links.
"""
_MIN_GAP_NS, _LARGEST_GAP_NS = 1_000.0, 2e10
"""Minimum and maximum gap, ns: times have a resolution of 1 µs (pcap); a queue that drains lasts at most 20 s."""
_SHARPEST_NS = 10_000.0
"""Minimum uncertainty of a gap, ns: that of a host's timestamp."""


@dataclass(frozen=True, slots=True)
class SizeClass:
    """The minimum delay of the packets of similar size, and how far the true minimum may be below it."""

    min_ns: float
    size_bytes: float
    scale_ns: float
    """Mean gap, ns; infinite if unknown."""
    order: float = 1.0
    """Order of the Lomax distribution: the number of spacings that the scale is estimated from."""
    blunt_ns: float = np.inf
    """Mean gap if the density of delays rises from zero at the level (jitter of many small causes), ns."""
    bluntness: float = 0.0
    """Probability that the density rises from zero."""


@dataclass(frozen=True, slots=True)
class Level:
    """The posterior of the level of one direction, on a grid of rates and levels.

    The level is the minimum delay of a packet of zero length.

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

    def likely_rates(self) -> tuple[float, float]:
        """Return the minimum and the maximum time per byte with a non-negligible probability, ns."""
        most = self.log_density.max(axis=1)
        likely = np.flatnonzero(most > most.max() - _OUT_OF_QUESTION)
        low, high = max(int(likely[0]) - 1, 0), min(int(likely[-1]) + 1, len(most) - 1)
        return float(self.ns_per_byte[low]), float(self.ns_per_byte[high])

    def draw(self, uniform: Array, within: Array) -> tuple[Array, Array]:
        """Return random levels and times per byte that follow the posterior, from uniform random numbers.

        `uniform` selects cells of the grid; `within` selects positions within the cells.

        Parameters
        ----------
        uniform, within : ndarray of float64, shape (n,)
            From 0 to 1.

        Returns
        -------
        level, rate : ndarray of float64, ns and ns per byte, shape (n,)
        """
        mass = np.exp(self.log_density - self.log_density.max())
        cumulative = np.cumsum(mass.ravel())
        cell = np.searchsorted(cumulative, uniform * cumulative[-1]).clip(max=mass.size - 1)
        rate, gap = np.divmod(cell, mass.shape[1])
        upper = self.level_ns[rate, gap]
        lower = self.level_ns[rate, np.minimum(gap + 1, mass.shape[1] - 1)]
        return upper + (lower - upper) * within, self.ns_per_byte[rate]


def alike_in_size(size_bytes: Array) -> list[Array]:
    """Return the indexes of the packets of similar size: one array for each class of sizes.

    Parameters
    ----------
    size_bytes : ndarray, shape (n_packets,)
        IP lengths.
    """
    sizes = np.unique(size_bytes)
    if len(sizes) == 1:
        return [np.arange(len(size_bytes))]
    edges = np.quantile(size_bytes, np.linspace(0, 1, _CLASSES + 1)[1:-1]) if len(sizes) > _CLASSES else sizes[1:]
    number = np.searchsorted(edges, size_bytes, side="right")
    return [np.flatnonzero(number == n) for n in np.unique(number)]


def classes(
    delay_ns: Array, size_bytes: Array, alike: list[Array], *, ns_per_byte: float, slot_ns: float
) -> list[SizeClass]:
    """Return the minimum delay of each class of packet sizes, with its uncertainty.

    Parameters
    ----------
    delay_ns, size_bytes : ndarray, shape (n_packets,)
        Delays without the clocks' skew, and IP lengths.
    alike : list of ndarray of int64
        The packets of each class, as returned by `alike_in_size`.
    ns_per_byte : float
        Approximate time per byte; it is used only to convert delays within a class to one size.
    slot_ns : float
        Time between two slots of the link, 0 for none.
    """
    size_classes = [_size_class(delay_ns[mine], size_bytes[mine], ns_per_byte, slot_ns) for mine in alike]
    if all(np.isfinite(c.scale_ns) for c in size_classes):
        return size_classes
    flat = delay_ns - ns_per_byte * size_bytes
    typical = float(np.median(flat) - flat.min()) + slot_ns + _MIN_GAP_NS
    return [c if np.isfinite(c.scale_ns) else SizeClass(c.min_ns, c.size_bytes, typical) for c in size_classes]


def _size_class(delay: Array, size: Array, ns_per_byte: float, slot_ns: float) -> SizeClass:
    flat = delay - ns_per_byte * size
    first = int(np.argmin(flat))
    kept = np.sort(np.partition(flat, min(len(flat), _LOWEST[-1]) - 1)[: _LOWEST[-1]])
    kept -= kept[0]
    sharp, blunt, order = np.inf, 0.0, 1.0
    for k in _LOWEST:
        if k <= len(kept):
            spread = max(kept[k - 1], slot_ns / 4, _MIN_GAP_NS)
            if k <= _BLUNT_OF:
                blunt = max(blunt, spread / (np.sqrt(k) - 1))
            if spread / (k - 2) < sharp:
                sharp, order = max(spread / (k - 2), _SHARPEST_NS), k - 1.0
    return SizeClass(
        float(delay[first]),
        float(size[first]),
        sharp,
        order,
        max(blunt, _SHARPEST_NS),
        _bluntness(kept) if slot_ns <= 0 else 0.0,
    )


def _bluntness(lowest: Array) -> float:
    """Return the probability that the density of delays begins at zero and rises.

    If it begins at its full height, the 30th value is twice as far from the minimum as the 15th. If it rises
    linearly, it is 1.56 times as far, (sqrt(30) - 1) / (sqrt(15) - 1).
    """
    if len(lowest) < _LOWEST[-1]:
        return 0.5
    ratio = lowest[-1] / max(float(lowest[_LOWEST[-1] // 2 - 1]), 1.0)
    return 0.25 + 0.6 * float(np.clip((2.0 - ratio) / 0.44, 0.0, 1.0))


def level_at_known_rate(
    delay_ns: Array, size_bytes: Array, ns_per_byte: Array, log_prior: Array, *, slot_ns: float, broad_ns: float
) -> Level:
    """Return the posterior of the level for a measured rate, from packets of all sizes together.

    Parameters
    ----------
    delay_ns, size_bytes : ndarray, shape (n_packets,)
    ns_per_byte, log_prior : ndarray, shape (n_rates,)
        Candidates close together, with the logarithm of the prior mass of each.
    slot_ns, broad_ns : float
        As in `level_posterior`.
    """
    middle = float(ns_per_byte[len(ns_per_byte) // 2])
    low = _lowest_of_each_size(delay_ns - middle * size_bytes, size_bytes)
    delay, size, zero = delay_ns[low], size_bytes[low], np.zeros(len(low))
    rows = []
    for rate, prior in zip(ns_per_byte, log_prior, strict=True):
        pooled = _size_class(delay - rate * size, zero, 0.0, slot_ns)
        rows.append(level_posterior([pooled], np.zeros(1), np.array([prior]), slot_ns=slot_ns, broad_ns=broad_ns))
    return Level(
        ns_per_byte, np.concatenate([row.level_ns for row in rows]), np.concatenate([row.log_density for row in rows])
    )


def _lowest_of_each_size(flat_ns: Array, size_bytes: Array) -> Array:
    """Return the indexes of packets that may have the lowest delay, for any rate near the approximate one."""
    order = np.lexsort((flat_ns, size_bytes))
    starts = np.flatnonzero(np.diff(size_bytes[order], prepend=-1.0))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    lowest = order[rank < _LOWEST[-1]]
    kept: Array = lowest[np.argsort(flat_ns[lowest])[: _CLASSES * _LOWEST[-1]]]
    return kept


def level_posterior(
    sizes: list[SizeClass], ns_per_byte: Array, log_prior: Array, *, slot_ns: float, broad_ns: float
) -> Level:
    """Return the joint posterior of the level and of the time per byte, from several classes of sizes.

    Parameters
    ----------
    sizes : list of SizeClass
    ns_per_byte, log_prior : ndarray, shape (n_rates,)
        Candidates, with the logarithm of the prior mass of each.
    slot_ns : float
        Time between two slots of the link, 0 for none.
    broad_ns : float
        Possible error of the minimum delay of a class without information.
    """
    minimum = np.array([c.min_ns for c in sizes])
    size = np.array([c.size_bytes for c in sizes])
    highest = (minimum[None, :] - ns_per_byte[:, None] * size[None, :]).min(axis=1)
    gap, width = _gaps()
    level = highest[:, None] - gap[None, :]
    log_density = log_prior[:, None] + np.log(width)[None, :]
    for c in sizes:
        above = c.min_ns - ns_per_byte[:, None] * c.size_bytes - (level - width[None, :] / 2)
        log_density = log_density + np.log(_gap_density(above, c, slot_ns, broad_ns))
    return Level(ns_per_byte, level, log_density)


@cache
def _gaps() -> tuple[Array, Array]:
    """Return candidates for the gap between the true and the measured minimum delay, and the width of each, ns."""
    gap = np.concatenate([[0.0], np.geomspace(_MIN_GAP_NS, _LARGEST_GAP_NS, _GAPS)])
    return gap, np.diff(gap, append=gap[-1] * 1.1)


def _gap_density(gap: Array, c: SizeClass, slot_ns: float, broad_ns: float) -> Array:
    """Return the probability density of the gap between the true and the measured minimum delay.

    It is constant within a slot, then that of a Lomax distribution, plus a low and broad density for classes
    without information.
    """
    astray = _ASTRAY / c.order
    floor = astray / broad_ns / (1 + gap / broad_ns) ** 2
    if not np.isfinite(c.scale_ns):
        return np.asarray(floor)
    beyond = np.maximum(gap - slot_ns, 0.0)
    sharp = (1 + beyond / (c.order * c.scale_ns)) ** -(c.order + 1) / (slot_ns + c.scale_ns)
    density = (1 - c.bluntness) * sharp
    if c.bluntness > 0:
        scaled = beyond / c.blunt_ns
        density = density + c.bluntness * scaled * np.exp(-scaled) / (slot_ns + c.blunt_ns)
    result: Array = (1 - astray) * density + floor
    return result
