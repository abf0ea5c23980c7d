"""Panels of series stacked over one time axis, as a plain dict in the format of a plotly figure.

A plain dict takes a tenth of the time of `plotly.graph_objects.Figure`, whose validation a report does not
need; `figure` returns the validated object. Each panel has its own value axis; all panels share the time axis
and zoom together. A panel without points shows the reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.figures.palette import LOOKS, THEMES, ThemeName, template
from multitracer.figures.series import BREAK, names, seconds_since
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.figures.palette import Props
    from multitracer.figures.series import Series
    from multitracer.recording.capture import Capture
    from multitracer.tables import Array

BOUND_NOTE = "bound"
"""Name of a note that is valid only for the full time range; a report writes a new note for each view."""

TIME_TITLE = "seconds from the start of the capture"
"""Title of the time axis for a link at real speed."""

_GAP, _GAPS = 0.055, 0.28
"""Maximum share of the height for the space between two panels, and for all such spaces together."""
_MOST_SHADES = 500
_SHADE_OPACITY = 0.16
_READING_PX = 3
_LOW_SHARE = 0.6
"""Share of the height below which a panel has few labels."""
_LINE_LETTERS = 100
"""Maximum characters in a line of a figure that is 1000 pixels wide."""
_ROOM = 0.05
"""Margin of a value axis above and below the drawn values, as a share of their range."""
_SMALLEST_MARGIN = 1e-9
"""Minimum margin, as a share of the largest value: with less, an axis of equal values has no length."""


class SharedAxis(NamedTuple):
    """The axis that all panels share: title, unit, and d3 format of a position on the axis."""

    title: str = TIME_TITLE
    unit: str = "s"
    form: str = ".6f"

    @property
    def hover(self) -> str:
        """Template for the position on the axis in a hover text."""
        return f"%{{x:{self.form}}} {self.unit}"


TIME_AXIS = SharedAxis()


def axis_origin_ns(capture: Capture) -> int:
    """Return the time of a capture's first packet in ns, the origin of its figures; 0 without packets."""
    return capture.tables.first_ns or 0


@dataclass(frozen=True, slots=True)
class Unit:
    """Unit of a panel's axis: an integer value times `scale` is in the base unit, shown with SI prefixes."""

    scale: float
    suffix: str
    hover: str
    """d3 format of a value in the hover text."""


