"""Broken captures: some seconds of them in every run of the tests, more in `make fuzz`."""

from __future__ import annotations

import os
import random
import sys
import time

import pytest

from tests.fuzz.captures import GRAMMARS, check, read_or_refuse
from tests.fuzz.run import fuzz, samples

SECONDS = float(os.environ.get("MULTITRACER_FUZZ_SECONDS") or 5)


@pytest.mark.fuzz
@pytest.mark.timeout(SECONDS + 120)
def test_broken_captures_are_read_or_refused() -> None:
    known = samples()
    assert known or SECONDS < 60, "nothing to mutate"
    first_seed = time.time_ns() // 1000 if SECONDS > 5 else 1
    tried, failed = fuzz(SECONDS, first_seed=first_seed, known=known)
    sys.stdout.write(f"{tried} inputs from seed {first_seed} on, {len(failed)} failed\n")
    assert tried > 50
    assert not failed, f"seeds {failed[:10]}: see out/fuzz"


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_the_grammars_make_captures_that_are_worth_reading(grammar: object) -> None:
    captures = [read_or_refuse(grammar(random.Random(seed))) for seed in range(150)]  # type: ignore[operator]
    complete = [c for c in captures if c is not None]
    assert len(complete) > 75
    assert sum(len(c.segments) for c in complete) > 200
    assert any(c.files[0].damaged for c in complete) or "pcapng_by" not in repr(grammar)


def test_the_check_can_fail() -> None:
    capture = next(
        c for seed in range(99) if (c := read_or_refuse(GRAMMARS[0](random.Random(seed)))) and len(c.segments)
    )
    check(capture)
    capture.files[0].packets += 1
    with pytest.raises(AssertionError):
        check(capture)
