"""The radio and the road as panels: values to the digit, gaps, and the strip of the serving cell."""

from __future__ import annotations

import numpy as np

from multitracer.analysis.mobility.cells import cell_visits_of
from multitracer.analysis.mobility.handovers import handovers_of
from multitracer.analysis.series.labelled import longest_joined_ns, radio_series
from multitracer.figures.environment import cell_strip, line_with_gaps
from multitracer.figures.series import BREAK, Series, thin
from multitracer.figures.stack import DBM, Panel, plain_figure, points
from multitracer.schemas.radio import RADIO
from multitracer.units import NS_PER_S
from tests.report.test_route_map import START_NS, table


def test_a_line_ends_where_readings_are_missing() -> None:
    seconds = np.array([0, 1, 2, 30, 31])
    radio = table(RADIO, time_ns=START_NS + seconds * NS_PER_S, rsrp_dbm=np.array([-80.0, -81, -82, -90, -91]))
    line = line_with_gaps("Radio_rsrp", "radio_rsrp", radio_series(radio, source="log")["Radio_rsrp"], scale=1e-3)
    drawn = points(line, DBM, START_NS)
    np.testing.assert_allclose(drawn["y"], [-80, -81, -82, np.nan, -90, -91])
    assert drawn["x"][3] > 2


def test_ten_panels_keep_most_of_the_height() -> None:
    """Half the height was free, and the labels of an axis lay over each other."""
    line = Series("Gps_speed", "speed", np.array([START_NS]), np.array([1]))
    layout = plain_figure([Panel(f"p{n}", "Speed", DBM, 1, [line]) for n in range(10)], origin_ns=START_NS)
    axes = [axis for name, axis in layout["layout"].items() if name.startswith("yaxis")]
    assert sum(top - bottom for bottom, top in (axis["domain"] for axis in axes)) > 0.7


def test_slow_loggers_are_joined_too() -> None:
    assert longest_joined_ns(START_NS + np.arange(9) * 30 * NS_PER_S) == 150 * NS_PER_S
    assert longest_joined_ns(np.array([START_NS])) == 5 * NS_PER_S


def test_of_two_commands_the_fuller_gives_the_series() -> None:
    radio = table(
        RADIO,
        time_ns=START_NS + np.arange(5) * NS_PER_S,
        source=np.array(["+CSQ", "+QENG", "+CSQ", "+CSQ", "+QENG"]),
        rssi_dbm=np.array([-70.0, -71, -72, np.nan, -74]),
    )
    series = radio_series(radio, source="log")["Radio_rssi"]
    assert series["value"].tolist() == [-70, -72]
    assert series.provenance["source"] == "log, +CSQ"


def test_neighbours_are_not_the_serving_cell() -> None:
    roles = np.array(["serving", "neighbour", "secondary", ""])
    radio = table(RADIO, time_ns=START_NS + np.arange(4) * NS_PER_S, role=roles, cqi=np.arange(4))
    assert radio_series(radio, source="log")["Radio_cqi"]["value"].tolist() == [0, 3]


def test_thinning_keeps_breaks_and_real_extremes() -> None:
    value = np.tile([5, 9, 1, BREAK], 10_000)
    thinned = thin(Series("a", "reading", START_NS + np.arange(40_000), value), bins=64)
    assert BREAK in thinned.value
    assert {1, 9} <= set(thinned.value.tolist())


def test_the_strip_shows_which_cell_served_when() -> None:
    cell = np.repeat([7, 8, 7], 10)
    radio = table(
        RADIO,
        time_ns=START_NS + np.arange(30) * NS_PER_S,
        cell_id=cell,
        rat=np.full(30, "LTE"),
        role=np.full(30, "serving"),
    )
    handovers = handovers_of(radio)
    strip = cell_strip(cell_visits_of(radio, handovers))
    assert strip is not None
    seven, eight = strip.series
    assert (seven.label, eight.label) == ("LTE cell 7", "LTE cell 8")
    begins = ((eight.time_ns - START_NS) / NS_PER_S).tolist()
    assert begins == [9.5, 19.5]
    assert seven.value.tolist() == [1, 0, 1, 0]
