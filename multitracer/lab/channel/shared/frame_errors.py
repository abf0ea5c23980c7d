"""Error processes, one per direction: they decide which frames the radio destroys.

A process is called once for each slot, in order; a slot is the duration of one frame. Random numbers come
from the generator that is passed in, so the same seed destroys the same frames.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import comb, exp, log1p
from random import Random
from typing import TYPE_CHECKING, Literal

from multitracer.errors import LocalProtocolError
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.protocols.error_trace import Runs

_WORST_BER = 0.5
"""Maximum bit error rate: half of random bits are correct."""
_MIN_STATE_S, _LONGEST_STATE_S = 0.001, 86_400
"""Bounds of the mean time in a state: shorter than a slot has no effect; a run lasts at most a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorConfig:
    """The name and the parameters of the process that destroys frames in one direction."""

    kind: Literal["none", "independent", "gilbert-elliott", "bits", "replay"] = "none"
    rate: float = 0.0
    """Independent: frame error rate."""
    good_s: float = 60.0
    """Gilbert-Elliott and bits: mean time in the good state."""
    bad_s: float = 0.2
    """Gilbert-Elliott and bits: mean time in the bad state."""
    good_rate: float = 0.0
    """Gilbert-Elliott: frame error rate in the good state."""
    bad_rate: float = 1.0
    """Gilbert-Elliott: frame error rate in the bad state."""
    good_ber: float = 0.0
    """Bits: error rate of the channel's bits before decoding in the good state (`bit_failure`)."""
    bad_ber: float = 0.1
    """Bits: bit error rate before decoding in the bad state."""
    replayed: tuple[tuple[int, int], ...] = ()
    """Replay: pairs of first failed slot and number of slots, ascending, as in an error trace."""
    replayed_slot_ns: int = 0
    """Replay: duration of one slot of the recording in ns; 0 is that of the link."""
    repeat_slots: int = 0
    """Replay: slots after which the recording repeats; 0: no errors after its end."""

    def __post_init__(self) -> None:
        for key, ber in (("good_ber", self.good_ber), ("bad_ber", self.bad_ber)):
            if not 0 <= ber <= _WORST_BER:
                raise LocalProtocolError(f'"{key}" (a bit error rate) must be 0 to {_WORST_BER}, but is {ber}')
        if self.replayed_slot_ns < 0:
            raise LocalProtocolError(
                f'"replayed_slot_ns" must be at least 0 (0: the slot time of the link), but is {self.replayed_slot_ns}'
            )
        if self.repeat_slots < 0 or (self.replayed and 0 < self.repeat_slots < sum(self.replayed[-1])):
            raise LocalProtocolError(
                'replayed errors: "repeat_slots" must be 0 (no repetition) or '
                "larger than the number of the last failed slot"
            )
        if self.kind == "bits":
            for key, mean_s in (("good_s", self.good_s), ("bad_s", self.bad_s)):
                if not _MIN_STATE_S <= mean_s <= _LONGEST_STATE_S:
                    limits = f"{_MIN_STATE_S} to {_LONGEST_STATE_S:,}"
                    raise LocalProtocolError(
                        f'"{key}" (mean duration of a state) must be {limits} s, but is {mean_s} s'
                    )


class ErrorProcess(ABC):
    """Interface: decides for each slot whether the frame in it is destroyed."""

    @abstractmethod
    def lost(self, slot: int) -> bool:
        """Return whether the frame in `slot` is destroyed; called once per slot, in order."""

    def lost_slots(self, begin: int, end: int) -> list[bool]:
        """Return whether the frames in the slots `[begin, end)` are destroyed.

        Faster than calling `lost` for each.
        """
        return [self.lost(slot) for slot in range(begin, end)]


class NoErrors(ErrorProcess):
    """A radio without errors."""

    def lost(self, slot: int) -> bool:
        """Return False."""
        del slot
        return False

    def lost_slots(self, begin: int, end: int) -> list[bool]:
        """Return False for each slot."""
        return [False] * (end - begin)


def _checked_rate(rate: float, what: str) -> float:
    if not 0.0 <= rate <= 1.0:
        raise LocalProtocolError(f"{what}: a probability must be 0 to 1, but is {rate}")
    return rate


class IndependentErrors(ErrorProcess):
    """Each frame is lost with the same probability, independently of the others.

    Parameters
    ----------
    rate : float
        Frame error rate, 0 to 1.
    luck : Random
        Random generator.
    """

    def __init__(self, *, rate: float, luck: Random) -> None:
        self._rate = _checked_rate(rate, "frame error rate")
        self._random = luck.random

    def lost(self, slot: int) -> bool:
        """Return a random decision whether the frame is lost."""
        del slot
        return self._random() < self._rate


