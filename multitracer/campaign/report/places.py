"""The places where a campaign was bad: seconds in hexagons, and in squares of 50 m by heading.

Positions are metres on the sinusoidal projection around the middle meridian of the campaign, which preserves
area, so all squares of 50 m have the same area (Snyder, "Map Projections: A Working Manual", 1987, 30).

The module also makes the map in the page, which `places.js` draws, and the table of the worst places.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.route import EARTH_M
from multitracer.campaign.report.drawings import GROUP_HEADS, group_cells, table, text
from multitracer.diagnosis.limits.names import Limit
from multitracer.figures.palette import LIMITS, MISSING, SCALES, Scale
from multitracer.report.markup import Markup, element

if TYPE_CHECKING:
    import pyarrow as pa

    from multitracer.campaign.report.questions import Engine
    from multitracer.tables import Array, Document, Row

SQUARE_M = 50.0
"""Side of the squares in m: the distance driven in four seconds at 45 km/h."""
SECTORS = 8
"""Number of heading sectors: 0 is north, 1 north-east."""
MOST_HEXAGONS = 3_000
"""Maximum number of hexagons, so that each is some twenty pixels wide on a screen of 1,280. Not measured."""
MOST_SQUARES = 40_000
"""Maximum number of squares by heading in a page, those with most seconds: some 3 MB."""
_WIDTHS_M = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
"""Widths of the hexagons between opposite sides, in m.

