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
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Array


_CLASSES = 12
"""More classes would leave too few packets in each: sizes cluster at few values. Not measured."""
_LOWEST = (3, 4, 5, 7, 10, 14, 20, 30)
"""How many of the lowest delays give the density; the densest of these is kept, so no single one decides."""
_OUT_OF_QUESTION = 12.0  # in units of log likelihood: e^-12, six in a million
_BLUNT_OF = 5
"""Only the lowest few show whether the density rises from zero; of more the bulk decides."""
_ASTRAY = 0.02
"""How likely it is that the least delay says nothing of the level, were it only the least of two."""
_GAPS = 160
"""From 1 µs to 20 s in steps of 11 %, finer than the error of any least delay on slow links."""
_LEAST_GAP_NS, _LARGEST_GAP_NS = 1_000.0, 2e10
"""A stamp is no better than 1 µs (pcap); no queue that drains lasts 20 s."""
_SHARPEST_NS = 10_000.0
"""No gap is known better than a host stamps a packet."""


@dataclass(frozen=True, slots=True)
class SizeClass:
    """The least delay of one class of sizes, and how far below it the truth may lie."""

    least_ns: float
    size_bytes: float
    scale_ns: float
    """Mean gap; infinite where nothing is known of it."""
    order: float = 1.0
    """Of Lomax' law: the number of spacings on which the scale rests."""
    blunt_ns: float = np.inf
    """Mean gap if the density of delays rises from zero at the level (jitter of many small causes)."""
    bluntness: float = 0.0
    """How likely that is."""


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

    def likely_rates(self) -> tuple[float, float]:
        """Return the least and largest rate that are not out of the question."""
        most = self.log_density.max(axis=1)
        likely = np.flatnonzero(most > most.max() - _OUT_OF_QUESTION)
        low, high = max(int(likely[0]) - 1, 0), min(int(likely[-1]) + 1, len(most) - 1)
        return float(self.ns_per_byte[low]), float(self.ns_per_byte[high])

    def draw(self, uniform: Array, within: Array) -> tuple[Array, Array]:
        """Return level and rate for numbers drawn from 0 to 1; `within` spreads them over a cell's width.

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
    """Return the indexes of the packets of each class of sizes.

    Parameters
    ----------
    size_bytes : ndarray, shape (n_packets,)
        IP lengths.
    """
    sizes = np.unique(size_bytes)
    if len(sizes) == 1:
        return [np.arange(len(size_bytes))]
    if len(sizes) > _CLASSES:
        edges = np.quantile(size_bytes, np.linspace(0, 1, _CLASSES + 1)[1:-1])
    else:
        edges = sizes[1:]
    number = np.searchsorted(edges, size_bytes, side="right")
    return [np.flatnonzero(number == n) for n in np.unique(number)]


def classes(
    delay_ns: Array, size_bytes: Array, alike: list[Array], *, ns_per_byte: float, slot_ns: float
) -> list[SizeClass]:
    """Return the classes of sizes of one direction.

    Parameters
    ----------
    delay_ns, size_bytes : ndarray, shape (n_packets,)
        Delays without the clocks' skew, and IP lengths.
    alike : list of ndarray of int64
        The packets of each class, as of `alike_in_size`.
    ns_per_byte : float
        Roughly; only within a class are delays brought to one size by it.
    slot_ns : float
        Time between two slots of the link, 0 for none.
    """
    size_classes = [_size_class(delay_ns[mine], size_bytes[mine], ns_per_byte, slot_ns) for mine in alike]
    if all(np.isfinite(c.scale_ns) for c in size_classes):
        return size_classes
    flat = delay_ns - ns_per_byte * size_bytes
    usual = float(np.median(flat) - flat.min()) + slot_ns + _LEAST_GAP_NS
    return [
        c if np.isfinite(c.scale_ns) else SizeClass(c.least_ns, c.size_bytes, usual) for c in size_classes
    ]


def _size_class(delay: Array, size: Array, ns_per_byte: float, slot_ns: float) -> SizeClass:
    flat = delay - ns_per_byte * size
    first = int(np.argmin(flat))
    kept = np.sort(np.partition(flat, min(len(flat), _LOWEST[-1]) - 1)[: _LOWEST[-1]])
    kept -= kept[0]
    sharp, blunt, order = np.inf, 0.0, 1.0
    for k in _LOWEST:
        if k <= len(kept):
            spread = max(kept[k - 1], slot_ns / 4, _LEAST_GAP_NS)
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
    """Return how likely it is that the density begins at zero and rises, not at its full height.

    The 30th value is twice as far from the least one as the 15th where it begins at its full height, and
    1.56 times, (sqrt(30) - 1) / (sqrt(15) - 1), where it rises linearly.
    """
    if len(lowest) < _LOWEST[-1]:
        return 0.5
    ratio = lowest[-1] / max(float(lowest[_LOWEST[-1] // 2 - 1]), 1.0)
    return 0.25 + 0.6 * float(np.clip((2.0 - ratio) / 0.44, 0.0, 1.0))


def level_at_known_rate(
    delay_ns: Array,
    size_bytes: Array,
    ns_per_byte: Array,
    log_prior: Array,
    *,
    slot_ns: float,
    broad_ns: float,
) -> Level:
    """Return the posterior where the rate is measured: packets of all sizes are then one class.

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
        rows.append(
            level_posterior([pooled], np.zeros(1), np.array([prior]), slot_ns=slot_ns, broad_ns=broad_ns)
        )
    return Level(
        ns_per_byte,
        np.concatenate([row.level_ns for row in rows]),
        np.concatenate([row.log_density for row in rows]),
    )


