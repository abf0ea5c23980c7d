"""Places in a direction that are worth a look, and the buttons that zoom a figure's time axis to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.kind import SegmentKind
from multitracer.captured import Flag
from multitracer.figures.palette import THEMES
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from multitracer.figures.direction import FigureDirection
    from multitracer.figures.palette import ThemeName
    from multitracer.tables import Array

_START_SHARE = 20
_BURST_BINS = 50


@dataclass(frozen=True, slots=True)
class NamedInterval:
    """An interval with a name.

    Parameters
    ----------
    key : str
        What kind of place: "start", "worst_rtt", "pause", "retransmissions", "zero_window" or "reset".
    from_ns, to_ns : int
        The interval, with room around what is meant.
    about_ns : int
        How long the thing itself took; 0 for an instant.
    """

    key: str
    from_ns: int
    to_ns: int
    about_ns: int = 0

    def meets(self, from_ns: int | None, to_ns: int | None) -> bool:
        """Whether it overlaps with an interval; a bound of None is no bound."""
        return (to_ns is None or self.from_ns <= to_ns) and (from_ns is None or self.to_ns >= from_ns)


def places(direction: FigureDirection) -> list[NamedInterval]:
    """Return the places of a direction in order of interest, none twice; empty without a timed segment."""
    times = direction.segments["time_ns"]
    times = times[times != NOT_A_TIME]
    if len(times) == 0 or times.max() == times.min():
        return []
    first, last = int(times.min()), int(times.max())
    start = NamedInterval("start", first, first + (last - first) // _START_SHARE)
    candidates = [start, _worst_rtt(direction), _pause(direction), _burst(direction, first, last)]
    candidates += [
        _first(
            direction, "zero_window", direction.acks & direction.has(SegmentKind.ZERO_WINDOW), first, last
        ),
        _first(direction, "reset", (direction.segments["flags"] & Flag.RST) != 0, first, last),
    ]
    return [place for place in candidates if place is not None]


def _around(key: str, from_ns: int, to_ns: int) -> NamedInterval:
    room = max((to_ns - from_ns) // 3, 1_000)
    return NamedInterval(key, from_ns - room, to_ns + room, to_ns - from_ns)


def _worst_rtt(direction: FigureDirection) -> NamedInterval | None:
    samples = direction.rtt_samples
    rows = np.flatnonzero(samples["reverse"] == direction.reverse)
    if len(rows) == 0:
        return None
    worst = rows[np.argmax(samples["rtt_ns"][rows])]
    answered = int(samples["time_ns"][worst])
    return _around("worst_rtt", answered - int(samples["rtt_ns"][worst]), answered)


def _pause(direction: FigureDirection) -> NamedInterval | None:
    """Return the longest time between two segments with payload in which bytes were outstanding."""
    rows = np.flatnonzero(direction.sent & (direction.segments["payload_bytes"] > 0) & _timed(direction))
    if len(rows) < 3:
        return None
    times = direction.segments["time_ns"][rows]
    gaps = np.where(direction.segments["flight_bytes"][rows[:-1]] > 0, np.diff(times), 0)
    longest = int(np.argmax(gaps))
    if gaps[longest] <= 0:
        return None
    return _around("pause", int(times[longest]), int(times[longest + 1]))


def _burst(direction: FigureDirection, first: int, last: int) -> NamedInterval | None:
    """Return the fiftieth of the time with the most retransmissions."""
    rows = direction.sent & direction.has(SegmentKind.RETRANSMISSION) & _timed(direction)
    times = direction.segments["time_ns"][rows]
    if len(times) == 0:
        return None
    width = max((last - first) // _BURST_BINS, 1)
    bins = (times - first) // width
    numbers, counts = np.unique(bins, return_counts=True)
    begin = first + int(numbers[np.argmax(counts)]) * width
    return NamedInterval("retransmissions", begin - width // 2, begin + width + width // 2, width)


def _first(direction: FigureDirection, key: str, rows: Array, first: int, last: int) -> NamedInterval | None:
    times = direction.segments["time_ns"][rows & _timed(direction)]
    if len(times) == 0:
        return None
    room = max((last - first) // 100, 1_000)
    return NamedInterval(key, int(times.min()) - room, int(times.min()) + room)


def _timed(direction: FigureDirection) -> Array:
    return np.not_equal(direction.segments["time_ns"], NOT_A_TIME)


def with_presets(
    figure: go.Figure, places: Sequence[NamedInterval], *, origin_ns: int, theme: ThemeName
) -> go.Figure:
    """Return the figure with a button for each place and one for the whole.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure
        Changed in place.
    places : sequence of NamedInterval
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


def _button(place: NamedInterval, origin_ns: int) -> dict[str, object]:
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