The smallest width with few enough hexagons is used."""
_MIDDLE = (
    "SELECT degrees(atan2(avg(sin(radians(lon_deg))), avg(cos(radians(lon_deg))))) AS lon_deg "
    "FROM seconds WHERE lat_deg IS NOT NULL AND lon_deg IS NOT NULL"
)
_NUMBERS = """count(*) AS seconds, count(DISTINCT session) AS sessions,
    count(bad) AS judged, count(*) FILTER (bad) AS bad,
    avg(throughput_bps) AS throughput_bps, median(rtt_ns) AS rtt_ns,
    CASE WHEN sum(sent) > 0 THEN sum(lost) / sum(sent) END AS loss,
    avg(rsrp_dbm) AS rsrp_dbm, avg(rscp_dbm) AS rscp_dbm, avg(rssi_dbm) AS rssi_dbm, avg(rsrq_db) AS rsrq_db,
    avg(sinr_db) AS sinr_db, mode(limited_by) AS limited_by"""
"""Columns of a map cell in SQL: means over seconds, but the median of RTT, because few values dominate its mean."""


class Plane(NamedTuple):
    """The sinusoidal projection around a meridian."""

    lon_deg: float

    @property
    def metres(self) -> tuple[str, str]:
        """SQL expressions for the distances east and north of the origin, in m.

        The origin is on the equator.
        """
        turned = f"((lon_deg - ({self.lon_deg!r}) + 540) % 360 - 180)"
        return f"radians({turned}) * cos(radians(lat_deg)) * {EARTH_M}", f"radians(lat_deg) * {EARTH_M}"

    def degrees(self, east: float, north: float) -> tuple[float, float]:
        """Return latitude and longitude in degrees of the point `east` and `north` metres from the origin."""
        lat = north / EARTH_M
        lon = self.lon_deg + math.degrees(east / (EARTH_M * max(math.cos(lat), 1e-9)))
        return math.degrees(lat), (lon + 540) % 360 - 180


@dataclass(frozen=True)
class CampaignMap:
    """The map of a campaign.

    Attributes
    ----------
    plane : Plane
    width_m : float
        Width of the hexagons, between two opposite sides.
    hexagons : pyarrow.Table
        A row per hexagon, by descending number of bad seconds: `q` and `r` (axial coordinates), `x` and `y`
        (its middle, metres), `seconds`, `sessions`, `judged`, `bad`, `throughput_bps`, `rtt_ns`, `loss`,
        the levels of the radio, and `limited_by`; null if not known.
    squares : pyarrow.Table
        The same for squares of SQUARE_M by heading: `q` and `r` count squares, and `sector` is the heading in
        eighths of a turn from north, null while the car stood. Only the squares with most seconds.
    all_squares : int
        Number of all squares.
    """

    plane: Plane
    width_m: float
    hexagons: pa.Table
    squares: pa.Table
    all_squares: int


def places(engine: Engine) -> CampaignMap | None:
    """Return the map of the campaign; None if no session has positions."""
    lon_deg = engine.row(_MIDDLE)["lon_deg"]
    if lon_deg is None:
        return None
    plane = Plane(lon_deg)
    width_m = _width(engine, plane)
    squares = _squares(engine, plane)
    return CampaignMap(plane, width_m, _hexagons(engine, plane, width_m), *squares)


def _located(engine: Engine, plane: Plane) -> str:
    east, north = plane.metres
    return (
        f"(SELECT *, {east} AS east, {north} AS north FROM {engine.judged} "
        "WHERE lat_deg IS NOT NULL AND lon_deg IS NOT NULL)"
    )


# --- hexagons ---


def axial(east: Array, north: Array, width_m: float) -> tuple[Array, Array]:
    """Return the hexagon of each point as axial coordinates q (east) and r (north-east), int64, shape (n,).

    A corner of each hexagon points to the north.

    Parameters
    ----------
    east, north : ndarray of float64, m, shape (n,)
    width_m : float
        Width of the hexagons between two opposite sides, m.
    """
    q, r = east / width_m - north / (width_m * math.sqrt(3)), north * 2 / (width_m * math.sqrt(3))
    s = -q - r
    rounded = [np.rint(each) for each in (q, r, s)]
    off = [abs(complete - each) for complete, each in zip(rounded, (q, r, s), strict=True)]
    q_is_worst = (off[0] > off[1]) & (off[0] > off[2])
    r_is_worst = ~q_is_worst & (off[1] > off[2])
    return (
        np.where(q_is_worst, -rounded[1] - rounded[2], rounded[0]).astype(np.int64),
        np.where(r_is_worst, -rounded[0] - rounded[2], rounded[1]).astype(np.int64),
    )


def _axial_sql(source: str, width_m: float) -> str:
    """Return SQL text: the rows of `source` with the hexagon of each position as columns `q` and `r`.

    They are computed as in `axial`.
    """
    root = repr(width_m * math.sqrt(3))
    return f"""(
        SELECT * EXCLUDE (fq, fr, iq, ir, js, q_off, r_off, s_off),
            (CASE WHEN q_off > r_off AND q_off > s_off THEN -ir - js ELSE iq END)::BIGINT AS q,
            (CASE WHEN (q_off <= r_off OR q_off <= s_off) AND r_off > s_off THEN -iq - js ELSE ir END)::BIGINT
                AS r
        FROM (SELECT *, round(fq) AS iq, round(fr) AS ir, round(-fq - fr) AS js,
                  abs(round(fq) - fq) AS q_off, abs(round(fr) - fr) AS r_off,
                  abs(round(-fq - fr) + fq + fr) AS s_off
              FROM (SELECT *, east / {width_m!r} - north / {root} AS fq, north * 2 / {root} AS fr
                    FROM {source}))
    )"""


def _width(engine: Engine, plane: Plane) -> float:
    """Return the smallest width of hexagons, in m, with which their number is not too large."""
    points = engine.table(
        f"SELECT (floor(east / {SQUARE_M}) + 0.5) * {SQUARE_M} AS east, "
        f"(floor(north / {SQUARE_M}) + 0.5) * {SQUARE_M} AS north FROM {_located(engine, plane)} "
        "GROUP BY ALL"
    )
    east, north = (points[name].to_numpy() for name in ("east", "north"))
    for width in _WIDTHS_M:
        q, r = axial(east, north, width)
        if len(np.unique(q * (1 << 32) + r)) <= MOST_HEXAGONS:
            return float(width)
    return float(_WIDTHS_M[-1])


def _hexagons(engine: Engine, plane: Plane, width_m: float) -> pa.Table:
    source = _axial_sql(_located(engine, plane), width_m)
    return engine.table(
        f"SELECT q, r, (q + r / 2) * {width_m!r}::DOUBLE AS x, "
        f"r * {width_m * math.sqrt(3) / 2!r}::DOUBLE AS y, {_NUMBERS} "
        f"FROM {source} GROUP BY q, r ORDER BY bad DESC, seconds DESC, q, r"
    )


# --- squares by heading ---


def _squares(engine: Engine, plane: Plane) -> tuple[pa.Table, int]:
    """Return a table of the squares with most seconds, and the number of all squares.

    The columns are computed only for the squares in the table.
    """
    turn = 360 / SECTORS
    source = (
        f"(SELECT *, floor(east / {SQUARE_M})::BIGINT AS q, floor(north / {SQUARE_M})::BIGINT AS r, "
        f"coalesce(round(heading_deg / {turn})::BIGINT % {SECTORS}, -1) AS way "
        f"FROM {_located(engine, plane)})"
    )
    table = engine.table(
        "WITH chosen AS (SELECT q, r, way, count(*) OVER () AS squares "
        f"FROM {source} GROUP BY q, r, way ORDER BY count(*) DESC, q, r, way LIMIT {MOST_SQUARES}) "
        f"SELECT q, r, nullif(way, -1) AS sector, (q + 0.5) * {SQUARE_M}::DOUBLE AS x, "
        f"(r + 0.5) * {SQUARE_M}::DOUBLE AS y, any_value(squares) AS squares, {_NUMBERS} "
        f"FROM {source} JOIN chosen USING (q, r, way) GROUP BY q, r, way ORDER BY seconds DESC, q, r, way"
    )
    count = table["squares"][0].as_py() if len(table) else 0
    return table.drop_columns(["squares"]), count


def worst(drawn: CampaignMap, most: int) -> list[Row]:
    """Return the hexagons with most bad seconds, at most `most`.

    `lat_deg` and `lon_deg` are their middles.
    """
    rows = [row for row in drawn.hexagons.slice(0, most).to_pylist() if row["bad"]]
    for row in rows:
        row["lat_deg"], row["lon_deg"] = drawn.plane.degrees(row["x"], row["y"])
    return rows


_WORST = 20
_DIGITS = 4
"""Significant digits of values in the page."""
_BAD = Scale("Bad time", "%", (1, 5, 10, 25, 50), high_is_good=False, factor=100)
_LOSS = Scale("Lost segments", "%", (0.1, 0.5, 1, 3, 10), high_is_good=False, factor=100)
_AMOUNT = Scale("Recorded time", "s", (3, 10, 30, 100, 1000))
_SCALES = {
    "bad_share": _BAD,
    "throughput_bps": SCALES["TcpSnd_goodput"],
    "rtt_ns": SCALES["TcpSnd_rtt"],
    "loss": _LOSS,
    "rsrp_dbm": SCALES["Radio_rsrp"],
    "rscp_dbm": SCALES["Radio_rscp"],
    "rssi_dbm": SCALES["Radio_rssi"],
    "rsrq_db": SCALES["Radio_rsrq"],
    "sinr_db": SCALES["Radio_sinr"],
    "seconds": _AMOUNT,
}
"""The quantities by which the map can be coloured, by column."""
_TITLES = {"throughput_bps": "Throughput (mean)", "rtt_ns": "Round trips (median)"}
_LIMITS = [limit.label for limit in Limit]
_BUTTONS = (("in", "+", "Zoom in"), ("out", "−", "Zoom out"), ("whole", "Fit all", "Fit all: show the whole map"))
_HINT = (
    "Map of all drives. Keys: arrows move, plus and minus zoom, 0 shows the whole, comma and full stop step "
    "from cell to cell."
)
_NOTHING = "Not known: no session has positions. Record positions with the logger of a phone."


def map_document(places: CampaignMap) -> Document:
    """Return the map as JSON for `places.js`."""
    levels = [_level(places, places.hexagons, places.width_m), _level(places, places.squares, SQUARE_M)]
    quantities = [_quantity(key, scale) for key, scale in _SCALES.items() if _is_known(levels[0], key)]
    if _is_known(levels[0], "limited_by"):
        colours = [LIMITS[limit] for limit in Limit]
        quantities.append(
            {"key": "limited_by", "title": "Most frequent limit", "unit": "", "words": _LIMITS, "colours": colours}
        )
    return {"levels": levels, "quantities": quantities, "missing": MISSING}


def _is_known(level: Document, key: str) -> bool:
    return any(value is not None for value in level["values"][key])


def _quantity(key: str, scale: Scale) -> Document:
    factor = 1.0 if scale.factor == 100 else scale.factor  # limits of shares are percentages already
    limits = [float(f"{limit * factor:.6g}") for limit in scale.limits]
    title = _TITLES.get(key, scale.title)
    return {
        "key": key, "title": title, "unit": scale.unit, "limits": limits, "colours": scale.colours,
        "words": Scale(title, scale.unit, limits).words(),
    }  # fmt: skip


def _level(places: CampaignMap, cells: pa.Table, width_m: float) -> Document:
    columns = cells.to_pydict()
    columns["bad_share"] = [
        bad / judged if judged else None for bad, judged in zip(columns["bad"], columns["judged"], strict=True)
    ]
    values = {key: [_rounded(each, scale) for each in columns[key]] for key, scale in _SCALES.items()}
    values["limited_by"] = [_LIMITS.index(each) if each in _LIMITS else None for each in columns["limited_by"]]
    degrees = [places.plane.degrees(x, y) for x, y in zip(columns["x"], columns["y"], strict=True)]
    lat_deg, lon_deg = np.round(np.array(degrees), 6).T.tolist()
    level: Document = {
        "width_m": width_m,
        "x": [round(each, 1) for each in columns["x"]],
        "y": [round(each, 1) for each in columns["y"]],
        "lat_deg": lat_deg,
        "lon_deg": lon_deg,
        "seconds": columns["seconds"],
        "sessions": columns["sessions"],
        "values": values,
    }
    return level | ({"sector": columns["sector"]} if "sector" in columns else {})


def _rounded(value: float | None, scale: Scale) -> float | None:
    return None if value is None else float(f"{value * scale.factor:.{_DIGITS}g}")


def map_section(places: CampaignMap | None, document: Document | None) -> Markup:
    """Return the section on bad places, with the map and a table; without positions only a sentence."""
    if places is None or document is None:
        return element("section", element("h2", "Where is it bad?"), element("p", _NOTHING))
    titles = [each["title"] for each in document["quantities"]]
    width = f"{places.width_m / 1000:g} km" if places.width_m >= 1000 else f"{places.width_m:g} m"
    levels = (f"hexagons of {width}", f"squares of {SQUARE_M:g} m by heading")
    buttons = (
        element("button", sign, type="button", data_map=action, title=says, aria_label=says)
        for action, sign, says in _BUTTONS
    )
    rest = places.all_squares - places.squares.num_rows
    return element(
        "section",
        element("h2", "Where is it bad?"),
        element(
            "div",
            element("label", "Show ", _options(levels)),
            element("label", "Colour by ", _options(titles)),
            element("div", buttons, class_="group push"),
            class_="bar",
        ),
        element("div", class_="classes key"),
        element("canvas", tabindex="0", role="img", aria_label=_HINT),
        element("p", "Move the pointer over a cell to see its value.", class_="status", role="status"),
        element("noscript", element("p", "The map needs JavaScript; the worst places are listed below.")),
        element("p", f"{rest:,} squares with the shortest time are not shown.", class_="muted") if rest else None,
        _worst_table(places, width),
        class_="map long",
    )


def _options(titles: list[str] | tuple[str, ...]) -> Markup:
    return element("select", [element("option", title, value=place) for place, title in enumerate(titles)])


def _worst_table(places: CampaignMap, width: str) -> Markup:
    rows = worst(places, _WORST)
    if not rows:
        return element("p", "There is no bad place.")
    cells = [[text(f"{row['lat_deg']:.5f}, {row['lon_deg']:.5f}"), *group_cells(row)] for row in rows]
    caption = f"Hexagons of {width} with the most bad time"
    return element("div", element("h3", caption), table(caption, (("Middle", False), *GROUP_HEADS), cells))
