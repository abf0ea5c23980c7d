"""Panels and places of a session whose link ran faster than a real one, as if it had run at its own speed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.series.labelled import stretched
from multitracer.figures.stack import BIT_RATE, SECONDS, TIME_TITLE

if TYPE_CHECKING:
    from multitracer.figures.places import Place
    from multitracer.figures.series import Series
    from multitracer.figures.stack import Panel, Unit


def axis_title(speed: float) -> str:
    """Return the label of the time axis of a link that ran `speed` times as fast as a real one."""
    return TIME_TITLE if speed == 1 else f"link {TIME_TITLE} ({speed:g} to a recorded one)"


def in_link_time(panels: list[Panel], *, speed: float, origin_ns: int) -> list[Panel]:
    """Return the panels in link time: times and durations `speed` times as long, rates so much lower.

    Parameters
    ----------
    panels : list of Panel
    speed : float
        Link seconds in a recorded second.
    origin_ns : int
        The time that stays what it is.
    """
    if speed == 1:
        return panels
    return [
        replace(panel, series=[_stretched(s, panel.unit, speed, origin_ns) for s in panel.series])
        for panel in panels
    ]


def _stretched(series: Series, unit: Unit, speed: float, origin_ns: int) -> Series:
    factor = speed if unit is SECONDS else 1 / speed if unit is BIT_RATE else 1
    return replace(
        series,
        time_ns=stretched(series.time_ns, speed=speed, origin_ns=origin_ns),
        value=np.rint(series.value * factor).astype(np.int64) if factor != 1 else series.value,
    )


def place_in_link_time(place: Place, *, speed: float, origin_ns: int) -> Place:
    """Return the place in link time."""
    if speed == 1:
        return place
    begin, end = stretched(np.array([place.from_ns, place.to_ns]), speed=speed, origin_ns=origin_ns).tolist()
    return replace(place, from_ns=begin, to_ns=end, about_ns=round(place.about_ns * speed))
