"""Quantities by their names: what each holds, on which clock, and what a wrong name is answered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from multitracer.analysis.common_grid import QuantityKind, SessionQuantity, grid_of, on_grid
from multitracer.errors import InputError
from multitracer.manifest import RECORDED_AT, Manifest, write_manifest
from multitracer.recording.quantities import CIRCULAR, Missing, Quantities
from multitracer.recording.quantity_names import THROUGHPUT, kind_of, labels, tables_with
from multitracer.recording.read import read
from multitracer.tables import Column
from multitracer.units import NS_PER_S
from tests.clock.test_logs_without_capture import capture, radio, stalls
from tests.parsers.test_iperf3 import sample_test

ROOT = Path(__file__).parents[2]
DRIVE = ROOT / "sample_traces" / "rehearsed-drive"
CALL = ROOT / "sample_traces" / "fig10-backoff"


@pytest.fixture(scope="module")
def drive() -> Quantities:
    return Quantities(read(DRIVE))


@pytest.fixture(scope="module")
def call() -> Quantities:
    return Quantities(read(CALL))


def held(quantities: Quantities, name: str) -> SessionQuantity:
    quantity = quantities.named(name)
    assert isinstance(quantity, SessionQuantity), quantity
    return quantity


def test_throughput_is_the_goodput_that_the_sender_knows(drive: Quantities) -> None:
    goodput = held(drive, "throughput")
    assert goodput.name == "TcpSnd_goodput" == THROUGHPUT[0]
    directions = drive.transfer.at_sender.capture.analysis.directions if drive.transfer else None
    assert directions is not None
    unique = directions["unique_bytes"].max()
    assert goodput.value.sum() / 8 == pytest.approx(unique, rel=0.02), "what the end leaves unacknowledged"
    arrived = held(drive, "TcpRcv_goodput")
    assert arrived.value.sum() / 8 == unique


def test_radio_stands_on_the_clock_of_the_sender_with_its_error(drive: Quantities) -> None:
    level = held(drive, "rsrp_dbm")
    assert (drive.home, level.host) == ("fixed", "mobile")
    assert 0 < level.bound_ns < 0.1 * NS_PER_S
    assert held(drive, "TcpSnd_cwnd").bound_ns == 0
    own = drive.radio_context.phones[0].radio["time_ns"]
    assert abs(int(level.known.time_ns[0]) - int(own.min())) < 10 * NS_PER_S


def test_a_column_is_the_series_that_is_made_of_it(drive: Quantities) -> None:
    for name in ("rsrp_dbm", "radio.rsrp_dbm"):
        one, other = held(drive, name).known, held(drive, "Radio_rsrp").known
        assert np.array_equal(one.time_ns, other.time_ns)
        assert np.array_equal(one.value, other.value)
    assert held(drive, "tcp_state.total_acked_bytes").kind is QuantityKind.COUNTER


def test_counter_of_the_kernel_and_packets_agree(drive: Quantities) -> None:
    kernel, packets = held(drive, "total_acked_bytes"), held(drive, "TcpSnd_goodput")
    grid, _ = grid_of([kernel, packets], 10 * NS_PER_S)
    assert grid is not None
    ratio = 8 * on_grid(kernel, grid) / on_grid(packets, grid)
    assert np.nanmedian(ratio) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rspr_dbm", "the nearest names are rsrp_dbm"),
        ("RADIO_RSRP", "the nearest names are Radio_rsrp"),
        ("radio.nothing", "no series or column has this name"),
        ("rtt_ns", "choose one of tcp_segments.rtt_ns and rtt_samples.rtt_ns"),
        ("\x1b[31mred" + "x" * 500, r"no series or column has this name"),
        ("", "no series or column has this name"),
    ],
)
def test_wrong_name_is_one_sentence(drive: Quantities, name: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        drive.named(name)
    assert words in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ecio_db", "rehearsed-drive holds no value of radio.ecio_db"),
        ("Radio_ecio", "rehearsed-drive holds no Radio_ecio"),
        ("RlpSnd_data", "rehearsed-drive holds no RlpSnd_data"),
        ("cell_id", "no quantity"),
        ("radio.time_ns", "no quantity"),
        ("operator", "no quantity"),
    ],
)
def test_what_is_not_there_says_why(drive: Quantities, name: str, words: str) -> None:
    missing = drive.named(name)
    assert isinstance(missing, Missing)
    assert words in missing.reason


def test_link_events_are_counted_per_second_and_none_is_zero(call: Quantities) -> None:
    stops, sent = held(call, "RlpSnd_xoff"), held(call, "RlpSnd_data")
    grid, _ = grid_of([stops, sent], 5 * NS_PER_S)
    assert grid is not None
    rate = on_grid(stops, grid)
    assert (rate[np.isfinite(rate)] == 0).any()
    assert np.nansum(rate) > 0
    assert stops.kind is sent.kind is QuantityKind.AMOUNTS


def test_each_label_that_a_session_has_can_be_named(drive: Quantities, call: Quantities) -> None:
    for quantities in (drive, call):
        assert set(quantities._there) <= set(labels())
        for label in quantities._there:
            assert quantities.named(label) is not None


def test_clocks_without_a_relation_name_both(tmp_path: Path) -> None:
    copy = tmp_path / "drive"
    shutil.copytree(DRIVE, copy, ignore=shutil.ignore_patterns("truth", "clocks*", "claps*", "tcp-0.pcap.xz"))
    shutil.copy(DRIVE / "fixed" / "tcp-0.pcap.xz", copy / "fixed")
    quantities = Quantities(read(copy))
    missing = quantities.named("rsrp_dbm")
    assert isinstance(missing, Missing)
    assert "cannot be related" in missing.reason
    assert "mobile" in missing.reason
    assert "fixed" in missing.reason


def test_a_load_is_on_the_clock_of_the_host_that_ran_it(tmp_path: Path) -> None:
    """Its own folder is no host: without the name in its manifest nothing relates its times to the sender's."""
    drive = tmp_path / "drive"
    shutil.copytree(DRIVE, drive, ignore=shutil.ignore_patterns("truth"))
    began_ns = int(read(DRIVE).captures[0].tables.segments["time_ns"].min())
    test = sample_test()
    test["start"]["timestamp"]["timesecs"] = began_ns // NS_PER_S + 5
    for name, host in (("load", "mobile"), ("other", "nobody")):
        (drive / name).mkdir()
        (drive / name / "iperf3.json").write_text(json.dumps(test), "utf-8")
        write_manifest(drive / name, Manifest(name, more={RECORDED_AT: host}))
    recording = read(drive)
    assert [log.host for log in recording.inputs.listed if log.layer == "application"] == ["mobile", "other"]
    rate = held(Quantities(recording), "application_rate.rate_bps")
    assert (rate.host, rate.source.split("/")[-2]) == ("mobile", "load")
    assert 0 < rate.bound_ns < 0.1 * NS_PER_S


