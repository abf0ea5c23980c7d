"""Rectangles in the time/sequence panel that show where another figure zooms in (paper 004, Figure 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.figures.palette import THEMES
from multitracer.figures.series import seconds_since
from multitracer.figures.stack import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from multitracer.figures.palette import ThemeName
    from multitracer.figures.stack import Panel

_ROOM = 0.012
"""Of the panel's height, between a rectangle and what it frames."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An interval to frame (ns since 1970, None: no bound), and its label."""

    from_ns: int | None
    to_ns: int | None
    name: str = ""


def with_marks(
    figure: go.Figure, panels: list[Panel], marks: Sequence[Mark], *, origin_ns: int, theme: ThemeName
) -> go.Figure:
    """Return the figure with a rectangle around what the time/sequence panel shows in each interval.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure
        Of these panels; changed in place.
    panels : list of Panel
        From top to bottom.
    marks : sequence of Mark
        One in which nothing is drawn is left out.
    origin_ns : int
        What the figure's time axis calls 0.
    theme : "light" or "dark"
    """
    axis = next((i for i, panel in enumerate(panels, 1) if panel.key == "sequence"), None)
    if axis is None:
        return figure
    panel, ink = panels[axis - 1], THEMES[theme].ink
    for mark in marks:
        frame = _frame(panel, mark, origin_ns)
        if frame is None:
            continue
        place = {"xref": "x", "yref": "y" if axis == 1 else f"y{axis}"}
        figure.add_shape(type="rect", line={"color": ink, "width": 1.2}, **frame, **place)
        figure.add_annotation(
            x=frame["x0"], y=frame["y1"], text=plain(mark.name), showarrow=False,
            xanchor="left", yanchor="bottom", font={"color": ink}, **place,
        )  # fmt: skip
    return figure


def _frame(panel: Panel, mark: Mark, origin_ns: int) -> dict[str, object] | None:
    """Return the corners of the rectangle; bounds such as windows may stick out of it."""
    inside = [s.between(mark.from_ns, mark.to_ns) for s in panel.drawn if not s.bound and s.role != "trend"]
    values = [column for s in inside for column in (s.value, s.until) if column is not None and len(column)]
    if not values:
        return None
    shown = [column for s in panel.drawn if not s.bound for column in (s.value,)]
    room = _ROOM * (max(int(v.max()) for v in shown) - min(int(v.min()) for v in shown))
    low, high = min(int(v.min()) for v in values), max(int(v.max()) for v in values)
    first, last = (edge([int(s.time_ns[at]) for s in inside if len(s)]) for edge, at in ((min, 0), (max, -1)))
    edges = (first if mark.from_ns is None else mark.from_ns, last if mark.to_ns is None else mark.to_ns)
    begin, end = seconds_since(np.array(edges), origin_ns).tolist()
    return {"x0": begin, "x1": end, "y0": low - room, "y1": high + room}
