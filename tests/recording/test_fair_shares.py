"""Fairness of the flows of real sessions: which are compared, over which time, and what else is said."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.errors import InputError
from multitracer.recording.fair_shares import NO_COMMON_TIME, fair_shares
from multitracer.recording.read import read
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.recording.recording import Recording

SAMPLES = Path(__file__).parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def two() -> Recording:
    return read(SAMPLES / "second-connection")


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