def test_log_without_packets_has_the_rate_that_its_phone_saw(tmp_path: Path) -> None:
    header = "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI"
    header += ",DL_bitrate,UL_bitrate,State"
    rows = [
        f"2020.01.16_10.{40 + i // 60:02d}.{i % 60:02d},-8.5,51.9,{i},B,5,LTE,-{90 + i % 7},-9,8,9,-,{i},1,D"
        for i in range(90)
    ]
    (tmp_path / "drive.csv").write_text("\n".join([header, *rows]) + "\n", "utf-8")
    quantities = Quantities(read(tmp_path / "drive.csv"))
    assert held(quantities, "throughput").name == "downlink_bps"
    assert held(quantities, "speed_mps").host == held(quantities, "rsrp_dbm").host == quantities.home


def test_texts_times_and_names_are_no_quantity() -> None:
    assert kind_of("radio", Column("x", "U8", "")) is None
    assert kind_of("radio", Column("time_ns", "int64", "", "ns since 1970")) is None
    assert kind_of("radio", Column("cell_id", "int64", "")) is None
    assert tables_with("rtt_ns") == ["tcp_segments", "rtt_samples"]


def test_recording_in_fast_motion_is_in_link_time(call: Quantities) -> None:
    recording = read(CALL)
    recording.speed = 4.0  # as a manifest states it
    fast = Quantities(recording)
    for name, factor in (("TcpSnd_rtt", 4.0), ("TcpSnd_flight", 1.0)):
        real, link = held(call, name), held(fast, name)
        assert real.span_ns is not None
        assert link.span_ns is not None
        assert link.span_ns[1] - link.span_ns[0] == pytest.approx(4 * (real.span_ns[1] - real.span_ns[0]))
        assert np.nanmedian(link.value) == pytest.approx(factor * np.nanmedian(real.value))


def test_clock_that_was_found_by_what_is_compared_is_not_used(tmp_path: Path) -> None:
    bad = stalls(1)
    logs = capture(tmp_path / "a.pcap", bad), radio(tmp_path / "modem.txt", bad, ahead_s=2.4)
    missing = Quantities(read(*logs)).named("rssi_dbm")
    assert isinstance(missing, Missing)
    assert missing.reason == CIRCULAR