class GilbertElliottErrors(ErrorProcess):
    """Two states, good and bad, each with its own frame error rate (Gilbert 1960, Elliott 1963).

    Parameters
    ----------
    good_slots, bad_slots : float
        Mean time in each state, at least one slot; times are geometrically distributed.
    good_rate, bad_rate : float
        Frame error rate in each state.
    luck : Random
        Random generator.
    """

    def __init__(self, *, good_slots: float, bad_slots: float, good_rate: float, bad_rate: float, luck: Random) -> None:
        if min(good_slots, bad_slots) < 1:
            raise LocalProtocolError(
                "Gilbert-Elliott errors: the mean duration of each state must be at least one slot"
            )
        self._leave = {False: 1 / good_slots, True: 1 / bad_slots}
        self._rate = {
            False: _checked_rate(good_rate, "error rate in the good state"),
            True: _checked_rate(bad_rate, "error rate in the bad state"),
        }
        self.is_bad = False
        """Whether the radio is in its bad state."""
        self._random = luck.random

    def lost(self, slot: int) -> bool:
        """Choose the state of this slot at random, then return whether the frame is lost."""
        return self.lost_slots(slot, slot + 1)[0]

    def lost_slots(self, begin: int, end: int) -> list[bool]:
        """Return for each slot of `[begin, end)` whether its frame is lost."""
        random, is_bad = self._random, self.is_bad
        leave, rate = self._leave[is_bad], self._rate[is_bad]
        lost = []
        for _ in range(begin, end):
            if random() < leave:
                is_bad = not is_bad
                leave, rate = self._leave[is_bad], self._rate[is_bad]
            lost.append(rate > 0 and random() < rate)
        self.is_bad = is_bad
        return lost


class ReplayedErrors(ErrorProcess):
    """The frames that failed in a recording fail again; after its end there are no errors, or it repeats.

    A frame of a link with other slots fails if the recorded radio failed at any time while it was sent.

    Parameters
    ----------
    runs : sequence of (first slot, slots), ascending
        One direction of an `ErrorTrace`.
    repeat_slots : int
        Length of the recording in its slots, after which it repeats; 0 if it does not repeat.
    slot_ns, recorded_ns : int
        Duration of one slot of this link, and of the recording.
    """

    def __init__(self, runs: Runs, *, repeat_slots: int = 0, slot_ns: int = 1, recorded_ns: int = 1) -> None:
        self._all = runs
        self._next = 0
        self._slot_ns, self._recorded_ns = slot_ns, recorded_ns
        self._repeat_ns = repeat_slots * recorded_ns
        self._round = 0
        self._begin_ns, self._end_ns = 0, 0

    def lost(self, slot: int) -> bool:
        """Return whether the recording has an error in the slot's time."""
        begin_ns = slot * self._slot_ns
        if self._repeat_ns:
            round_, begin_ns = divmod(begin_ns, self._repeat_ns)
            if round_ != self._round:
                self._round, self._next, self._begin_ns, self._end_ns = round_, 0, 0, 0
        while self._end_ns <= begin_ns:
            if self._next == len(self._all):
                return False
            first, count = self._all[self._next]
            self._next += 1
            self._begin_ns, self._end_ns = first * self._recorded_ns, (first + count) * self._recorded_ns
        return self._begin_ns < begin_ns + self._slot_ns


@dataclass(frozen=True, slots=True)
class _Fade:
    begin: int
    end: int
    rate: float


class FadingErrors(ErrorProcess):
    """Adds fades to another process; fades may be added during the run.

    Parameters
    ----------
    below : ErrorProcess
        The other process; it is called in each slot, so that a fade does not change its random numbers.
    luck : Random
        Random generator for fades that do not destroy all frames.
    """

    def __init__(self, below: ErrorProcess, *, luck: Random) -> None:
        self._below = below
        self._random = luck.random
        self._fades: list[_Fade] = []

    def fade(self, *, begin: int, slots: int, rate: float = 1.0) -> None:
        """Add a fade: destroy each frame in `[begin, begin + slots)` with probability `rate`."""
        self._fades.append(_Fade(begin, begin + slots, _checked_rate(rate, "error rate of a fade")))

    def lost(self, slot: int) -> bool:
        """Return whether the other process or a fade destroys the frame."""
        lost = self._below.lost(slot)
        if self._fades:
            self._fades = [fade for fade in self._fades if slot < fade.end]
            for fade in self._fades:
                lost |= fade.begin <= slot and (fade.rate >= 1 or self._random() < fade.rate)
        return lost

    def lost_slots(self, begin: int, end: int) -> list[bool]:
        """Return for each slot of `[begin, end)` whether the other process or a fade destroys its frame."""
        if not self._fades:
            return self._below.lost_slots(begin, end)
        return [self.lost(slot) for slot in range(begin, end)]


def error_process(config: ErrorConfig, *, slot_ns: int, luck: Random) -> ErrorProcess:
    """Return the process that a configuration describes, for slots of `slot_ns`."""
    if config.kind == "independent":
        return IndependentErrors(rate=config.rate, luck=luck)
    if config.kind == "gilbert-elliott":
        return GilbertElliottErrors(
            good_slots=config.good_s * NS_PER_S / slot_ns,
            bad_slots=config.bad_s * NS_PER_S / slot_ns,
            good_rate=config.good_rate,
            bad_rate=config.bad_rate,
            luck=luck,
        )
    if config.kind == "bits":
        raise LocalProtocolError(
            'errors of the kind "bits" are possible only for a GSM link; choose another kind of errors'
        )
    if config.kind == "replay":
        return ReplayedErrors(
            config.replayed,
            repeat_slots=config.repeat_slots,
            slot_ns=slot_ns,
            recorded_ns=config.replayed_slot_ns or slot_ns,
        )
    return NoErrors()


