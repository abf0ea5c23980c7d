"""The map of a drive in a report: the route, coloured by a quantity, and the events on the route.

Positions are metres east and north of the middle of the route, on the tangent plane of the earth at that
point: for a route of 100 km the error is below 0.1 %. `map.js` draws the map without tiles from a network.
For browsers without scripts, the page has an inline SVG.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.route import EARTH_M
from multitracer.figures.palette import MISSING, SCALES
from multitracer.figures.series import BREAK
from multitracer.report.base_map import base_document
from multitracer.report.markup import Markup, element
from multitracer.report.packed_columns import pack_columns
from multitracer.units import NS_PER_MS, NS_PER_S
from multitracer.words import count, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from multitracer.analysis.mobility.route import Route, RoutePositions
    from multitracer.report.base_map import BaseMap
    from multitracer.tables import Array, Document, Mask, Numbers, Table, Times

MOST_POINTS = 60_000
"""Maximum points of the route in a page: two for each second of a drive of 8 hours."""
_UNIT_M = 0.1
"""Resolution of the positions in metres: finer than the accuracy of a GNSS receiver."""
_TICK_NS = NS_PER_MS
_VALUE_UNIT = 1e-3
KINDS = {"handover": "Handovers", "outage": "Outages", "marker": "Your markers", "gap": "Gaps"}


class BadStretch(NamedTuple):
    """A part of the route in which the drive was bad."""

    begin_ns: int
    end_ns: int
    words: str
    """Its cause."""


class RouteEvent(NamedTuple):
    """An event on the route: its time, its kind and its text."""

    time_ns: int
    kind: str
    """One of KINDS."""
    words: str


@dataclass(frozen=True)
class Stretches:
    """A quantity with a named value in each time interval, such as the limit of the transfer.

    Attributes
    ----------
    title : str
    words, colours : sequence of str
    begin_ns, end_ns, code : ndarray of int64, shape (n,)
        Intervals in order of time; `code` is the index into `words`.
    """

    title: str
    words: Sequence[str]
    colours: Sequence[str]
    begin_ns: Times
    end_ns: Times
    code: Numbers

    def classes(self, time_ns: Times) -> Array:
        """Return the index into `words` at each time; -1 outside all intervals."""
        if not len(self.begin_ns):
            return np.full(len(time_ns), -1)
        row = np.searchsorted(self.begin_ns, time_ns, side="right") - 1
        inside = (row >= 0) & (time_ns < self.end_ns[row])
        return np.where(inside, self.code[row], -1)


@dataclass(frozen=True)
class MappedDrive:
    """The content of a map.

    Attributes
    ----------
    route : Route
    series : mapping of str to Table
        SERIES by label, on the clock of the route; the user can select those that have a colour scale.
    stretches : sequence of Stretches
    events : sequence of RouteEvent
    origin_ns : int
        Origin of the page's time axis, ns.
    speed : float
        Seconds of that axis in a second of the recording.
    """

    route: Route
    series: Mapping[str, Table]
    stretches: Sequence[Stretches] = ()
    events: Sequence[RouteEvent] = ()
    origin_ns: int = 0
    speed: float = 1.0
    base: BaseMap | None = None
    """Base map below the route; None if there is none."""
    bad: Sequence[BadStretch] = ()
    """The bad stretches in the order of their list, whose numbers they have on the map."""

    @property
    def quantities(self) -> list[str]:
        """The labels of the series that can colour the route."""
        return [label for label in SCALES if label in self.series and len(self.series[label])]


class DrawnRoute(NamedTuple):
    """The map of a drive in all its forms."""

    document: Document
    """The map as JSON for `map.js`."""
    static: Markup
    """A picture for browsers that run no scripts."""
    words: str = ""
    """Sentences on gaps of the route and on omitted positions."""


def map_document(drive: MappedDrive) -> Document | None:
    """Return the map as JSON for `map.js`; None for a route with fewer than two positions."""
    drawn = drawn_route(drive)
    return None if drawn is None else drawn.document


def drawn_route(drive: MappedDrive) -> DrawnRoute | None:
    """Return the map for `map.js` and as static SVG; None for a route with fewer than two positions."""
    # the times of the route, and of the readings of all series but TCP's
    own = [drive.route.table["time_ns"]]
    own += [table["time_ns"] for label, table in drive.series.items() if label.startswith("Radio_")]
    own += [np.array([event.time_ns for event in drive.events], np.int64)]
    time_ns: Times = np.unique(np.concatenate(own))
    if len(time_ns) > MOST_POINTS:
        time_ns = time_ns[np.linspace(0, len(time_ns) - 1, MOST_POINTS).astype(np.int64)]
    places = drive.route.at(time_ns)
    known = np.isfinite(places.lat_deg)
    if int(known.sum()) < 2:
        return None
    plane = _Plane.around(places.lat_deg[known], places.lon_deg[known])
    joined = np.append(False, known[1:] & known[:-1])[known]
    time_ns = time_ns[known]
    joined[1:] &= np.diff(np.searchsorted(drive.route.gaps["end_ns"], time_ns, side="right")) == 0
    east, north = plane.metres(places.lat_deg[known], places.lon_deg[known])
    columns = {
        "time": _on_axis(time_ns, drive) // _TICK_NS,
        "x": np.rint(east / _UNIT_M).astype(np.int64),
        "y": np.rint(north / _UNIT_M).astype(np.int64),
        "along": np.rint(places.distance_m[known] / _UNIT_M).astype(np.int64),
        "joined": joined.astype(np.int64),
    }
    quantities = _quantities(drive, time_ns) or [_one_colour(len(time_ns))]
    track = pack_columns(columns) | {"tick_s": _TICK_NS / NS_PER_S, "unit_m": _UNIT_M}
    base = None if drive.base is None else base_document(drive.base, plane.metres, (east, north))
    document = {
        "track": track,
        "quantities": [document for document, _ in quantities],
        "events": _events(drive, plane),
        "bad": _bad(drive),
        "missing": MISSING,
        "base": base,
    }
    middles = [(each.begin_ns + each.end_ns) // 2 for each in drive.bad]
    spots = np.searchsorted(time_ns, np.array(middles, np.int64)).clip(0, len(time_ns) - 1).tolist()
    static = picture(east, north, joined, quantities[0][1], spots)
    stood = "All positions are at one place. " if not (columns["x"].any() or columns["y"].any()) else ""
    return DrawnRoute(document, static, f"{stood}{left_out_words(drive.route)}".rstrip())


_WHY = {
    "no time": "without a time",
    "no position": "with impossible coordinates",
    "no fix": "without a fix",
    "0/0": "at 0/0",
    "repeated": "old ones that the logger repeated while it moved",
    "stray": "far from those before and after",
}
_MOST_NAMED = 3  # gaps in the sentence; all are on the map


def left_out_words(route: Route) -> str:
    """Return sentences on the gaps of a route, the longest first, and on omitted positions."""
    words = []
    if len(route.gaps):
        longest = np.argsort(-route.gaps["length_m"], kind="stable")
        named = [str(reason) for reason in route.gaps["reason"][longest[:_MOST_NAMED]]]
        more = f" and {len(longest) - _MOST_NAMED:,} shorter ones" if len(longest) > _MOST_NAMED else ""
        gaps = count(len(longest), "gap")
        words.append(f"The route has {gaps}, in which nothing is drawn: {'; '.join(named)}{more}.")
    reasons = {why: rows for why, rows in route.table.provenance.get("left_out", {}).items() if why != "out of order"}
    if reasons:
        listed = ", ".join(f"{rows:,} ({_WHY.get(why, why)})" for why, rows in reasons.items())
        words.append(f"Of {sum(reasons.values()) + len(route.table):,} logged positions were left out: {listed}.")
    return " ".join(words)


def map_section(drawn: DrawnRoute) -> Markup:
    """Return the section of a page that consists of the map."""
    return element("section", element("h2", "Map"), map_figure(drawn))


def map_figure(drawn: DrawnRoute) -> Markup:
    """Return the element in which `map.js` draws the document: its controls, the legend and the canvas."""
    document = drawn.document
    titles = [each["title"] for each in document["quantities"]]
    kinds = [kind for kind in KINDS if any(event["kind"] == kind for event in document["events"])]
    options = [element("option", title, value=number) for number, title in enumerate(titles)]
    boxes = [
        element("label", box, f" {KINDS[kind]}", class_="choice")
        for kind in kinds
        for box in [element("input", type="checkbox", checked=True, data_kind=kind)]
    ]
    buttons = [
        element("button", sign, type="button", data_map=action, title=says, aria_label=says)
        for action, sign, says in _BUTTONS
    ]
    chooser = element("label", "Colour by ", element("select", options)) if len(titles) > 1 else None
    canvas = element("canvas", tabindex="0", role="img", aria_label=_HINT)
    return element(
        "div",
        element("div", chooser, element("div", buttons, class_="group push"), class_="bar"),
        canvas,
        element("div", class_="classes key"),
        element("div", boxes, class_="bar shown") if boxes else None,
        element("p", "Point at the route for its value.", class_="status", role="status"),
        element("p", drawn.words, class_="said") if drawn.words else None,
        None if document["base"] is None else element("p", document["base"]["words"], class_="base"),
        element(
            "noscript",
            element("style", _STATIC),
            drawn.static,
            element("p", "This picture does not move; the map needs JavaScript."),
        ),
        class_="map",
        id="map",
    )


_STATIC = Markup(".map canvas, .map > .bar, .map > .classes, .map > .status, .map > .base { display: none; }")
"""Style for browsers without scripts: shows the picture and hides the map."""
_HINT = (
    "Map of the route. Keys: arrows move, plus and minus zoom, 0 shows the whole, comma and full stop step "
    "along the route."
)
_BUTTONS = (("in", "+", "Zoom in"), ("out", "−", "Zoom out"), ("whole", "Fit all", "Fit all: show the whole route"))


def _on_axis(time_ns: Times, drive: MappedDrive) -> Times:
    since = time_ns - drive.origin_ns
    return since if drive.speed == 1 else np.rint(since * drive.speed).astype(np.int64)


class _Plane(NamedTuple):
    """The tangent plane of the earth at a reference point, for positions in metres."""

    lat_deg: float
    lon_deg: float

    @classmethod
    def around(cls, lat_deg: Array, lon_deg: Array) -> _Plane:
        """Return the plane at the middle of the positions.

        Longitudes are relative to the first position, so that a route may cross the date line.
        """
        lon = lon_deg[0] + _turned(lon_deg - lon_deg[0])
        return cls((lat_deg.min() + lat_deg.max()) / 2, (lon.min() + lon.max()) / 2)

    def metres(self, lat_deg: Array, lon_deg: Array) -> tuple[Array, Array]:
        """Return the positions in metres east and north of the reference point."""
        east = np.radians(_turned(lon_deg - self.lon_deg)) * EARTH_M * np.cos(np.radians(self.lat_deg))
        return east, np.radians(lat_deg - self.lat_deg) * EARTH_M


def _turned(degrees: Array) -> Array:
    """Return differences of longitude in degrees, changed to the range -180 to 180."""
    return (degrees + 180) % 360 - 180


def _quantities(drive: MappedDrive, time_ns: Times) -> list[tuple[Document, Coloured]]:
    """Return the quantities that can colour the route.

    Each is a pair: JSON for `map.js`, and the colour class of each point for the static picture.
    """
    shown = []
    for label in drive.quantities:
        scale, value = SCALES[label], held(drive.series[label], time_ns)
        known, classes = np.isfinite(value), scale.classes(value)
        if not known.any():
            continue
        written = np.full(len(value), BREAK)
        written[known] = np.rint(value[known] * scale.factor / _VALUE_UNIT).astype(np.int64)
        document = {
            "key": label,
            "title": scale.title,
            "unit": scale.unit,
            "words": scale.words(),
            "colours": scale.colours,
            "scale": _VALUE_UNIT,
            "classes": pack_columns({"value": classes}),
            "values": pack_columns({"value": written}),
        }
        title = f"{scale.title}, {scale.unit}" if scale.unit else scale.title
        shown.append((document, Coloured(title, scale.words(), scale.colours, classes)))
    for each in drive.stretches:
        if len(each.begin_ns):
            classes = each.classes(time_ns)
            shown.append(_by_name(Coloured(each.title, each.words, each.colours, classes)))
    return shown


def _by_name(coloured: Coloured) -> tuple[Document, Coloured]:
    """Return a quantity of names, without numbers, as a pair like those of `_quantities`."""
    document = {
        "key": coloured.title,
        "title": coloured.title,
        "unit": "",
        "words": list(coloured.words),
        "colours": list(coloured.colours),
        "classes": pack_columns({"value": coloured.classes}),
    }
    return document, coloured


def _one_colour(points: int) -> tuple[Document, Coloured]:
    """Return what colours a route on which nothing but positions is known."""
    return _by_name(Coloured("Position", ["no quantity was recorded"], [MISSING], np.zeros(points, np.int64)))


def held(series: Table, time_ns: Times) -> Array:
    """Return the last value of a series at or before each time; NaN if it is too old.

    Returns
    -------
    ndarray of float64, shape of `time_ns`
        NaN before the first value, and where the last value is older than the `gap_ns` of the series.
    """
    own = series["time_ns"]
    row = np.searchsorted(own, time_ns, side="right") - 1
    gap_ns = int(series.provenance.get("gap_ns", _DEFAULT_GAP_NS))
    fresh = (row >= 0) & (time_ns - own[row] <= gap_ns)
    return np.where(fresh, series["value"][row], np.nan)


_DEFAULT_GAP_NS = 2 * NS_PER_S
"""Maximum time for which a TCP value remains valid on the route. Not measured."""


def _events(drive: MappedDrive, plane: _Plane) -> list[Document]:
    """Return the events with a known position as JSON."""
    time_ns = np.array([event.time_ns for event in drive.events], np.int64)
    places: RoutePositions = drive.route.at(time_ns)
    east, north = plane.metres(places.lat_deg, places.lon_deg)
    seconds = _on_axis(time_ns, drive) / NS_PER_S
    facts = zip(drive.events, seconds.tolist(), east.tolist(), north.tolist(), strict=True)
    return [
        {"kind": e.kind, "words": printable(e.words), "t": t, "x": round(x, 1), "y": round(y, 1)}
        for e, t, x, y in facts
        if np.isfinite(x)
    ]


def _bad(drive: MappedDrive) -> list[Document]:
    """Return the bad stretches as JSON, with the seconds of the page's axis."""
    seconds = [[(at - drive.origin_ns) * drive.speed / NS_PER_S for at in each[:2]] for each in drive.bad]
    return [
        {"from": round(begin, 3), "to": round(end, 3), "words": printable(each.words)}
        for each, (begin, end) in zip(drive.bad, seconds, strict=True)
    ]