BYTES = Unit(1, "B", ",d")
SECONDS = Unit(1 / NS_PER_S, "s", ".4~s")
BIT_RATE = Unit(1, "bit/s", ".4~s")
LINK_BIT_RATE = replace(BIT_RATE)
"""Of rates that are per second of link time, also in a recording of a faster run."""
DBM = Unit(1e-3, "dBm", ".1f")
DECIBEL = Unit(1e-3, "dB", ".1f")
PERCENT = Unit(1e-3, "%", ".3~f")
METRES = Unit(1e-3, "m", ".4~s")
METRES_PER_S = Unit(1e-3, "m/s", ".3~f")
PLAIN = Unit(1e-3, "", ".3~f")


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel: one value axis and its series.

    Parameters
    ----------
    key : str
        Identifier, for example "sequence".
    title : str
        Title above the panel.
    unit : Unit
        Unit of the values of all series.
    share : float
        Height relative to the other panels.
    series : list of Series
        Series of the panel; the figure omits empty ones.
    empty : str
        Sentence shown if no series has a point: the reason and a remedy.
    from_zero : bool
        Whether the value axis always shows 0.
    shades : bool
        Whether each series is 1 during a state and 0 otherwise. The panel then has no scale, and each
        interval of a series of rare events shades the background of all panels in the colour of the series.
    """

    key: str
    title: str
    unit: Unit
    share: float
    series: list[Series] = field(default_factory=list)
    empty: str = "No data."
    from_zero: bool = True
    shades: bool = False

    @property
    def drawn(self) -> list[Series]:
        """The series that have at least one point."""
        return [s for s in self.series if len(s)]

    @property
    def short_title(self) -> str:
        """What the panel shows, and its unit: the title without what follows its first comma or bracket."""
        what = re.split(r"[,;(]", self.title, maxsplit=1)[0].strip()
        suffix = "bytes" if self.unit is BYTES else self.unit.suffix
        return f"{what}, {suffix}" if suffix else what


def figure(
    panels: list[Panel],
    *,
    origin_ns: int,
    theme: ThemeName = "light",
    height_px: int = 900,
    x_axis: SharedAxis = TIME_AXIS,
) -> go.Figure:
    """Return the panels as a plotly figure with all points; the parameters are those of `plain_figure`."""
    import plotly.graph_objects as go  # noqa: PLC0415  plotly is optional, and slow to import

    return go.Figure(plain_figure(panels, origin_ns=origin_ns, theme=theme, height_px=height_px, x_axis=x_axis))


def plain_figure(
    panels: list[Panel],
    *,
    origin_ns: int,
    theme: ThemeName = "light",
    height_px: int = 900,
    x_axis: SharedAxis = TIME_AXIS,
) -> Props:
    """Return the panels, with all points, as a dict in the format of a plotly figure.

    Parameters
    ----------
    panels : list of Panel
        Panels from top to bottom.
    origin_ns : int
        Time at 0 s of the axis.
    theme : "light" or "dark"
    height_px : int
    x_axis : SharedAxis
        The axis that all panels share.
    """
    traces = [
        style(series, panel, axis, name=name, theme=theme, x_axis=x_axis) | points(series, panel.unit, origin_ns)
        for axis, panel in enumerate(panels, 1)
        for series, name in zip(panel.drawn, names(panel.drawn), strict=True)
    ] + placeholders(panels)
    shared = layout(panels, origin_ns=origin_ns, theme=theme, x_axis=x_axis)
    return {"data": traces, "layout": shared | {"height": height_px}}


def plain(text: str) -> str:
    """Return the text escaped for plotly, which interprets some HTML tags; a host name may contain tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def style(
    series: Series, panel: Panel, axis: int, *, name: str, theme: ThemeName, x_axis: SharedAxis = TIME_AXIS
) -> Props:
    """Return the properties of a series' trace without the points: type, axis, style and hover text.

    The legend has `name`, in words; the hover text and the trace's `meta` have the label of the series.
    """
    look = LOOKS[series.role]
    colour = look.colour(theme)
    trace: Props = {
        "type": "scatter",
        "name": plain(name),
        "meta": plain(series.label),
        "legendgroup": panel.key,
        "legendgrouptitle": {"text": plain(panel.short_title)},
        "yaxis": "y" if axis == 1 else f"y{axis}",
        "hovertemplate": _hover(series, name, panel.unit, x_axis),
    }
    if look.mark == "points":
        open_stroke = {"line": {"width": 1.6, "color": colour}} if look.symbol != "circle" else {}
        marker = {"color": colour, "size": look.size_px, "symbol": look.symbol, **open_stroke}
        return trace | {"mode": "markers", "marker": marker}
    line = {"color": colour, "width": look.size_px, "dash": look.dash}
    if look.mark == "step":
        line["shape"] = "hv"
    if panel.shades:
        trace |= {
            "fill": "tozeroy",
            "fillcolor": colour,
            "hovertemplate": f"{x_axis.hover}<extra>%{{fullData.name}}</extra>",
        }
    if series.role.startswith("radio_"):  # a reading between two gaps would be no line
        marker = {"color": colour, "size": _READING_PX, "symbol": "circle"}
        return trace | {"mode": "lines+markers", "line": line, "marker": marker}
    return trace | {"mode": "lines", "line": line}


def placeholders(panels: list[Panel]) -> list[Props]:
    """Return a trace without points for each empty panel; plotly draws only axes that a trace uses."""
    blank = {"type": "scatter", "x": [None], "y": [None], "showlegend": False, "hoverinfo": "skip"}
    return [
        blank | {"yaxis": "y" if axis == 1 else f"y{axis}"} for axis, panel in enumerate(panels, 1) if not panel.drawn
    ]


