"""Windows and epochs around handovers, by numbers that can be counted by hand."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis.mobility.around_handovers import (
    DriveTraffic,
    LimitIntervals,
    SentSegments,
    around,
    epochs,
    order_statistic,
)
from multitracer.analysis.mobility.handovers import handovers_of
from multitracer.analysis.mobility.series import Samples, Steps
from multitracer.errors import InputError
from multitracer.schemas.signalling import HANDOVERS
from multitracer.units import NS_PER_S
from tests.analysis.mobility.tables import at_ns, table_of
from tests.analysis.mobility.test_handovers import ordered

if TYPE_CHECKING:
    from multitracer.tables import Row, Table


def changes(*at: float) -> Table:
    rows = [
        ordered(t, n, n + 1, earliest_ns=at_ns(t), latest_ns=at_ns(t + 0.5), complete_ns=at_ns(t + 0.5))
        for n, t in enumerate(at)
    ]
    return handovers_of(None, table_of(HANDOVERS, rows))


def instants(*at: float) -> np.ndarray:
    return np.array([at_ns(t) for t in at], dtype=np.int64)


def window(table: Table, name: str, handover: int = 0) -> Row:
    (row,) = (r for r in table.rows() if r["window"] == name and r["handover"] == handover)
    return row


def test_windows_and_their_throughput() -> None:
    rate = Steps(instants(0, 100, 100.5, 103, 300), np.array([8e6, 0.0, 2e6, 8e6, 8e6]))
    table, _ = around(changes(100.0), DriveTraffic(throughput=rate))
    assert table["window"].tolist() == ["baseline", "before", "during", "after"]
    assert table["throughput_bps"] == pytest.approx([8e6, 8e6, 0.0, 5e6])
    assert table["throughput_ratio"] == pytest.approx([1, 1, 0, 0.625])
    base = window(table, "baseline")
    assert (base["begin_ns"], base["end_ns"]) == (at_ns(35), at_ns(45.5))


def test_a_change_in_the_baseline_makes_it_unusable() -> None:
    rate = Steps(instants(0, 300), np.array([8e6, 8e6]))
    table, _ = around(changes(40.0, 100.0), DriveTraffic(throughput=rate))
    assert window(table, "baseline", 1)["reason"] == "another change of the cell lies in it"
    assert window(table, "after", 1)["throughput_ratio"] is None
    assert window(table, "after", 1)["throughput_bps"] == 8e6


def test_a_baseline_without_throughput_has_the_reason() -> None:
    half = Steps(instants(0, 40, 300), np.array([8e6, np.nan, np.nan]))
    nothing = Steps(instants(0, 300), np.array([0.0, 0.0]))
    reasons = [
        window(around(changes(100.0), DriveTraffic(rate))[0], "baseline")["reason"] for rate in (None, half, nothing)
    ]
    assert reasons == [
        "no throughput was recorded",
        "less than half of its throughput is known",
        "no data arrived in it, so nothing has a ratio to it",
    ]


def test_round_trips_and_losses_in_their_windows() -> None:
    rtt = Samples(instants(40, 97, 98, 99, 101), np.array([50e6, 10e6, 20e6, 60e6, 400e6]))
    segments = SentSegments(instants(96, 97, 98, 100.1, 100.2), np.array([False, True, False, True, True]))
    table, _ = around(changes(100.0), DriveTraffic(rtt=rtt, segments=segments))
    before, during, after = (window(table, name) for name in ("before", "during", "after"))
    assert (before["rtt_median_ms"], before["rtt_samples"]) == (20.0, 3)
    assert (before["sent"], before["lost"]) == (3, 1)
    assert during["loss_ratio"] == 1.0
    assert (after["sent"], after["loss_ratio"], after["rtt_median_ms"]) == (0, None, 400.0)


def test_what_is_not_given_is_missing() -> None:
    row = window(around(changes(100.0), DriveTraffic())[0], "after")
    names = ("throughput_bps", "throughput_ratio", "rtt_median_ms", "rtt_samples", "sent", "lost")
    assert [row[name] for name in names] == [None] * 6


def test_shares_of_limits_sum_to_one() -> None:
    limits = LimitIntervals(instants(95, 97, 95), instants(97, 100, 96), np.array(["link", "recovery", "application"]))
    _, shares = around(changes(100.0), DriveTraffic(limits=limits))
    before = {r["limit"]: r["share"] for r in shares.rows() if r["window"] == "before"}
    # 5 s, all of it busy, six seconds of transfers
    assert before == pytest.approx({"link": 2 / 6, "recovery": 3 / 6, "application": 1 / 6})
    after = {r["limit"]: r["share"] for r in shares.rows() if r["window"] == "after"}
    assert after == {"idle": 1.0}


def test_no_handover_has_no_windows() -> None:
    table, shares = around(changes(), DriveTraffic(rtt=Samples(instants(1), np.array([1.0]))))
    assert (len(table), len(shares)) == (0, 0)


def test_epochs_lay_handovers_over_each_other() -> None:
    at = [100.0 * n for n in range(1, 9)]
    edges = [edge for t in at for edge in (t - 50, t + 0.25, t + 1.25)]
    values = [value for n in range(8) for value in (8e6, 0.0, 1e6 * n)]
    table = epochs(changes(*at), Steps(instants(*edges, 1000), np.array([*values, 0.0])), seed=1)
    assert len(table) == 40
    by_begin = {row["begin_s"]: row for row in table.rows()}
    assert by_begin[-3.0]["mean"] == pytest.approx(8e6)
    assert by_begin[0.0]["mean"] == pytest.approx(0.0)
    assert by_begin[5.0]["n"] == 8
    assert by_begin[5.0]["mean"] == pytest.approx(3.5e6)
    assert by_begin[5.0]["median"] == pytest.approx(3.5e6)
    assert (by_begin[5.0]["median_low"], by_begin[5.0]["median_high"]) == (0.0, 7e6)
    assert 1e6 < by_begin[5.0]["mean_low"] < 3.5e6 < by_begin[5.0]["mean_high"] < 6e6


def test_epochs_repeat_with_their_seed() -> None:
    at = [100.0 * n for n in range(1, 9)]
    series = Samples(instants(*[t + 1 for t in at]), np.arange(8.0))
    one, again, other = (epochs(changes(*at), series, seed=seed) for seed in (3, 3, 4))
    assert one["mean_low"].tobytes() == again["mean_low"].tobytes()
    assert one["mean_low"].tobytes() != other["mean_low"].tobytes()


def test_bin_without_samples_is_missing_and_no_zero() -> None:
    table = epochs(changes(100.0), Samples(instants(100.3), np.array([5.0])), seed=1)
    assert table["n"].sum() == 1
    assert np.isfinite(table["mean"]).sum() == 1
    assert np.isnan(table["mean_low"]).all()


def test_handovers_of_uncertain_time_are_counted_and_left_out() -> None:
    late = ordered(100, 1, 2, earliest_ns=at_ns(90), latest_ns=at_ns(100))
    judged = handovers_of(None, table_of(HANDOVERS, [late]))
    table = epochs(judged, Steps(instants(0, 200), np.array([1.0, 1.0])), seed=1)
    assert table.provenance["left_out"] == {"time not known well enough": 1}
    assert not table["n"].any()


@pytest.mark.parametrize("bin_s", [0.0, -1.0, float("nan"), 1e-9])
def test_impossible_bins_are_refused(bin_s: float) -> None:
    with pytest.raises(InputError, match="epochs: "):
        epochs(changes(100.0), Samples(instants(100), np.array([1.0])), seed=1, bin_s=bin_s)


@pytest.mark.parametrize("number", [0, 5, 6, 8, 9, 20, 100, 999, 1000])
def test_rank_of_the_median_holds_its_confidence(number: int) -> None:
    rank = order_statistic(number)

    def missed(k: int) -> float:
        return sum(comb(number, j) for j in range(k)) / 2**number

    assert missed(rank) <= 0.025
    assert number >= 1000 or missed(rank + 1) > 0.025
    assert (rank > 0) == (number >= 6)


def test_intervals_hold_what_they_promise() -> None:
    """Of 300 experiments whose truth is known; the bootstrap of ten values is known to fall short."""
    random = np.random.default_rng(5)
    at = [100.0 * n for n in range(1, 11)]
    judged = changes(*at)
    hits = np.zeros(2)
    for seed in range(300):
        values = random.normal(3.0, 1.0, len(at))
        series = Samples(instants(*[t + 1 for t in at]), values)
        table = epochs(judged, series, seed=seed, window_s=(0, 2), bin_s=2.0)
        (row,) = table.rows()
        hits += [row["mean_low"] <= 3 <= row["mean_high"], row["median_low"] <= 3 <= row["median_high"]]
    assert hits[0] / 300 > 0.86
    assert hits[1] / 300 > 0.95


def test_eight_hours_of_samples_are_quick_enough_to_be_used() -> None:
    number = 200_000
    time = np.arange(number) * (NS_PER_S // 7) + at_ns(0)
    judged = changes(*np.arange(60, 20_000, 60).tolist())
    table = epochs(judged, Samples(time, np.ones(number)), seed=1)
    assert (table["mean"] == 1.0).all()
