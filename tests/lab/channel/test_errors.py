"""Error processes and recorded error traces."""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import FormatError, LocalProtocolError
from multitracer.lab.channel.shared.frame_errors import (
    ErrorProcess,
    FadingErrors,
    GilbertElliottErrors,
    IndependentErrors,
    NoErrors,
    ReplayedErrors,
)
from multitracer.protocols.error_trace import ErrorTrace, parse_error_trace

if TYPE_CHECKING:
    from collections.abc import Callable

SLOTS = 20_000
slot_sets = st.sets(st.integers(0, 400))


def lost(process: ErrorProcess, slots: int = SLOTS) -> list[int]:
    return [slot for slot in range(slots) if process.lost(slot)]


def gilbert(seed: str, **changes: float) -> GilbertElliottErrors:
    values = {"good_slots": 200.0, "bad_slots": 20.0, "good_rate": 0.0, "bad_rate": 0.5}
    return GilbertElliottErrors(**(values | changes), luck=Random(seed))


def test_independent_errors_have_their_rate() -> None:
    failed = lost(IndependentErrors(rate=0.1, luck=Random("a")))
    assert len(failed) / SLOTS == pytest.approx(0.1, rel=0.1)


def test_gilbert_elliott_has_its_mean_rate_and_its_bursts() -> None:
    process = gilbert("b")
    states = []
    failed = []
    for slot in range(SLOTS):
        failed += [slot] if process.lost(slot) else []
        states.append(process.is_bad)
    bad_share = sum(states) / SLOTS
    changes = sum(a != b for a, b in itertools.pairwise(states))

    assert bad_share == pytest.approx(20 / 220, rel=0.25)
    assert sum(states) / (changes / 2) == pytest.approx(20, rel=0.25)  # mean time in the bad state
    assert len(failed) / sum(states) == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("make", [gilbert, lambda seed: IndependentErrors(rate=0.2, luck=Random(seed))])
def test_the_same_seed_destroys_the_same_frames(make: Callable[[str], ErrorProcess]) -> None:
    assert lost(make("x")) == lost(make("x")) != lost(make("y"))


def test_a_fade_does_not_shift_the_chance_below_it() -> None:
    plain = lost(IndependentErrors(rate=0.1, luck=Random("c")))
    faded = FadingErrors(IndependentErrors(rate=0.1, luck=Random("c")), luck=Random("d"))
    faded.fade(begin=100, slots=50)
    failed = lost(faded)

    assert [slot for slot in failed if not 100 <= slot < 150] == [s for s in plain if not 100 <= s < 150]
    assert [slot for slot in failed if 100 <= slot < 150] == list(range(100, 150))


def test_a_partial_fade_has_its_rate_and_fades_may_overlap() -> None:
    process = FadingErrors(NoErrors(), luck=Random("e"))
    process.fade(begin=0, slots=SLOTS, rate=0.3)
    process.fade(begin=10, slots=10)
    failed = lost(process)
    assert len(failed) / SLOTS == pytest.approx(0.3, rel=0.1)
    assert set(range(10, 20)) <= set(failed)


@pytest.mark.parametrize("rate", [-0.1, 1.1])
def test_a_rate_is_a_probability(rate: float) -> None:
    with pytest.raises(LocalProtocolError, match="probability"):
        IndependentErrors(rate=rate, luck=Random("f"))


@given(slot_sets, slot_sets)
def test_an_error_trace_survives_its_text_and_replays_exactly(up: set[int], down: set[int]) -> None:
    trace = ErrorTrace.from_slots(slot_ns=20_000_000, slots=500, up=sorted(up), down=sorted(down))
    read = parse_error_trace(trace.text(), path="t")

    assert read == trace
    assert lost(ReplayedErrors(read.up), 500) == sorted(up)
    assert lost(ReplayedErrors(read.down), 500) == sorted(down)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("", "not an error trace"),
        ("something else\n", "not an error trace"),
        ("# multitracer error-trace 1\nup 1 1\n", "at least one of these keys is missing"),
        ("# multitracer error-trace 1\n# slot_ns 1\n# slots 9\nup 5 1\nup 4 1\n", "must begin after the previous run"),
        ("# multitracer error-trace 1\n# slot_ns 1\n# slots 9\nup 5 2\nup 7 1\n", "must begin after the previous run"),
        ("# multitracer error-trace 1\n# slot_ns 1\n# slots 9\nup 5 0\n", "empty"),
        ("# multitracer error-trace 1\n# slot_ns 1\n# slots 9\nleft 5 1\n", "up|down"),
        ("# multitracer error-trace 1\n# slot_ns 1\n# slots 9\nup 5 -1\n", "whole number"),
        ("# multitracer error-trace 1\n# slot_ns 99999999999999999999\n# slots 9\n", "whole number"),
    ],
)
def test_a_wrong_error_trace_says_where(lines: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason.replace("|", r"\|")) as caught:
        parse_error_trace(lines, path="radio.txt")
    assert str(caught.value).startswith("radio.txt")


@given(st.text(max_size=200))
def test_any_text_is_a_trace_or_a_format_error(text: str) -> None:
    for complete in (text, f"# multitracer error-trace 1\n# slot_ns 1\n# slots 9\n{text}"):
        try:
            parse_error_trace(complete, path="t")
        except FormatError:
            continue
