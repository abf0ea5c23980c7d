"""The whole figure as a picture: for paper, and for a browser that runs no script or has no canvas.

It is drawn from as many points as the overview of the page: the lowest and the highest value of each pixel,
and every rare event.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from multitracer.figures.palette import LOOKS
from multitracer.figures.series import thin
from multitracer.report.embed import OVERVIEW_BINS
from multitracer.report.markup import Markup, element
from multitracer.report.points.names import names
from multitracer.report.screen.still import still, swatch
from multitracer.report.screen.time_axis import TimeAxis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.figures.series import Series
    from multitracer.figures.stack import Panel

_WHY = (
    "This picture holds the whole of it. A browser that runs JavaScript and draws on a canvas "
    "zooms to single points here."
)


def still_figure(panels: Sequence[Panel], *, title: str, origin_ns: int) -> Markup | None:
    """Return the panels above each other over one time axis; None where nothing is drawn.

    Parameters
    ----------
    panels : sequence of Panel
        In link time.
    title : str
        Which connection it is.
    origin_ns : int
        What the time axis calls 0.
    """
    drawn = [replace(panel, series=[s for s in panel.drawn if s.is_drawn.any()]) for panel in panels]
    stamps = [int(s.time_ns[at]) for panel in drawn for s in panel.series for at in (0, -1)]
    if not stamps:
        return None
    axis = TimeAxis(min(stamps), max(*stamps, min(stamps) + 1), origin_ns)
    ticks = [element("span", words, style=f"left:{place:.3%}") for place, words in axis.ticks()]
    return element(
        "figure",
        element("figcaption", element("b", title), element("p", _WHY, class_="muted")),
        [_panel(panel, axis) for panel in drawn],
        element("div", ticks, class_="times", aria_hidden="true"),
        class_="still",
    )


def _panel(panel: Panel, axis: TimeAxis) -> Markup:
    """Return a panel with its title and its legend; of an empty one the reason."""
    title = element("b", panel.title)
    if not panel.series:
        return element("div", title, element("p", panel.empty, class_="muted"), class_="panel")
    thinned = replace(panel, series=[thin(series, bins=OVERVIEW_BINS) for series in panel.series])
    if panel.shades:
        return element("div", title, _key(thinned.series), _strip(thinned, axis), class_="panel")
    roles = tuple(dict.fromkeys(series.role for series in thinned.series))
    levels, picture = still(thinned, axis, roles, label=panel.title)
    drawn = element("div", levels, picture, style=f"--share:{panel.share}")
    return element("div", title, _legend(thinned.series), drawn, class_="culprit panel")


def _legend(series: Sequence[Series]) -> Markup:
    """Return the name of each series behind its sign."""
    named = zip(series, names(series), strict=True)
    entries = [element("li", swatch(each.role), name, title=each.label) for each, name in named]
    return element("ul", entries, class_="words")


def _key(series: Sequence[Series]) -> Markup:
    """Return the name of each shade behind its colour."""
    squares = [
        element("li", element("i", style=f"background:{LOOKS[each.role].light}"), each.label)
        for each in series
    ]
    return element("ul", squares, class_="words")


def _strip(panel: Panel, axis: TimeAxis) -> Markup:
    """Return the times in which each series of a panel of shades is 1, as one row of bars."""
    bars = [
        element("i", style=f"background:{LOOKS[series.role].light};{axis.style(begin, end)}")
        for series in panel.series
        for begin, end, _ in axis.spread(_times(series))
    ]
    return element("div", bars, class_="bars", role="img", aria_label=panel.title)


def _times(series: Series) -> list[tuple[int, int, str]]:
    """Return when a series of shades is 1: begin, end, its name."""
    begins = (series.value[:-1] == 1).nonzero()[0]
    ends = series.time_ns[begins + 1].tolist()
    return [
        (begin, end, series.label) for begin, end in zip(series.time_ns[begins].tolist(), ends, strict=True)
    ]
