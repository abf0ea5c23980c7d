"""A session's clocks are found with no hint, whatever error its recorder's clock had."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import multitracer as mt
from multitracer.clock.model.edges import CLOCK_EDGES, edges_table, mapping_table, put_together, relations_of
from multitracer.clock.model.relation import Clock, PlacementStatus
from multitracer.clock.session_clock import Clocks, _first_of_each, clocks_of
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.model import ClockSetting as WrongClock
from multitracer.lab.simulator.network import EPOCH_NS
from multitracer.lab.simulator.run import record_virtual
from multitracer.recording.read import read
from multitracer.tables import NOT_A_TIME
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

S, MS = 1_000_000_000, 1_000_000
MOBILE, FIXED = Clock("mobile"), Clock("fixed")
OFFSET_S, SKEW_PPM = -12.5, 83.0


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a virtual session over 200 s, data both ways, whose fixed host's clock is wrong."""
    folder = tmp_path_factory.mktemp("sessions") / "shifted"
    scenario = replace(load_scenario("clock-shift"), clock=WrongClock(offset_s=OFFSET_S, skew_ppm=SKEW_PPM))
    record_virtual(scenario, folder)
    return folder


@pytest.fixture(scope="module")
def found(shifted: Path) -> Clocks:
    return clocks(shifted)


def clocks(folder: Path, **options: Any) -> Clocks:
    session = read(folder)
    return clocks_of(session, session.captures, **options)


def fixed_ns(true_ns: np.ndarray) -> np.ndarray:
    """Return what the fixed host's clock says at instants of the mobile's, which is right."""
    drift = np.rint((true_ns - EPOCH_NS) * SKEW_PPM * 1e-6).astype(np.int64)
    return true_ns + drift + round(OFFSET_S * S)


def test_an_injected_offset_and_drift_are_recovered_with_no_hint(found: Clocks) -> None:
    assert found.reference == MOBILE
    truth = EPOCH_NS + np.arange(10, 250, 10) * S
    placed = found.place(fixed_ns(truth), FIXED)
    error = np.abs(placed.time_ns - truth)
    assert error.max() < 2 * MS
    assert (error <= placed.bound_ns).all()
    assert (placed.status == PlacementStatus.PLACED).all()
    (complete,) = put_together(found.graph.path(FIXED, MOBILE))
    assert complete.skew_ppm == pytest.approx(-SKEW_PPM, abs=1)
    assert complete.offset_ns > 12 * S  # the fixed host is behind: its stamps must grow


def test_segments_without_a_time_tell_nothing_of_clocks(shifted: Path) -> None:
    session = read(shifted)
    for capture in session.captures:
        time_ns = capture.tables.segments["time_ns"].copy()
        time_ns[-5:] = NOT_A_TIME
        capture.tables.segments.columns["time_ns"] = time_ns
    without = clocks_of(session, session.captures)
    truth = EPOCH_NS + np.arange(10, 250, 10) * S
    placed = without.place(fixed_ns(truth), FIXED)
    assert np.abs(placed.time_ns - truth).max() < 2 * MS
    assert (placed.status == PlacementStatus.PLACED).all()
    (complete,) = put_together(without.graph.path(FIXED, MOBILE))
    assert EPOCH_NS < complete.inverse().first_ns < complete.inverse().last_ns


def test_the_other_way_round_signs_change(shifted: Path) -> None:
    found = clocks(shifted, reference="fixed", thorough=False)
    assert found.reference == FIXED
    truth = EPOCH_NS + np.arange(10, 250, 10) * S
    placed = found.place(truth, MOBILE)
    assert np.abs(placed.time_ns - fixed_ns(truth)).max() < 2 * MS


def test_without_the_link_the_packets_alone_say_it(shifted: Path, tmp_path: Path) -> None:
    folder = tmp_path / "packets"
    shutil.copytree(shifted, folder, ignore=shutil.ignore_patterns("rlp.pcapng", "clocks.jsonl", "truth"))
    found = clocks(folder)
    between = {each.method for each in found.graph.relations if each.source.host != each.target.host}
    assert between == {"two captures"}
    truth = EPOCH_NS + np.array([20, 130, 240]) * S
    placed = found.place(fixed_ns(truth), FIXED)
    error = np.abs(placed.time_ns - truth)
    assert error.max() < 2 * MS
    assert (error <= placed.bound_ns).all()
    assert placed.bound_ns.max() < 25 * MS
    (complete,) = put_together(found.graph.path(FIXED, MOBILE))
    assert complete.skew_ppm == pytest.approx(-SKEW_PPM, abs=1)


def test_every_clock_of_both_hosts_comes_onto_the_reference(found: Clocks) -> None:
    table = mapping_table(found.graph, found.reference)
    named = {(row["host"], row["domain"]) for row in table.rows()}
    hosts = {("fixed", "realtime"), ("fixed", "monotonic"), ("mobile", "monotonic")}
    assert named == hosts | {("fixed", "tsval"), ("mobile", "tsval")}
    assert all(row["reason"] == "" for row in table.rows())
    (monotonic,) = (row for row in table.rows() if (row["host"], row["domain"]) == ("fixed", "monotonic"))
    stamps = np.array([monotonic["first_ns"], monotonic["last_ns"]])
    by_hops = found.place(stamps, Clock("fixed", "monotonic"))
    at_once = stamps + monotonic["offset_ns"]
    at_once = at_once + np.rint(monotonic["skew_ppm"] * 1e-6 * (stamps - stamps[0])).astype(np.int64)
    assert np.abs(by_hops.time_ns - at_once).max() <= 2


