"""The page of a comparison: the headline, the differences, and the distributions as still pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.campaign.comparison.sentences import HEADER, how, row
from multitracer.report.markup import Markup, element
from multitracer.report.page import document
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.analysis.comparison.sides import Judged
    from multitracer.campaign.comparison.compared import Compared, Picture
    from multitracer.campaign.comparison.sentences import Names
    from multitracer.campaign.comparison.sums import Distribution
    from multitracer.tables import Array

_WIDE, _HIGH, _LEFT, _BELOW, _TOP = 640, 250, 44, 30, 12
"""Of a picture, its axes and its upper edge, in its own units."""
_STEPS = 400
"""Points of a curve: more than a screen shows."""
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_ENDS = 0.002
"""Share at either end of a distribution that the axis of values leaves out."""
_DASHES = (None, "7 4")
_COLOURS = ("var(--accent)", "var(--culprit)")


def comparison_page(compared: Compared) -> str:
    """Return the whole page; it holds no script that draws."""
    names, remarks = compared.names, (printable(each) for each in compared.notes)
    opening = element(
        "section", element("p", compared.headline, class_="lead"),
        element("p", ", ".join(compared.counts), class_="muted"),
        element("ul", (element("li", each) for each in remarks)),
    )  # fmt: skip
    return document(
        f"{names.first} and {names.second}",
        opening,
        _table(names, compared.rows),
        [_section(picture, names) for picture in compared.pictures if any(picture.sides)],
    )


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
    legend = element(
        "p",
        (
            element("span", _swatch(at), f" {name}  ")
            for at, (name, side) in enumerate(zip(names, picture.sides, strict=True))
            if side is not None
        ),
    )
    says = f"{picture.title}: the share of the time below each value, {names.first} and {names.second}"
    return element(
        "section",
        element("h2", picture.title),
        element(
            "p",
            "The share of the time in which it was no greater; each session weighs the same.",
            class_="muted",
        ),
        legend,
        _drawing(picture, says),
    )


def _swatch(at: int) -> Markup:
    line = element("line", x1="0", y1="5", x2="30", y2="5", **_stroke(at))
    return element("svg", line, width="30", height="10", aria_hidden="true")


def _stroke(at: int) -> dict[str, object]:
    return {"style": f"stroke:{_COLOURS[at]};stroke-width:2;fill:none" + (
        f";stroke-dasharray:{_DASHES[at]}" if _DASHES[at] else ""
    )}  # fmt: skip


def _drawing(picture: Picture, says: str) -> Markup:
    held = [side for side in picture.sides if side is not None]
    low = min(_positive(side, _ENDS) for side in held)
    high = max(_positive(side, 1 - _ENDS) for side in held)
    low, high = (low, high) if high > low * 1.01 else (low / 1.1, high * 1.1)
    axis = _Axis(low, high)
    curves = [
        element("path", d=_path(side, axis), **_stroke(at)) for at, side in enumerate(picture.sides) if side
    ]
    return element(
        "svg", _grid(axis, picture), curves, viewBox=f"0 0 {_WIDE} {_HIGH}", role="img", aria_label=says,
        style="width:100%;max-width:760px;font-size:12px",
    )  # fmt: skip


class _Axis(NamedTuple):
    """A logarithmic axis of values."""

    low: float
    high: float

    def x(self, values: Array) -> Array:
        """Return where values are drawn."""
        share = np.log(np.clip(values, self.low, self.high) / self.low) / np.log(self.high / self.low)
        return np.asarray(_LEFT + share * (_WIDE - _LEFT - 16))

    def ticks(self) -> list[float]:
        """Return 1, 2 and 5 of each power of ten within; of a narrow axis its ends."""
        powers = range(int(np.floor(np.log10(self.low))), int(np.ceil(np.log10(self.high))) + 1)
        digits = (1, 2, 5) if self.high < 200 * self.low else (1,)
        ticks = [digit * 10.0**power for power in powers for digit in digits]
        within = [each for each in ticks if self.low <= each <= self.high]
        return within if len(within) > 1 else [self.low, self.high]


def _positive(side: Distribution, share: float) -> float:
    above = side.values > 0
    if not above.any():
        return 1.0
    at = int(np.searchsorted(side.shares[above], share))
    return float(side.values[above][min(at, int(above.sum()) - 1)])


def _y(share: float | Array) -> Array:
    return np.asarray(_HIGH - _BELOW - share * (_HIGH - _BELOW - _TOP))


def _path(side: Distribution, axis: _Axis) -> str:
    at = np.unique(np.linspace(0, len(side.values) - 1, _STEPS).astype(int))
    x, y = axis.x(side.values[at]), _y(side.shares[at])
    before = _y(0.0)
    points = [f"M{x[0]:.1f} {before:.1f}"]
    for each_x, each_y in zip(x.tolist(), y.tolist(), strict=True):
        points.append(f"H{each_x:.1f}V{each_y:.1f}")
    return "".join(points)


def _grid(axis: _Axis, picture: Picture) -> list[Markup]:
    line, text = "stroke:var(--line);stroke-width:1", "fill:var(--muted)"
    drawn = []
    for share in _TICKS:
        y = float(_y(share))
        drawn += [
            element("line", x1=_LEFT, x2=_WIDE - 16, y1=f"{y:.1f}", y2=f"{y:.1f}", style=line),
            element("text", f"{share:.0%}", x=_LEFT - 6, y=f"{y + 4:.1f}", text_anchor="end", style=text),
        ]
    for value in axis.ticks():
        x = float(axis.x(np.array(value)))
        drawn += [
            element("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=_TOP, y2=_HIGH - _BELOW, style=line),
            element(
                "text", picture.shown(value), x=f"{x:.1f}", y=_HIGH - _BELOW + 18,
                text_anchor="middle", style=text,
            ),
        ]  # fmt: skip
    return drawn