def _lowest_of_each_size(flat_ns: Array, size_bytes: Array) -> Array:
    """Return the indexes of the packets that may be among the lowest ones under a rate near the guess."""
    order = np.lexsort((flat_ns, size_bytes))
    starts = np.flatnonzero(np.diff(size_bytes[order], prepend=-1.0))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    lowest = order[rank < _LOWEST[-1]]
    kept: Array = lowest[np.argsort(flat_ns[lowest])[: _CLASSES * _LOWEST[-1]]]
    return kept


def level_posterior(
    sizes: list[SizeClass], ns_per_byte: Array, log_prior: Array, *, slot_ns: float, broad_ns: float
) -> Level:
    """Return the posterior of level and rate.

    Parameters
    ----------
    sizes : list of SizeClass
    ns_per_byte, log_prior : ndarray, shape (n_rates,)
        Candidates, with the logarithm of the prior mass of each.
    slot_ns : float
        Time between two slots of the link, 0 for none.
    broad_ns : float
        How far off the least delay of a class may be that knows nothing.
    """
    least = np.array([c.least_ns for c in sizes])
    size = np.array([c.size_bytes for c in sizes])
    highest = (least[None, :] - ns_per_byte[:, None] * size[None, :]).min(axis=1)
    gap = np.geomspace(_LEAST_GAP_NS, _LARGEST_GAP_NS, _GAPS)
    gap = np.concatenate([[0.0], gap])
    level = highest[:, None] - gap[None, :]
    width = np.diff(gap, append=gap[-1] * 1.1)
    log_density = log_prior[:, None] + np.log(width)[None, :]
    for c in sizes:
        above = c.least_ns - ns_per_byte[:, None] * c.size_bytes - (level - width[None, :] / 2)
        log_density = log_density + np.log(_gap_density(above, c, slot_ns, broad_ns))
    return Level(ns_per_byte, level, log_density)


def _gap_density(gap: Array, c: SizeClass, slot_ns: float, broad_ns: float) -> Array:
    """Return the density of the gap: flat within a slot, then Lomax' law, over a broad floor."""
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
