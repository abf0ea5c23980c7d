"""The figures of paper 000: what is dropped is seen, expectations are dashed, hostile names stay text."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.analysis.transports import SessionContent, transports_of
from multitracer.errors import InputError
from multitracer.figures.environment import overlay, panels, rtt_range_s
from multitracer.figures.palette import TRANSPORTS
from multitracer.figures.rtt_size import cdf_figure, rtt_size_figure
from tests.transactions import SIZES, cdpd_like, transactions

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.analysis.transports import Transport

INF = np.inf


@pytest.fixture(scope="module")
def both() -> list[Transport]:
    tcp = cdpd_like("tcp", connection="per-session", connect_s=2.0)
    return transports_of([SessionContent("a", tcp), SessionContent("b", cdpd_like("centauruscomm"))])


def named(figure: go.Figure, name: str) -> list[Any]:
    return [trace for trace in figure.data if trace.name == name]


def written(figure: go.Figure, *, narrow: bool = False) -> list[str]:
    layout = figure.layout.meta["narrow"] if narrow else figure.layout.to_plotly_json()
    return [note["text"] for note in layout["annotations"]]


def test_rtt_stands_against_size_on_a_log2_axis(both: list[Transport]) -> None:
    figure = rtt_size_figure(both)
    assert figure.layout.xaxis.type == "log"
    assert list(figure.layout.xaxis.tickvals) == list(SIZES)
    steps = np.diff(np.log2(figure.layout.xaxis.tickvals))
    assert steps.tolist() == [1.0] * 6
    (tcp, _), (centaurus, _) = named(figure, "TCP"), named(figure, "CentaurusComm")
    assert np.isnan(tcp.y[-1]), "no median where most were dropped"
    assert np.isfinite(centaurus.y).all()
    assert (tcp.marker.symbol, tcp.line.color) != (centaurus.marker.symbol, centaurus.line.color)


def test_the_expectation_is_a_dashed_straight_line(both: list[Transport]) -> None:
    (line,) = named(rtt_size_figure(both), "CentaurusComm: straight line")
    assert line.line.dash == "dash"
    slopes = np.diff(line.y) / np.diff(line.x)
    assert slopes == pytest.approx([slopes[0]] * len(slopes))


def test_tcp_is_also_shown_with_the_set_up_of_its_connection(both: list[Transport]) -> None:
    figure = rtt_size_figure(both)
    (alone, _), (with_setup,) = named(figure, "TCP"), named(figure, "TCP with connection set-up")
    assert with_setup.y[:6] - alone.y[:6] == pytest.approx(2.0)
    assert named(figure, "CentaurusComm with connection set-up") == []


def test_sizes_at_which_transactions_were_dropped_say_so() -> None:
    table = transactions({64: [1.0] * 4, 128: [1.0, INF, INF, INF], 256: [INF] * 4})
    figure = rtt_size_figure(transports_of([SessionContent("a", table)]))
    assert {"3 of 4 dropped", "all dropped"} <= set(written(figure))
    diamonds = figure.data[-1]
    assert diamonds.marker.symbol == "diamond-open"
    assert diamonds.y[1:].tolist() == [75, 100]
    assert "3 of 4 dropped: reply 3" in diamonds.customdata[1]
    complete = rtt_size_figure(transports_of([SessionContent("a", transactions({64: [1.0] * 4}))]))
    assert "<b>Dropped transactions</b>" not in written(complete)


def test_a_bar_that_leaves_the_picture_is_told() -> None:
    for longest, told in ((1.5, False), (500.0, True)):
        (transport,) = transports_of([SessionContent("a", transactions({64: [1.0] * 9 + [longest] * 3}))])
        assert any("without an upper end" in text for text in written(rtt_size_figure([transport]))) == told


def test_request_and_reply_have_a_panel_each() -> None:
    tables = [transactions({64: [1.0] * 3, 128: [2.0] * 3}, vary=vary) for vary in ("request", "reply")]
    figure = rtt_size_figure(transports_of([SessionContent("a", t) for t in tables]))
    titles = [text for text in written(figure) if "Round-trip" in text]
    assert len(titles) == 2
    assert [trace.showlegend for trace in named(figure, "TCP")] == [True, False]


def test_each_size_has_its_distributions_and_they_end_where_the_rest_was_dropped(both: list[Transport]) -> None:
    figure = cdf_figure(both)
    tcp = named(figure, "TCP")
    assert len(tcp) == len(SIZES)
    shares = [trace.y[-1] for trace in tcp]
    assert shares[:5] == [1.0] * 5
    assert shares[6] < 0.5
    assert len(named(figure, "TCP: dropped")) == 2
    assert named(figure, "CentaurusComm: dropped") == []
    assert any("no ratio" in text for text in written(figure))
    assert all(np.all(np.diff(trace.y) >= 0) for trace in tcp)


def test_a_long_distribution_is_thinned_but_keeps_its_ends() -> None:
    rtts = np.random.default_rng(1).exponential(1, 5000)
    curve = cdf_figure(transports_of([SessionContent("a", transactions({64: rtts}))])).data[0]
    assert len(curve.x) <= 401
    assert (curve.x[0], curve.x[-1], curve.y[-1]) == (rtts.min(), rtts.max(), 1.0)


def test_the_overlay_scales_and_shifts_but_tells_the_real_values(both: list[Transport]) -> None:
    figure = overlay(both[:1], 4096)
    table = both[0].at(4096)
    assert f"RTT range {rtt_range_s(both[0], 4096):.3g} s, 11 of 100 dropped" in written(figure)[0]
    curves = [trace for trace in figure.data if trace.name != "dropped"]
    assert [trace.name for trace in curves] == ["RTT", "Efficiency (sent)", "RSSI", "BLER", "Cell busy"]
    bands = [(np.nanmin(trace.y), np.nanmax(trace.y)) for trace in curves]
    assert all(upper[0] > lower[1] for upper, lower in pairwise(bands)), "apart"
    rssi = curves[2]
    assert rssi.customdata == pytest.approx(table["rssi_dbm"])
    (level,) = figure.layout.shapes
    assert (level.line.dash, level.y0 < np.min(rssi.y)) == ("dash", True)
    zero = (rssi.y - level.y0) / (rssi.customdata + 113)
    assert zero == pytest.approx([zero[0]] * len(zero)), "the dashed line is where -113 dBm would be"
    (lost,) = named(figure, "dropped")
    assert lost.marker.symbol == "diamond-open"
    assert lost.x.tolist() == (np.flatnonzero(table["outcome"] == "dropped") + 1).tolist()


def test_the_panels_have_real_axes_that_zoom_in_step(both: list[Transport]) -> None:
    figure = panels(both[:1], 4096)
    axes = [figure.layout[f"xaxis{n}"] for n in range(2, 6)]
    assert [axis.matches for axis in axes] == ["x"] * 4
    (rssi,) = named(figure, "RSSI")
    assert rssi.y == pytest.approx(both[0].at(4096)["rssi_dbm"])
    (level,) = figure.layout.shapes
    assert (level.y0, level.y1, level.yref) == (-113, -113, "y3")


def test_each_arm_has_its_own_panels(both: list[Transport]) -> None:
    figure = panels(both)
    assert [figure.layout[f"xaxis{n}"].matches for n in range(6, 11)] == [None, *["x6"] * 4]
    assert len(named(overlay(both), "RTT")) == 2
    assert len(named(overlay(both, 256), "RTT")) == 2


def test_without_a_modem_the_panels_say_why_they_are_empty() -> None:
    table = transactions({64: [1.0, 2.0]})
    for name in ("rssi", "bler", "cell_busy"):
        table[f"{name}_absent"][:] = "no modem was recorded"
    (transport,) = transports_of([SessionContent("a", table)])
    texts = written(panels([transport]))
    assert sum("no modem was recorded" in text.replace("<br>", " ") for text in texts) == 3
    assert "no modem was recorded" in " ".join(written(overlay([transport]))).replace("\xa0", " ").replace("<br>", " ")


def test_where_all_were_dropped_the_figures_still_draw() -> None:
    (transport,) = transports_of([SessionContent("a", transactions({64: [INF] * 3}, radio=True))])
    assert "all dropped" in written(rtt_size_figure([transport]))
    assert "All transactions were dropped." in " ".join(written(cdf_figure([transport])))
    assert "no RTT, 3 of 3 dropped" in written(overlay([transport]))[0]
    assert named(panels([transport]), "dropped")[0].x.tolist() == [0.0, 60.5, 121.0]
    for made in (rtt_size_figure([]), cdf_figure([])):
        assert "No transaction was recorded." in written(made)


def test_a_size_that_was_not_measured_is_refused_with_those_that_were(both: list[Transport]) -> None:
    with pytest.raises(InputError, match="no transaction of 100 bytes; the sizes are 128, 256"):
        overlay(both, 100)


@pytest.mark.parametrize("draw", [rtt_size_figure, cdf_figure, overlay, panels])
def test_names_of_sessions_stay_text(draw: Any) -> None:
    evil = '<b onclick="x">&</b>'
    sources = [SessionContent(f"{evil}{n}", transactions({64: [1.0, 2.0]})) for n in range(2)]
    figure = draw(transports_of(sources))
    texts = [*written(figure), *written(figure, narrow=True), *(trace.name for trace in figure.data)]
    texts += [str(trace.hovertemplate) for trace in figure.data]
    assert not [text for text in texts if text and "<b onclick" in text]
    assert any("&lt;b" in text for text in texts if text)


def test_a_phone_gets_one_column_and_shorter_lines(both: list[Transport]) -> None:
    figure = cdf_figure(both)
    wide, narrow = figure.layout, figure.layout.meta["narrow"]
    assert wide.xaxis2.domain[0] > 0.3
    assert narrow["xaxis2"]["domain"] == [0, 1]
    assert narrow["height"] > 2 * wide.height


def test_arms_can_be_told_apart_by_more_than_hue() -> None:
    assert len({look.symbol for look in TRANSPORTS}) == len(TRANSPORTS)
