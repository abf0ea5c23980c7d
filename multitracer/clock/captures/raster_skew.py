"""Two clocks compared by the slots of the link between their hosts.

Both ends receive on the same raster: a slot that lasts 20 ms by the network lasts a little more or less by
either clock. The ratio of the two is the skew, to which every arrival contributes, whatever queue it stood
in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Array


_LARGEST = 5e-4  # 500 ppm, the most that NTP takes for a clock's rate (RFC 5905)
_GRID = 2001  # 0.5 ppm a step; the line that follows refines it
_UNLIKE, _ROUND_NS = 0.02, 1e5
"""Slots at both ends may differ by 2 %; nominal slots are multiples of 0.1 ms. Not measured."""
_OUTLIER = 0.12
"""Of a slot: arrivals farther off were held up by something else."""
_CORRELATED = 6.0
"""A host that is late is late for several packets in a row: so much larger is the error."""
_LEAST_ARRIVALS = 30  # with fewer a line through slots tells next to nothing. Not measured
_MOST_IN_PERIODOGRAM = 1024
"""Arrivals over the whole time that find the rate; all of them refine it."""
_LEAST_STRENGTH = 0.5
"""Of the periodogram; 1 is a perfect raster. Chance gives sqrt(ln(`_GRID`) / n): 0.09 for n = 1,024."""
_REFINEMENTS = 4  # slot numbers change hardly after the first line. Not measured


def raster_skew(a_ns: Array, b_ns: Array, *, slot_a: float, slot_b: float) -> tuple[float, float] | None:
    """Return how much faster clock B runs, and one standard error; None without one raster at both ends.

    Parameters
    ----------
    a_ns, b_ns : ndarray of float64, shapes (n_at_a,), (n_at_b,)
        Arrivals at A by its clock, and at B by its.
    slot_a, slot_b : float, ns
        The slots found in them; 0 for none.
    """
    slots = [slot for slot in (slot_a, slot_b) if slot > 0]
    if min(len(a_ns), len(b_ns)) < _LEAST_ARRIVALS or not slots or max(slots) > (1 + _UNLIKE) * min(slots):
        return None
    nominal = float(np.rint(np.mean(slots) / _ROUND_NS) * _ROUND_NS)
    a, b = (_slot(np.sort(times), nominal) for times in (a_ns, b_ns))
    if a is None or b is None:
        return None
    return b[0] / a[0] - 1, float(np.hypot(a[1] / a[0], b[1] / b[0]))


def _slot(times: Array, nominal: float) -> tuple[float, float] | None:
    """Return the length of a slot and its standard error: periodogram, then a line through slot numbers."""
    times = times - times[0]
    rates = (1 + np.linspace(-_LARGEST, _LARGEST, _GRID)) / nominal
    strength = _periodogram(times[:: -(-len(times) // _MOST_IN_PERIODOGRAM)], rates)
    rate = float(rates[int(np.argmax(strength))])
    if strength.max() < _LEAST_STRENGTH:
        return None
    length, start = 1 / rate, _phase(times, rate) / rate
    for _ in range(_REFINEMENTS):
        number = np.rint((times - start) / length)
        rest = times - start - number * length
        near = np.abs(rest) < _OUTLIER * nominal
        line = np.polynomial.polynomial.polyfit(number[near], rest[near], 1)
        start, length = start + float(line[0]), length + float(line[1])
    spread = float(np.std(rest[near]))
    error = _CORRELATED * spread / (np.sqrt(near.sum()) * float(np.std(number[near])))
    return length, error


def _periodogram(times: Array, rates: Array) -> Array:
    """Return how well the times fit a raster of each rate, from 0 to 1; the rates are equally far apart."""
    phasor = np.exp(2j * np.pi * ((times * rates[0]) % 1.0))
    step = np.exp(2j * np.pi * times * (rates[-1] - rates[0]) / (len(rates) - 1))
    strength = np.empty(len(rates))
    for i in range(len(rates)):  # a product costs a tenth of an exponential
        strength[i] = abs(phasor.mean())
        phasor *= step
    return strength


def _phase(times: Array, rate: float) -> float:
    return float(np.angle(np.exp(2j * np.pi * ((times * rate) % 1.0)).sum()) / (2 * np.pi)) % 1.0
