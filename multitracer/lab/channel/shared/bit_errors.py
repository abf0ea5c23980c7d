"""Frames that fail because their decoder does: a stated model from bit errors to frame errors.

Before decoding, each bit of the channel is wrong with the probability p of the radio's state (good or bad,
each for an exponential time), independently: ideal interleaving. A decoder prefers a path that differs in d
places to the sent one with

    P(d) = sum over k > d/2 of C(d, k) p^k (1 - p)^(d - k), and half of the term k = d/2 if d is even

and errs at a bit with P = sum of a(d) P(d), at most 1/2, where a(d) paths begin at a bit (the union bound for
hard decisions, Viterbi 1971, "Convolutional codes and their performance in communication systems"; the
nearest distances alone). A frame of n bits survives with the probability (1 - P)^n; if the state changes
within it, with the product over the parts. So a longer frame fails more often, and without a code P is the
bit error rate itself.

The times of the states do not depend on the frames: the same seed is the same radio under any link.
"""

from __future__ import annotations

from math import comb, exp, log1p
from random import Random
from typing import TYPE_CHECKING

from multitracer.lab.channel.shared.frame_errors import ErrorProcess
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.lab.channel.shared.frame_errors import ErrorConfig

_WORST = 0.5
"""The bound grows beyond what a coin would do; a decoder is not worse."""


def pairwise_failure(ber: float, *, distance: int) -> float:
    """Return the probability that a path which differs in `distance` places is preferred to the sent one.

    Examples
    --------
    >>> round(pairwise_failure(0.01, distance=3), 6)
    0.000298
    """
    terms = ((k, comb(distance, k) * ber**k * (1 - ber) ** (distance - k)) for k in range(distance + 1))
    return sum(term if 2 * k > distance else term / 2 for k, term in terms if 2 * k >= distance)


def bit_failure(ber: float, weights: Sequence[tuple[int, float]]) -> float:
    """Return the probability that a decoder errs at a bit, from the error rate before it.

    Parameters
    ----------
    ber : float
        0 to 0.5.
    weights : sequence of (int, float)
        Distances, and how many paths that far away begin at a bit.

    Examples
    --------
    >>> bit_failure(0.01, [(1, 1.0)])
    0.01
    """
    return min(_WORST, sum(paths * pairwise_failure(ber, distance=distance) for distance, paths in weights))


def frame_error_rate(ber: float, weights: Sequence[tuple[int, float]], *, frame_bits: int) -> float:
    """Return the probability that a frame of `frame_bits` bits fails while the state does not change.

    Examples
    --------
    >>> round(frame_error_rate(0.001, [(1, 1.0)], frame_bits=240), 3)
    0.213
    """
    return 1 - (1 - bit_failure(ber, weights)) ** frame_bits


class BitErrors(ErrorProcess):
    """Two states with their bit error rates, and frames of one size behind one code.

    Parameters
    ----------
    config : ErrorConfig
        Times and bit error rates of the states.
    frame_bits : int
        Size of a frame.
    weights : sequence of (int, float)
        Of the code, as in `bit_failure`.
    slot_ns : int
        Time that a frame takes; slot n is the time from n to n + 1 of these.
    luck : Random
        Where chance comes from.
    """

    def __init__(
        self,
        config: ErrorConfig,
        *,
        frame_bits: int,
        weights: Sequence[tuple[int, float]],
        slot_ns: int,
        luck: Random,
    ) -> None:
        rates = {False: config.good_ber, True: config.bad_ber}
        whole = {bad: log1p(-bit_failure(ber, weights)) * frame_bits for bad, ber in rates.items()}
        self._slot_ns = slot_ns
        self._log_survival_per_ns = {bad: log / slot_ns for bad, log in whole.items()}
        self._mean_ns = {False: config.good_s * NS_PER_S, True: config.bad_s * NS_PER_S}
        self._states = Random(luck.random())
        self._random = luck.random
        self._is_bad = False
        self._change_ns = self._states.expovariate(1 / self._mean_ns[False])

    def lost(self, slot: int) -> bool:
        """Draw whether the frame of the slot fails."""
        at_ns, end_ns = float(slot * self._slot_ns), float((slot + 1) * self._slot_ns)
        log_survival = 0.0
        while self._change_ns < end_ns:
            log_survival += self._log_survival_per_ns[self._is_bad] * max(0.0, self._change_ns - at_ns)
            at_ns = max(at_ns, self._change_ns)
            self._is_bad = not self._is_bad
            self._change_ns += self._states.expovariate(1 / self._mean_ns[self._is_bad])
        log_survival += self._log_survival_per_ns[self._is_bad] * (end_ns - at_ns)
        return self._random() >= exp(log_survival)