# Frames that fail because their decoder does: a stated model from bit errors to frame errors.
#
# Before decoding, each bit of the channel is wrong with the probability p of the radio's state (good or bad,
# each for an exponential time), independently: ideal interleaving. A decoder prefers a path that differs in d
# places to the sent one with
#
#     P(d) = sum over k > d/2 of C(d, k) p^k (1 - p)^(d - k), and half of the term k = d/2 if d is even
#
# and errs at a bit with P = sum of a(d) P(d), at most 1/2, where a(d) paths begin at a bit (the union bound
# for hard decisions, Viterbi 1971, "Convolutional codes and their performance in communication systems"; the
# nearest distances alone). A frame of n bits survives with the probability (1 - P)^n; if the state changes
# within it, with the product over the parts. So a longer frame fails more often, and without a code P is the
# bit error rate itself.
#
# The times of the states do not depend on the frames: the same seed is the same radio under any link.


_WORST = 0.5
"""Maximum error rate of a decoder, that of guessing; the computed bound can exceed it."""


def pairwise_failure(ber: float, *, distance: int) -> float:
    """Return the probability that a Viterbi decoder chooses a wrong path instead of the correct one.

    The two paths differ in `distance` bits; `ber` is the bit error rate before decoding.

    Examples
    --------
    >>> round(pairwise_failure(0.01, distance=3), 6)
    0.000298
    """
    terms = ((k, comb(distance, k) * ber**k * (1 - ber) ** (distance - k)) for k in range(distance + 1))
    return sum(term if 2 * k > distance else term / 2 for k, term in terms if 2 * k >= distance)


def bit_failure(ber: float, weights: Sequence[tuple[int, float]]) -> float:
    """Return the probability of a bit error after decoding, from the bit error rate before it.

    Parameters
    ----------
    ber : float
        0 to 0.5.
    weights : sequence of (int, float)
        Distances, and the number of paths of that distance that begin at a bit.

    Examples
    --------
    >>> bit_failure(0.01, [(1, 1.0)])
    0.01
    """
    return min(_WORST, sum(paths * pairwise_failure(ber, distance=distance) for distance, paths in weights))


def frame_error_rate(ber: float, weights: Sequence[tuple[int, float]], *, frame_bits: int) -> float:
    """Return the probability that a frame of `frame_bits` bits is lost, at a constant bit error rate `ber`.

    `weights` are those of `bit_failure`.

    Examples
    --------
    >>> round(frame_error_rate(0.001, [(1, 1.0)], frame_bits=240), 3)
    0.213
    """
    return 1 - (1 - bit_failure(ber, weights)) ** frame_bits


class TwoStateBitErrors(ErrorProcess):
    """Two states with their bit error rates, and frames of one size with one code.

    Parameters
    ----------
    config : ErrorConfig
        Mean durations and bit error rates of the states.
    frame_bits : int
        Size of a frame.
    weights : sequence of (int, float)
        Weights of the code, as in `bit_failure`.
    slot_ns : int
        Duration of a frame; slot n begins at n times this.
    luck : Random
        Random generator.
    """

    def __init__(
        self, config: ErrorConfig, *, frame_bits: int, weights: Sequence[tuple[int, float]], slot_ns: int, luck: Random
    ) -> None:
        rates = {False: config.good_ber, True: config.bad_ber}
        complete = {bad: log1p(-bit_failure(ber, weights)) * frame_bits for bad, ber in rates.items()}
        self._slot_ns = slot_ns
        self._log_survival_per_ns = {bad: log / slot_ns for bad, log in complete.items()}
        self._mean_ns = {False: config.good_s * NS_PER_S, True: config.bad_s * NS_PER_S}
        self._states = Random(luck.random())
        self._random = luck.random
        self._is_bad = False
        self._change_ns = self._states.expovariate(1 / self._mean_ns[False])

    def lost(self, slot: int) -> bool:
        """Return a random decision whether the frame of the slot is lost."""
        at_ns, end_ns = float(slot * self._slot_ns), float((slot + 1) * self._slot_ns)
        log_survival = 0.0
        while self._change_ns < end_ns:
            log_survival += self._log_survival_per_ns[self._is_bad] * max(0.0, self._change_ns - at_ns)
            at_ns = max(at_ns, self._change_ns)
            self._is_bad = not self._is_bad
            self._change_ns += self._states.expovariate(1 / self._mean_ns[self._is_bad])
        log_survival += self._log_survival_per_ns[self._is_bad] * (end_ns - at_ns)
        return self._random() >= exp(log_survival)
