"""The map of a drive: its places against those of the log, and in a real browser."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.analysis.mobility.route import route_of
from multitracer.analysis.series.labelled import radio_series
from multitracer.figures.palette import SCALES
from multitracer.recording.read import read
from multitracer.report.route_map import MappedDrive, RouteEvent, drawn_route, held, map_document
from multitracer.report.write import write_report
from multitracer.schemas.radio import POSITION, RADIO
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S
from tests.cli.test_without_capture import CSV
from tests.conftest import SAMPLES
from tests.report.test_pack import unpacked_columns

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Array, Schema
    from tests.report.chromium import Browser

START_NS = 1_800_000_000 * NS_PER_S


def table(schema: Schema, **columns: Array) -> Table:
    """Return a table with these columns, all others missing."""
    rows = len(next(iter(columns.values())))
    missing = {"f": np.nan, "i": NA, "u": 0, "U": "", "b": False}
    complete = {c.name: np.full(rows, missing[np.dtype(c.dtype).kind], c.dtype) for c in schema}
    times = {c.name: np.full(rows, NOT_A_TIME) for c in schema if c.is_time}
    return Table(schema, complete | times | columns)


def straight(metres: float = 2000.0, seconds: int = 100) -> MappedDrive:
    """Return a drive to the north at even speed, RSRP falling from -80 to -120 dBm."""
    time_ns = START_NS + np.arange(seconds + 1) * NS_PER_S
    north = np.degrees(np.linspace(0, metres, seconds + 1) / 6_371_008.8)
    speed = np.full(seconds + 1, metres / seconds)
    position = table(POSITION, time_ns=time_ns, lat_deg=50 + north, lon_deg=np.full(seconds + 1, 8.0), speed_mps=speed)
    radio = table(RADIO, time_ns=time_ns, rsrp_dbm=np.linspace(-80, -120, seconds + 1))
    return MappedDrive(route_of(position), radio_series(radio, source="radio"), origin_ns=START_NS)


def test_places_are_metres_around_the_middle() -> None:
    document = map_document(straight())
    assert document is not None
    track = unpacked_columns(document["track"])
    y = np.array(track["y"]) * document["track"]["unit_m"]
    np.testing.assert_allclose([y[0], y[-1]], [-1000, 1000], atol=0.2)
    assert set(track["x"]) == {0}
    assert track["joined"] == [0] + [1] * 100
    assert track["time"][-1] == 100_000


def test_classes_follow_the_stated_limits() -> None:
    drive = straight()
    document = map_document(drive)
    assert document is not None
    (quantity,) = document["quantities"]
    values = np.array(unpacked_columns(quantity["values"])["value"]) * quantity["scale"]
    classes = np.array(unpacked_columns(quantity["classes"])["value"])
    limits = np.array(SCALES["Radio_rsrp"].limits)
    np.testing.assert_array_equal(classes, [(value >= limits).sum() for value in values])
    assert quantity["words"][0] == "below -120"
    assert quantity["unit"] == "dBm"


def test_an_old_value_is_no_value() -> None:
    series = straight().series["Radio_rsrp"]
    times = START_NS + np.array([-1, 0, 100, 105, 106]) * NS_PER_S
    np.testing.assert_array_equal(held(series, times), [np.nan, -80, -120, -120, np.nan])


def test_an_event_stands_where_the_car_was() -> None:
    drive = straight()
    at = RouteEvent(START_NS + 25 * NS_PER_S + NS_PER_S // 2, "marker", "<b>tunnel</b>")
    outside = RouteEvent(START_NS + 1_000 * NS_PER_S, "marker", "later")
    document = map_document(MappedDrive(drive.route, drive.series, events=[at, outside], origin_ns=START_NS))
    assert document is not None
    (event,) = document["events"]
    assert event["y"] == pytest.approx(-1000 + 510, abs=0.3)
    assert event["t"] == 25.5


def test_the_first_screen_of_a_drive_has_the_map_and_the_numbers_of_its_bad_stretches(tmp_path: Path) -> None:
    write_report(read(SAMPLES / "rehearsed-drive"), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text("utf-8")
    first = html[html.index('class="first"') : html.index('id="happened"')]
    assert first.index("Why was it slow?") < first.index('id="map"') < first.index('class="tracks"')
    listed = re.findall(r"<li><b>([0-9:.]+) to ([0-9:.]+)</b> ([^<]+)</li>", first)
    assert ("2:15", "2:28", "weak signal (coverage)") in listed
    data = html[html.index('id="route"') :]
    document = json.loads(data[data.index("{") : data.index("</script>")])
    assert [each["words"] for each in document["bad"]] == [words for _, _, words in listed]
    assert first.count("<circle") == len(listed), "in the picture for browsers without scripts"


def test_a_single_place_makes_no_map() -> None:
    position = table(POSITION, time_ns=np.array([START_NS]), lat_deg=np.array([50.0]), lon_deg=np.array([8.0]))
    assert map_document(MappedDrive(route_of(position), {})) is None


def test_who_stood_at_one_place_is_told_so() -> None:
    time_ns = START_NS + np.arange(60) * NS_PER_S
    position = table(POSITION, time_ns=time_ns, lat_deg=np.full(60, 50.0), lon_deg=np.full(60, 8.0))
    drawn = drawn_route(MappedDrive(route_of(position), {}, origin_ns=START_NS))
    assert drawn is not None
    assert drawn.words == "All positions are at one place."


def test_the_date_line_is_no_border() -> None:
    time_ns = START_NS + np.arange(10) * NS_PER_S
    lon = (179.9995 + np.arange(10) * 1e-4 + 180) % 360 - 180
    position = table(POSITION, time_ns=time_ns, lat_deg=np.zeros(10), lon_deg=lon)
    document = map_document(MappedDrive(route_of(position), {}, origin_ns=START_NS))
    assert document is not None
    x = np.array(unpacked_columns(document["track"])["x"]) * 0.1
    assert np.ptp(x) == pytest.approx(9e-4 * 111_195, rel=0.01)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a drive of 200 readings, with a hostile name."""
    folder = tmp_path_factory.mktemp("drive")
    head, first, *_ = CSV.splitlines()
    rows = [first.split(",") for _ in range(200)]
    for i, row in enumerate(rows):
        row[0] = f"2026.11.20_10.{i // 60:02d}.{i % 60:02d}"
        row[1], row[2] = f"{-8.4958 + 2e-4 * i:.6f}", f"{51.8955 + 1e-4 * (i % 40):.6f}"
        row[4] = "<script>window.bad = 1</script>"
        row[6] = str(-80 - i // 5)
        row[8] = str(20 - i // 10)  # a SINR that never changes is no measurement
    log = folder / "drive <b>.csv"
    log.write_text("\n".join([head, *(",".join(row) for row in rows)]) + "\n")
    write_report(read(log), folder / "report.html")
    return folder / "report.html"


@pytest.mark.browser
def test_a_place_without_a_way_from_it_is_drawn(browser: Browser, tmp_path: Path) -> None:
    """The map of a phone that stood still for an hour was blank."""
    head, first, *_ = CSV.splitlines()
    rows = [first.split(",") for _ in range(60)]
    for i, row in enumerate(rows):
        row[0], row[3] = f"2026.11.20_10.00.{i:02d}", "0"
    log = tmp_path / "still.csv"
    log.write_text("\n".join([head, *(",".join(row) for row in rows)]) + "\n")
    write_report(read(log), tmp_path / "report.html")
    mounted(browser, tmp_path / "report.html")
    drawn = browser.wait(
        "(() => {const c = document.querySelector('.map canvas'); const [w, h] = [c.width / 2, c.height / 2];"
        " return c.getContext('2d').getImageData(w - 3, h - 3, 6, 6).data[3];})()"
    )
    assert drawn == 255


def mounted(browser: Browser, page: Path) -> Browser:
    browser.open(page)
    browser.evaluate("window.report.then(() => true)")
    browser.wait("window.routeMap.place()")
    return browser


def centre(browser: Browser) -> dict[str, Any]:
    return browser.evaluate("window.routeMap.place()")


def pressed(browser: Browser, key: str) -> None:
    canvas, event = "document.querySelector('.map canvas')", f"new KeyboardEvent('keydown', {{key: '{key}'}})"
    browser.evaluate(f"{canvas}.dispatchEvent({event})")


@pytest.mark.browser
def test_the_page_is_silent_and_a_hostile_name_inert(browser: Browser, page: Path) -> None:
    mounted(browser, page)
    assert browser.complaints == []
    assert {r for r in browser.requests if not r.startswith(("data:", "blob:"))} == {page.as_uri()}
    assert browser.evaluate("window.bad") is None


@pytest.mark.browser
def test_pointing_at_the_route_moves_the_cursor_of_the_figure(browser: Browser, page: Path) -> None:
    mounted(browser, page)
    browser.evaluate("document.dispatchEvent(new CustomEvent('cursor', {detail: {seconds: 50, from: 'map'}}))")
    line = browser.evaluate("document.querySelector('.plot .cursor').getBoundingClientRect().left")
    wanted = browser.evaluate(
        "window.report.then((s) => document.querySelector('.plot').getBoundingClientRect().left"
        " + s.plot.across().x(50))"
    )
    assert line == pytest.approx(wanted, abs=2)


@pytest.mark.browser
def test_a_real_pointer_names_the_value_below_it(browser: Browser, page: Path) -> None:
    mounted(browser, page)
    browser.evaluate("document.querySelector('.map canvas').scrollIntoView({block: 'center'})")
    box = browser.evaluate(
        "(() => {const b = document.querySelector('.map canvas').getBoundingClientRect();"
        " return [b.left, b.top, b.width, b.height]})()"
    )
    sent: list[str] = []
    for share in np.linspace(0.02, 0.98, 60):
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + share * box[2], y=box[1] + box[3] / 2)
        sent.append(browser.evaluate("document.querySelector('.map .status').textContent"))
    assert any("RSRP: -" in words and words.endswith("dBm") for words in sent)


@pytest.mark.browser
def test_zooming_in_time_lights_up_the_stretch(browser: Browser, page: Path) -> None:
    mounted(browser, page)
    assert browser.evaluate("window.routeMap.stretch()") is None
    browser.evaluate("window.report.then((shown) => shown.look(40, 80)).then(() => true)")
    assert browser.evaluate("window.routeMap.stretch()") == pytest.approx([40, 80])
    browser.evaluate("window.report.then((shown) => shown.look(-10, 1000)).then(() => true)")
    assert browser.evaluate("window.routeMap.stretch()") is None


@pytest.mark.browser
def test_keys_move_zoom_and_step(browser: Browser, page: Path) -> None:
    mounted(browser, page)
    before = centre(browser)
    for key in ("+", "ArrowRight", ".", "."):
        pressed(browser, key)
    after = centre(browser)
    assert after["zoom"] == pytest.approx(1.6 * before["zoom"])
    assert after["x"] > before["x"]
    assert browser.evaluate("window.routeMap.cursor()") == pytest.approx(1.0)
    pressed(browser, "0")
    assert centre(browser)["zoom"] == pytest.approx(before["zoom"])


@pytest.mark.browser
def test_another_quantity_changes_the_legend(browser: Browser, page: Path) -> None:
    mounted(browser, page)
    browser.evaluate(
        "(() => {const s = document.querySelector('.map select'); s.value = '2';"
        " s.dispatchEvent(new Event('change'))})()"
    )
    assert browser.evaluate("document.querySelector('.map .classes b').textContent") == "SINR, dB"


@pytest.mark.browser
def test_the_legend_names_the_limits_that_occur(browser: Browser, tmp_path: Path) -> None:
    write_report(read(SAMPLES / "rehearsed-drive"), tmp_path / "report.html")
    browser.open(tmp_path / "report.html")
    browser.wait("window.routeMap.place()")
    browser.evaluate("document.querySelector('.map canvas').dispatchEvent(new KeyboardEvent('keydown', {key: '.'}))")
    assert browser.evaluate("document.querySelector('.map .status').innerText").startswith("0:0"), "on the first screen"
    browser.evaluate(
        "(() => {const s = document.querySelector('.map select'); s.selectedIndex = s.options.length - 1;"
        " s.dispatchEvent(new Event('change'))})()"
    )
    said = browser.evaluate("[...document.querySelectorAll('.map .classes span')].map((e) => e.textContent)")
    assert {"link", "outage"} <= set(said)
    assert not {"sender-buffer", "receiver-window", "unknown"} & set(said)


CHOOSE_DISTANCE = (
    "(() => {const s = document.querySelector('.figure select'); s.value = '1';"
    " s.dispatchEvent(new Event('change'))})()"
)


@pytest.mark.browser
def test_the_distance_axis_is_linked_with_the_map_too(browser: Browser, page: Path) -> None:
    mounted(browser, page)
    browser.evaluate(CHOOSE_DISTANCE)
    browser.wait("document.querySelector('.figure .status').textContent.includes(' km to ')")
    assert "every reading with a place" in browser.evaluate("document.querySelector('.figure .status').textContent")
    browser.evaluate("window.report.then((shown) => shown.look(0.5, 1)).then(() => true)")
    begin, end = browser.evaluate("window.routeMap.stretch()")
    assert 0 < begin < end < 200
    browser.evaluate("document.dispatchEvent(new CustomEvent('cursor', {detail: {metres: 700, from: 'figure'}}))")
    assert begin <= browser.evaluate("window.routeMap.cursor()") <= end
    pressed(browser, ".")
    assert browser.evaluate("document.querySelector('.plot .cursor').hidden") is False
    assert browser.complaints == []


def test_no_line_leads_over_a_gap_of_the_route() -> None:
    """A leap of 70 km without a reading in it is no line."""
    seconds = np.arange(60)
    lat = 50 + 1e-4 * seconds + np.where(seconds >= 30, 0.6, 0.0)
    position = table(POSITION, time_ns=START_NS + seconds * NS_PER_S, lat_deg=lat, lon_deg=np.full(60, 8.0))
    document = map_document(MappedDrive(route_of(position), {}, origin_ns=START_NS))
    assert document is not None
    joined = unpacked_columns(document["track"])["joined"]
    assert [i for i, each in enumerate(joined) if not each] == [0, 30]


@pytest.mark.browser
def test_positions_alone_are_drawn_in_one_colour(browser: Browser, tmp_path: Path) -> None:
    """Without a quantity the scripts of the page ended, and the map was blank."""
    points = "".join(
        f'<trkpt lat="{51.9 + 1e-4 * i:.4f}" lon="{-8.5 + 2e-4 * i:.4f}"><time>2026-11-20T10:00:{i:02d}Z</time></trkpt>'
        for i in range(30)
    )
    walk = tmp_path / "walk.gpx"
    walk.write_text(f'<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>{points}</trkseg></trk></gpx>')
    write_report(read(walk), tmp_path / "report.html")
    mounted(browser, tmp_path / "report.html")
    drawn = "(() => {const c = document.querySelector('.map canvas'); const [w, h] = [c.width / 2, c.height / 2];"
    drawn += " return c.getContext('2d').getImageData(w, h, 1, 1).data[3];})()"
    assert browser.wait(drawn) == 255
    assert browser.evaluate("document.querySelector('.map .classes').textContent") == "Positionno quantity was recorded"
    assert browser.evaluate("window.routeMap.words(5)").endswith("Position: no quantity was recorded")
    theme = browser.evaluate("document.documentElement.dataset.theme")
    browser.evaluate("document.querySelector('.theme').click()")
    assert browser.evaluate("document.documentElement.dataset.theme") != theme
    assert browser.complaints == []


@pytest.mark.browser
def test_a_mark_in_the_figure_over_distance_lies_where_the_car_was(browser: Browser, page: Path) -> None:
    mounted(browser, page)
    browser.evaluate(CHOOSE_DISTANCE)
    browser.wait("document.querySelector('.figure .status').textContent.includes(' km to ')")
    begin_m, end_m = browser.evaluate("window.routeMap.between(60, 90)")
    browser.evaluate("Tracks.mark(60, 90, 'a stretch')")
    mark = "document.querySelector('.plot .mark')"
    left, width, plot_px = browser.evaluate(
        f"[parseFloat({mark}.style.left), parseFloat({mark}.style.width), document.querySelector('.plot').clientWidth]"
    )
    first, last = browser.evaluate("window.report.then((shown) => shown.view())")
    assert browser.evaluate(f"{mark}.hidden") is False
    assert width / plot_px == pytest.approx((end_m - begin_m) / 1000 / (last - first), rel=0.25)
    assert left / plot_px == pytest.approx((begin_m / 1000 - first) / (last - first), abs=0.15)
    browser.evaluate("Tracks.mark(-20, -10, 'before the route')")
    assert browser.evaluate(f"{mark}.hidden") is True
