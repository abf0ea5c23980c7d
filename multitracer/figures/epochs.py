"""A quantity around handovers: mean and median by time since the handover, with 95 % confidence intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.figures.palette import LOOKS
from multitracer.figures.sheet import SheetPanel, sheet
from multitracer.figures.stack import plain

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.figures.palette import Props, ThemeName
    from multitracer.tables import Table

_HEIGHT_PX, _COUNT_PX = 340, 90
_BAND_OPACITY = 0.22


def epochs_figure(epochs: Table, *, title: str, unit: str, theme: ThemeName = "light") -> go.Figure:
    """Return the figure: the quantity in the upper panel, the number of handovers in each bin in the lower.

    Parameters
    ----------
    epochs : Table
        EPOCHS.
    title, unit : str
        Name and unit of the quantity.
    theme : "light" or "dark"
    """
    facts = epochs.provenance
    left = sum(facts["left_out"].values())
    more = f"{facts['handovers']} handovers; shaded: 95 % of the mean (bootstrap over handovers)"
    more += f"; {left} left out, their time is not known to {facts['certain_s']:g} s" if left else ""
    known = np.isfinite(epochs["mean"]).any()
    x = {"title": {"text": "seconds since the handover", "standoff": 6}, "zeroline": True}
    y = {"title": {"text": unit}, "tickformat": "~s", "rangemode": "tozero"}
    empty = "" if known else "No handover has a value of this quantity near it."
    cells = [
        SheetPanel(f"{plain(title)} around handovers", _HEIGHT_PX, {}, y, empty, shapes=[_instant()], more=more),
        SheetPanel("Handovers with a value", _COUNT_PX, x, {"rangemode": "tozero", "nticks": 3}, own_x=True),
    ]
    traces = [*(_lines(epochs, theme) if known else []), _counts(epochs, theme)]
    return sheet(cells, traces, theme=theme)


def _instant() -> Props:
    return {"type": "line", "x0": 0, "x1": 0, "xref": "x", "yref": "y domain", "y0": 0, "y1": 1,
            "line": {"width": 1, "dash": "dot"}}  # fmt: skip


def _lines(epochs: Table, theme: ThemeName) -> list[Props]:
    middle = (epochs["begin_s"] + epochs["end_s"]) / 2
    mean, median = LOOKS["goodput"].colour(theme), LOOKS["rto"].colour(theme)
    band = np.isfinite(epochs["mean_low"]) & np.isfinite(epochs["mean_high"])
    common = {"type": "scatter", "mode": "lines", "xaxis": "x", "yaxis": "y"}
    edge = common | {"line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
    return [
        edge | {"x": middle[band], "y": epochs["mean_low"][band]},
        edge | {"x": middle[band], "y": epochs["mean_high"][band], "fill": "tonexty",
                "fillcolor": _faint(mean)},
        common | {"name": "mean", "x": middle, "y": epochs["mean"], "line": {"color": mean, "width": 2}},
        common | {"name": "median", "x": middle, "y": epochs["median"],
                  "line": {"color": median, "width": 1.5, "dash": "dash"}},
    ]  # fmt: skip


def _faint(colour: str) -> str:
    """Return a colour as rgba text with low opacity."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{_BAND_OPACITY})"


def _counts(epochs: Table, theme: ThemeName) -> Props:
    middle = (epochs["begin_s"] + epochs["end_s"]) / 2
    colour = LOOKS["throughput"].colour(theme)
    return {"type": "bar", "name": "handovers", "x": middle, "y": epochs["n"], "xaxis": "x2", "yaxis": "y2",
            "marker": {"color": colour}, "showlegend": False}  # fmt: skip
