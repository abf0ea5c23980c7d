"""The figure of efficiency: bands with real values, dashed zero levels, diamonds for what was dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.errors import InputError
from multitracer.figures.efficiency import efficiency_figure
from multitracer.figures.environment import ZERO_LEVEL_DBM
from multitracer.figures.utilization import utilization_figure
from multitracer.recording.efficiency import efficiency_table
from multitracer.recording.read import read
from multitracer.schemas.findings import UTILIZATION
from multitracer.tables import NA, Table
from tests.conftest import ROOT
from tests.transactions import transactions, write_session

if TYPE_CHECKING:
    from pathlib import Path

    import plotly.graph_objects as go


@pytest.fixture
def measured(tmp_path: Path) -> Table:
    """Six transactions of two sizes with radio, one of which was dropped."""
    table = transactions({128: [1.0, 1.5, np.inf], 1024: [3.0, 2.0, 4.5]}, protocol="centauruscomm", radio=True)
    table.columns["efficiency"][:] = [1.0, 0.5, np.nan, 1.0, 0.8, 1.0]
    return efficiency_table(read(write_session(tmp_path / "drive", table)))


def named(figure: go.Figure, name: str) -> Any:
    (trace,) = [trace for trace in figure.data if trace.name == name]
    return trace


def text(figure: go.Figure) -> str:
    return " ".join(str(each.text) for each in figure.layout.annotations).replace("<br>", " ")


def test_each_band_has_the_values_and_its_place(measured: Table) -> None:
    figure = efficiency_figure([("drive", measured)])
    names = [trace.name for trace in figure.data]
    assert names == ["RTT", "Efficiency", "RSSI", "BLER", "Cell busy", "dropped"]
    rtt, efficiency = named(figure, "RTT"), named(figure, "Efficiency")
    assert [value.split(" s")[0] for value in rtt.customdata] == ["1", "1.5", "nan", "3", "2", "4.5"]
    known = np.isfinite(rtt.y)
    assert np.nanmin(rtt.y) > np.nanmax(efficiency.y), "a band above the other"
    assert np.corrcoef(rtt.y[known], measured["rtt_s"][known])[0, 1] == pytest.approx(1), "only scaled and shifted"
    ticks = dict(zip(figure.layout.yaxis.ticktext, figure.layout.yaxis.tickvals, strict=True))
    assert ticks["4.5 s"] == pytest.approx(np.nanmax(rtt.y))
    assert ticks["0.5"] == pytest.approx(np.nanmin(efficiency.y))


def test_zero_levels_are_dashed_at_their_value(measured: Table) -> None:
    figure = efficiency_figure([("drive", measured)])
    levels = [shape for shape in figure.layout.shapes if shape.line.dash == "dash"]
    ticks = dict(zip(figure.layout.yaxis.ticktext, figure.layout.yaxis.tickvals, strict=True))
    assert len(levels) == 4, "RTT, RSSI, BLER and cell busy"
    assert ticks[f"−{-ZERO_LEVEL_DBM:.0f} dBm"] in [shape.y0 for shape in levels]
    (ideal,) = [shape for shape in figure.layout.shapes if shape.line.dash == "dot"]
    assert ideal.y0 == pytest.approx(np.nanmax(named(figure, "Efficiency").y))


def test_a_dropped_transaction_is_a_diamond_with_its_reason(measured: Table) -> None:
    figure = efficiency_figure([("drive", measured)])
    lost = named(figure, "dropped")
    assert (lost.x.tolist(), lost.marker.symbol) == ([3], "diamond-open")
    assert "transaction 3 of 128 bytes" in lost.customdata[0]
    assert lost.customdata[0].endswith("after the first: reply")
    assert "6 transactions over CentaurusComm, RTT range 3.5 s, 1 dropped" in text(figure)


def test_one_size_can_be_chosen(measured: Table) -> None:
    figure = efficiency_figure([("drive", measured)], 1024)
    assert len(named(figure, "RTT").x) == 3
    assert "RTT range 2.5 s" in text(figure)
    with pytest.raises(InputError, match="no transaction of 100 bytes; the sizes are 128, 1024"):
        efficiency_figure([("drive", measured)], 100)


def test_what_no_log_has_is_said_and_has_no_band(tmp_path: Path) -> None:
    bare = efficiency_table(read(write_session(tmp_path / "bare", transactions({64: [1.0, 2.0]}))))
    figure = efficiency_figure([("bare", bare)])
    assert [trace.name for trace in figure.data] == ["RTT", "Efficiency (sent)"]
    assert "no RSSI, BLER, cell busy: no modem was recorded" in text(figure)
    assert "counted by the senders" in text(figure)


def test_transfers_have_a_bar_from_their_smallest_to_their_largest_rtt() -> None:
    table = efficiency_table(read(ROOT / "sample_traces" / "fig8-resets-vj"))
    figure = efficiency_figure([("call", table)])
    rtt = named(figure, "RTT")
    top, bottom = rtt.y[0] + rtt.error_y.array[0], rtt.y[0] - rtt.error_y.arrayminus[0]
    ticks = dict(zip(figure.layout.yaxis.ticktext, figure.layout.yaxis.tickvals, strict=True))
    assert top == pytest.approx(ticks["9.34 s"])
    assert bottom > ticks["0 s"]
    assert "1 transfer over TCP" in text(figure)
    assert "mean efficiency 0.887, captured at the receiver" in text(figure).lower()


def test_foreign_text_is_escaped(measured: Table) -> None:
    measured.columns["why"][:] = "<b>reply</b>"
    figure = efficiency_figure([("<i>drive</i>", measured)])
    assert "<i>" not in text(figure)
    assert "<b>reply" not in named(figure, "dropped").customdata[0]


def test_nothing_to_draw_is_an_error() -> None:
    with pytest.raises(InputError, match="empty: no transaction and no TCP connection"):
        efficiency_figure([("empty", efficiency_table(read(ROOT / "sample_traces" / "rehearsal")))])


# --- utilization ---


def used(*rows: tuple[float, float, str]) -> Table:
    """Return UTILIZATION with these values of utilization, share and outcome."""
    values = [np.array(column) for column in zip(*rows, strict=True)]
    count = len(rows)
    columns: dict[str, Any] = {
        "host": np.full(count, "mobile"), "connection": np.arange(1, count + 1), "direction": np.full(count, "forward"),
        "begin_ns": np.arange(count), "seconds": np.full(count, 8.0), "unique_bytes": np.full(count, 8000),
        "throughput_bytes_per_s": 1000.0 * np.arange(1, count + 1), "utilization": values[0],
        "utilization_rounded_up_pct": np.full(count, NA), "link_limited_share": values[1],
        "view": np.full(count, "sender"), "outcome": values[2],
    }  # fmt: skip
    return Table(UTILIZATION, {c.name: np.asarray(columns[c.name], dtype=c.dtype) for c in UTILIZATION})


def test_logged_transfers_and_others_have_a_histogram_each() -> None:
    nan = np.nan
    logged = used((0.991, 0.9, "complete"), (0.955, 0.9, "complete"), (0.2, 0.1, "dropped"))
    other = used((nan, 0.87, "complete"), (nan, 0.0, "complete"), (nan, nan, "complete"))
    figure = utilization_figure([("gsm", logged), ("lte", other)])
    first, _, second, _ = figure.data
    at = dict(zip(first.x.tolist(), first.y.tolist(), strict=True))
    assert (at[100], at[96], sum(at.values())) == (50, 50, 100)
    at = dict(zip(second.x.tolist(), second.y.tolist(), strict=True))
    assert (at[87.5], at[2.5], sum(at.values())) == (50, 50, 100)
    said = text(figure)
    assert "Channel utilization of 2 transfers" in said
    assert "1 with a dropped call left out" in said
    assert "Time in which the link was the limit, of 2 transfers" in said
    assert "this share is no utilization" in said
    assert "gsm, connection 1" in "".join(first.customdata)


def test_dropped_calls_alone_are_told() -> None:
    with pytest.raises(InputError, match="gsm: each of 1 transfer ended with a dropped call"):
        utilization_figure([("gsm", used((0.2, 0.1, "dropped")))])
    with pytest.raises(InputError, match="lte: no transfer of TCP whose use of the link is known"):
        utilization_figure([("lte", used((np.nan, np.nan, "complete")))])
