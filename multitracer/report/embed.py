"""A figure as `figure.js` draws it: looks for both themes, and the packed series with their levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.figures.downsample import BINS, DEEPEST, RARE_LIMIT, levels
from multitracer.figures.palette import LOOKS, THEMES, ThemeName
from multitracer.figures.presets import TITLES
from multitracer.figures.series import seconds_since
from multitracer.figures.stack import TIME_AXIS, layout, placeholders, style
from multitracer.report.pack import pack, tick_for

if TYPE_CHECKING:
    from multitracer.figures.places import Place
    from multitracer.figures.series import Series
    from multitracer.figures.stack import Axis, Panel
    from multitracer.tables import Array, Document

_FINEST_BINS = BINS << 5
_FEWEST_BINS = 64
_FEWEST_POINTS = 5_000
_TYPICAL_BYTES = 12
"""Of base64 for one point."""
_MARGIN = 0.01


def embed(
    panels: list[Panel],
    places: list[Place],
    *,
    identity: str,
    origin_ns: int,
    budget_bytes: int,
    x_axis: Axis = TIME_AXIS,
) -> Document:
    """Return a figure as JSON for `figure.js`.

    Parameters
    ----------
    panels : list of Panel
    places : list of Place
        Worth a look; each becomes a button.
    identity : str
        Tells the figures of a page apart.
    origin_ns : int
        What the time axis calls 0.
    budget_bytes : int
        How long the packed series may be: the finest levels are left out until the rest fits.
    x_axis : Axis
        What the panels share: time, or the distance along a route.
    """
    drawn = [(series, panel) for panel in panels for series in panel.drawn]
    first = min((int(s.time_ns[0]) for s, _ in drawn), default=origin_ns)
    last = max((int(s.time_ns[-1]) for s, _ in drawn), default=origin_ns)
    packs = _packs([s for s, _ in drawn], budget_bytes, origin_ns=origin_ns, tick_ns=tick_for(last - first))
    return {
        "id": identity,
        "unit": x_axis.unit,
        "span": _seconds(first, last, origin_ns),
        "view": _view(first, last, origin_ns),
        "themes": {theme: _look(panels, origin_ns, theme, x_axis) for theme in THEMES},
        "panels": [
            {
                "key": p.key,
                "title": p.title,
                "unit": p.unit.suffix,
                "from_zero": p.from_zero,
                "fixed": p.shades,
                "share": p.share,
            }
            for p in panels
        ],
        "places": [_place(place, origin_ns) for place in places],
        "series": [
            {
                "key": f"{panel.key} {series.label}",
                "label": series.label,
                "doc": series.doc,
                "bound": series.bound,
                "panel": panel.key,
                "mark": LOOKS[series.role].mark,
                "scale": panel.unit.scale,
                **packed,
            }
            for (series, panel), packed in zip(drawn, packs, strict=True)
        ],
    }


def _packs(series: list[Series], budget_bytes: int, *, origin_ns: int, tick_ns: int) -> list[Document]:
    budget_points = budget_bytes // _TYPICAL_BYTES
    while True:
        packs = [
            pack(kept, level, of=len(whole), origin_ns=origin_ns, tick_ns=tick_ns)
            for whole, (kept, level) in zip(series, _within(series, budget_points), strict=True)
        ]
        spent = sum(len(packed["data"]) for packed in packs)
        if spent <= budget_bytes or budget_points < _FEWEST_POINTS:
            return packs
        budget_points = int(0.95 * budget_points * budget_bytes / spent)


def _within(series: list[Series], budget_points: int) -> list[tuple[Series, Array]]:
    """Return each series with levels, the finest ones cut off so that about `budget_points` are left.

    Rare events are kept whole as long as half of the budget suffices, the rarest first.
    """
    coarsest = max(
        _FEWEST_BINS, min(BINS, 1 << (budget_points // (4 * max(len(series), 1))).bit_length() - 1)
    )
    whole = _whole(series, budget_points // 2)
    levelled = [
        levels(s, bins=None if keep else _FINEST_BINS, coarsest=coarsest)
        for s, keep in zip(series, whole, strict=True)
    ]
    counts = [np.bincount(level, minlength=DEEPEST + 1) for _, level in levelled]
    deepest = _deepest(counts, whole, budget_points)
    return [
        (kept.take(level <= deep), level[level <= deep])
        for (kept, level), deep in zip(levelled, deepest, strict=True)
    ]


def _whole(series: list[Series], budget_points: int) -> list[bool]:
    """Return which series are rare and few enough to be kept whole."""
    keep = [False] * len(series)
    for i in sorted(range(len(series)), key=lambda i: len(series[i])):
        if series[i].rare and len(series[i]) <= min(RARE_LIMIT, budget_points):
            keep[i] = True
            budget_points -= len(series[i])
    return keep


def _deepest(counts: list[Array], whole: list[bool], budget_points: int) -> list[int]:
    """Return the deepest level of each series; they go deeper together, as long as the budget lasts."""
    deepest = [DEEPEST if keep else 0 for keep in whole]
    left = budget_points - sum(
        int(count.sum() if keep else count[0]) for count, keep in zip(counts, whole, strict=True)
    )
    for level in range(1, DEEPEST + 1):
        for i, count in enumerate(counts):
            if deepest[i] == level - 1 and count[level] <= left:
                deepest[i] = level
                left -= int(count[level])
    return deepest


def _look(panels: list[Panel], origin_ns: int, theme: ThemeName, x_axis: Axis) -> Document:
    traces = [
        style(s, panel, axis, theme=theme, x_axis=x_axis)
        for axis, panel in enumerate(panels, 1)
        for s in panel.drawn
    ]
    return {
        "traces": traces + placeholders(panels),
        "layout": layout(panels, origin_ns=origin_ns, theme=theme, x_axis=x_axis),
    }


def _seconds(first: int, last: int, origin_ns: int) -> list[float]:
    return [float(second) for second in seconds_since(np.array([first, last]), origin_ns)]


def _view(first: int, last: int, origin_ns: int) -> list[float]:
    begin, end = _seconds(first, last, origin_ns)
    room = max((end - begin) * _MARGIN, 1e-6)
    return [begin - room, end + room]


def _place(place: Place, origin_ns: int) -> Document:
    begin, end = _seconds(place.from_ns, place.to_ns, origin_ns)
    return {"title": TITLES[place.key], "from": begin, "to": end}
