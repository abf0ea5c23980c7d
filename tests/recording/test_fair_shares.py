"""Fairness of the flows of real sessions: which are compared, over which time, and what else is said."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis.fairness import jain_index
from multitracer.errors import InputError
from multitracer.lab.scenario.library import load_scenario
from multitracer.recording.fair_shares import NO_COMMON_TIME, fair_shares
from multitracer.recording.read import read
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.recording.recording import Recording
    from tests.lab.shared_runs import SharedRuns

SAMPLES = Path(__file__).parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def two() -> Recording:
    return read(SAMPLES / "second-connection")


@pytest.fixture(scope="module")
def three_of_wtcp(shared_runs: SharedRuns) -> Recording:
    return read(shared_runs.session(load_scenario("wtcp-fig6")).folder)


def test_flows_of_wtcp_count_as_those_of_tcp(three_of_wtcp: Recording) -> None:
    fair = fair_shares(three_of_wtcp)
    assert fair.fairness["flows"].tolist() == [3]
    assert fair.shares["flow"].tolist() == [f"mobile-{n}:1025 > fixed:{5000 + n}" for n in (1, 2, 3)]
    assert fair.fairness["jain"][0] == pytest.approx(jain_index(fair.shares["rate_bps"].tolist()))
    length_s = (fair.fairness["end_ns"] - fair.fairness["begin_ns"])[0] / NS_PER_S
    assert 250 < length_s < 300, "the third begins at 30 s, and the run ends at 330 s"
    (back,) = fair_shares(three_of_wtcp, reverse=True).fairness.rows()
    assert (back["flows"], back["reason"]) == (0, "no flow")
    assert not fair.notes


def test_last_third_shows_flows_that_drift_apart(three_of_wtcp: Recording) -> None:
    fair = fair_shares(three_of_wtcp)
    (complete,), (late,) = fair.fairness.rows(), fair.late.rows()
    assert late["end_ns"] == complete["end_ns"]
    assert complete["end_ns"] - late["begin_ns"] == pytest.approx(
        (complete["end_ns"] - complete["begin_ns"]) / 3, abs=2
    )
    assert late["jain"] < 0.8
    assert complete["jain"] > 0.95
    assert len(fair_shares(three_of_wtcp, step_s=10).late) == 0


def test_wtcp_without_the_capture_of_its_receiver_is_named(three_of_wtcp: Recording) -> None:
    assert three_of_wtcp.folder is not None
    fair = fair_shares(read(three_of_wtcp.folder / "mobile-1"))
    assert fair.fairness["flows"].tolist() == [0]
    assert [note.partition(": ")[2] for note in fair.notes] == ["left out: no capture was made at its receiver"]


def test_flow_that_two_hosts_captured_counts_once(two: Recording) -> None:
    fair = fair_shares(two)
    (row,) = fair.fairness.rows()
    assert len(two) == 4
    assert row["flows"] == 2
    assert row["reason"] == ""
    assert fair.shares["share"].sum() == pytest.approx(1)


def test_gap_and_index_are_those_of_the_rates(two: Recording) -> None:
    fair = fair_shares(two)
    rate = fair.shares["rate_bps"]
    assert fair.fairness["gap"][0] == pytest.approx((rate.max() - rate.min()) / rate.min())
    assert fair.fairness["jain"][0] == pytest.approx(rate.sum() ** 2 / (2 * (rate**2).sum()))
    assert fair.fairness["rate_bps"][0] == pytest.approx(rate.sum())


def test_intervals_carry_what_the_receiver_got(two: Recording) -> None:
    over_time = fair_shares(two, step_s=1).shares
    seconds = (over_time["end_ns"] - over_time["begin_ns"]) / NS_PER_S
    brought = over_time["rate_bps"] * seconds / 8
    unique = {int(each) for capture in two.captures for each in capture.analysis.directions["unique_bytes"]}
    largest = brought[over_time["flow"] == "10.1.5.17:1025 > 10.1.5.18:5001"].sum()
    assert largest == pytest.approx(max(unique), rel=0.05), "all but the first payload and the last second"


def test_alone_a_flow_has_everything_and_no_gap(two: Recording) -> None:
    fair = fair_shares(two, step_s=5)
    alone = fair.fairness["flows"] == 1
    assert alone.any()
    assert np.isnan(fair.fairness["gap"][alone]).all()
    assert (fair.fairness["reason"][alone] == "a gap is between two flows or more").all()
    begins = fair.fairness["begin_ns"][alone]
    assert (fair.shares["share"][np.isin(fair.shares["begin_ns"], begins)] == 1).all()


def test_flows_one_after_the_other_have_no_fairness() -> None:
    fair = fair_shares(read(SAMPLES / "cellular_upload"))
    (row,) = fair.fairness.rows()
    assert (row["flows"], row["reason"]) == (3, NO_COMMON_TIME)
    assert (row["gap"], row["jain"], row["begin_ns"]) == (None, None, None)
    assert len(fair.shares) == 0


def test_other_way_is_of_the_other_ends_data(two: Recording) -> None:
    (row,) = fair_shares(two, reverse=True).fairness.rows()
    assert (row["flows"], row["reason"]) == (0, "no flow")


@pytest.mark.parametrize("step_s", [0.0, -1.0, float("nan"), float("inf"), 1e-9])
def test_bad_length_is_refused(two: Recording, step_s: float) -> None:
    with pytest.raises(InputError, match="step_s"):
        fair_shares(two, step_s=step_s)
