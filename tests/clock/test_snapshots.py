"""Readings of a host's own clocks: exact to their bracket, steps found by themselves."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import parsers
from multitracer.clock.model.relation import Clock, ClockGraph
from multitracer.clock.sources.paired_stamps import UTC, fitted, relations_of_readings, rigid
from multitracer.errors import ClockError
from parsers import clocks
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from multitracer.tables import Table

S, MS, US = 1_000_000_000, 1_000_000, 1_000
NOW = 1_795_252_741 * S
BOOTED = 7_328 * S


def table(*records: dict[str, object]) -> Table:
    text = "".join(json.dumps(record) + "\n" for record in records).encode()
    return clocks.parse(io.BytesIO(text), path="clocks.jsonl")["clock_readings"]


def reading(
    at_s: float, *, host: str = "mobile", step_ns: int = 0, took_ns: int = 4 * US, **more: object
) -> dict[str, object]:
    at = round(at_s * S)
    return {
        "host": host,
        "monotonic_before_ns": BOOTED + at,
        "realtime_ns": NOW + at + took_ns // 3 + step_ns,
        "monotonic_after_ns": BOOTED + at + took_ns,
        "boottime_ns": BOOTED + at + took_ns // 2,
        **more,
    }  # fmt: skip


def graph(*records: dict[str, object]) -> ClockGraph:
    return ClockGraph(list(relations_of_readings(table(*records))))


def test_clocks_of_a_host_are_exact_to_the_bracket() -> None:
    found = graph(*(reading(t, took_ns=took) for t, took in ((0, 50 * US), (1, 3 * US), (2, 90 * US))))
    placed = found.place(np.array([BOOTED + S]), Clock("mobile", "monotonic"), Clock("mobile"))
    assert abs(int(placed.time_ns[0]) - (NOW + S)) <= placed.bound_ns[0] <= 2 * US
    back = found.place(placed.time_ns, Clock("mobile"), Clock("mobile", "boottime"))
    assert abs(int(back.time_ns[0]) - (BOOTED + S)) <= 4 * US


@pytest.mark.parametrize("step_s", [37, -2, 0.002])
def test_a_step_of_the_wall_clock_begins_a_new_interval(step_s: float) -> None:
    step = round(step_s * S)
    found = graph(*(reading(t, step_ns=step if t > 20 else 0) for t in range(40)))
    (relation,) = (r for r in found.relations if r.target == Clock("mobile"))
    assert len(relation.estimates) == 2
    assert relation.steps_ns() == [pytest.approx(step, abs=5 * US)]
    assert relation.estimates[0].last_ns < BOOTED + 21 * S <= relation.estimates[1].first_ns
    stamps = np.array([BOOTED + 20 * S, BOOTED + 21 * S])
    placed = found.place(stamps, Clock("mobile", "monotonic"), Clock("mobile"))
    assert (placed.time_ns - NOW).tolist() == pytest.approx([20 * S, 21 * S + step], abs=5 * US)


def test_a_suspend_is_a_step_of_boottime_only() -> None:
    records = [reading(t) for t in range(10)]
    for record in records[5:]:
        record["boottime_ns"] = int(str(record["boottime_ns"])) + 600 * S
        record["realtime_ns"] = int(str(record["realtime_ns"])) + 600 * S
    found = graph(*records)
    steps = {relation.target.domain: relation.steps_ns() for relation in found.relations}
    assert steps["boottime"] == [pytest.approx(600 * S, abs=10 * US)]


def test_two_hosts_with_the_same_readings_are_one_kernel() -> None:
    same = [reading(t, host=host) for t in range(5) for host in ("mobile", "fixed")]
    found = graph(*same)
    placed = found.place(np.array([NOW + 3600 * S]), Clock("fixed"), Clock("mobile"))
    assert (placed.time_ns[0], placed.bound_ns[0], placed.status[0]) == (NOW + 3600 * S, 0, 0)


def test_two_hosts_with_readings_of_their_own_are_not() -> None:
    found = graph(*(reading(t + (host == "fixed") * 1e-6, host=host) for t in range(5) for host in ("mobile", "fixed")))
    with pytest.raises(ClockError):
        found.path(Clock("fixed"), Clock("mobile"))


def test_synchronized_kernels_are_related_through_utc_within_their_bounds() -> None:
    state: dict[str, Any] = {"synchronized": True, "max_error_ns": 8 * MS, "est_error_ns": MS, "offset_ns": 2 * MS}
    other: dict[str, Any] = {"synchronized": 1, "max_error_ns": 6 * MS}
    records = [reading(t, **state) for t in range(5)] + [reading(t + 0.1, host="fixed", **other) for t in range(5)]
    found = graph(*records)
    path = found.path(Clock("mobile"), Clock("fixed"), at_ns=[NOW + 2 * S])
    assert [relation.target for relation in path] == [UTC, Clock("fixed")]
    placed = found.place(np.array([NOW + 2 * S]), Clock("mobile"), Clock("fixed"))
    assert placed.time_ns[0] == pytest.approx(NOW + 2 * S + 2 * MS, abs=10 * US)
    assert placed.bound_ns[0] == pytest.approx(10 * MS, rel=0.05)


def test_a_kernel_that_is_not_synchronized_vouches_for_nothing() -> None:
    assert UTC not in graph(*(reading(t, synchronized=0, max_error_ns=16 * S) for t in range(5))).clocks


def test_what_is_no_reading_is_skipped_and_counted() -> None:
    good = json.dumps(reading(0))
    bad = ['{"host": "mobile"}', "[]", "no json", good.replace("mobile", "x" * 999), '{"a":' * 5000]
    text = "\n".join([good, *bad, good]) + '\n{"host": "mob'
    found = clocks.parse(io.BytesIO(text.encode()), path="clocks.jsonl")["clock_readings"]
    assert len(found) == 2
    assert found.provenance["skipped"] == {"not a clock reading": 5}
    assert "truncated" in found.provenance["damaged"]


def test_a_log_that_is_made_up_costs_little_and_says_nothing() -> None:
    jumping = [reading(t, step_ns=t % 2 * S) for t in range(4_000)]
    hosts = [reading(t, host=f"host {t}") for t in range(2_000)]
    assert graph(*jumping).relations == []
    assert len(graph(*hosts).clocks) < 300


def test_an_absurdly_long_bracket_says_nothing() -> None:
    assert graph(reading(0, took_ns=5 * S)).relations == []


def test_the_bundled_sessions_hosts_share_their_clocks() -> None:
    _, tables = parsers.read(SAMPLES / "cellular_upload" / "clocks.jsonl")
    assert isinstance(tables, dict)
    found = ClockGraph(list(relations_of_readings(tables["clock_readings"])))
    assert [r.method for r in found.path(Clock("fixed"), Clock("mobile"))] == ["one kernel"]
    (relation,) = (r for r in found.relations if r.target == Clock("mobile") and r.source.domain == "monotonic")
    assert relation.estimates[0].uncertainty_ns < 20 * US


# --- pairs of clocks that run at their own rates ---


def pairs(
    seed: int = 1, *, n: int = 60, skew_ppm: float = 40.0, step_ns: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    start = NOW + np.sort(random.integers(0, 600 * S, n))
    truth = start + 2 * S + np.rint((start - NOW) * skew_ppm * 1e-6).astype(np.int64)
    error = random.integers(50 * US, 2 * MS, n)
    end = truth + np.rint(random.normal(0, error / 1.96)).astype(np.int64)
    return start, end + np.where(start > NOW + 300 * S, step_ns, 0), error


def test_a_line_through_claps_says_offset_and_rate_and_how_sure_it_is() -> None:
    covered = 0
    for seed in range(100):
        (found,) = fitted(*pairs(seed), method="clapperboard")
        true_offset = 2 * S + (found.first_ns - NOW) * 40e-6
        assert abs(found.offset_ns - true_offset) < 4 * found.uncertainty_ns < 2 * MS
        assert abs(found.skew_ppm - 40) < 4 * found.skew_uncertainty_ppm < 4
        covered += abs(found.offset_ns - true_offset) <= found.uncertainty_ns
    assert 88 <= covered <= 100


def test_a_step_between_claps_is_found() -> None:
    found = fitted(*pairs(step_ns=-2 * S), method="clapperboard")
    assert len(found) == 2
    middle = NOW + 300 * S
    assert found[1].offset_at(middle) - found[0].offset_at(middle) == pytest.approx(-2 * S, abs=5 * MS)


def test_a_single_pair_leaves_the_rate_open() -> None:
    (found,) = fitted(np.array([NOW]), np.array([NOW + S]), np.array([MS]), method="clapperboard")
    assert (found.offset_ns, found.skew_uncertainty_ppm) == (S, 100)
    assert found.bound_ns(NOW + 1000 * S) == pytest.approx(100 * MS, rel=0.01)


@pytest.mark.parametrize("estimator", [fitted, rigid])
def test_no_pair_at_all_is_refused(estimator: object) -> None:
    nothing = np.empty(0, dtype=np.int64)
    with pytest.raises(ClockError, match=r"cannot determine the clock offset, because .*; what would help"):
        estimator(nothing, nothing, nothing, method="clapperboard")  # type: ignore[operator]
