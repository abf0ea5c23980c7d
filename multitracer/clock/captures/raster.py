"""The time raster on which a radio link hands over what it carried.

Arrivals of a slotted link (20 ms of a GSM data call) are multiples of the slot apart. A packet waits for its
slot, up to a slot long, and where the sender answers arrivals, each packet waits equally long: equal delays
then look exact and are not. So a raster is looked for in the arrivals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array


_SHORTEST_NS, _LONGEST_NS = 4 * NS_PER_MS, 125 * NS_PER_MS
"""From below a TDMA frame of GSM (4.615 ms, TS 45.002) upward; the slot of GSM data is 20 ms."""
_FARTHEST_NS = 3 * NS_PER_S
"""Clocks may drift by 0.1 % between two arrivals without leaving the raster."""
_LEAST_ARRIVALS = 12  # with fewer, some raster fits any arrivals
_MOST = 2_000  # enough for a raster of any rate; later arrivals only refine it. Bounds the time
_ALIKE_NS = NS_PER_MS / 4
"""A sixteenth of the shortest slot; stamps of hosts scatter by less. Not measured."""
_TOLERANCE, _SHARE = 0.06, 0.9
"""Of a slot, of the distances: chance puts 12 % within ±0.06 of a multiple, a raster nearly all."""


def raster_ns(arrived_ns: Array, *, spaced_ns: Array) -> float:
    """Return the slot of the link behind some arrivals, in ns; 0 if there is none.

    Parameters
    ----------
    arrived_ns : ndarray of float64, shape (n_packets,)
        When the packets of one direction arrived.
    spaced_ns : ndarray of float64
        Times that the links need for the usual packets: multiples of these are no slots.
    """
    apart = np.diff(np.sort(arrived_ns))
    apart = apart[(apart > _SHORTEST_NS / 2) & (apart < _FARTHEST_NS)][:_MOST]
    if len(apart) < _LEAST_ARRIVALS:
        return 0.0
    unlike = np.unique(np.rint(apart / _ALIKE_NS)) * _ALIKE_NS
    for rough in _candidates(apart):
        slot = _refined(rough, apart)
        if abs(slot / rough - 1) > _TOLERANCE:
            continue
        off = np.abs(unlike / slot - np.rint(unlike / slot))
        if (off < _TOLERANCE).mean() >= _SHARE and not _serialization(slot, spaced_ns):
            return float(slot)
    return 0.0


def _refined(slot: float, apart: Array) -> float:
    """Return the slot that fits best, near a rough one: near distances first, then ever farther ones."""
    for reach in (4, 16, 64):
        near = apart[apart < reach * slot]
        whole = np.rint(near / slot)
        if whole.sum() > 0:
            slot = float(near[whole > 0].sum() / whole.sum())
    return slot


def _candidates(apart: Array) -> list[float]:
    """Return the differences of the usual distances, longest first."""
    rounded, count = np.unique(np.rint(apart / _ALIKE_NS), return_counts=True)
    usual = rounded[np.argsort(-count)[:24]] * _ALIKE_NS
    differences = np.abs(usual[:, None] - usual[None, :]).ravel()
    kept = differences[(differences >= _SHORTEST_NS) & (differences <= _LONGEST_NS)]
    return sorted(set(kept.tolist()), reverse=True)


def _serialization(slot: float, spaced_ns: Array) -> bool:
    """Return whether a slot is a usual packet's time on the link, or a half or a third of it."""
    parts = spaced_ns / slot
    whole = np.rint(parts)
    return bool(((whole >= 1) & (whole <= 3) & (np.abs(parts - whole) < _TOLERANCE / 2 * whole)).any())
