"""The data link in series and figures: what rlpdump logged, beside the run's own numbers."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.analysis.series.labelled import receiver_link_series, sender_link_series
from multitracer.analysis.series.throughput import trendline
from multitracer.errors import InputError
from multitracer.figures.marks import FigureMark, Fit
from multitracer.figures.stack import axis_origin_ns
from multitracer.figures.stacked import StackedView, missing, stacked, stacked_panels, stacked_places
from multitracer.lab.channel.shared.scheduler import ScriptEvent
from multitracer.lab.scenario.library import load_scenario
from multitracer.logs import HostLog, ParsedLog
from multitracer.protocols.sock_diag import ReadBy
from multitracer.recording.hosts import HostLogs
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.report.write import write_report
from multitracer.schemas.sender import TCP_STATE
from multitracer.schemas.tcp import Vantage
from multitracer.tables import Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.figures.series import Series
    from tests.lab.shared_runs import SharedRuns


def transfer_of(folder: Path, *, vantage: int | None = None) -> Transfer:
    recording = read(folder)
    for capture in recording.captures:
        if vantage is not None:
            capture.analysis.directions["vantage"][:] = vantage
    return Transfer.of(recording, 1)


def drawn(transfer: Transfer, view: StackedView | None = None) -> dict[str, Series]:
    panels = stacked_panels(transfer, view or StackedView())
    return {series.label: series for panel in panels for series in panel.drawn}


def edited(folder: Path, copy: Path, **variables: Any) -> Path:
    """Return a copy of a session whose manifest has other variables."""
    shutil.copytree(folder, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["variables"] |= variables
    (copy / "manifest.json").write_text(json.dumps(manifest))
    return copy


@pytest.fixture(scope="module")
def typical(shared_runs: SharedRuns) -> Path:
    scenario = load_scenario("fig5-typical")
    fade = ScriptEvent(kind="fade", at_s=6, duration_s=1.2)  # no frame arrives in it, so that none comes twice
    link = replace(scenario.gsm, xon_at_bytes=480)
    return shared_runs.session(replace(scenario, seed=1, link=link, events=(fade,))).folder


@pytest.fixture(scope="module")
def resets(shared_runs: SharedRuns) -> Path:
    return shared_runs.session(load_scenario("fig10-backoff")).folder


@pytest.fixture(scope="module")
def transfer(typical: Path) -> Transfer:
    return transfer_of(typical)


@pytest.mark.parametrize("name", ["typical", "resets"])
def test_series_count_what_the_run_counted(name: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(name)
    summary = json.loads((folder / "summary.json").read_text())
    series = transfer_of(folder).series
    slope = trendline(series["RlpSnd_data"]["time_ns"], series["RlpSnd_data"]["value"]).slope_per_s
    assert slope == pytest.approx(summary["rlp_slope_bytes_per_s"], abs=1e-3)
    assert len(series.get("RlpSnd_rexmt", ())) == summary["rlp_retransmissions"]
    assert len(series.get("RlpSnd_rst", ())) == summary["rlp_resets"]
    assert len(series["RlpSnd_xoff"]) == len(summary["xoff_gaps_s"])


def test_the_eight_labelled_series_are_there(transfer: Transfer, resets: Path) -> None:
    eight = {
        "TcpSnd_data", "TcpSnd_ack", "TcpSnd_cwnd", "TcpRcv_data", "TcpRcv_ack", "RlpSnd_data",
    }  # fmt: skip
    assert eight | {"RlpSnd_rexmt"} <= set(transfer.series) & set(drawn(transfer))
    again = transfer_of(resets)
    assert eight | {"RlpSnd_rst"} <= set(again.series) & set(drawn(again))


def test_a_button_leads_to_the_first_reset(resets: Path, transfer: Transfer) -> None:
    again = transfer_of(resets)
    (place,) = (place for place in stacked_places(again) if place.key == "link_reset")
    assert place.from_ns < again.series["RlpSnd_rst"]["time_ns"][0] < place.to_ns
    assert "link_reset" not in {place.key for place in stacked_places(transfer)}


def test_every_byte_of_the_stream_left_once_and_arrived(transfer: Transfer) -> None:
    sent, came = (transfer.series[f"Rlp{end}_data"] for end in ("Snd", "Rcv"))
    assert sent["value"].tolist() == sorted(sent["value"].tolist())
    assert len(sent) == len(came), "no reset: each frame arrived once as new"
    delay_ns = came["time_ns"] - sent["time_ns"]
    assert delay_ns.min() == 180_000_000, "nine slots under way"
    again = transfer.series["RlpSnd_rexmt"]
    assert set(again["value"]) <= set(sent["value"])


def test_a_request_points_at_the_frame_that_was_sent_before(transfer: Transfer) -> None:
    asked, sent = transfer.series["RlpSnd_srej"], transfer.series["RlpSnd_data"]
    for time_ns, value in zip(asked["time_ns"], asked["value"], strict=True):
        first_sent = sent["time_ns"][sent["value"] == value]
        assert len(first_sent) == 1
        assert 0 < time_ns - first_sent[0] < 5 * NS_PER_S


def test_resets_of_one_episode_count_once() -> None:
    log = {"mobile": ["reset_started", "reset_started", "reset_done", "reset_started", "reset_done"]}
    frames, events = _tables(log["mobile"])
    series = sender_link_series(frames, events)["RlpSnd_rst"]
    assert series["time_ns"].tolist() == [1, 4]
    assert receiver_link_series(frames, events)["RlpRcv_rst"]["value"].tolist() == [0, 0]


def _tables(events: list[str]) -> tuple[Any, Any]:
    from multitracer.schemas.link import LINK_EVENTS, LINK_FRAMES
    from multitracer.tables import NA, Table

    columns = {
        c.name: np.full(len(events), NA if np.dtype(c.dtype).kind == "i" else 0).astype(c.dtype) for c in LINK_EVENTS
    }
    columns |= {"time_ns": np.arange(1, len(events) + 1), "event": np.array(events, dtype="U24")}
    return Table.empty(LINK_FRAMES), Table(LINK_EVENTS, columns)


@pytest.mark.parametrize("offset_bytes", [0, 10_000, 25_000])
def test_groups_stand_apart_by_the_offset(transfer: Transfer, offset_bytes: int) -> None:
    series = drawn(transfer, StackedView(offset_bytes=offset_bytes))
    raw = transfer.series
    for label, lifted in (("RlpSnd_data", offset_bytes), ("TcpSnd_ack", 0), ("TcpRcv_ack", -offset_bytes)):
        np.testing.assert_array_equal(series[label].value, raw[label]["value"].astype(int) + lifted)


def test_only_what_is_asked_for_is_drawn(transfer: Transfer) -> None:
    view = StackedView(labels=("RlpSnd_*", "TcpRcv_ack", "RlpRcv_srej"))
    panels = stacked_panels(transfer, view)
    assert [panel.key for panel in panels] == ["sequence"]
    labels = {series.label for series in panels[0].series}
    assert {"RlpSnd_data", "RlpSnd_xoff", "TcpRcv_ack", "RlpRcv_srej"} <= labels
    assert not any(label.startswith("TcpSnd") for label in labels)
    assert missing(panels, ["RlpSnd_rst", "TcpRcv_ack"]) == ["RlpSnd_rst"]
    with pytest.raises(InputError, match=r"no series named Nope; the series are .*RlpSnd_data"):
        stacked_panels(transfer, StackedView(labels=("Nope",)))


def test_events_of_the_link_without_its_data_stand_on_the_line_that_is_drawn(resets: Path) -> None:
    again = transfer_of(resets)
    alone = drawn(again, StackedView(labels=("TcpRcv_ack", "RlpSnd_rst")))
    line, events = alone["TcpRcv_ack"], alone["RlpSnd_rst"]
    before = np.searchsorted(line.time_ns, events.time_ns, side="right") - 1
    np.testing.assert_array_equal(events.value, line.value[before])
    beside = drawn(again, StackedView(labels=("TcpRcv_ack", "RlpSnd_*")))
    own = again.series["RlpSnd_rst"]["value"].astype(int) + StackedView().offset_bytes
    np.testing.assert_array_equal(beside["RlpSnd_rst"].value, own)


def test_a_line_is_fitted_to_the_seconds_that_are_named(transfer: Transfer) -> None:
    origin = axis_origin_ns(transfer.at_sender.capture)
    fits = [Fit("RlpSnd_data", origin + 3 * NS_PER_S, origin + 8 * NS_PER_S, named=True), Fit("TcpRcv_data")]
    lines = [label for label in drawn(transfer, StackedView(fits=fits)) if "trend" in label]
    assert lines[0] == "RlpSnd_data trend 3 to 8 s: 1,200 B/s", "between two stops every slot is used"
    assert len(lines) == 2
    assert 830 < float(lines[1].split()[2]) < 860
    with pytest.raises(InputError, match="fewer than two points"):
        stacked_panels(transfer, StackedView(fits=[Fit("RlpSnd_data", origin - 2, origin - 1)]))
    with pytest.raises(InputError, match="no series 'TcpSnd_rtt' in bytes"):
        stacked_panels(transfer, StackedView(fits=[Fit("TcpSnd_rtt")]))


def test_a_line_through_events_of_the_link_is_the_same_beside_any_series(transfer: Transfer) -> None:
    fits = [Fit("RlpSnd_rexmt")]
    alone, beside, unchosen = (
        {label for label in drawn(transfer, StackedView(labels=labels, fits=fits)) if "trend" in label}
        for labels in (("RlpSnd_rexmt",), ("RlpSnd_rexmt", "TcpSnd_data"), ())
    )
    assert alone == beside == unchosen == {"RlpSnd_rexmt trend: 951 B/s"}


def test_a_line_of_more_than_the_view_is_drawn_where_it_is_in_view(transfer: Transfer) -> None:
    origin = axis_origin_ns(transfer.at_sender.capture)
    fit = Fit("RlpSnd_data", origin, origin + 300 * NS_PER_S, named=True)
    series = drawn(transfer, StackedView(origin + 10 * NS_PER_S, origin + 20 * NS_PER_S, fits=[fit]))
    line = series["RlpSnd_data trend 0 to 300 s: 953 B/s"]
    assert ((line.time_ns - origin) // NS_PER_S).tolist() == [10, 20]
    assert line.value[1] - line.value[0] == pytest.approx(9530, abs=1)


def test_rectangles_frame_what_is_drawn_in_their_seconds(transfer: Transfer) -> None:
    origin = axis_origin_ns(transfer.at_sender.capture)
    view = StackedView(
        marks=[FigureMark(origin, origin + 10 * NS_PER_S, "<b>11"), FigureMark(origin - 20, origin - 10, "none")]
    )
    layout = stacked(transfer, view).to_dict()["layout"]
    (frame,) = (shape for shape in layout["shapes"] if shape.get("yref") == "y2")
    assert (frame["x0"], frame["x1"]) == (0, 10)
    series = drawn(transfer)
    lowest = series["TcpRcv_data"].value.min()
    highest = series["RlpSnd_data"].between(None, origin + 10 * NS_PER_S).value.max()
    assert lowest - 5_000 < frame["y0"] < lowest
    assert highest < frame["y1"] < highest + 5_000
    assert "&lt;b&gt;11" in {note["text"] for note in layout["annotations"]}


def test_a_missing_log_is_a_missing_series_with_a_reason(typical: Path, tmp_path: Path) -> None:
    half = shutil.copytree(typical, tmp_path / "half")
    (half / "mobile" / "rlp.pcapng").unlink()
    found = transfer_of(half)
    assert {label for label in found.series if label.startswith("Rlp")} == {
        label for label in transfer_of(typical).series if label.startswith("RlpRcv")
    }
    assert found.without_link == "no log of the link at 'mobile'"
    titles = [panel.title for panel in stacked_panels(found)]
    assert "Time / sequence (without the link: no log of the link at 'mobile')" in titles
    (half / "fixed" / "rlp.pcapng").unlink()
    none = transfer_of(half)
    assert (none.link, none.without_link) == ({}, ""), "a recording without any link is nothing special"


def test_a_download_takes_the_log_of_the_other_side(shared_runs: SharedRuns) -> None:
    folder, summary = shared_runs.session(load_scenario("download"))
    series = transfer_of(folder).series["RlpSnd_data"]
    slope = trendline(series["time_ns"], series["value"]).slope_per_s
    assert slope == pytest.approx(summary.rlp_slope_bytes_per_s, abs=1e-3)
    assert slope > 800, "the data's direction, not that of its ACKs"


@pytest.mark.parametrize("unknown", [0, 3])
def test_addresses_tell_whose_host_captured_where_packets_do_not(typical: Path, unknown: int) -> None:
    found = transfer_of(typical, vantage=unknown)
    assert found.vantage == Vantage.NEAR_SENDER
    assert found.receiver is not None
    labels = set(drawn(found))
    assert {"TcpSnd_data", "TcpRcv_data", "TcpSnd_cwnd"} <= labels
    assert not any(label.startswith(("TcpMid_", "Tcp_")) for label in labels)


def test_without_manifest_the_log_of_tcp_variables_tells_the_addresses(typical: Path, tmp_path: Path) -> None:
    bare = shutil.copytree(typical, tmp_path / "bare")
    (bare / "manifest.json").unlink()
    assert transfer_of(bare, vantage=3).vantage == Vantage.NEAR_SENDER
    for host in ("mobile", "fixed"):
        (bare / host / "tcp_state.jsonl").unlink()
    assert transfer_of(bare, vantage=3).vantage == 3


def test_a_trace_of_the_whole_kernel_tells_nobodys_addresses(typical: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = read(typical)
    assert session.manifest is not None
    session.manifest.hosts["mobile"].addresses.clear()
    (own,) = (tables for log, tables in session.logs("tcp") if log.host == "mobile")
    traced = Table(TCP_STATE, dict(own["tcp_state"].columns))
    traced["method"][:] = ReadBy.TCP_PROBE
    traced["address_local"][:] = traced["address_remote"]
    probe = HostLog("mobile", "probe", "ftrace", "tcp")
    logs = {"tcp": [ParsedLog(probe, {TCP_STATE.name: traced})]}
    monkeypatch.setattr(session, "logs", lambda layer: logs.get(layer, []))
    assert HostLogs.of(session).addresses["mobile"] == frozenset()


def test_addresses_do_not_overrule_packets(typical: Path) -> None:
    assert transfer_of(typical, vantage=Vantage.NEAR_RECEIVER).vantage == Vantage.NEAR_RECEIVER


def test_a_faster_link_is_shown_in_its_own_time(typical: Path, transfer: Transfer, tmp_path: Path) -> None:
    fast = transfer_of(edited(typical, tmp_path / "fast", speed=20))
    origin = axis_origin_ns(transfer.at_sender.capture)
    assert fast.speed == 20
    here, there = drawn(transfer), drawn(fast)
    for label in ("RlpSnd_data", "TcpRcv_data", "TcpSnd_srtt"):
        np.testing.assert_array_equal(there[label].time_ns - origin, 20 * (here[label].time_ns - origin), err_msg=label)
    np.testing.assert_array_equal(there["TcpSnd_srtt"].value, 20 * here["TcpSnd_srtt"].value)
    assert "TcpRcv_data trend: 42 B/s" in there
    assert fast.series["TcpSnd_rto"]["value"].max() == 20 * transfer.series["TcpSnd_rto"]["value"].max()
    worst = [{place.key: place for place in stacked_places(each)}["worst_rtt"] for each in (transfer, fast)]
    assert worst[1].about_ns == 20 * worst[0].about_ns
    assert "link seconds" in stacked(fast).layout.xaxis.title.text


def test_a_report_tells_of_a_faster_link(typical: Path, tmp_path: Path) -> None:
    fast = edited(typical, tmp_path / "fast", speed=20)
    for folder, is_fast in ((fast, True), (typical, False)):
        write_report(read(folder), tmp_path / "r.html")
        text = (tmp_path / "r.html").read_text("utf-8")
        assert ("The link ran 20 times as fast as a real one." in text) == is_fast
        assert ("link seconds from the start of the capture (20 to a recorded one)" in text) == is_fast


@pytest.mark.parametrize("speed", ["20", True, -1, 0, 10**9, None, float("inf")])
def test_a_speed_that_makes_no_sense_is_not_believed(typical: Path, tmp_path: Path, speed: Any) -> None:
    edited(typical, tmp_path / "odd", speed=speed if speed != float("inf") else 1e308)
    assert read(tmp_path / "odd").speed == 1


def test_a_log_without_slots_or_offsets_gives_no_series(transfer: Transfer) -> None:
    assert sender_link_series(*_tables([])) == {}
    assert replace(transfer, near=None).series.keys() & {"RlpSnd_data"} == set()