def _hover(series: Series, name: str, unit: Unit, x_axis: SharedAxis) -> str:
    ends = [f"%{{y:{unit.hover}}}{'' if unit.scale != 1 or unit.suffix == 'bit/s' else ' '}{unit.suffix}"]
    if series.frame is not None:
        ends.append("%{customdata}")
    code = f" {plain(series.label)}" if series.label != name else ""
    return f"<b>{plain(name)}</b>{code}<br>{x_axis.hover}<br>" + "<br>".join(ends) + "<extra></extra>"


def points(series: Series, unit: Unit, origin_ns: int) -> Props:
    """Return `x` (seconds), `y` (axis values) and `customdata` (frame of each point) of a trace."""
    seconds = seconds_since(series.time_ns, origin_ns)
    value = np.where(series.value == BREAK, np.nan, series.value * unit.scale)
    frames = frame_words(series)
    if series.until is None:
        return {"x": seconds, "y": value} | ({} if frames is None else {"customdata": frames})
    low_high_gap = np.column_stack([value, series.until * unit.scale, np.full(len(series), np.nan)]).ravel()
    bars = {"x": np.repeat(seconds, 3), "y": low_high_gap}
    return bars | ({} if frames is None else {"customdata": np.repeat(frames, 3)})


def frame_words(series: Series) -> Array | None:
    """Return a text such as "frame 1234" for each point, with the answer's frame and the file if known.

    Returns
    -------
    ndarray of str, shape (n_points,), or None
        None for a series without frames.
    """
    if series.frame is None:
        return None
    words = np.char.add("frame ", series.frame.astype("U"))
    if series.answer is not None:
        words = np.char.add(np.char.add(words, ", answered by "), series.answer.astype("U"))
    if series.file is None or not bool(np.any(series.file)):
        return words
    return np.char.add(np.char.add(words, " of file "), (series.file.astype(int) + 1).astype("U"))


def layout(panels: list[Panel], *, origin_ns: int, theme: ThemeName, x_axis: SharedAxis = TIME_AXIS) -> Props:
    """Return the layout: shared axis, value axes, titles, shades, and the reasons for empty panels."""
    frame: Props = {
        "template": {"layout": template(theme)},
        "hovermode": "closest",
        "dragmode": "zoom",
        "margin": {"l": 76, "r": 16, "t": 28, "b": 44},
        "legend": {"groupclick": "toggleitem", "tracegroupgap": 14},
        "annotations": [],
        "shapes": [shape for panel in panels if panel.shades for shape in _shades(panel, origin_ns, theme)],
        "xaxis": {
            "anchor": "y" if len(panels) == 1 else f"y{len(panels)}",
            "title": {"text": x_axis.title, "standoff": 8},
            "showspikes": True,
            "spikemode": "across",
            "spikethickness": 1,
            "spikedash": "dot",
            "spikecolor": THEMES[theme].muted,
            "showgrid": True,
        },
    }
    for axis, (panel, domain) in enumerate(zip(panels, _domains(panels), strict=True), 1):
        frame["yaxis" if axis == 1 else f"yaxis{axis}"] = _value_axis(panel, domain)
        frame["annotations"] += _words(panel, axis, theme)
    return frame


def _domains(panels: list[Panel]) -> list[list[float]]:
    gap = min(_GAP, _GAPS / max(len(panels) - 1, 1))
    free = 1 - gap * (len(panels) - 1)
    total = sum(panel.share for panel in panels)
    top, domains = 1.0, []
    for panel in panels:
        bottom = max(0.0, top - free * panel.share / total)
        domains.append([bottom, top])
        top = bottom - gap
    return domains


def _value_axis(panel: Panel, domain: list[float]) -> Props:
    return {
        "domain": domain,
        "anchor": "x",
        "tickformat": "~s",
        "ticksuffix": panel.unit.suffix,
        "range": value_range(panel),
        "nticks": 8 if panel.share > 1 else 5 if panel.share > _LOW_SHARE else 3,
        "showticklabels": bool(panel.drawn),
        **({"visible": False, "range": [0, 1]} if panel.shades else {}),
    }


