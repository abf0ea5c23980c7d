"""Series over the distance along the route: each point where the car was, none where that is unknown."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.errors import InputError
from multitracer.figures.drive_figure import OverDistance, over_distance
from multitracer.figures.series import BREAK, Series
from multitracer.figures.stack import DBM, PLAIN, Panel
from multitracer.recording.read import read
from multitracer.units import NS_PER_S
from tests.cli.program import call
from tests.cli.test_without_capture import CSV
from tests.report.test_route_map import START_NS, straight

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.analysis.mobility.route import Route

KM = 10**9


def at(seconds: list[float]) -> np.ndarray:
    return START_NS + np.round(np.array(seconds) * NS_PER_S).astype(np.int64)


def power(seconds: list[float]) -> Panel:
    series = Series("Radio_rsrp", "radio_rsrp", at(seconds), np.arange(len(seconds), dtype=np.int64))
    return Panel("radio_power", "Received power", DBM, 1.0, [series])


def placed(route: Route, seconds: list[float]) -> OverDistance:
    return over_distance([power(seconds)], route)


def gapped() -> Route:
    """Return 2,000 m in 100 s, of which the receiver saw nothing from second 40 to second 60."""
    drive = straight()
    table = drive.route.table
    kept = np.flatnonzero((table["time_ns"] <= at([40])[0]) | (table["time_ns"] >= at([60])[0]))
    complete = table.take(kept)
    gap = complete["gap"].copy()
    gap[np.searchsorted(complete["time_ns"], at([60])[0])] = "silence"
    object.__setattr__(drive.route, "table", type(complete)(complete.schema, {**complete.columns, "gap": gap}))
    return drive.route


def test_a_point_stands_where_the_car_was() -> None:
    shown = placed(straight().route, [0, 25, 50.5, 100])
    (series,) = shown.panels[0].series
    np.testing.assert_allclose(series.time_ns / KM, [0, 0.5, 1.01, 2.0], atol=1e-6)
    assert (shown.points, shown.unplaced) == (4, 0)
    assert shown.axis.title == "kilometres along the route"


def test_where_the_place_is_unknown_nothing_is_drawn_and_the_axis_says_so() -> None:
    shown = placed(gapped(), [-5, 39, 45, 55, 61, 120])
    (series,) = shown.panels[0].series
    np.testing.assert_allclose(series.time_ns / KM, [0.78, 0.78, 1.22], atol=1e-6)
    assert series.value.tolist() == [1, BREAK, 4]
    assert "4 of 6 points not drawn" in shown.axis.title


def test_a_line_is_interrupted_in_a_gap_in_which_no_point_lies() -> None:
    (series,) = placed(gapped(), [39, 61]).panels[0].series
    assert series.value.tolist() == [0, BREAK, 1]


def test_a_strip_is_cut_to_where_the_place_is_known() -> None:
    strip = Series("cell", "cell_1", at([10, 70, 80, 90]), np.array([1, 0, 1, 0]))
    panels = [Panel("cell", "Serving cell", PLAIN, 0.2, [strip], shades=True), power([10])]
    (series,) = over_distance(panels, gapped()).panels[0].series
    np.testing.assert_allclose(series.time_ns / KM, [0.2, 0.8, 1.2, 1.4, 1.6, 1.8], atol=1e-6)
    assert series.value.tolist() == [1, 0] * 3


def test_without_a_route_or_a_point_on_it_the_axis_is_refused() -> None:
    with pytest.raises(InputError, match="no route"):
        over_distance([power([1])], None)
    with pytest.raises(InputError, match="of no point"):
        placed(straight().route, [200])


def test_link_time_is_that_of_the_recording_again() -> None:
    shown = over_distance([power([50])], straight().route, speed=2, origin_ns=START_NS)
    assert shown.panels[0].series[0].time_ns[0] == pytest.approx(0.5 * KM, rel=1e-6)


def plotted(tmp_path: Path, *options: str | Path) -> dict[str, Any]:
    call("plot", *options, "--axis", "distance", "-o", tmp_path / "figure.json")
    document: dict[str, Any] = json.loads((tmp_path / "figure.json").read_text())
    return document


def test_plot_draws_radio_over_distance(tmp_path: Path) -> None:
    log = tmp_path / "drive.csv"
    log.write_text(CSV)
    text = json.dumps(plotted(tmp_path, log))
    assert "kilometres along the route" in text
    assert "Gps_position" not in text
    assert "%{x:.3f} km" in text


@pytest.fixture
def drive_with_packets(tmp_path: Path, sample_sender: Path) -> Path:
    """A session of one host that captured a connection and logged its places, 20 m in each second."""
    first_ns = read(sample_sender).captures[0].tables.first_ns
    assert first_ns is not None
    seconds = range(first_ns // NS_PER_S - 2, first_ns // NS_PER_S + 300)
    head, row, *_ = CSV.splitlines()
    lines = [head]
    for i, second in enumerate(seconds):
        values = row.split(",")
        values[0] = datetime.fromtimestamp(second, UTC).strftime("%Y.%m.%d_%H.%M.%S")
        values[2] = f"{51.8955 + i * np.degrees(20 / 6_371_008.8):.7f}"
        lines.append(",".join(values))
    (tmp_path / "session" / "car").mkdir(parents=True)
    (tmp_path / "session" / "car" / "drive.csv").write_text("\n".join(lines) + "\n")
    shutil.copy(sample_sender, tmp_path / "session" / "car" / sample_sender.name)
    return tmp_path / "session"


def test_plot_draws_a_connection_over_distance(tmp_path: Path, drive_with_packets: Path) -> None:
    document = plotted(tmp_path, drive_with_packets)
    traces = {trace.get("meta"): trace for trace in document["data"]}
    assert {"TcpSnd_rtt", "Radio_rsrp"} <= set(traces)
    assert "TcpSnd_data" not in traces
    assert "kilometres" in document["layout"]["xaxis"]["title"]["text"]


def test_a_session_without_a_route_is_refused(tmp_path: Path, sample_sender: Path) -> None:
    done = call("plot", sample_sender, "--axis", "distance", "-o", tmp_path / "figure.html", status=1)
    assert "holds no route" in done.stderr


def test_what_is_of_seconds_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "drive.csv"
    log.write_text(CSV)
    done = call("plot", log, "--axis", "distance", "--mark", "1:2", "-o", tmp_path / "x.html", status=2)
    assert "an axis of time" in done.stderr
