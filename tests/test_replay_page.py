"""docs/replay.md shows what docs/replay/*.csv hold, and virtual time and the kernel agree there."""

from __future__ import annotations

import pytest

from docs.programs import replay
from multitracer.simulator.comparison import compare, runs_of


def test_the_page_shows_the_runs() -> None:
    page = replay.PAGE.read_text("utf-8")
    assert replay.filled(page) == page, "run python -m docs.programs.replay page"


@pytest.mark.parametrize("congestion", replay.CONTROLS)
def test_virtual_time_and_the_kernel_have_the_same_goodput(congestion: str) -> None:
    assert abs(replay.apart(congestion)) < replay.MOST_APART


def test_a_run_of_the_page_comes_out_again() -> None:
    radio = replay.radio_under("rehearsed-drive")
    first = next(iter(runs_of(radio.scenario, replay.COUNT, lasts_s=radio.trace_s)))
    (again,) = compare([first], ["reno"])
    known = next(each for each in replay.compared("rehearsed-drive") if each.transport == "reno").outcomes[0]
    (outcome,) = again.outcomes
    assert outcome.goodput_bits_per_s == pytest.approx(known.goodput_bits_per_s, abs=0.001)
    assert (outcome.retransmissions, outcome.timeouts) == (known.retransmissions, known.timeouts)
