"""The figure of a recording without packets: its radio and its road over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.errors import InputError
from multitracer.figures.downsample import thin
from multitracer.figures.stack import figure
from multitracer.figures.stacked import WHOLE, View, chosen_panels
from multitracer.figures.surroundings.distance import over_distance
from multitracer.figures.surroundings.panels import surroundings_panels
from multitracer.figures.time_sequence import cut

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.figures.palette import ThemeName
    from multitracer.figures.stack import Panel
    from multitracer.figures.surroundings.distance import OverDistance
    from multitracer.recording.surroundings import Surroundings

TIME_TITLE = "seconds from the first reading"
_PANEL_PX = 190
"""Height of a panel with share 1."""
_LEAST_PX = 320


def drive_panels(surroundings: Surroundings, view: View = WHOLE) -> list[Panel]:
    """Return the panels of radio and road with all points of a view.

    Raises
    ------
    InputError
        If the recording holds nothing to draw, or no series has a label that is asked for.
    """
    panels = surroundings_panels(surroundings)
    if not panels:
        name = surroundings.recording.name
        what = surroundings.placeless or "no reading of radio or position to draw"
        raise InputError(f"{name}: holds no packet, and {what}")
    return cut(chosen_panels(panels, view.labels), view.from_ns, view.to_ns)


def drive_figure(
    surroundings: Surroundings,
    view: View = WHOLE,
    *,
    panels: list[Panel] | None = None,
    distance: bool = False,
    theme: ThemeName = "light",
) -> go.Figure:
    """Return the figure; its axis begins at the first reading, or at the first place of the route.

    Parameters
    ----------
    surroundings : Surroundings
    view : View
    panels : list of Panel, optional
        Of this view, if they were made already; thinned in place.
    distance : bool
        Draw over the distance along the route instead of time.
    theme : "light" or "dark"

    Raises
    ------
    InputError
        As `drive_panels` does; or if there is no route to draw over.
    """
    origin_ns = surroundings.first_ns or 0
    if panels is None:
        panels = drive_panels(surroundings, view)
    if distance:
        return figure_over_distance(over_distance(panels, surroundings.route), theme=theme)
    for panel in panels:
        panel.series[:] = [thin(series) for series in panel.series]
    drawn = figure(panels, origin_ns=origin_ns, theme=theme, height_px=_height_px(panels))
    return drawn.update_xaxes(title_text=TIME_TITLE)


def figure_over_distance(shown: OverDistance, *, theme: ThemeName = "light") -> go.Figure:
    """Return the figure of panels over the distance along the route."""
    for panel in shown.panels:
        panel.series[:] = [thin(series) for series in panel.series]
    height_px = _height_px(shown.panels)
    return figure(shown.panels, origin_ns=0, theme=theme, height_px=height_px, x_axis=shown.axis)


def _height_px(panels: list[Panel]) -> int:
    return max(_LEAST_PX, round(_PANEL_PX * sum(panel.share for panel in panels)))
