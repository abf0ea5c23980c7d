"""Figure of transports over the same radio: goodput of each run, with median and range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.analysis.comparison.difference import spread
from multitracer.errors import InputError
from multitracer.figures.palette import LOOKS, THEMES, template
from multitracer.figures.stack import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from multitracer.figures.palette import Props, ThemeName
    from multitracer.lab.simulator.comparison import TransportResults

_ROW_PX, _FRAME_PX = 46, 150
"""Height in pixels of a transport's row, and of title and axis (our choice)."""
_KILO = 1_000
_RUN_ROLE, _MEDIAN_ROLE = "ack", "data"


def transports_figure(compared: Sequence[TransportResults], *, title: str, theme: ThemeName = "light") -> go.Figure:
    """Return a figure of the goodput of each transport in kbit/s: a point for each run, median and range.

    Parameters
    ----------
    compared : sequence of TransportResults
        Results; each transport has a row, the first at the top.
    title : str
        Title of the figure; its markup is escaped.
    theme : "light" or "dark"

    Raises
    ------
    InputError
        If there is no transport.
    """
    import plotly.graph_objects as go  # noqa: PLC0415  plotly is optional, and slow to import

    if not compared:
        raise InputError("there is no transport to draw; name at least one transport")
    drawn = go.Figure()
    drawn.add_scatter(**_runs(compared, theme))
    drawn.add_scatter(**_medians(compared, theme))
    base = template(theme)
    x_axis = base.pop("xaxis") | {"title": "goodput, kbit/s", "rangemode": "tozero"}
    names = [each.transport for each in reversed(compared)]
    y_axis = base.pop("yaxis") | {"type": "category", "categoryarray": names, "categoryorder": "array"}
    drawn.update_layout(
        **base,
        xaxis=x_axis,
        yaxis=y_axis,
        title=plain(title),
        height=_FRAME_PX + _ROW_PX * len(compared),
        legend={"orientation": "h", "y": -0.25},
        margin={"l": 80, "r": 30, "t": 60, "b": 60},
    )
    return drawn


def _runs(compared: Sequence[TransportResults], theme: ThemeName) -> Props:
    rows = [(each, outcome) for each in compared for outcome in each.outcomes]
    known = [(each, outcome) for each, outcome in rows if outcome.goodput_bits_per_s is not None]
    return {
        "x": [(outcome.goodput_bits_per_s or 0) / _KILO for _, outcome in known],
        "y": [each.transport for each, _ in known],
        "mode": "markers",
        "name": "a run",
        "marker": {"color": LOOKS[_RUN_ROLE].colour(theme), "size": 6, "symbol": "circle-open"},
        "customdata": [outcome.seed for _, outcome in known],
        "hovertemplate": "%{y}, seed %{customdata}: %{x:.1f} kbit/s<extra></extra>",
    }


def _medians(compared: Sequence[TransportResults], theme: ThemeName) -> Props:
    spreads = [(each.transport, spread(each.values("goodput_bits_per_s"))) for each in compared]
    known = [(name, [(n or 0) / _KILO for n in of]) for name, of in spreads if of.median is not None]
    colour = LOOKS[_MEDIAN_ROLE].colour(theme)
    return {
        "x": [median for _, (median, _, _) in known],
        "y": [name for name, _ in known],
        "mode": "markers",
        "name": "median and range",
        "marker": {"color": colour, "size": 9, "line": {"color": THEMES[theme].paper, "width": 1}},
        "error_x": {
            "array": [most - median for _, (median, _, most) in known],
            "arrayminus": [median - minimum for _, (median, minimum, _) in known],
            "color": colour, "thickness": 2, "width": 6,
        },
        "customdata": [ends for _, (_, *ends) in known],
        "hovertemplate": "%{y}: %{x:.1f} (%{customdata[0]:.1f} to %{customdata[1]:.1f}) kbit/s"
        "<extra></extra>",
    }  # fmt: skip