_WIDTH, _HEIGHT, _MARGIN = 960, 480, 24
_MOST_POINTS = 5_000
"""Maximum points of the route in the SVG: about 50 kB, and enough for a screen."""
_FINEST_PX = 0.7
"""Minimum distance of two points of a line, in pixels, as in map.js."""
_LONGEST_BAR_PX = 160


class Coloured(NamedTuple):
    """The quantity that colours the route, with the colour class of each point; -1: no value."""

    title: str
    words: Sequence[str]
    colours: Sequence[str]
    classes: Array


def picture(east: Array, north: Array, joined: Mask, quantity: Coloured, spots: Sequence[int] = ()) -> Markup:
    """Return the route as SVG, with a legend of the colours and a scale bar.

    Parameters
    ----------
    east, north : ndarray of float64, m, shape (n,)
    joined : ndarray of bool, shape (n,)
        Whether a line connects the previous point to this one.
    quantity : Coloured
    spots : sequence of int
        Point in the middle of each bad stretch, which is marked with the number of the stretch.
    """
    zoom = min(
        (_WIDTH - 2 * _MARGIN) / max(float(np.ptp(east)), 20), (_HEIGHT - 2 * _MARGIN) / max(float(np.ptp(north)), 20)
    )
    x = _WIDTH / 2 + (east - (east.min() + east.max()) / 2) * zoom
    y = _HEIGHT / 2 - (north - (north.min() + north.max()) / 2) * zoom
    of_step = np.append(quantity.classes[:1], quantity.classes[:-1])
    finest = _FINEST_PX
    while len(kept := _thinned(x, y, joined, of_step, finest)) > _MOST_POINTS and finest < _WIDTH:
        finest *= 2
    paths = [
        element("path", d=steps, stroke=quantity.colours[kind] if kind >= 0 else MISSING)
        for kind in np.unique(of_step).tolist()
        if (steps := _steps(x[kept], y[kept], joined[kept] & (of_step[kept] == kind)))
    ]
    outline = element("path", d=_steps(x[kept], y[kept], joined[kept]), stroke="currentColor", stroke_width="6")
    lines = element("g", outline, paths, fill="none", stroke_width="4", stroke_linecap="round")
    svg = element(
        "svg",
        element("title", f"Map of the route: {quantity.title}"),
        lines,
        [_badge(number, float(x[at]), float(y[at])) for number, at in enumerate(spots, 1)],
        _bar(zoom),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        class_="still",
    )
    rows = [*zip(quantity.words, quantity.colours, strict=True)]
    if (quantity.classes < 0).any():
        rows.append(("no value", MISSING))
    items = [element("span", element("i", style=f"background:{colour}"), words) for words, colour in rows]
    key = element("div", element("b", quantity.title), items, class_="classes key")
    return element("div", svg, key)


