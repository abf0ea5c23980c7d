"""From bit errors to frame errors: the stated model, and the frames of a data call that follow from it."""

from __future__ import annotations

import itertools
from collections import Counter
from math import comb
from random import Random

import pytest

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.gsm import WEIGHTS, CodeName, LinkConfig
from multitracer.lab.channel.shared.frame_errors import (
    ErrorConfig,
    ReplayedErrors,
    TwoStateBitErrors,
    bit_failure,
    error_process,
    frame_error_rate,
    pairwise_failure,
)
from multitracer.protocols.rlp import FRAME_OCTETS, RlpFrame, decode, seal

SLOT_NS = 20_000_000
FADING = ErrorConfig(kind="bits", good_s=2.0, bad_s=0.5, good_ber=0.0, bad_ber=0.5)


NAMES: tuple[CodeName, ...] = ("9.6", "14.4", "3/4", "none")


def process(
    config: ErrorConfig, *, bits: int = 240, code: CodeName = "none", slot_ns: int = SLOT_NS
) -> TwoStateBitErrors:
    return TwoStateBitErrors(config, frame_bits=bits, weights=WEIGHTS[code], slot_ns=slot_ns, luck=Random("a"))


def test_without_a_code_a_bit_fails_as_the_channel_has_it() -> None:
    for ber in (0.0, 0.001, 0.1, 0.5):
        assert bit_failure(ber, WEIGHTS["none"]) == ber
        assert frame_error_rate(ber, WEIGHTS["none"], frame_bits=240) == pytest.approx(1 - (1 - ber) ** 240)


@pytest.mark.parametrize("distance", range(1, 11))
def test_a_decoder_errs_as_often_as_the_tosses_of_its_places_say(distance: int) -> None:
    """Over all patterns of errors: more than half of the places wrong, or half of them and bad luck."""
    ber = 0.07
    wrong = 0.0
    for pattern in itertools.product((0, 1), repeat=distance):
        chance = ber ** sum(pattern) * (1 - ber) ** (distance - sum(pattern))
        wrong += chance * (1 + (2 * sum(pattern) > distance) - (2 * sum(pattern) < distance)) / 2
    assert pairwise_failure(ber, distance=distance) == pytest.approx(wrong)
    assert pairwise_failure(0.5, distance=distance) == pytest.approx(0.5)


def test_an_even_distance_is_as_good_as_the_odd_one_below() -> None:
    """A known identity of ties that are tossed: C(2k, k) / 2 = C(2k - 1, k)."""
    assert comb(6, 3) / 2 == comb(5, 3)
    assert pairwise_failure(0.03, distance=6) == pytest.approx(pairwise_failure(0.03, distance=5))


def test_frames_fail_as_often_as_the_model_says() -> None:
    steady = ErrorConfig(kind="bits", good_ber=0.02, bad_ber=0.02)
    radio = process(steady, bits=576, code="14.4")
    failed = sum(radio.lost(slot) for slot in range(20_000))
    assert failed / 20_000 == pytest.approx(frame_error_rate(0.02, WEIGHTS["14.4"], frame_bits=576), rel=0.05)


def test_a_longer_frame_fails_more_often_and_a_better_code_less() -> None:
    rates = [frame_error_rate(0.01, WEIGHTS["14.4"], frame_bits=8 * octets) for octets in sorted(FRAME_OCTETS)]
    assert rates == sorted(set(rates))
    codes = [frame_error_rate(0.01, WEIGHTS[code], frame_bits=240) for code in NAMES]
    assert codes == sorted(set(codes))


