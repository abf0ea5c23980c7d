"""The stacked figure: groups apart, slopes, the sender's variables, and phases behind it all."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.figures.series import Series
from multitracer.figures.stack import SECONDS, Panel, value_range
from multitracer.figures.stacked import StackedView, stacked, stacked_panels, stacked_places
from multitracer.recording.read import read
from multitracer.recording.recording import Recording
from multitracer.recording.transfer import Transfer
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path


class Sample:
    """The bundled session, whole or some of its captures with or without its logs."""

    def __init__(self, folder: Path) -> None:
        self.recording = read(folder)
        self.parts = self.recording.captures

    def transfer(self, *, parts: int = 2, state: bool = True, at: int = 0) -> Transfer:
        inputs = self.recording.inputs
        some = Recording(inputs if state else replace(inputs, listed=[], manifest=None))
        for capture in self.parts[at : at + parts]:
            some.captures.append(capture.behind(some.captures[-1] if some.captures else None))
        return Transfer.of(some, 1)


@pytest.fixture(scope="module")
def sample(sample_session: Path) -> Sample:
    return Sample(sample_session)


def drawn(transfer: Transfer, **options: Any) -> dict[str, Series]:
    panels = stacked_panels(transfer, StackedView(**options))
    return {f"{panel.key} {series.label}": series for panel in panels for series in panel.drawn}


def titles(transfer: Transfer) -> list[str]:
    return [panel.title for panel in stacked_panels(transfer)]


def shades(transfer: Transfer, **options: Any) -> list[tuple[float, float]]:
    shapes = stacked(transfer, StackedView(**options)).to_dict()["layout"]["shapes"]
    return sorted((shape["x0"], shape["x1"]) for shape in shapes)


def test_all_layers_of_a_recording_are_drawn(sample: Sample) -> None:
    labels = set(drawn(sample.transfer()))
    assert labels >= {
        "sequence TcpSnd_data", "sequence TcpSnd_ack", "sequence TcpSnd_rexmt",
        "sequence TcpRcv_data", "sequence TcpRcv_ack",
        "flight TcpSnd_cwnd", "flight TcpSnd_ssthresh", "flight TcpSnd_flight", "flight TcpSnd_rwnd",
        "rtt TcpSnd_rtt", "rtt TcpSnd_srtt", "rtt TcpSnd_rto", "throughput TcpSnd_goodput",
        "phase slow start", "phase recovery", "phase loss",
    }  # fmt: skip
    assert not any("reconstructed" in label for label in labels), "the kernel's own values are there"


def test_panels_share_the_time_axis_in_order(sample: Sample) -> None:
    drawn = [panel.key for panel in stacked_panels(sample.transfer())]
    assert drawn[:5] == ["phase", "sequence", "flight", "rtt", "throughput"], "those of one file each follow"


@pytest.mark.parametrize("offset_bytes", [0, 10_000, 250_000])
def test_receiver_lies_the_offset_below_the_sender(sample: Sample, offset_bytes: int) -> None:
    transfer = sample.transfer()
    series = drawn(transfer, offset_bytes=offset_bytes)
    sent, received = (series[f"sequence Tcp{end}_data"].value for end in ("Snd", "Rcv"))
    assert sent[0] - received[0] == offset_bytes
    assert set(received + offset_bytes) <= set(transfer.sender["seq_bytes"].tolist())


@pytest.mark.parametrize("others", [(), ("RlpSnd_rst",)])
def test_a_group_alone_lies_where_its_bytes_are(sample: Sample, others: tuple[str, ...]) -> None:
    transfer = sample.transfer()
    alone = drawn(transfer, labels=("TcpRcv_ack", *others))["sequence TcpRcv_ack"].value
    beside = drawn(transfer, labels=("TcpRcv_ack", "TcpSnd_data"))["sequence TcpRcv_ack"].value
    assert alone[0] - beside[0] == 10_000
    assert alone.min() >= 0


def test_trendlines_tell_their_slopes(sample: Sample) -> None:
    transfer = sample.transfer()
    series = drawn(transfer)
    slopes = {k.split()[1]: float(k.split()[3].replace(",", "")) for k in series if "trend:" in k}
    assert set(slopes) == {"TcpSnd_data", "TcpRcv_data"}
    received = series["sequence TcpRcv_data"]
    fitted = np.polyfit((received.time_ns - received.time_ns[0]) / 1e9, received.value.astype(float), 1)[0]
    assert slopes["TcpRcv_data"] == pytest.approx(fitted, abs=1)
    assert len(next(s for k, s in series.items() if "TcpSnd_data trend:" in k)) == 2


def test_trendlines_are_fitted_to_the_interval(sample: Sample) -> None:
    transfer = sample.transfer()
    first = transfer.at_sender.capture.tables.first_ns or 0
    steady = drawn(transfer, from_ns=first + 5 * 10**9, to_ns=first + 9 * 10**9)
    label = next(label for label in steady if "TcpSnd_data trend:" in label)
    assert float(label.split()[3].replace(",", "")) == pytest.approx(241_000, rel=0.05), "2 Mbit/s of link"


def test_window_that_was_read_bounds_what_is_in_flight(sample: Sample) -> None:
    series = drawn(sample.transfer())
    cwnd, flight = series["flight TcpSnd_cwnd"], series["flight TcpSnd_flight"]
    first = sample.transfer().at_sender.capture.tables.first_ns or 0
    steady = (flight.time_ns > first + 5 * 10**9) & (flight.time_ns < first + 9 * 10**9)
    at = np.searchsorted(cwnd.time_ns, flight.time_ns[steady], side="right") - 1
    assert (flight.value[steady] <= cwnd.value[at] + 1448).mean() > 0.99


def test_phases_shade_the_background_as_the_kernel_tells(sample: Sample) -> None:
    transfer = sample.transfer()
    assert titles(transfer)[0] == "TCP phase, as the sender's TCP reported it"
    found = shades(transfer)
    assert found[0][0] < 0.1, "slow start comes first"
    assert any(16.8 < begin < 17.1 and 18.2 < end < 18.6 for begin, end in found), "the timeout"
    assert sum(end - begin for begin, end in found) < 5, "congestion avoidance is left white"
    shape = stacked(transfer).to_dict()["layout"]["shapes"][0]
    assert (shape["yref"], shape["y0"], shape["y1"], shape["layer"]) == ("paper", 0, 1, "below")


def test_key_of_the_phases_names_every_colour_of_the_strip(sample: Sample) -> None:
    frame = stacked(sample.transfer()).to_dict()
    strip = {trace["fillcolor"] for trace in frame["data"] if trace.get("fill") == "tozeroy"}
    (key,) = [each["text"] for each in frame["layout"]["annotations"] if "■" in each["text"]]
    assert set(re.findall(r"color:(#\w+)", key)) == strip
    assert "congestion avoidance" in key.replace("_", " ")


def test_an_interval_within_a_phase_is_shaded_whole(sample: Sample) -> None:
    transfer = sample.transfer()
    first = transfer.at_sender.capture.tables.first_ns or 0
    begin, end = first + 17 * 10**9, first + 18 * 10**9
    assert shades(transfer, from_ns=begin, to_ns=end) == [(17.0, 18.0)]


def test_radio_panels_are_cut_to_the_chosen_time() -> None:
    """The cells of the rest of the drive made the axis five times as long as what was asked for."""
    transfer = Transfer.of(read(SAMPLES / "measured-drive"), 8)
    first = transfer.at_sender.capture.tables.first_ns or 0
    begin, end = first + 20 * 10**9, first + 38 * 10**9
    found = drawn(transfer, from_ns=begin, to_ns=end)
    (cell,) = [label for label in found if label.startswith("cell ")]
    assert found[cell].time_ns[-1] == end, "the phone was still in it"
    assert "radio_power Radio_rssi" in found
    assert all(series.time_ns[0] >= begin and series.time_ns[-1] <= end for series in found.values())


def test_without_state_the_phases_are_said_to_be_reconstructed(sample: Sample) -> None:
    transfer = sample.transfer(state=False)
    assert "reconstructed (no sender state was recorded)" in titles(transfer)[0]
    assert "no congestion window" in titles(transfer)[2]
    labels = set(drawn(transfer))
    assert {"phase recovery", "rtt TcpSnd_rto (reconstructed)"} <= labels
    assert not labels & {"flight TcpSnd_cwnd", "rtt TcpSnd_rto"}
    assert len(shades(transfer)) >= 4


def test_state_without_congestion_state_is_marked(sample: Sample) -> None:
    transfer = sample.transfer()
    columns = dict(transfer.state.columns) | {"ca_state": np.full(len(transfer.state), -1)}
    blind = replace(transfer, state=type(transfer.state)(transfer.state.schema, columns))
    assert "reconstructed (no congestion state" in titles(blind)[0]


def test_at_the_receiver_alone_no_phase_is_guessed(sample: Sample) -> None:
    transfer = sample.transfer(parts=1, state=False, at=1)
    figure = stacked(transfer).to_dict()["layout"]
    assert any("near the receiver" in note["text"] for note in figure["annotations"])
    assert not figure.get("shapes")
    assert not any("trend" in label and "TcpSnd" in label for label in drawn(transfer))


def test_sender_is_found_from_the_receivers_connection_too(sample: Sample) -> None:
    transfer = Transfer.of(sample.recording, sample.parts[1].offset + 1)
    assert transfer.at_sender.capture is sample.parts[0]
    assert transfer.has_state
    assert transfer.clock is not None


def test_presets_zoom_to_what_happened(sample: Sample) -> None:
    menu = stacked(sample.transfer()).to_dict()["layout"]["updatemenus"][0]["buttons"]
    views = {button["label"]: button["args"][0] for button in menu}
    begin, end = views["First timeout"]["xaxis.range"]
    assert 16 < begin < 16.9
    assert 18.4 < end < 20
    assert views["Fit all"] == {"xaxis.autorange": True}
    assert {place.key for place in stacked_places(sample.transfer())} >= {"timeout", "recovery", "start"}


def test_reverse_direction_of_a_one_way_transfer_can_be_drawn(sample: Sample) -> None:
    transfer = Transfer.of(sample.recording, 1, reverse=True)
    assert transfer.at_sender.capture is sample.parts[1], "the server sends there"
    assert stacked(transfer).data


@pytest.mark.parametrize(("vantage", "prefix"), [(0, "Tcp"), (3, "TcpMid")])
def test_labels_claim_no_end_where_the_capture_was_at_none(sample_session: Path, vantage: int, prefix: str) -> None:
    sample = Sample(sample_session)
    sample.parts[0].analysis.directions["vantage"][:2] = vantage
    series = sample.transfer(parts=1, state=False).series
    assert {label.partition("_")[0] for label in series} == {prefix}
    assert all(table.provenance["label"] == label for label, table in series.items())


def test_equal_values_far_from_zero_leave_an_axis_between_two_numbers() -> None:
    """A step of the clock by half a year gives such a round trip."""
    far = np.array([-17_592_186_044_415_000])
    series = Series("rtt", "rtt", np.array([0]), far)
    low, high = value_range(Panel("rtt", "Round-trip time", SECONDS, 1, [series])) or (0.0, 0.0)
    assert low < -17_592_186.044415 < high