def _badge(number: int, x: float, y: float) -> Markup:
    disc = element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r="11", fill="currentColor")
    text = element(
        "text", str(number), x=f"{x:.1f}", y=f"{y + 5:.1f}", text_anchor="middle", font_size="14", fill="var(--paper)"
    )
    return element("g", disc, text)


def _thinned(x: Array, y: Array, joined: Mask, kind: Array, finest: float) -> Array:
    """Return the indexes of the points to draw.

    They are the first point in each grid cell, each change of colour class, and both ends of a gap.
    A grid cell is `finest` wide.
    """
    cell = np.floor(np.column_stack([x, y]) / finest)
    keep = np.ones(len(x), dtype=bool)
    keep[1:] = (cell[1:] != cell[:-1]).any(axis=1) | ~joined[1:] | (kind[1:] != kind[:-1])
    keep[:-1] |= (kind[1:] != kind[:-1]) | ~joined[1:]
    keep[-1] = True
    return np.flatnonzero(keep)


def _steps(x: Array, y: Array, chosen: Mask) -> str:
    """Return an SVG path with a line to each point of the mask `chosen` from the point before it."""
    words: list[str] = []
    last = -1
    for i in np.flatnonzero(chosen).tolist():
        if last != i - 1:
            words.append(f"M{x[i - 1]:.1f} {y[i - 1]:.1f}")
        words.append(f"L{x[i]:.1f} {y[i]:.1f}")
        last = i
    return "".join(words)


def _bar(zoom: float) -> Markup:
    """Return the scale bar; its length is 1, 2 or 5 times a power of ten, in metres."""
    most = _LONGEST_BAR_PX / zoom
    power = 10.0 ** math.floor(math.log10(most))
    metres = next(n * power for n in (5, 2, 1) if n * power <= most)
    words = f"{metres / 1000:g} km" if metres >= 1000 else f"{metres:g} m"
    base = _HEIGHT - 8
    line = element(
        "path", d=f"M12 {base - 6}V{base}H{12 + metres * zoom:.1f}V{base - 6}", fill="none", stroke="currentColor"
    )
    return element("g", line, element("text", words, x="18", y=f"{base - 6}", fill="currentColor", font_size="14"))
