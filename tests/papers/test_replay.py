"""docs/papers/replay.md shows what its data hold, and virtual time and the kernel agree there."""

from __future__ import annotations

import pytest

from docs.papers.programs import replay, replay_pauses
from multitracer.lab.simulator.comparison import compare, runs_of


def test_the_page_shows_the_runs() -> None:
    page = replay.PAGE.read_text("utf-8")
    assert replay.filled(page) == page, "run python -m docs.papers.programs.replay page"
    assert replay_pauses.filled(page) == page, "run python -m docs.papers.programs.replay_pauses page"


@pytest.mark.parametrize("congestion", replay.CONTROLS)
def test_virtual_time_and_the_kernel_have_the_same_goodput(congestion: str) -> None:
    assert abs(replay.apart(congestion)) < replay.MOST_APART


@pytest.mark.parametrize("control", replay_pauses.CONTROLS)
@pytest.mark.parametrize("seed", replay_pauses.seeds())
def test_pauses_cost_in_virtual_time_what_they_cost_under_the_kernel(seed: int, control: str) -> None:
    """Traces drawn at random, of whose seeds none between the first and the last is left out unsaid."""
    assert abs(replay_pauses.apart(seed, control)) < replay.MOST_APART


def test_six_traces_or_more_have_pauses_of_a_third_of_a_second_to_three() -> None:
    lengths = [[length for _, length in replay_pauses.drawn(seed).idle_gaps_s] for seed in replay_pauses.seeds()]
    assert len(lengths) >= 6
    assert all(0.3 <= length <= 3 for each in lengths for length in each)
    assert any(length > 1.2 for each in lengths for length in each)


def test_a_run_over_pauses_comes_out_again() -> None:
    case = replay_pauses.drawn(replay_pauses.seeds()[0])
    again = replay_pauses.virtual(case, "cubic")
    (known,) = replay_pauses.rows(case.seed, "cubic", "virtual")
    assert [str(each) for each in again[4:6]] == [known["retransmissions"], known["timeouts"]]
    assert float(str(again[3])) == pytest.approx(float(known["goodput_bytes_per_s"]), abs=0.001)


def test_a_run_of_the_page_comes_out_again() -> None:
    radio = replay.radio_under("rehearsed-drive")
    first = next(iter(runs_of(radio.scenario, replay.COUNT, lasts_s=radio.trace_s)))
    (again,) = compare([first], ["reno"])
    known = next(each for each in replay.compared("rehearsed-drive") if each.transport == "reno").outcomes[0]
    (outcome,) = again.outcomes
    assert outcome.goodput_bits_per_s == pytest.approx(known.goodput_bits_per_s, abs=0.001)
    assert (outcome.retransmissions, outcome.timeouts) == (known.retransmissions, known.timeouts)