def _shades(panel: Panel, origin_ns: int, theme: ThemeName) -> list[Props]:
    """Return a rectangle for each interval in which a series of the panel is 1.

    If there are too many intervals, only the longest ones get a rectangle.
    """
    shapes = []
    for series in (s for s in panel.drawn if s.rare):
        begins = np.flatnonzero(series.value[:-1] == 1)
        seconds = seconds_since(series.time_ns, origin_ns)
        colour = LOOKS[series.role].colour(theme)
        shapes += [_shade(begin, end, colour) for begin, end in zip(seconds[begins], seconds[begins + 1], strict=True)]
    return sorted(shapes, key=lambda shape: shape["x0"] - shape["x1"])[:_MOST_SHADES]


def _shade(begin_s: float, end_s: float, colour: str) -> Props:
    return {
        "type": "rect",
        "layer": "below",
        "xref": "x",
        "yref": "paper",
        "x0": float(begin_s),
        "x1": float(end_s),
        "y0": 0,
        "y1": 1,
        "fillcolor": colour,
        "opacity": _SHADE_OPACITY,
        "line": {"width": 0},
    }


def value_range(panel: Panel) -> list[float] | None:
    """Return the range of the value axis; None without points. Bounds far above the other series are ignored.

    A bound is ignored if it is more than twice as high (three times, if the axis begins at 0).
    `points/panel.js` does the same for each view.
    """
    ends = [_extremes(series) for series in panel.drawn if not series.bound]
    bounds = [_extremes(series) for series in panel.drawn if series.bound]
    if not ends and not bounds:
        return None
    low, high = min(e[0] for e in ends or bounds), max(e[1] for e in ends or bounds)
    low = min(low, 0) if panel.from_zero else low
    most = high + (2 if panel.from_zero else 1) * (high - low) if high > low else np.inf
    high = max([high, *(bound[1] for bound in bounds if bound[1] <= most)])
    room = max((high - low) * _ROOM, 1, abs(high) * _SMALLEST_MARGIN)
    bottom = low if panel.from_zero and low == 0 else low - room
    return [float(bottom * panel.unit.scale), float((high + room) * panel.unit.scale)]


def _extremes(series: Series) -> tuple[int, int]:
    value = series.value[series.is_drawn]
    columns = [value] if series.until is None else [value, series.until]
    return min(int(c.min()) for c in columns), max(int(c.max()) for c in columns)


def _words(panel: Panel, axis: int, theme: ThemeName) -> list[Props]:
    """Return the annotations of a panel: its title and, if the panel is empty, the reason."""
    reference = "y" if axis == 1 else f"y{axis}"
    base = {"xref": "paper", "yref": f"{reference} domain", "showarrow": False}
    title = base | {"x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "text": f"<b>{plain(panel.title)}</b>"}
    if panel.shades and panel.drawn:
        return [title, *([_key(panel, base, theme)] if _fits_in_a_line(panel) else [])]
    if panel.drawn:
        return [title, *_bounds_above(panel, base)]
    muted = {"color": THEMES[theme].muted}
    return [title, base | {"x": 0.5, "y": 0.5, "text": plain(panel.empty), "font": muted, "name": "empty"}]


def _fits_in_a_line(panel: Panel) -> bool:
    """Return whether the names of a panel's series fit into a line below the panel."""
    return sum(len(series.label) + 3 for series in panel.drawn) <= _LINE_LETTERS


def _key(panel: Panel, base: Props, theme: ThemeName) -> Props:
    """Return the annotation below a panel that names its series in their colours (a legend)."""
    signs = [
        f'<span style="color:{LOOKS[series.role].colour(theme)}">■</span> {plain(series.label)}'
        for series in panel.drawn
    ]
    place = {"x": 1, "y": 0, "xanchor": "right", "yanchor": "top", "name": "key"}
    return base | place | {"text": "  ".join(signs)}


def _bounds_above(panel: Panel, base: Props) -> list[Props]:
    """Return an annotation that names the bounds above the visible range of the panel; empty without any."""
    top = (value_range(panel) or [0, 0])[1] / panel.unit.scale
    above = [
        name
        for series, name in zip(panel.drawn, names(panel.drawn), strict=True)
        if series.bound and _extremes(series)[1] > top
    ]
    if not above:
        return []
    place = {"x": 1, "y": 1, "xanchor": "right", "yanchor": "bottom", "name": BOUND_NOTE}
    return [base | place | {"text": plain(f"{', '.join(above)} above")}]
