"""The table of cells, by small drives whose numbers can be counted by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.analysis.mobility.cells import HOLD_S, CellVisits, cell_visits_of, cells_of
from multitracer.analysis.mobility.handovers import handovers_of
from multitracer.analysis.mobility.route import route_of
from multitracer.analysis.mobility.series import Samples, Steps, quartiles
from multitracer.schemas.radio import POSITION, RADIO
from multitracer.schemas.signalling import HANDOVERS
from multitracer.units import NS_PER_S
from tests.analysis.mobility.tables import at_ns, table_of
from tests.analysis.mobility.test_handovers import lte, ordered
from tests.analysis.mobility.test_route import north

if TYPE_CHECKING:
    from multitracer.tables import Row


def cell_visits(rows: list[Row]) -> CellVisits:
    radio = table_of(RADIO, rows)
    return cell_visits_of(radio, handovers_of(radio))


THERE_AND_BACK = [lte(t, 7 if 10 <= t < 15 else 5, rsrp_dbm=-80.0 - t, sinr_db=float(t)) for t in range(21)]


def test_time_between_two_cells_counts_half_for_each() -> None:
    cells = cells_of(cell_visits(THERE_AND_BACK))
    assert cells["cell_id"].tolist() == [5, 7]
    assert cells["seconds"].tolist() == [15.0, 5.0]
    assert cells["visits"].tolist() == [2, 1]
    assert cells["handovers_in"].tolist() == [1, 1]
    assert cells["handovers_out"].tolist() == [1, 1]


def test_levels_are_quartiles_of_the_readings() -> None:
    cells = cells_of(cell_visits(THERE_AND_BACK))
    assert cells["readings"].tolist() == [16, 5]
    assert cells["rsrp_median_dbm"][1] == -92.0
    assert [cells[f"sinr_{part}_db"][1] for part in ("q1", "median", "q3")] == [11.0, 12.0, 13.0]
    assert np.isnan(cells["rscp_q1_dbm"]).all()


def test_sources_that_are_not_there_give_missing_values() -> None:
    rows = list(cells_of(cell_visits(THERE_AND_BACK)).rows())
    missing = [name for name, value in rows[0].items() if value is None]
    assert {"distance_m", "throughput_q1_bps", "rtt_median_ns", "outages", "outage_s"} <= set(missing)


def test_traffic_of_each_cell() -> None:
    seconds = np.arange(21)
    rate = Steps(np.array([at_ns(t) for t in range(21)]), np.where((seconds >= 10) & (seconds < 15), 2e6, 8e6))
    rtt = Samples(np.array([at_ns(t + 0.2) for t in (3, 4, 11, 12, 13)]), np.array([10.0, 30.0, 1.0, 2.0, 9.0]))
    outages = np.array([at_ns(8), at_ns(12)]), np.array([at_ns(11), at_ns(13)])
    cells = cells_of(cell_visits(THERE_AND_BACK), throughput=rate, rtt=rtt, outages=outages)
    assert cells["throughput_median_bps"].tolist() == [8e6, 2e6]
    assert cells["rtt_median_ns"].tolist() == [20, 2]
    assert cells["outages"].tolist() == [1, 1]
    assert cells["outage_s"] == pytest.approx([1.5, 2.5])


def test_distance_in_each_cell() -> None:
    route = route_of(table_of(POSITION, [north(t, 10.0 * t, speed_mps=10.0) for t in range(21)]))
    assert cells_of(cell_visits(THERE_AND_BACK), route=route)["distance_m"] == pytest.approx([150.0, 50.0], abs=0.01)


def test_time_without_readings_counts_for_no_cell() -> None:
    rows = [lte(t, 5) for t in (0, 1, 2, 2 + HOLD_S + 1, 2 + HOLD_S + 2)]
    table = cell_visits(rows)
    assert table.table["seconds"].tolist() == [3.0]
    assert table.at(np.array([at_ns(0.5), at_ns(7), at_ns(-1), at_ns(99)])).tolist() == [0, -1, -1, -1]


def test_leg_of_a_dual_connection_is_the_same_cell() -> None:
    rows = [lte(t, 5, rat="NR" if t % 7 > 4 else "LTE") for t in range(20)]
    assert cells_of(cell_visits(rows))["rat"].tolist() == ["LTE"]


def test_cells_without_identity_are_told_apart_by_pci_and_channel() -> None:
    rows = [lte(t, physical_cell_id=1, channel=1300 if t < 5 else 1400) for t in range(10)]
    assert cells_of(cell_visits(rows))["channel"].tolist() == [1300, 1400]


def test_physical_cell_of_one_identity_is_that_cell() -> None:
    rows = [lte(t, 9 if t < 5 else None, physical_cell_id=1 + (5 <= t < 9), channel=1300) for t in range(14)]
    cells = cells_of(cell_visits(rows))
    assert cells["physical_cell_id"].tolist() == [1, 2]
    assert cells["visits"].tolist() == [2, 1]


def test_cells_of_signalling_alone() -> None:
    handovers = handovers_of(None, table_of(HANDOVERS, [ordered(10, 1, 2), ordered(70, 2, 1)]))
    cells = cells_of(cell_visits_of(None, handovers))
    assert cells["physical_cell_id"].tolist() == [2, 1]
    assert cells["seconds"] == pytest.approx([60.0, 0.05], abs=1e-6)
    assert cells["handovers_in"].tolist() == [1, 1]


def test_no_readings_give_no_cells() -> None:
    assert not len(cells_of(cell_visits([])))


@given(st.lists(st.tuples(st.integers(-1, 3), st.floats(-1e6, 1e6) | st.just(np.nan)), max_size=30))
def test_quartiles_are_those_of_numpy(drawn: list[tuple[int, float]]) -> None:
    group = np.array([each for each, _ in drawn], dtype=np.int64)
    value = np.array([each for _, each in drawn], dtype=np.float64)
    result = quartiles(group, value, 4)
    for number in range(4):
        some = value[(group == number) & ~np.isnan(value)]
        expected = np.quantile(some, [0.25, 0.5, 0.75]) if len(some) else [np.nan] * 3
        assert result[:, number] == pytest.approx(expected, nan_ok=True, abs=1e-6)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from([0.0, 1.0, 5.0, np.nan])), max_size=12),
    st.none() | st.integers(1, 5),
    st.integers(-2, 22),
    st.integers(0, 10),
)
def test_means_of_steps_are_those_of_small_slices(
    drawn: list[tuple[int, float]], hold_s: int | None, begin: int, length: int
) -> None:
    steps = Steps(
        np.array([at_ns(t) for t, _ in drawn], dtype=np.int64),
        np.array([v for _, v in drawn]),
        None if hold_s is None else hold_s * NS_PER_S,
    )
    values = []
    for slice_s in np.arange(begin, begin + length, 0.5):
        before = [(t, n, v) for n, (t, v) in enumerate(drawn) if t <= slice_s]
        after = [t for t, _ in drawn if t > slice_s]
        t, _, value = max(before, default=(0, 0, np.nan), key=lambda each: each[:2])
        held = bool(after) if hold_s is None else slice_s < t + hold_s
        values.append(value if before and held else np.nan)
    known = [value for value in values if not np.isnan(value)]
    mean, covered = steps.mean(np.array([at_ns(begin)]), np.array([at_ns(begin + length)]))
    assert mean[0] == pytest.approx(np.mean(known) if known else np.nan, nan_ok=True)
    assert covered[0] == pytest.approx(len(known) / len(values) if values else 0.0)


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from([-1, 1, 2, 3]), st.sampled_from([-1, 7, 8])), max_size=30))
def test_stays_do_not_overlap_and_hold_no_time_twice(drawn: list[tuple[float, int, int]]) -> None:
    table = cell_visits([lte(t, cell, physical_cell_id=physical) for t, cell, physical in drawn])
    assert (table.end_ns[:-1] <= table.begin_ns[1:]).all()
    total = table.table["seconds"].sum()
    assert total == pytest.approx(float((table.end_ns - table.begin_ns).sum()) / NS_PER_S)
    if drawn:
        times = [t for t, _, _ in drawn]
        assert total <= max(times) - min(times) + 1e-6
