"""Notable intervals of a direction, and the buttons that zoom the time axis of a figure to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import SegmentKind
from multitracer.captured import Flag
from multitracer.figures.palette import THEMES
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from multitracer.figures.direction import FigureDirection
    from multitracer.figures.palette import ThemeName

_START_SHARE = 20
_BURST_BINS = 50


@dataclass(frozen=True, slots=True)
class NamedInterval:
    """An interval with a name.

    Parameters
    ----------
    key : str
        Kind of interval: "start", "worst_rtt", "pause", "retransmissions", "zero_window" or "reset".
    from_ns, to_ns : int
        The interval, with a margin.
    about_ns : int
        Duration of the event itself; 0 for an instant.
    """

    key: str
    from_ns: int
    to_ns: int
    about_ns: int = 0

    def meets(self, from_ns: int | None, to_ns: int | None) -> bool:
        """Return whether this interval overlaps with another one; None: unbounded."""
        return (to_ns is None or self.from_ns <= to_ns) and (from_ns is None or self.to_ns >= from_ns)


def places(direction: FigureDirection) -> list[NamedInterval]:
    """Return the notable intervals of a direction, the most important first, without duplicates."""
    segments, samples = direction.segments, direction.rtt_samples
    times = segments["time_ns"]
    timed = times != NOT_A_TIME
    if not timed.any() or times[timed].min() == times[timed].max():
        return []
    first, last = int(times[timed].min()), int(times[timed].max())
    worth = [NamedInterval("start", first, first + (last - first) // _START_SHARE)]
    waits = []
    own = np.flatnonzero(samples["reverse"] == direction.reverse)
    if len(own):
        worst = own[np.argmax(samples["rtt_ns"][own])]
        answered = int(samples["time_ns"][worst])
        waits.append(("worst_rtt", answered - int(samples["rtt_ns"][worst]), answered))
    # the longest time between two segments with payload in which bytes were outstanding
    rows = np.flatnonzero(direction.sent & (segments["payload_bytes"] > 0) & timed)
    gaps = np.where(segments["flight_bytes"][rows[:-1]] > 0, np.diff(times[rows]), 0)
    if len(rows) > 2 and gaps.max() > 0:
        longest = int(np.argmax(gaps))
        waits.append(("pause", int(times[rows[longest]]), int(times[rows[longest + 1]])))
    for key, begin, end in waits:
        room = max((end - begin) // 3, 1_000)
        worth.append(NamedInterval(key, begin - room, end + room, end - begin))
    # the fiftieth of the time with the most retransmissions
    again = times[direction.sent & direction.has(SegmentKind.RETRANSMISSION) & timed]
    if len(again):
        width = max((last - first) // _BURST_BINS, 1)
        numbers, counts = np.unique((again - first) // width, return_counts=True)
        begin = first + int(numbers[np.argmax(counts)]) * width
        worth.append(NamedInterval("retransmissions", begin - width // 2, begin + width + width // 2, width))
    closed = direction.acks & direction.has(SegmentKind.ZERO_WINDOW)
    for key, mask in (("zero_window", closed), ("reset", (segments["flags"] & Flag.RST) != 0)):
        moments = times[mask & timed]
        if len(moments):
            at, room = int(moments.min()), max((last - first) // 100, 1_000)
            worth.append(NamedInterval(key, at - room, at + room))
    return worth


def with_presets(figure: go.Figure, places: Sequence[NamedInterval], *, origin_ns: int, theme: ThemeName) -> go.Figure:
    """Return the figure with a button for each interval, and one for the complete time range.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure
        Changed in place.
    places : sequence of NamedInterval
    origin_ns : int
        Origin of the figure's time axis, ns.
    theme : "light" or "dark"
    """
    buttons: list[dict[str, object]] = [
        {
            "label": TITLES[place.key],
            "method": "relayout",
            "args": [{"xaxis.range": [(edge - origin_ns) / NS_PER_S for edge in (place.from_ns, place.to_ns)]}],
        }
        for place in places
    ]
    complete = {"label": "Fit all", "method": "relayout", "args": [{"xaxis.autorange": True}]}
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
        "buttons": [complete, *buttons],
    }
    figure.update_layout(updatemenus=[menu], margin={"t": 68})
    return figure


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
"""Button text for each kind of interval."""
