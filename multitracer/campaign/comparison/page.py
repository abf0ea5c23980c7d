"""The page of a comparison: the headline, the differences, and the distributions as still pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.campaign.comparison.sentences import HEADER, how, row
from multitracer.figures.palette import ARMS
from multitracer.figures.sheet import Cell, Sheet
from multitracer.figures.stack import plain
from multitracer.report.assets import inside
from multitracer.report.markup import Markup, element
from multitracer.report.page import own_file, whole_page
from multitracer.report.still_sheet import still_sheet
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.analysis.comparison.sides import Judged
    from multitracer.campaign.comparison.compared import Compared, Picture
    from multitracer.campaign.comparison.sentences import Names
    from multitracer.campaign.comparison.sums import Distribution
    from multitracer.figures.palette import Look, Props

_HIGH_PX = 250
_STEPS = 400
"""Points of a curve: more than a screen shows."""
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_ENDS = 0.002
"""Share at either end of a distribution that the axis of values leaves out."""
_ROOM = 0.02
"""Decades beside the values, so that no curve lies on the frame."""
_DASHES = ("solid", "dash")


def comparison_page(compared: Compared) -> str:
    """Return the whole page; it holds no script that draws."""
    names, remarks = compared.names, (printable(each) for each in compared.notes)
    opening = element(
        "section", element("p", compared.headline, class_="lead"),
        element("p", ", ".join(compared.counts), class_="muted"),
        element("ul", (element("li", each) for each in remarks)),
    )  # fmt: skip
    sections = [
        opening,
        _table(names, compared.rows),
        *(_section(picture, names) for picture in compared.pictures if any(picture.sides)),
    ]
    code = inside(own_file("page.css") + own_file("still_sheet.css"), own_file("page.js"))
    return whole_page(f"{names.first} and {names.second}", sections, code=code)


def _table(names: Names, judged: Sequence[Judged]) -> Markup:
    head = [element("th", each, class_="number" if at else None) for at, each in enumerate(header(names))]
    body = (
        element(
            "tr", (element("td", cell, class_="number" if at else None) for at, cell in enumerate(row(each)))
        )
        for each in judged
    )
    table = element("table", element("thead", element("tr", head)), element("tbody", body))
    return element(
        "section", element("h2", "Differences"), element("div", table, class_="scroll"), element("p", how())
    )


def header(names: Names) -> list[str]:
    """Return the header of the table, with the names of the sides."""
    means, medians = ([f"{each}, {name}" for name in names] for each in ("mean", "median"))
    return ["", *means, *medians, *HEADER]


def _section(picture: Picture, names: Names) -> Markup:
    """Return the distributions of a quantity on both sides, in one picture."""
    held = [side for side in picture.sides if side is not None]
    low = min(_positive(side, _ENDS) for side in held)
    high = max(_positive(side, 1 - _ENDS) for side in held)
    low, high = (low, high) if high > low * 1.01 else (low / 1.1, high * 1.1)
    traces = [
        _trace(side, low, high) | {"name": plain(name), "line": _line(look, dash)}
        for side, name, look, dash in zip(picture.sides, names, ARMS, _DASHES, strict=False)
        if side is not None
    ]
    title, more = "The share of the time in which it was no greater", "Each session weighs the same."
    cell = Cell(title, _HIGH_PX, _across(picture, low, high), _UP, more=more)
    return element("section", element("h2", picture.title), still_sheet(Sheet([cell], traces, "light")))


_UP: Props = {"range": [-0.02, 1.04], "tickvals": _TICKS, "ticktext": [f"{share:.0%}" for share in _TICKS]}


def _across(picture: Picture, low: float, high: float) -> Props:
    """Return the logarithmic axis of values."""
    values = _ticks(low, high)
    return {
        "type": "log",
        "range": [np.log10(low) - _ROOM, np.log10(high) + _ROOM],
        "tickvals": values,
        "ticktext": [picture.shown(value) for value in values],
    }


def _trace(side: Distribution, low: float, high: float) -> Props:
    """Return a distribution as steps, from a share of 0 up."""
    at = np.unique(np.linspace(0, len(side.values) - 1, _STEPS).astype(int))
    values = np.clip(side.values[at], low, high)
    return {"mode": "lines", "x": np.append(values[:1], values), "y": np.append(0.0, side.shares[at])}


def _line(look: Look, dash: str) -> Props:
    return {"color": look.light, "width": look.size_px, "dash": dash, "shape": "hv"}


def _ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 of each power of ten within; of a narrow axis its ends."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    digits = (1, 2, 5) if high < 200 * low else (1,)
    ticks = [digit * 10.0**power for power in powers for digit in digits]
    within = [each for each in ticks if low <= each <= high]
    return within if len(within) > 1 else [low, high]


def _positive(side: Distribution, share: float) -> float:
    above = side.values > 0
    if not above.any():
        return 1.0
    at = int(np.searchsorted(side.shares[above], share))
    return float(side.values[above][min(at, int(above.sum()) - 1)])
