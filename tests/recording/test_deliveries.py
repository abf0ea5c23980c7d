"""What each flow delivered, by the captures alone, equals what the run measured."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import multitracer as mt
from multitracer.analysis.deliveries import wtcp_deliveries
from multitracer.endpoints import Endpoints
from multitracer.lab.scenario.library import load_scenario
from multitracer.recording.deliveries import RecordedFlow, _answers, flow_curves, tcp_flows, wtcp_flows
from multitracer.recording.read import read
from multitracer.tables import NOT_A_TIME, Table
from multitracer.wtcp import WTCP_PACKETS, WtcpCapture
from parsers._wtcp import read_wtcp
from tests.parsers.test_wtcp import CALL, START_NS, ack, data, syn, syn_ack, written

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.shared_runs import SharedRuns

FIGURES = ("1", "3a", "3b", "4a", "4b", "5", "6")


def recorded(runs: SharedRuns, figure: str, transport: str) -> tuple[Path, list[dict[str, Any]]]:
    """Run a scenario; return its session, and the flows of its summary."""
    folder = runs.session(load_scenario(f"wtcp-fig{figure}").with_transport(transport)).folder
    return folder, json.loads((folder / "summary.json").read_text("utf-8"))["flows"]


def numbers(flows: list[RecordedFlow]) -> list[tuple[str, str, int | None, int | None]]:
    return [(flow.name, flow.transport, flow.delivered_bytes, flow.delivered_packets) for flow in flows]


def as_measured(flows: list[dict[str, Any]]) -> list[tuple[str, str, int, int]]:
    return [(f["flow"], f["transport"], f["delivered_bytes"], f["delivered_packets"]) for f in flows]


@pytest.fixture(scope="module")
def contended(shared_runs: SharedRuns) -> tuple[Path, list[dict[str, Any]]]:
    return recorded(shared_runs, "6", "wtcp")


@pytest.mark.parametrize("figure", FIGURES)
def test_wtcp_delivered_what_the_summary_says(shared_runs: SharedRuns, figure: str) -> None:
    folder, measured = recorded(shared_runs, figure, "wtcp")
    recording = read(folder)
    flows = wtcp_flows(recording)
    assert numbers(flows) == as_measured(measured)
    for flow, told in zip(flows, measured, strict=True):
        assert flow.rate_bps == pytest.approx(told["rate_bps"], rel=0.08), "the summary counts the set-up"
        assert (flow.repeated_packets or 0) > 0 or figure in ("4a", "5")
    assert not tcp_flows(recording)
    assert not recording.warnings


def test_the_rates_that_wtcp_commands_are_those_of_its_acknowledgments(shared_runs: SharedRuns) -> None:
    folder, _ = recorded(shared_runs, "5", "wtcp")
    first, *_, last = flow_curves(read(folder))[0]
    assert first.commanded_packets_per_s[0] == pytest.approx(1.0), "paper 001: one packet in a second at first"
    assert max(first.commanded_packets_per_s) > 4, "alone it has the channel, 4.8 packets of 500 bytes in a second"
    for flow in (first, last):
        late = flow.commanded_packets_per_s[flow.commanded_s > 0.8 * flow.until_s]
        assert late.mean() == pytest.approx(19_200 / 4_000 / 3, rel=0.25), "a third of it each"


@pytest.mark.parametrize(("figure", "transport"), [("5", "vegas"), ("6", "newreno")])
def test_tcp_delivered_what_the_summary_says(shared_runs: SharedRuns, figure: str, transport: str) -> None:
    folder, measured = recorded(shared_runs, figure, transport)
    recording = read(folder)
    assert numbers(tcp_flows(recording)) == as_measured(measured)
    assert not wtcp_flows(recording)


def test_curves_end_at_what_was_delivered_and_begin_when_their_flow_did(
    contended: tuple[Path, list[dict[str, Any]]],
) -> None:
    folder, measured = contended
    curves, without = flow_curves(read(folder))
    assert not without
    assert [int(curve.new_bytes.sum()) for curve in curves] == [f["delivered_bytes"] for f in measured]
    for curve, told in zip(curves, measured, strict=True):
        assert (np.diff(curve.time_s) >= 0).all()
        assert told["start_s"] < curve.time_s[0] < told["start_s"] + 25
        assert curve.time_s[-1] <= curve.until_s < 331


def test_without_the_receivers_capture_its_acks_say_what_was_delivered(
    contended: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    folder, measured = contended
    shutil.copytree(folder, tmp_path / "half")
    shutil.rmtree(tmp_path / "half" / "fixed")
    recording = read(tmp_path / "half")
    flows = wtcp_flows(recording)
    for flow, told in zip(flows, measured, strict=True):
        assert (flow.point, flow.delivered_packets, flow.rate_bps) == ("", None, None)
        assert told["delivered_bytes"] * 0.9 < (flow.delivered_bytes or 0) <= told["delivered_bytes"]
    curves, without = flow_curves(recording)
    assert not curves
    assert without[0] == "mobile-1:1025 > fixed:5001: no capture was made at its receiver"


def test_a_window_keeps_the_packets_in_it(contended: tuple[Path, list[dict[str, Any]]]) -> None:
    session = mt.open(contended[0])
    complete, part = session.wtcp, session.between(100, 200).wtcp
    assert part["flow"].tolist() == complete["flow"].tolist()
    assert (part["delivered_bytes"] < 0.6 * complete["delivered_bytes"]).all()
    assert part["host"].tolist() == ["fixed"] * 3
    curves, _ = flow_curves(session.between(100, 200)._recording)
    for curve in curves:  # nothing relates the clocks here: 0 s is the first packet at the receiver
        assert 99 < curve.time_s[0] <= curve.time_s[-1] < curve.until_s
        assert curve.until_s == pytest.approx(200, abs=0.5)
    again = session.between(50, 200).between(100, None).wtcp
    assert again["delivered_bytes"].tolist() == part["delivered_bytes"].tolist()


def test_a_loose_capture_is_at_the_end_that_answers_at_once(tmp_path: Path) -> None:
    """Frames of the helper are 1 ms apart: both ends answer at once."""
    path = written(tmp_path / "a.pcap", [*CALL, data(2, 0), data(3, 880)])
    (flow,) = wtcp_flows(read(path))
    assert (flow.name, flow.point) == ("10.0.0.1:1025 > 10.0.0.2:5001", str(path))
    assert (flow.delivered_bytes, flow.delivered_packets, flow.repeated_packets) == (1320, 3, 1)
    assert flow.begin_ns == START_NS


def test_a_capture_far_from_both_ends_leaves_open_what_was_repeated(tmp_path: Path) -> None:
    idle = [data(9, 0, identity=b"another!")] * 2  # other packets in between: 3 ms pass
    path = written(tmp_path / "a.pcap", [syn(), *idle, syn_ack(), *idle, data(0, 0), data(1, 0), ack(440)])
    (flow,) = wtcp_flows(read(path))
    assert (flow.point, flow.delivered_packets, flow.repeated_packets) == ("", None, None)
    assert flow.delivered_bytes == 440


def test_a_capture_without_flows_says_so(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pcap", [syn(), syn_ack()])
    curves, without = flow_curves(read(path))
    assert (curves, without) == ([], ["a.pcap: no packet of its captures carries data of TCP or WTCP"])


def test_what_is_new_in_each_range_is_what_none_before_it_held() -> None:
    chance = np.random.default_rng(18)
    for many in (0, 1, 7, 300):
        place, length = chance.integers(0, 2000, many), chance.integers(1, 200, many)
        columns = {
            "time_ns": np.arange(many), "frame": np.arange(many), "flow": np.zeros(many, np.int64),
            "kind": np.full(many, 4), "number": np.arange(many), "place": place, "payload_bytes": length,
            "rate_bps": np.full(many, -1),
        }  # fmt: skip
        there: set[int] = set()
        new = []
        for begin, size in zip(place.tolist(), length.tolist(), strict=True):
            new.append(len(set(range(begin, begin + size)) - there))
            there |= set(range(begin, begin + size))
        table, repeated = wtcp_deliveries(Table(WTCP_PACKETS, columns), 0)
        assert table["new_bytes"].tolist() == [each for each in new if each]
        assert repeated == new.count(0)


def test_many_connections_and_holes_of_a_hostile_capture_are_told_apart() -> None:
    """100,000 packets of 20,000 connections, no two of them next to each other in the stream."""
    many = 100_000
    columns = {name: np.arange(many) for name in WTCP_PACKETS.names}
    columns |= {"flow": 2 * (np.arange(many) % 20_000), "kind": np.full(many, 4)}
    columns["place"] = 10 * np.arange(many)[::-1]
    ends = [Endpoints("10.0.0.1", 1, "10.0.0.2", n) for n in range(20_000)]
    capture = WtcpCapture(Table(WTCP_PACKETS, columns | {"payload_bytes": np.ones(many, np.int64)}), ends)
    assert [len(each) for each in capture.apart()] == [5] * 20_000
    one = columns | {"flow": np.zeros(many, np.int64), "payload_bytes": np.ones(many, np.int64)}
    assert wtcp_deliveries(Table(WTCP_PACKETS, one), 0)[0]["new_bytes"].sum() == many


def test_a_capture_without_times_is_at_no_end(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pcap", CALL)
    capture = read(path).captures[0].tables
    wtcp = read_wtcp(capture.files)
    for packets in wtcp.apart():
        columns = packets.columns | {"time_ns": np.full(len(packets), NOT_A_TIME)}
        assert _answers(Table(WTCP_PACKETS, columns)) == (False, False)
        assert _answers(packets) == (True, True)
