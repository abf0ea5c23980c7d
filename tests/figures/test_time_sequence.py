"""The time/sequence figure holds what happened, under the labels of docs/figures.md."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from multitracer.analysis.group import SegmentKind
from multitracer.captured import Flag
from multitracer.figures.direction import FigureDirection
from multitracer.figures.time_sequence import time_sequence
from multitracer.schemas.tcp import RTT_SAMPLES, TCP_SACK_BLOCKS, TCP_SEGMENTS, Vantage
from multitracer.tables import NOT_A_TIME, Table
from tests.figures.traffic import MSS, START_NS, Recording, transfer


def drawn(direction: FigureDirection, **options: Any) -> dict[str, dict[str, Any]]:
    """Return the traces that have points, by axis and label."""
    figure = time_sequence(direction, **options)
    return {f"{trace.yaxis} {trace.meta}": trace.to_plotly_json() for trace in figure.data if trace.name}


def test_each_lost_segment_is_a_retransmission_at_its_first_byte() -> None:
    resent = drawn(transfer(lost=(50, 51, 200)))["y TcpSnd_rexmt"]
    np.testing.assert_array_equal(resent["y"], [1 + MSS * i for i in (50, 51, 200)])
    assert resent["mode"] == "markers"


def test_data_is_drawn_at_the_first_byte_in_seconds_from_the_start() -> None:
    data = drawn(transfer(segments=5, gap_ms=10, rtt_ms=100))["y TcpSnd_data"]
    np.testing.assert_array_equal(data["y"], 1 + MSS * np.arange(5))
    np.testing.assert_allclose(data["x"], 0.101 + 0.01 * np.arange(5))


def test_ack_and_window_edge_are_steps() -> None:
    traces = drawn(transfer())
    ack, edge = traces["y TcpSnd_ack"], traces["y TcpSnd_rwnd"]
    assert ack["line"]["shape"] == edge["line"]["shape"] == "hv"
    np.testing.assert_array_equal(np.asarray(edge["y"])[1:] - np.asarray(ack["y"])[1:], 60_000)


def test_sack_blocks_are_bars_from_first_byte_to_the_byte_after() -> None:
    bars = drawn(transfer(lost=(2,), segments=30))["y TcpSnd_sack"]
    low, high, gap = (np.asarray(bars["y"])[i::3] for i in range(3))
    assert np.isnan(gap).all()
    np.testing.assert_array_equal(low, 1 + 3 * MSS)
    assert high[0] == 1 + 4 * MSS


def test_a_dsack_is_an_event_of_its_own() -> None:
    log = Recording()
    log.note(0, flags=int(Flag.ACK), payload_bytes=100, seq_bytes=0, end_bytes=100, kind=int(SegmentKind.DATA))
    log.note(
        10,
        reverse=True,
        flags=int(Flag.ACK),
        ack_bytes=100,
        kind=int(SegmentKind.SACK | SegmentKind.DSACK),
        blocks=[(0, 50), (200, 300)],
    )
    traces = drawn(log.direction())
    np.testing.assert_array_equal(traces["y TcpSnd_dsack"]["y"], [0])
    np.testing.assert_array_equal(np.asarray(traces["y TcpSnd_sack"]["y"])[:2], [200, 300])


@pytest.mark.parametrize(("vantage", "prefix"), list(zip(Vantage, ("Tcp", "TcpSnd", "TcpRcv", "TcpMid"), strict=True)))
def test_labels_say_where_the_capture_was_made(vantage: Vantage, prefix: str) -> None:
    names = drawn(replace(transfer(), vantage=vantage))
    assert {name.split()[1].split("_")[0] for name in names} == {prefix}


def test_every_point_names_its_frame() -> None:
    direction = transfer(segments=3)
    data, segments = drawn(direction)["y TcpSnd_data"], direction.segments
    rows = segments["payload_bytes"] > 0
    assert list(data["customdata"]) == [f"frame {n}" for n in segments["frame"][rows]]
    assert "%{customdata}" in data["hovertemplate"]


def test_frames_of_several_files_name_the_file_too() -> None:
    direction = transfer(segments=3)
    direction.segments.columns["file"][:] = 1
    assert drawn(direction)["y TcpSnd_data"]["customdata"][0].endswith(" of file 2")


def test_the_other_direction_has_a_figure_too() -> None:
    traces = drawn(replace(transfer(), reverse=True))
    assert "y TcpSnd_data" not in traces
    assert "y TcpSnd_syn_fin" in traces


@pytest.mark.parametrize(
    ("column", "kind", "label"),
    [
        ("kind", SegmentKind.ZERO_WINDOW, "y TcpSnd_zero_window"),
        ("kind", SegmentKind.DUPLICATE_ACK, "y TcpSnd_dupack"),
        ("flags", Flag.RST, "y TcpSnd_rst"),
    ],
)
def test_rare_events_of_the_receiver_are_drawn_at_their_ack(column: str, kind: int, label: str) -> None:
    direction = transfer(segments=20)
    segments = direction.segments
    row = np.flatnonzero(segments["reverse"])[7]
    segments.columns[column][row] |= int(kind)
    event = drawn(direction)[label]
    np.testing.assert_array_equal(event["y"], segments["ack_bytes"][[row]])
    assert event["customdata"][0] == f"frame {segments['frame'][row]}"


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        (SegmentKind.OUT_OF_ORDER, "ooo"),
        (SegmentKind.RETRANSMISSION, "rexmt"),
        (SegmentKind.CAPTURE_DUPLICATE, "dup"),
        (SegmentKind.KEEP_ALIVE, "probe"),
        (SegmentKind.ZERO_WINDOW_PROBE, "probe"),
    ],
)
def test_a_segment_that_is_not_plain_data_is_drawn_once_under_its_own_label(kind: SegmentKind, label: str) -> None:
    direction = transfer(segments=20)
    segments = direction.segments
    row = np.flatnonzero(segments["payload_bytes"] > 0)[4]
    segments.columns["kind"][row] |= int(kind)
    traces = drawn(direction)
    assert list(traces[f"y TcpSnd_{label}"]["customdata"]) == [f"frame {segments['frame'][row]}"]
    assert f"frame {segments['frame'][row]}" not in traces["y TcpSnd_data"]["customdata"]


def test_rtt_samples_stand_where_their_ack_arrived() -> None:
    rtt = drawn(transfer(segments=4, gap_ms=10, rtt_ms=100))["y3 TcpSnd_rtt"]
    np.testing.assert_allclose(rtt["y"], 0.1)
    np.testing.assert_allclose(rtt["x"], [0.1, 0.201, 0.211, 0.221, 0.231])
    assert rtt["customdata"][0] == "frame 1, answered by 2"


def test_srtt_and_rto_are_marked_reconstructed_and_follow_rfc_6298() -> None:
    traces = drawn(transfer(segments=50, rtt_ms=600))
    srtt = traces["y3 TcpSnd_srtt (reconstructed)"]
    np.testing.assert_allclose(srtt["y"], 0.6)
    rto = traces["y3 TcpSnd_rto (reconstructed)"]
    assert rto["y"][0] == pytest.approx(1.8)  # 3 x the first sample (RFC 6298, 2.2)
    assert rto["y"][-1] == pytest.approx(1.0)  # the least (2.4)


def test_a_bound_far_above_the_rest_does_not_squash_it() -> None:
    figure = time_sequence(transfer(segments=50, rtt_ms=20))  # RTO is 1 s, fifty times the RTT
    assert figure.layout.yaxis3.range[1] == pytest.approx(0.021)
    assert figure.layout.yaxis2.range[1] < 60_000  # the window
    notes = [note.text for note in figure.layout.annotations if note.name == "bound"]
    assert "timeout above" in notes


def test_a_bound_that_is_near_is_in_the_picture() -> None:
    figure = time_sequence(transfer(segments=50, rtt_ms=600))
    assert figure.layout.yaxis3.range[1] > 1.0


def test_an_answer_gives_one_sample_to_the_timer_though_it_has_two_provenances() -> None:
    traces = drawn(transfer(segments=50, rtt_ms=600))
    samples = len(traces["y3 TcpSnd_rtt"]["x"])
    assert len(traces["y3 TcpSnd_rtt_timestamp"]["x"]) == samples - 1
    assert len(traces["y3 TcpSnd_srtt (reconstructed)"]["x"]) == samples


def test_goodput_is_in_bits_and_throughput_is_drawn_only_where_it_differs() -> None:
    direction = transfer(segments=1000, gap_ms=10)
    traces = drawn(direction)
    assert "y4 TcpSnd_throughput" not in traces
    goodput = np.asarray(traces["y4 TcpSnd_goodput"]["y"])
    assert np.median(goodput) == pytest.approx(MSS * 8 / 0.01, rel=0.1)
    assert "y4 TcpSnd_throughput" in drawn(transfer(segments=1000, lost=(500,)))


def test_the_window_of_the_rates_is_named_and_round() -> None:
    figure = time_sequence(transfer(segments=1000, gap_ms=10))
    assert any("averaged over 200 ms" in note.text for note in figure.layout.annotations)


def test_flight_falls_with_the_acks() -> None:
    log = Recording()
    log.note(0, flags=int(Flag.ACK), payload_bytes=100, end_bytes=100, flight_bytes=100, flight_sack_bytes=100)
    log.note(10, reverse=True, flags=int(Flag.ACK), ack_bytes=100)
    np.testing.assert_array_equal(drawn(log.direction())["y2 TcpSnd_flight"]["y"], [100, 0])


def test_an_interval_is_thinned_for_itself() -> None:
    traces = drawn(transfer(), from_ns=START_NS + 1_000_000_000, to_ns=START_NS + 2_000_000_000, origin_ns=START_NS)
    assert min(traces["y TcpSnd_data"]["x"]) >= 1
    assert max(traces["y TcpSnd_data"]["x"]) <= 2


def test_a_panel_without_points_says_why() -> None:
    empty = FigureDirection(Table.empty(TCP_SEGMENTS), Table.empty(TCP_SACK_BLOCKS), Table.empty(RTT_SAMPLES))
    figure = time_sequence(empty)
    reasons = [note.text for note in figure.layout.annotations if note.name == "empty"]
    assert len(reasons) == 4
    assert all(reason.startswith("Of 0 segments read, none") for reason in reasons)
    assert all("draw the other direction" in reason or "capture both directions" in reason for reason in reasons)


def test_near_the_receiver_there_are_no_round_trips_and_goodput_is_what_arrived() -> None:
    """A session may know by its hosts what the packets leave open: then the samples are there."""
    direction = replace(transfer(), vantage=Vantage.NEAR_RECEIVER)
    assert len(direction.rtt_samples) > 0
    figure = time_sequence(direction)
    labels = {str(trace.meta) for trace in figure.data}
    assert not any("rtt" in label or "rto" in label for label in labels)
    assert "TcpRcv_goodput" in labels
    assert any("its own delay" in note.text for note in figure.layout.annotations)


def test_without_acks_the_rtt_panel_asks_for_both_directions() -> None:
    complete = transfer()
    alone = replace(
        complete,
        segments=complete.segments.take(~complete.segments["reverse"]),
        sack_blocks=Table.empty(TCP_SACK_BLOCKS),
        rtt_samples=Table.empty(RTT_SAMPLES),
    )
    figure = time_sequence(alone)
    assert any("capture both directions" in note.text for note in figure.layout.annotations)


def test_all_panels_share_one_time_axis() -> None:
    figure = time_sequence(transfer())
    assert {trace.xaxis for trace in figure.data} == {None}
    assert figure.layout.xaxis.anchor == "y4"
    domains = [figure.layout[f"yaxis{n}"].domain for n in ("", 2, 3, 4)]
    assert all(upper[0] > lower[1] for upper, lower in pairwise(domains))


def test_segments_without_a_time_are_left_out() -> None:
    direction = transfer(segments=10)
    direction.segments.columns["time_ns"][5] = NOT_A_TIME
    data = drawn(direction, origin_ns=START_NS)
    assert all(np.nanmax(np.abs(trace["x"])) < 1e6 for trace in data.values())


def test_a_long_transfer_is_thinned_but_not_its_rare_events() -> None:
    lost = tuple(range(100, 9_000, 50))
    traces = drawn(transfer(segments=9_000, gap_ms=1, lost=lost))
    assert len(traces["y TcpSnd_data"]["x"]) <= 4 * 1024
    assert len(traces["y TcpSnd_rexmt"]["x"]) == len(lost)


def test_both_themes_keep_a_contrast_of_three_to_one() -> None:
    for theme in ("light", "dark"):
        figure = time_sequence(transfer(lost=(5,)), theme=theme)
        paper = luminance(figure.layout.template.layout.paper_bgcolor)
        for trace in figure.data:
            drawn_in = trace.marker.color if trace.mode == "markers" else trace.line.color
            dark, bright = sorted((paper, luminance(drawn_in or "#808080")))
            assert (bright + 0.05) / (dark + 0.05) >= 3, trace.name


def luminance(colour: str) -> float:
    """Return the relative luminance of #rrggbb (WCAG 2.2)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
