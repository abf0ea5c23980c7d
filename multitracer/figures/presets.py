"""Buttons in a plotly figure that zoom its time axis to the places worth a look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.figures.palette import THEMES
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from multitracer.figures.palette import ThemeName
    from multitracer.figures.places import Place


def with_presets(
    figure: go.Figure, places: Sequence[Place], *, origin_ns: int, theme: ThemeName
) -> go.Figure:
    """Return the figure with a button for each place and one for the whole.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure
        Changed in place.
    places : sequence of Place
    origin_ns : int
        What the figure's time axis calls 0.
    theme : "light" or "dark"
    """
    whole = {"label": "Whole", "method": "relayout", "args": [{"xaxis.autorange": True}]}
    colours = THEMES[theme]
    menu = {
        "type": "buttons",
        "direction": "right",
        "x": 0,
        "xanchor": "left",
        "y": 1,
        "yanchor": "bottom",
        "pad": {"b": 26},
        "showactive": False,
        "bgcolor": colours.paper,
        "bordercolor": colours.axis,
        "font": {"size": 11, "color": colours.ink},
        "buttons": [whole, *(_button(place, origin_ns) for place in places)],
    }
    figure.update_layout(updatemenus=[menu], margin={"t": 68})
    return figure


def _button(place: Place, origin_ns: int) -> dict[str, object]:
    view = [(edge - origin_ns) / NS_PER_S for edge in (place.from_ns, place.to_ns)]
    name = TITLES[place.key]
    return {"label": name, "method": "relayout", "args": [{"xaxis.range": view}]}


TITLES = {
    "start": "Start",
    "timeout": "First timeout",
    "recovery": "First recovery",
    "worst_rtt": "Worst RTT",
    "pause": "Longest pause",
    "retransmissions": "Most retransmissions",
    "zero_window": "Zero window",
    "reset": "Reset",
    "link_reset": "First link reset",
}
"""The words for each kind of place."""
