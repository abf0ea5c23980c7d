"""A still picture of the route, for readers whose browser runs no scripts: an inline SVG."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.figures.palette import MISSING
from multitracer.report.markup import Markup, element

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.tables import Array, Mask

_WIDTH, _HEIGHT, _MARGIN = 960, 480, 24
_MOST_POINTS = 5_000
"""Some 50 kB; a screen shows no more of a route."""
_FINEST_PX = 0.7
"""As in map.js: a step below it is not seen."""
_LONGEST_BAR_PX = 160


class Coloured(NamedTuple):
    """The quantity that colours the route: the class of each point, -1 where it has none."""

    title: str
    words: Sequence[str]
    colours: Sequence[str]
    classes: Array


def picture(east: Array, north: Array, joined: Mask, quantity: Coloured) -> Markup:
    """Return the route as SVG, with its key and a scale bar.

    Parameters
    ----------
    east, north : ndarray of float64, m, shape (n,)
    joined : ndarray of bool, shape (n,)
        Whether a line leads from the point before to this one.
    quantity : Coloured
    """
    zoom = min(
        (_WIDTH - 2 * _MARGIN) / max(float(np.ptp(east)), 20),
        (_HEIGHT - 2 * _MARGIN) / max(float(np.ptp(north)), 20),
    )
    x = _WIDTH / 2 + (east - (east.min() + east.max()) / 2) * zoom
    y = _HEIGHT / 2 - (north - (north.min() + north.max()) / 2) * zoom
    of_step = np.append(quantity.classes[:1], quantity.classes[:-1])
    finest = _FINEST_PX
    while len(kept := _thinned(x, y, joined, of_step, finest)) > _MOST_POINTS and finest < _WIDTH:
        finest *= 2
    paths = [
        element("path", d=steps, stroke=_colour(quantity, kind))
        for kind in np.unique(of_step).tolist()
        if (steps := _steps(x[kept], y[kept], joined[kept] & (of_step[kept] == kind)))
    ]
    outline = element(
        "path", d=_steps(x[kept], y[kept], joined[kept]), stroke="currentColor", stroke_width="6"
    )
    lines = element("g", outline, paths, fill="none", stroke_width="4", stroke_linecap="round")
    svg = element(
        "svg",
        element("title", f"The route, coloured by {quantity.title}"),
        lines,
        _bar(zoom),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        class_="still",
    )
    return element("div", svg, _key(quantity))


def _thinned(x: Array, y: Array, joined: Mask, kind: Array, finest: float) -> Array:
    """Return the points to draw: the first in each cell of a grid, each new class, and both ends of a gap."""
    cell = np.floor(np.column_stack([x, y]) / finest)
    keep = np.ones(len(x), dtype=bool)
    keep[1:] = (cell[1:] != cell[:-1]).any(axis=1) | ~joined[1:] | (kind[1:] != kind[:-1])
    keep[:-1] |= (kind[1:] != kind[:-1]) | ~joined[1:]
    keep[-1] = True
    return np.flatnonzero(keep)


def _steps(x: Array, y: Array, chosen: Mask) -> str:
    """Return the steps to the chosen points from those before, as the path of an SVG."""
    words: list[str] = []
    last = -1
    for i in np.flatnonzero(chosen).tolist():
        if last != i - 1:
            words.append(f"M{x[i - 1]:.1f} {y[i - 1]:.1f}")
        words.append(f"L{x[i]:.1f} {y[i]:.1f}")
        last = i
    return "".join(words)


def _colour(quantity: Coloured, kind: int) -> str:
    return quantity.colours[kind] if kind >= 0 else MISSING


def _bar(zoom: float) -> Markup:
    """Return the scale bar: 1, 2 or 5 times a power of ten metres."""
    most = _LONGEST_BAR_PX / zoom
    power = 10.0 ** math.floor(math.log10(most))
    metres = next(n * power for n in (5, 2, 1) if n * power <= most)
    words = f"{metres / 1000:g} km" if metres >= 1000 else f"{metres:g} m"
    base = _HEIGHT - 8
    line = element(
        "path",
        d=f"M12 {base - 6}V{base}H{12 + metres * zoom:.1f}V{base - 6}",
        fill="none",
        stroke="currentColor",
    )
    return element(
        "g", line, element("text", words, x="18", y=f"{base - 6}", fill="currentColor", font_size="14")
    )


def _key(quantity: Coloured) -> Markup:
    rows = [*zip(quantity.words, quantity.colours, strict=True)]
    if (quantity.classes < 0).any():
        rows.append(("no value", MISSING))
    items = (element("span", element("i", style=f"background:{colour}"), words) for words, colour in rows)
    return element("div", element("b", quantity.title), items, class_="classes key")