def test_a_wrong_claim_of_one_kernel_is_disproved_by_packets(shifted: Path, tmp_path: Path) -> None:
    folder = tmp_path / "claimed"
    shutil.copytree(shifted, folder, ignore=shutil.ignore_patterns("rlp.pcapng", "truth"))
    text = (folder / "clocks.jsonl").read_text()
    own = [line for line in text.splitlines() if '"mobile"' in line]
    (folder / "clocks.jsonl").write_text("".join(f"{each}\n{each.replace('mobile', 'fixed')}\n" for each in own))
    found = clocks(folder, thorough=False)
    assert "one kernel" not in {relation.method for relation in found.graph.relations}
    (sentence,) = found.warnings
    assert "packets arrive up to 12," in sentence


def test_the_order_of_the_captures_does_not_matter(shifted: Path, found: Clocks) -> None:
    session = read(shifted)
    one, other = found, clocks_of(session, session.captures[::-1])
    assert one.reference == other.reference
    stamps = fixed_ns(EPOCH_NS + np.arange(10, 250, 10) * S)
    assert np.abs(one.place(stamps, FIXED).time_ns - other.place(stamps, FIXED).time_ns).max() <= 1


def test_a_table_of_edges_is_the_graph(found: Clocks) -> None:
    table = edges_table(found.graph.relations)
    again = relations_of(table)
    assert edges_table(again).schema is CLOCK_EDGES
    assert list(edges_table(again).rows()) == list(table.rows())


def test_a_radio_log_in_local_time_is_named(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "cellular_upload", tmp_path / "drive")
    begun = int(mt.open(tmp_path / "drive").segments.time_ns.min().timestamp())
    moments = (f"{datetime.fromtimestamp(begun + i + 7_200, tz=UTC):%Y-%m-%dT%H:%M:%S}" for i in range(27))
    lines = "".join(f"{moment}+00:00\nAT+CSQ\n\n+CSQ: 17,3\n\nOK\n" for moment in moments)
    (tmp_path / "drive" / "mobile" / "modem.txt").write_text(lines)
    found = clocks(tmp_path / "drive")
    (complaint,) = found.complaints
    assert (complaint.code, complaint.shift_ns) == ("time-zone", -7_200 * S)
    assert complaint.source.endswith("modem.txt")


def test_hosts_on_one_machine_share_their_clock() -> None:
    found = clocks(SAMPLES / "cellular_upload")
    placed = found.place(np.array([1_795_252_750 * S]), FIXED)
    assert (placed.time_ns[0], placed.bound_ns[0]) == (1_795_252_750 * S, 0)
    assert found.complaints == ()
    assert found.warnings == ()


# --- what uses it ---


def test_the_receivers_series_are_on_the_senders_clock(shifted: Path) -> None:
    series = mt.open(shifted).series()
    sent, got = series["TcpSnd_data"], series["TcpRcv_data"]
    first_sent = sent.groupby("value").time_ns.min()
    last_got = got.groupby("value").time_ns.max()
    delays = (last_got - first_sent).dropna()
    assert len(delays) > 300
    assert (delays.dt.total_seconds() > 0.1).all()
    assert (delays.dt.total_seconds() < 30).all()
    assert "of mobile, ± " in got.attrs["clock"]
    link = series["RlpRcv_data"].time_ns.min() - series["RlpSnd_data"].time_ns.min()
    assert 0 <= link.total_seconds() < 2


def test_a_notebook_shows_the_graph() -> None:
    edges = mt.open(SAMPLES / "cellular_upload").clock_edges
    row = edges[edges.method == "one kernel"].iloc[0]
    assert (row.from_host, row.to_host, row.offset_ns) == ("mobile", "fixed", 0)
    assert {"two captures", "bracketed readings"} < set(edges.method)


def test_the_stacked_figure_shades_the_error_of_the_receivers_times(shifted: Path) -> None:
    figure = mt.open(shifted).stacked()
    (band,) = (trace for trace in figure.data if str(trace.meta).startswith("TcpRcv_data ±"))
    low, high = np.array(band.y[0::3], dtype=float), np.array(band.y[1::3], dtype=float)
    assert (high >= low).all()
    assert (high > low).any()
    shared = mt.open(SAMPLES / "cellular_upload").stacked()
    assert not any("±" in str(trace.meta) for trace in shared.data)


def test_a_connection_is_found_at_the_other_host_though_its_clock_is_hours_away(shifted: Path, tmp_path: Path) -> None:
    folder = tmp_path / "far"
    scenario = replace(
        load_scenario("clock-shift"), clock=WrongClock(offset_s=7_200.0), limit_s=60.0
    )  # fmt: skip
    record_virtual(scenario, folder)
    assert "TcpRcv_data" in mt.open(folder).series()
    assert [complaint.code for complaint in clocks(folder).complaints] == ["time-zone"]


@given(st.lists(st.integers(-2, 4), max_size=40), st.booleans())
def test_the_first_of_each_number_is_that_of_unique(steps: list[int], rises: bool) -> None:
    numbers = np.cumsum(np.array(steps, dtype=np.int64)) if rises else np.array(steps, dtype=np.int64)
    expected = np.unique(numbers, return_index=True)
    for one, other in zip(_first_of_each(numbers), expected, strict=True):
        assert one.tolist() == other.tolist()
