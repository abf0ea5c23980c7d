"""Stamps go from clock to clock and back to the nanosecond, and carry their error with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.clock.model.estimate import Estimate
from multitracer.clock.model.relation import Clock, ClockGraph, PlacementStatus, Relation
from multitracer.errors import ClockError
from multitracer.tables import NOT_A_TIME

S = 1_000_000_000
MS = 1_000_000
NOW = 1_795_252_741 * S
A, B, C, D = Clock("a"), Clock("b"), Clock("c", "monotonic"), Clock("d")

times = st.integers(min_value=-(1 << 61), max_value=1 << 61)
near = st.integers(min_value=-30 * 86_400 * S, max_value=30 * 86_400 * S)


def estimate(offset_ns: int = 0, skew_ppm: float = 0.0, **more: object) -> Estimate:
    known = {"first_ns": NOW, "last_ns": NOW + 300 * S, "uncertainty_ns": 1e6, "skew_uncertainty_ppm": 0.5}
    return Estimate(offset_ns=offset_ns, skew_ppm=skew_ppm, method="test", evidence=9, **(known | more))  # type: ignore[arg-type]


@given(
    first=times,
    offset=st.integers(min_value=-(1 << 60), max_value=1 << 60),
    skew=st.floats(-500, 500),
    away=st.lists(near, min_size=1, max_size=20),
)
def test_there_and_back_agrees_to_a_nanosecond(first: int, offset: int, skew: float, away: list[int]) -> None:
    there = estimate(offset, skew, first_ns=first, last_ns=first + 300 * S)
    stamps = np.array([first + each for each in away], dtype=np.int64)
    assert np.abs(there.inverse().at(there.at(stamps)) - stamps).max() <= 1
    assert np.abs(there.at(there.inverse().at(stamps)) - stamps).max() <= 1
    again = there.inverse().inverse()
    assert np.abs(again.at(stamps) - there.at(stamps)).max() <= 1


@given(skew=st.floats(-100, 100), away=st.lists(near, min_size=1, max_size=9))
def test_a_whole_path_there_and_back_agrees_to_a_nanosecond_per_hop(skew: float, away: list[int]) -> None:
    graph = ClockGraph([
        Relation(A, B, (estimate(-3 * S, skew),)),
        Relation(C, B, (estimate(NOW, -skew, first_ns=7_328 * S, last_ns=7_628 * S),)),
    ])  # fmt: skip
    stamps = NOW + np.array(away, dtype=np.int64)
    there = graph.place(stamps, A, C)
    assert np.abs(graph.place(there.time_ns, C, A).time_ns - stamps).max() <= 2
    assert (there.bound_ns >= 1e6).all()


def test_signs() -> None:
    ahead = estimate(2 * S, 50.0)
    """`to` is two seconds ahead and gains 50 microseconds each second."""
    assert ahead.at(NOW) == NOW + 2 * S
    assert ahead.at(NOW + 100 * S) == NOW + 102 * S + 5 * MS
    back = ahead.inverse()
    assert (back.first_ns, back.offset_ns) == (NOW + 2 * S, -2 * S)
    assert back.skew_ppm == pytest.approx(-50, abs=0.01)


def test_nanoseconds_survive_though_no_float_holds_them() -> None:
    exact = estimate(1, 0.0)
    assert exact.at(np.array([NOW + 1, NOW + 2, NOW + 3])).tolist() == [NOW + 2, NOW + 3, NOW + 4]


def test_the_error_is_smallest_at_the_pivot_and_is_stated_at_the_first_stamp() -> None:
    found = Estimate.around(
        NOW + 100 * S, 3e6, first_ns=NOW, last_ns=NOW + 200 * S, offset_ns=0, skew_ppm=0.0,
        skew_uncertainty_ppm=40.0, method="test", evidence=2,
    )  # fmt: skip
    assert found.bound_ns(NOW + 100 * S) == pytest.approx(3e6)
    assert found.uncertainty_ns == pytest.approx(5e6)
    assert found.bound_ns(NOW) == pytest.approx(5e6)
    assert found.inverse().bound_ns(NOW + 200 * S) == pytest.approx(5e6)


def test_causality_bounds_change_sides_with_the_direction() -> None:
    found = estimate(5, lower_ns=-10, upper_ns=20).inverse()
    assert (found.lower_ns, found.upper_ns) == (-20, 10)


@pytest.mark.parametrize("bad", [{"skew_ppm": np.nan}, {"uncertainty_ns": -1.0}, {"last_ns": NOW - 1}])
def test_an_estimate_that_makes_no_sense_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ClockError, match="cannot determine the clock offset, because"):
        estimate(**bad)  # type: ignore[arg-type]


# --- steps ---


def test_a_step_forward_leaves_a_gap_whose_stamps_are_marked() -> None:
    before, after = estimate(0), estimate(-2 * S, first_ns=NOW + 303 * S, last_ns=NOW + 500 * S)
    relation = Relation(A, B, (before, after))
    assert relation.steps_ns() == [-2 * S]
    placed = relation.place(np.array([NOW + 300 * S, NOW + 301 * S, NOW + 303 * S, NOW + 501 * S]))
    assert placed.status.tolist() == [
        PlacementStatus.PLACED,
        PlacementStatus.AMBIGUOUS,
        PlacementStatus.PLACED,
        PlacementStatus.EXTRAPOLATED,
    ]
    assert placed.time_ns.tolist() == [NOW + 300 * S, NOW + 301 * S, NOW + 301 * S, NOW + 499 * S]
    assert placed.bound_ns[1] > 2 * S


def test_a_step_back_is_resolved_by_the_order_of_the_records() -> None:
    before, after = estimate(0), estimate(2 * S, first_ns=NOW + 299 * S, last_ns=NOW + 500 * S)
    relation = Relation(A, B, (before, after))
    in_order = NOW + np.array([298, 299, 300, 299, 300, 301]) * S
    placed = relation.place(in_order)
    assert ((placed.time_ns - NOW) // S).tolist() == [298, 299, 300, 301, 302, 303]
    assert (placed.status == PlacementStatus.PLACED).all()
    alone = relation.place(np.array([NOW + 299 * S + 1]))
    assert alone.status.tolist() == [PlacementStatus.AMBIGUOUS]
    assert alone.bound_ns[0] > 2 * S


def test_beyond_the_evidence_the_bound_grows() -> None:
    relation = Relation(A, B, (estimate(0),))
    stamps = NOW + np.array([-3600, 0, 300, 3900]) * S
    placed = relation.place(stamps)
    assert placed.status.tolist() == [1, 0, 0, 1]
    assert placed.bound_ns[0] > placed.bound_ns[1]
    assert placed.bound_ns[3] > 3600 * 1000  # 1 ppm of an hour


# --- what cannot be placed ---


def test_what_cannot_be_placed_is_kept_marked_and_explained() -> None:
    relation = Relation(A, B, (estimate(0),))
    placed = relation.place(np.array([NOW, NOT_A_TIME, -(1 << 62)]))
    assert placed.status.tolist() == [PlacementStatus.PLACED, PlacementStatus.UNPLACED, PlacementStatus.UNPLACED]
    assert placed.time_ns.tolist() == [NOW, NOT_A_TIME, NOT_A_TIME]
    assert np.isnan(placed.bound_ns[1:]).all()
    assert "1 without a stamp" in placed.reason
    assert "73 years" in placed.reason


def test_a_clock_without_a_path_is_explained() -> None:
    graph = ClockGraph([Relation(A, B, (estimate(0),))], ["c and a: no packet is in both captures"])
    placed = graph.place(np.array([NOW]), D, A)
    assert placed.status.tolist() == [PlacementStatus.UNPLACED]
    assert (
        "cannot determine the clock offset, because c and a: no packet is in both captures; what "
        "would help" in placed.reason
    )
    with pytest.raises(ClockError, match="d:realtime and a:realtime: cannot determine the clock offset"):
        graph.path(D, A)


# --- paths ---


def test_the_path_with_the_least_uncertainty_is_taken() -> None:
    direct = Relation(A, D, (estimate(0, uncertainty_ns=5e6),))
    sure = [Relation(A, B, (estimate(7),)), Relation(D, B, (estimate(7),))]
    graph = ClockGraph([direct, *sure])
    assert [r.target for r in graph.path(A, D)] == [B, D]
    assert graph.place(np.array([NOW]), A, D).bound_ns[0] == pytest.approx(2**0.5 * 1e6)
    unsure = ClockGraph([direct, Relation(A, B, (estimate(7, uncertainty_ns=9e6),)), sure[1]])
    assert [r.target for r in unsure.path(A, D)] == [D]


def test_which_path_is_best_depends_on_when() -> None:
    early = Relation(A, B, (estimate(0, uncertainty_ns=1e5),))
    later = {"first_ns": NOW + 86_400 * S, "last_ns": NOW + 90_000 * S}
    late = Relation(B, A, (estimate(0, uncertainty_ns=1e6, **later),))
    graph = ClockGraph([early, late])
    assert graph.path(A, B, at_ns=[NOW])[0].estimates[0].uncertainty_ns == 1e5
    assert graph.path(A, B, at_ns=[NOW + 86_400 * S])[0].estimates[0].uncertainty_ns == pytest.approx(1e6)


@given(order=st.permutations(range(4)))
def test_the_order_of_the_edges_does_not_matter(order: list[int]) -> None:
    relations = [
        Relation(A, B, (estimate(3 * S, 20.0),)),
        Relation(B, C, (estimate(-NOW, 5.0, uncertainty_ns=2e6),)),
        Relation(C, D, (estimate(NOW, 0.0, first_ns=0, last_ns=300 * S),)),
        Relation(A, D, (estimate(0, 0.0, uncertainty_ns=1e9),)),
    ]
    stamps = NOW + np.arange(0, 300, 50) * S
    expected = ClockGraph(relations).place(stamps, A, D)
    found = ClockGraph([relations[i] for i in order]).place(stamps, A, D)
    assert (found.time_ns == expected.time_ns).all()
    assert found.bound_ns == pytest.approx(expected.bound_ns)


def test_names_of_clocks() -> None:
    assert Clock.parse("mobile") == Clock("mobile", "realtime")
    assert Clock.parse("mobile:monotonic") == Clock("mobile", "monotonic")
    assert Clock.parse("a:b.pcap") == Clock("a:b.pcap", "realtime")
    assert str(Clock("mobile")) == "mobile:realtime"
    assert str(Clock("", "utc")) == "utc"
