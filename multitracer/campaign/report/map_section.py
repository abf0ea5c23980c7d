"""The map of a campaign in its page: what `places.js` draws, and the worst places as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.campaign.report.places import SQUARE_M, Places, worst
from multitracer.campaign.report.tables import GROUP_HEADS, group_cells, table, text
from multitracer.diagnosis.limits.names import Limit
from multitracer.figures.palette import LIMITS
from multitracer.figures.surroundings.scale import MISSING, SCALES, Scale
from multitracer.report.markup import Markup, element

if TYPE_CHECKING:
    import pyarrow as pa

    from multitracer.tables import Document

_WORST = 20
_DIGITS = 4
"""Of the values in the page, as many as a reader compares."""
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
"""The quantities that can colour the map, by column."""
_TITLES = {"throughput_bps": "Throughput (mean)", "rtt_ns": "Round trips (median)"}
_LIMITS = [limit.label for limit in Limit]
_BUTTONS = (("in", "+", "Zoom in"), ("out", "−", "Zoom out"), ("whole", "Whole", "Show the whole map"))
_HINT = (
    "Map of all drives. Keys: arrows move, plus and minus zoom, 0 shows the whole, comma and full stop step "
    "from cell to cell."
)
_NOTHING = "Nothing can be said: no session has positions. Record them with a phone's logger."


def map_document(places: Places) -> Document:
    """Return the map as JSON for `places.js`."""
    levels = [_level(places, places.hexagons, places.width_m), _level(places, places.squares, SQUARE_M)]
    quantities = [_quantity(key, scale) for key, scale in _SCALES.items() if _is_known(levels[0], key)]
    if _is_known(levels[0], "limited_by"):
        colours = [LIMITS[limit] for limit in Limit]
        quantities.append(
            {
                "key": "limited_by",
                "title": "What limited most",
                "unit": "",
                "words": _LIMITS,
                "colours": colours,
            }
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


def _level(places: Places, cells: pa.Table, width_m: float) -> Document:
    columns = cells.to_pydict()
    columns["bad_share"] = [
        bad / judged if judged else None
        for bad, judged in zip(columns["bad"], columns["judged"], strict=True)
    ]
    values = {key: [_rounded(each, scale) for each in columns[key]] for key, scale in _SCALES.items()}
    values["limited_by"] = [
        _LIMITS.index(each) if each in _LIMITS else None for each in columns["limited_by"]
    ]
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


def map_section(places: Places | None, document: Document | None) -> Markup:
    """Return where it was bad: the map, and the worst places as a table; one sentence without positions."""
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
        element("p", "Point at a cell for its value.", class_="status", role="status"),
        element("noscript", element("p", "The map needs JavaScript; the worst places are listed below.")),
        element("p", f"{rest:,} squares with the least time are left out.", class_="muted") if rest else None,
        _worst_table(places, width),
        class_="map long",
    )


def _options(titles: list[str] | tuple[str, ...]) -> Markup:
    return element("select", [element("option", title, value=place) for place, title in enumerate(titles)])


def _worst_table(places: Places, width: str) -> Markup:
    rows = worst(places, _WORST)
    if not rows:
        return element("p", "No place was bad.")
    cells = [[text(f"{row['lat_deg']:.5f}, {row['lon_deg']:.5f}"), *group_cells(row)] for row in rows]
    caption = f"Hexagons of {width} with most bad time"
    return element("div", element("h3", caption), table(caption, (("Middle", False), *GROUP_HEADS), cells))
