"""Curves of flows: what they count, how they look, and what an empty figure says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from multitracer.analysis.deliveries import rate_curve
from multitracer.errors import InputError
from multitracer.figures.delivered import default_window_s, delivered_figure, rates_figure
from multitracer.recording.deliveries import FlowCurve


def curve(name: str = "a:1 > b:2", *, session: str = "one", count: int = 10, each: int = 440) -> FlowCurve:
    """Return a flow of a packet each second, the first at 1 s, of a recording of 20 s."""
    return FlowCurve(session, name, "wtcp", np.arange(1.0, count + 1), np.full(count, each), 20.0)


def test_delivered_counts_packets_and_bytes_up_to_the_end_of_the_recording() -> None:
    (trace,) = delivered_figure([[curve()]]).data
    assert (list(trace.x[:3]), list(trace.y[:3])) == ([1, 1, 2], [0, 1, 2])
    assert (trace.x[-1], trace.y[-1], trace.customdata[-1]) == (20, 10, 4400)
    assert trace.line.shape == "hv"
    assert trace.name == "wtcp, a:1 &gt; b:2"


def test_a_long_curve_is_thinned_and_keeps_its_end() -> None:
    (trace,) = delivered_figure([[curve(count=100_000)]]).data
    assert len(trace.x) == 2002
    assert (trace.y[-2], trace.customdata[-1]) == (100_000, 44_000_000)


def test_a_rate_is_what_arrived_in_its_window() -> None:
    (trace,) = rates_figure([[curve()]], window_s=5).data
    rate = dict(zip(np.round(trace.x, 2).tolist(), trace.y, strict=True))
    assert rate[1.0] == pytest.approx(440 * 8 / 5), "one packet in a window of five seconds"
    assert max(rate.values()) == pytest.approx(440 * 8)
    assert rate[20.0] == 0, "nothing arrived in the last five seconds"


def test_the_rates_of_any_window_add_up_to_what_was_delivered() -> None:
    chance = np.random.default_rng(18)
    time_s, new = np.sort(chance.uniform(0, 100, 3000)), chance.integers(1, 1460, 3000)
    for window_s in (1.0, 2.5, 10.0):
        at_s, rate = rate_curve(time_s, new, window_s, 100 + window_s)
        assert np.trapezoid(rate, at_s) / 8 == pytest.approx(new.sum(), rel=0.01)


def test_a_flow_that_brought_nothing_has_a_level_curve() -> None:
    empty = curve(count=0)
    assert delivered_figure([[empty]]).data[0].y.tolist() == [0, 0]
    assert len(rates_figure([[empty]]).data[0].x) == 0


@pytest.mark.parametrize(("until_s", "window_s"), [(0, 1), (50, 1), (51, 2), (300, 10), (86_400, 2000)])
def test_the_window_is_a_round_number(until_s: float, window_s: float) -> None:
    flow = FlowCurve("one", "a", "wtcp", np.array([0.0]), np.array([1]), until_s)
    assert default_window_s([[flow]]) == window_s


def test_flows_of_one_recording_differ_by_more_than_hue() -> None:
    traces = delivered_figure([[curve(f"a:{n} > b:2") for n in range(3)]]).data
    assert len({trace.line.color for trace in traces}) == len({trace.line.dash for trace in traces}) == 3


def test_the_same_flow_of_several_recordings_has_one_colour_and_several_dashes() -> None:
    traces = delivered_figure([[curve(), curve("c:1 > b:3")], [curve(session="two")]]).data
    assert traces[0].line.color == traces[2].line.color
    assert traces[0].line.dash != traces[2].line.dash
    assert [trace.name.partition(":")[0] for trace in traces] == ["one", "one", "two"]


def test_names_are_shown_as_they_are() -> None:
    (trace,) = delivered_figure([[curve("<b>x</b>:1 > b:2")]]).data
    assert "<b>x" not in trace.name
    assert "<b>x" not in trace.hovertemplate


def test_the_commanded_rate_of_wtcp_stands_below_in_packets_a_second() -> None:
    flow = replace(curve(), commanded_s=np.array([1.0, 2.0, 3.0]), commanded_packets_per_s=np.array([1.0, 1.0, 1.25]))
    figure = rates_figure([[flow, curve("c:1 > b:3")]], window_s=5)
    delivered, _, commanded, none = figure.data
    assert (commanded.yaxis, commanded.line.shape, commanded.line.color) == ("y2", "hv", delivered.line.color)
    assert (commanded.x.tolist(), commanded.y.tolist()) == ([1, 3, 20], [1, 1.25, 1.25])
    assert len(none.x) == 0, "TCP's acknowledgments command no rate"
    assert figure.layout.yaxis2.title.text == "packets/s"
    assert "yaxis2" not in rates_figure([[curve()]], window_s=5).to_dict()["layout"]


def test_a_long_commanded_rate_is_thinned_and_its_time_never_runs_backwards() -> None:
    at_s = np.linspace(0.0, 25.0, 100_000)
    flow = replace(curve(), commanded_s=at_s, commanded_packets_per_s=np.arange(100_000.0))
    commanded = rates_figure([[flow]], window_s=5).data[1]
    assert len(commanded.x) == 2001
    assert (commanded.x[-1], commanded.y[-1]) == (25, 99_999)
    assert (np.diff(commanded.x) >= 0).all(), "the last acknowledgment is after the recording's last delivery"


@pytest.mark.parametrize("make", [delivered_figure, rates_figure])
def test_an_empty_figure_says_why(make: object) -> None:
    assert callable(make)
    nothing: tuple[list[list[FlowCurve]], ...] = ([], [[]])
    for sessions in nothing:
        words = [note.text for note in make(sessions, empty="no capture was made").layout.annotations]
        assert "no capture was made" in words


@pytest.mark.parametrize("window_s", [0, -1, float("nan"), float("inf")])
def test_a_window_that_is_no_time_is_refused(window_s: float) -> None:
    with pytest.raises(InputError, match=r".window_s. must be a number of seconds above 0"):
        rates_figure([[curve()]], window_s=window_s)
