"""A plotly figure inside a page, in both themes; `charts.js` draws it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from multitracer.figures.palette import THEMES
from multitracer.report.markup import Markup, element

if TYPE_CHECKING:
    from collections.abc import Callable

    import plotly.graph_objects as go

    from multitracer.tables import Document

_HEIGHT_PX = 420


def both_themes(draw: Callable[..., go.Figure]) -> Document:
    """Return a chart as JSON; `draw` takes `theme` and returns a figure of `figures.sheet`."""
    return {theme: json.loads(draw(theme=theme).to_json()) for theme in THEMES}


def chart(number: int, charts: list[Document], *, says: str) -> Markup:
    """Return the place of a chart, as high as it will be, so that the page does not jump.

    Parameters
    ----------
    number : int
        Its place in `charts`.
    charts : list of dict
        From `both_themes`.
    says : str
        What it shows, for those who cannot see it.
    """
    height = charts[number]["light"]["layout"].get("height", _HEIGHT_PX)
    return element(
        "div", class_="chart", data_chart=number, role="img", aria_label=says, style=f"min-height:{height}px"
    )