def test_the_same_seed_is_the_same_radio_under_slots_of_another_length() -> None:
    """Total fades: a frame fails if the bad state touches it, whatever its size and its slot."""
    failed = {}
    for slot_ms in (5, 20, 80):
        radio = process(FADING, slot_ns=slot_ms * 1_000_000)
        failed[slot_ms] = {slot for slot in range(100_000 // slot_ms) if radio.lost(slot)}
    for long_ms, short_ms in ((20, 5), (80, 20)):
        several = long_ms // short_ms
        covered = {slot // several for slot in failed[short_ms]}
        assert len(covered ^ failed[long_ms]) <= len(covered) // 20  # a touch of a few bits may pass
        assert len(failed[long_ms]) > 50


def test_the_time_in_the_bad_state_is_the_stated_share() -> None:
    radio = process(FADING)
    failed = sum(radio.lost(slot) for slot in range(200_000))
    assert failed / 200_000 == pytest.approx(0.5 / 2.5, rel=0.1)


def test_errors_of_bits_need_a_frame() -> None:
    with pytest.raises(LocalProtocolError, match="possible only for a GSM link"):
        error_process(FADING, slot_ns=SLOT_NS, luck=Random("a"))


def test_a_recording_is_replayed_by_its_times_under_other_slots() -> None:
    recorded = ((2, 1), (10, 2))  # 40 to 60 ms and 200 to 240 ms fail
    shorter = ReplayedErrors(recorded, slot_ns=5_000_000, recorded_ns=SLOT_NS)
    assert [slot for slot in range(100) if shorter.lost(slot)] == [8, 9, 10, 11, *range(40, 48)]
    longer = ReplayedErrors(recorded, slot_ns=48_000_000, recorded_ns=SLOT_NS)
    assert [slot for slot in range(10) if longer.lost(slot)] == [0, 1, 4]
    config = ErrorConfig(kind="replay", replayed=recorded, replayed_slot_ns=SLOT_NS)
    radio = error_process(config, slot_ns=5_000_000, luck=Random("a"))
    assert [slot for slot in range(20) if radio.lost(slot)] == [8, 9, 10, 11]


@pytest.mark.parametrize("octets", FRAME_OCTETS)
def test_frames_of_every_size_come_back(octets: int) -> None:
    info = bytes(range(octets - 5 & 0xFF)) + bytes(max(0, octets - 5 - 255))
    sealed = seal(3 << 3 | 5 << 10, info[: octets - 5], octets=octets)
    assert len(sealed) == octets
    frame = decode(sealed)
    assert isinstance(frame, RlpFrame)
    assert (frame.n_s, frame.n_r) == (3, 5)
    assert frame.info == info[: octets - 5].ljust(octets - 5, b"\0")


def test_the_rate_follows_from_the_frame_and_its_slot() -> None:
    assert (LinkConfig().payload_bytes, LinkConfig().rate_bytes_per_s) == (24, 1200)
    longer = LinkConfig(frame_bits=576, slot_ns=40_000_000)
    assert (longer.payload_bytes, longer.rate_bytes_per_s) == (66, 1650)


# --- the codes ---

_MEMORY = 4  # TS 45.003 (from memory): G0 = 1 + D3 + D4, G1 = 1 + D + D3 + D4


def _coded(state: int, bit: int) -> tuple[int, int]:
    past = (bit, *(state >> place & 1 for place in range(_MEMORY)))
    return past[0] ^ past[3] ^ past[4], past[0] ^ past[1] ^ past[3] ^ past[4]


def _weights(period: int, left_out: set[int], most: int) -> dict[int, float]:
    """Return how many paths of each weight begin at a bit: from leaving the zero path to being back.

    Of each `period` bits, twice as many are coded, of which those in `left_out` are not sent.
    """
    paths: Counter[int] = Counter()

    def weight(state: int, bit: int, step: int) -> int:
        return sum(one for place, one in enumerate(_coded(state, bit), 2 * step) if place not in left_out)

    for first in range(period):
        step, open_paths = (first + 1) % period, Counter({(1, weight(0, 1, first)): 1})
        while open_paths:
            longer: Counter[tuple[int, int]] = Counter()
            for ((state, total), count), bit in itertools.product(open_paths.items(), (0, 1)):
                after, sum_ = (state << 1 | bit) & (1 << _MEMORY) - 1, total + weight(state, bit, step)
                if sum_ <= most and after:
                    longer[after, sum_] += count
                elif sum_ <= most:
                    paths[sum_] += count
            step, open_paths = (step + 1) % period, longer
    return {weight_: count / period for weight_, count in sorted(paths.items())}


@pytest.mark.parametrize(
    ("code", "period", "left_out"), [("9.6", 15, {11, 26}), ("14.4", 7, {0, 5, 9}), ("3/4", 3, {1, 3})]
)
def test_the_codes_have_the_paths_that_are_stated(code: CodeName, period: int, left_out: set[int]) -> None:
    stated = WEIGHTS[code]
    assert _weights(period, left_out, most=stated[-1][0]) == pytest.approx(dict(stated))


def test_the_unpunctured_code_has_the_weights_of_the_textbooks() -> None:
    """Constraint length 5, half rate: free distance 7, two paths."""
    assert _weights(1, set(), most=8) == {7: 2.0, 8: 4.0}
