"""Clocks related by what else two logs share: bytes acknowledged, packets, stalls, stamps that are heard."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.clock.sources.logs_without_capture import relate_link, relate_state
from multitracer.clock.sources.one_way import relate_gps, relate_timestamps
from multitracer.clock.sources.stalls import is_bad, relate_radio, relate_stalls, stalls_of_arrivals, stalls_of_readings
from multitracer.errors import ClockError
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import record_virtual
from multitracer.recording.read import read
from multitracer.schemas.radio import POSITION, RADIO
from multitracer.tables import NA, NOT_A_TIME, Table
from tests.clock.altered import both_ends

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Mask, Schema, Times

UPLOAD = "sample_traces/cellular_upload"
SHIFT_NS = 2_400_000_000


@cache
def state_logs() -> dict[str, Table]:
    session = read(UPLOAD)
    return {log.format: tables["tcp_state"] for log, tables in session.logs("tcp")}


def later(table: Table, by_ns: int, *names: str) -> Table:
    moved = {name: table[name] + by_ns for name in names}
    return Table(table.schema, {**table.columns, **moved})


@pytest.mark.parametrize(("log", "within_ns"), [("tcp-info", 2_000_000), ("ftrace", 500_000)])
def test_readings_of_the_sender_tell_its_clock_by_the_bytes_acknowledged(log: str, within_ns: int) -> None:
    near, _ = both_ends(UPLOAD)
    state = later(state_logs()[log], SHIFT_NS, "time_ns", "read_before_ns", "read_after_ns")
    (e,) = relate_state(near, state)
    assert abs(e.offset_ns - SHIFT_NS) <= min(within_ns, e.uncertainty_ns + 20_000)
    assert e.evidence > 500


def test_readings_of_another_host_are_refused() -> None:
    near, _ = both_ends(UPLOAD)
    state = state_logs()["tcp-info"]
    other = Table(state.schema, {**state.columns, "port_remote": state["port_remote"] + 1})
    with pytest.raises(ClockError, match="cannot determine the clock offset, because"):
        relate_state(near, other)


@pytest.fixture(scope="module")
def gsm_session(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("gsm") / "session"
    record_virtual(load_scenario("fig4-slow-start"), folder, seed=1)
    return read(str(folder))


def test_packets_that_a_link_log_names_tell_its_clock(gsm_session: Recording) -> None:
    captures = {each.point.name: each.tables for each in gsm_session.captures}
    for log, tables in gsm_session.logs("link"):
        (e,) = relate_link(captures[log.host], later(tables["link_events"], SHIFT_NS, "time_ns"))
        assert abs(e.offset_ns - SHIFT_NS) < 100_000
        assert abs(e.skew_ppm) < 0.1


def test_the_link_log_of_another_call_is_refused(gsm_session: Recording) -> None:
    near, _ = both_ends(UPLOAD)
    _, tables = next(iter(gsm_session.logs("link")))
    with pytest.raises(ClockError, match="have 0 packets in common"):
        relate_link(near, tables["link_events"])


def drive(seed: int, stalls: int = 36) -> tuple[Times, Times, Mask]:
    """Return when ACKs came through a drive with stalls, and what the radio said ten times a second."""
    luck = np.random.default_rng(seed)
    long = luck.uniform(0.4, 3.0, stalls)
    begin = np.cumsum(luck.exponential(8.0, stalls) + 3.0 + long) - long
    times = np.arange(0.0, begin[-1] + 20, 0.05)
    readings = np.arange(0.0, begin[-1] + 20, 0.1) + luck.normal(0, 0.003, len(np.arange(0.0, begin[-1] + 20, 0.1)))
    bad = within(readings, begin, long) ^ (luck.random(len(readings)) < 0.005)
    acks = times[~within(times, begin, long)] + 0.06 + luck.uniform(0, 0.03, int((~within(times, begin, long)).sum()))
    return stamps(acks), stamps(readings) + SHIFT_NS, bad


def within(times: NDArray[np.float64], begin: NDArray[np.float64], long: NDArray[np.float64]) -> Mask:
    i = np.searchsorted(begin, times, side="right") - 1
    return (i >= 0) & (times < begin[i] + long[i])


def stamps(seconds: NDArray[np.float64]) -> Times:
    return 10**18 + np.rint(seconds * 1e9).astype(np.int64)


@pytest.mark.parametrize("seed", range(6))
def test_a_shift_of_the_radio_log_is_recovered_from_stalls_alone(seed: int) -> None:
    acks, times, bad = drive(seed)
    (e,) = relate_stalls(stalls_of_arrivals(acks), stalls_of_readings(times, bad), round_trip_ns=75e6)
    assert abs(e.offset_ns - SHIFT_NS) < 50_000_000
    assert abs(e.offset_ns - SHIFT_NS) < e.uncertainty_ns


@pytest.mark.parametrize("seed", range(8))
def test_stalls_of_another_drive_are_refused(seed: int) -> None:
    acks, _, _ = drive(seed)
    _, times, bad = drive(seed + 100)
    with pytest.raises(ClockError, match=r"cannot determine the clock offset, because .* what would help"):
        relate_stalls(stalls_of_arrivals(acks), stalls_of_readings(times, bad), round_trip_ns=75e6)


def test_too_few_stalls_are_refused() -> None:
    acks, times, bad = drive(1, stalls=3)
    with pytest.raises(ClockError, match="fewer than 5;"):
        relate_stalls(stalls_of_arrivals(acks), stalls_of_readings(times, bad & (np.arange(len(bad)) < 100)))


def table(schema: Schema, count: int, **columns: Array) -> Table:
    column = {}
    for c in schema:
        empty = np.nan if c.dtype == "float64" else NOT_A_TIME if c.unit.startswith("ns") else NA if c.na else 0
        column[c.name] = np.full(count, "" if c.dtype.startswith("U") else empty, dtype=c.dtype)
    return Table(schema, {**column, **columns})


def test_a_radio_that_has_no_network_or_no_signal_or_only_errors_is_bad() -> None:
    radio = table(
        RADIO,
        5,
        bler_pct=np.array([0, 100, np.nan, np.nan, np.nan]),
        rssi_dbm=np.array([-80, -80, -113, -80, np.nan]),
        registration=np.array([1, 1, 1, 2, NA]),
    )
    assert is_bad(radio).tolist() == [False, True, True, True, False]


def test_a_capture_without_data_has_no_stalls() -> None:
    near, _ = both_ends(UPLOAD)
    empty = near.where(near.segments["payload_bytes"] == 0)
    with pytest.raises(ClockError, match="contains no data"):
        relate_radio(empty, table(RADIO, 3))


@pytest.mark.parametrize("skew_ppm", [-80.0, 0.0, 45.0])
def test_timestamps_tell_the_rate_of_the_sender_s_clock(skew_ppm: float) -> None:
    near, _ = both_ends(UPLOAD)
    time = near.segments["time_ns"]
    moved = near.where(np.ones(len(time), dtype=bool))
    moved.segments.columns["time_ns"] = time + np.rint((time - time[0]) * skew_ppm * 1e-6).astype(np.int64)
    (e,) = relate_timestamps(moved, int(near.segments["flow"][np.argmax(near.segments["payload_bytes"])]))
    assert abs(e.skew_ppm + skew_ppm) <= e.skew_uncertainty_ppm < 60


def test_fixes_tell_the_host_s_clock_up_to_the_receiver_s_delay() -> None:
    luck = np.random.default_rng(4)
    fix = 10**18 + np.arange(600, dtype=np.int64) * 10**9
    read_ns = fix + 5_000_000_000 + (200e6 + luck.exponential(30e6, 600)).astype(np.int64)
    (e,) = relate_gps(table(POSITION, 600, time_ns=read_ns, fix_time_ns=fix))
    assert abs(e.offset_ns + 5_000_000_000) <= e.uncertainty_ns < 400_000_000
    assert abs(e.skew_ppm) <= max(1.0, e.skew_uncertainty_ppm)
