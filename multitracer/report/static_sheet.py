"""Draws a sheet of `figures.sheet` as static pictures, in both themes and without scripts.

Each panel is an SVG as wide as its column. Lines are in a picture that is stretched to the panel; marks and
text have positions in per cent, so that stretching does not distort them.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.figures.palette import LOOKS, TRANSPORTS
from multitracer.figures.sheet import axis_name
from multitracer.report.markup import Markup, element
from multitracer.report.time_axis import round_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.figures.palette import Props
    from multitracer.figures.sheet import Sheet, SheetPanel
    from multitracer.tables import Array

_WIDE, _HIGH = 1000, 300
"""Width and height of a stretched picture, in units of about one pixel: one decimal digit is sufficient."""
_TICKS = 5
_MOST_TICKS = 8
"""Maximum tick labels below a panel of 300 pixels that do not overlap. Not measured."""
_MOST_LETTERS = 30
"""Maximum total characters of the tick labels below a panel of 300 pixels: 7 pixels each, and gaps."""
_MOST_MARKS = 150
"""Maximum marks on a line: more marks would hide the line. Not measured."""
_ROOM = 0.03
"""Margin at both ends of an axis, as a share of the range of values, if the sheet sets no limits."""
_CAP = 4
"""Half the width of the caps of an error bar, in units of the picture."""
_DASHES = {"dot": "2 3", "dash": "6 4", "dashdot": "6 3 2 3"}
_DARK = {look.light: look.dark for look in (*LOOKS.values(), *TRANSPORTS)}
_SHAPES = {
    "square": "M-{0}-{0}H{0}V{0}H-{0}z",
    "diamond": "M0-{1}L{1} 0L0 {1}L-{1} 0z",
    "triangle-up": "M0-{0}L{1} {0}H-{1}z",
    "hexagon": "M-{0} 0L-{2}-{0}H{2}L{0} 0L{2} {0}H-{2}z",
    "star": "M0-{1}L{2}-{2}L{1} 0L{2} {2}L0 {1}L-{2} {2}L-{1} 0L-{2}-{2}z",
    "cross": "M0-{0}V{0}M-{0} 0H{0}",
    "x": "M-{0}-{0}L{0} {0}M-{0} {0}L{0}-{0}",
}
"""SVG paths of the marks, centred at 0; parameters: half the size, and 1.3 and 0.4 times that."""


def static_sheet(sheet: Sheet) -> Markup:
    """Return the pictures of a sheet and their legend; the sheet must have the colours of the light theme."""
    placed = [_traces_of(sheet, number) for number in range(1, len(sheet.cells) + 1)]
    across = [_across(sheet, number, placed) for number in range(1, len(sheet.cells) + 1)]
    cells = [
        _cell(cell, x, _Axis.of(cell.y, [trace["y"] for trace in traces]), traces)
        for cell, x, traces in zip(sheet.cells, across, placed, strict=True)
    ]
    side_by_side = "several" if sheet.columns > 1 else None
    return element("div", _legend(sheet.traces), element("div", cells, class_=side_by_side), class_="sheet")


class _Axis(NamedTuple):
    """An axis of a panel; a logarithmic axis stores the decimal logarithms of the values."""

    low: float
    high: float
    ticks: list[tuple[float, str]]
    title: str
    is_log: bool

    @classmethod
    def of(cls, stated: Props, columns: Sequence[Array]) -> _Axis:
        """Return an axis with the limits and ticks of `stated`; missing ones are computed from the values."""
        is_log = stated.get("type") == "log"
        low, high = stated.get("range") or _bounds(columns, is_log=is_log)
        if stated.get("showticklabels", True):
            ticks = _stated_ticks(stated, is_log=is_log) or _round_ticks(low, high, stated)
            ticks = _thinned([tick for tick in ticks if low <= tick[0] <= high])
        else:
            ticks = []
        title = stated.get("title", {}).get("text", "")
        return cls(low, high, ticks, title, is_log)

    def share(self, values: Array) -> Array:
        """Return the relative positions of values: 0 at the begin of the axis, 1 at its end."""
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.log10(values) if self.is_log else np.asarray(values, np.float64)
        return np.asarray((own - self.low) / (self.high - self.low))

    def place(self, own: float) -> float:
        """Return the relative position of an axis coordinate; on a logarithmic axis this is a logarithm."""
        return (own - self.low) / (self.high - self.low)


def _bounds(columns: Sequence[Array], *, is_log: bool) -> tuple[float, float]:
    """Return the limits of an axis: the range of the values plus a margin; (0, 1) without values."""
    every = np.concatenate([np.asarray(each, np.float64) for each in columns]) if columns else np.array([])
    known = every[np.isfinite(every) & ((every > 0) | (not is_log))]
    if not len(known):
        return 0.0, 1.0
    known = np.log10(known) if is_log else known
    low, high = float(known.min()), float(known.max())
    room = _ROOM * (high - low) or 0.5
    return low - room, high + room


def _stated_ticks(stated: Props, *, is_log: bool) -> list[tuple[float, str]]:
    values = stated.get("tickvals", [])
    words = stated.get("ticktext") or [f"{value:g}" for value in values]
    return [(math.log10(value) if is_log else value, _text(word)) for value, word in zip(values, words, strict=True)]


def _round_ticks(low: float, high: float, stated: Props) -> list[tuple[float, str]]:
    step = round_step(high - low, stated.get("nticks", _TICKS))
    numbers = range(math.ceil(low / step), math.floor(high / step) + 1)
    return [(n * step, f"{n * step:.10g}{stated.get('ticksuffix', '')}".replace("-", "−")) for n in numbers]


def _thinned(ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    return ticks[:: -(-len(ticks) // _MOST_TICKS) or 1]


def _traces_of(sheet: Sheet, number: int) -> list[Props]:
    return [trace for trace in sheet.traces if trace.get("yaxis", "y") == axis_name("y", number)]


def _across(sheet: Sheet, number: int, placed: Sequence[Sequence[Props]]) -> _Axis:
    """Return the horizontal axis of a cell, shared by all cells that are linked to the same axis."""
    cell = sheet.cells[number - 1]
    first = cell.x.get("matches", axis_name("x", number))
    linked = [
        place for place, each in enumerate(sheet.cells) if each.x.get("matches", axis_name("x", place + 1)) == first
    ]
    stated = sheet.cells[linked[0]].x | cell.x
    axis = _Axis.of(stated, [trace["x"] for place in linked for trace in placed[place]])
    return axis if cell.own_x else axis._replace(title="")


def _cell(cell: SheetPanel, x: _Axis, y: _Axis, traces: Sequence[Props]) -> Markup:
    """Return a panel with its title, its axes and their labels."""
    grid = "".join(f"M0 {_HIGH * (1 - y.place(tick)):.1f}H{_WIDE}" for tick, _ in y.ticks)
    grid += "".join(f"M{_WIDE * x.place(tick):.1f} 0V{_HIGH}" for tick, _ in x.ticks)
    stretched = element(
        "svg", element("path", d=grid, class_="grid"), [_shape(each, y) for each in cell.shapes],
        [_line(trace, x, y) for trace in traces], viewBox=f"0 0 {_WIDE} {_HIGH}", preserveAspectRatio="none",
        width="100%", height="100%", class_="stretched",
    )  # fmt: skip
    picture = element(
        "svg", stretched, [_marks(trace, x, y) for trace in traces],
        [_note(note, x, y) for note in cell.notes], role="img", aria_label=f"{cell.title}. {cell.more}",
    )  # fmt: skip
    heads = [element("b", cell.title), element("span", cell.more) if cell.more else None]
    return element(
        "figure",
        element("figcaption", heads),
        element(
            "div",
            element("div", y.title, class_="unit") if y.title else None,
            _words("levels", [(1 - y.place(tick), word) for tick, word in y.ticks], "top"),
            element("div", element("p", cell.empty) if cell.empty else picture, class_="picture"),
            _words(_times(x), [(x.place(tick), word) for tick, word in x.ticks] * cell.own_x, "left"),
            class_="panel",
            style=f"--high:{cell.height_px}px",
        ),
        element("p", x.title, class_="across") if x.title else None,
    )


def _times(x: _Axis) -> str:
    """Return the CSS class of the tick labels; for long labels the class can hide every second label."""
    return "times" if sum(len(word) for _, word in x.ticks) <= _MOST_LETTERS else "times dense"


def _words(class_: str, ticks: Sequence[tuple[float, str]], side: str) -> Markup:
    words = [element("span", word, style=f"{side}:{place:.2%}") for place, word in ticks]
    return element("div", words, class_=class_, aria_hidden="true")


def _shape(shape: Props, y: _Axis) -> Markup:
    """Return a horizontal line over the full width of the panel."""
    high, line = _HIGH * (1 - y.place(shape["y0"])), shape["line"]
    return element("path", d=f"M0 {high:.1f}H{_WIDE}", **_stroke(line))


def _line(trace: Props, x: _Axis, y: _Axis) -> Markup | None:
    """Return the line of a trace and its error bars; None if the trace has only marks."""
    across, up = _WIDE * x.share(trace["x"]), _HIGH * (1 - y.share(trace["y"]))
    bars = _bars(trace, across, y)
    if "lines" not in trace["mode"]:
        return bars
    joined = _joined(across, up, is_step=trace["line"].get("shape") == "hv")
    drawn = element("path", d=joined, opacity=trace.get("opacity"), **_stroke(trace["line"]))
    return element("g", element("title", _text(trace["name"])), bars, drawn)


def _joined(across: Array, up: Array, *, is_step: bool) -> str:
    """Return an SVG path through the points from left to right, with a gap at each missing point."""
    words: list[str] = []
    is_begun = False
    for left, top in zip(across.tolist(), up.tolist(), strict=True):
        if not (math.isfinite(left) and math.isfinite(top)):
            is_begun = False
            continue
        move = f"H{left:.1f}V{top:.1f}" if is_step else f"L{left:.1f} {top:.1f}"
        words.append(move if is_begun else f"M{left:.1f} {top:.1f}")
        is_begun = True
    return "".join(words)


def _bars(trace: Props, across: Array, y: _Axis) -> Markup | None:
    """Return the error bars of a trace; None if it has no error bars."""
    stated = trace.get("error_y")
    if stated is None:
        return None
    middle = np.asarray(trace["y"], np.float64)
    ends = (_HIGH * (1 - y.share(middle + stated["array"])), _HIGH * (1 - y.share(middle - stated["arrayminus"])))
    shape = "".join(
        f"M{left:.1f} {low:.1f}V{high:.1f}" + "".join(f"M{left - _CAP:.1f} {end:.1f}h{2 * _CAP}" for end in (low, high))
        for left, high, low in zip(across.tolist(), *(each.tolist() for each in ends), strict=True)
        if math.isfinite(high - low)
    )
    return element("path", d=shape, **_stroke({"color": stated["color"], "width": stated["thickness"]}))


def _marks(trace: Props, x: _Axis, y: _Axis) -> Markup | None:
    """Return the marks of a trace, each with a tooltip; None for a line with too many points."""
    if "markers" not in trace["mode"] or ("lines" in trace["mode"] and len(trace["x"]) > _MOST_MARKS):
        return None
    marker = trace["marker"]
    shape, is_open = marker["symbol"].removesuffix("-open"), marker["symbol"].endswith("-open")
    across, up = x.share(trace["x"]), 1 - y.share(trace["y"])
    known = trace.get("customdata")
    marks = [
        element(
            "svg", element("title", _words_of(trace, known, row)), _mark(shape, marker["size"] / 2),
            x=f"{left:.2%}", y=f"{top:.2%}",
        )
        for row, (left, top) in enumerate(zip(across.tolist(), up.tolist(), strict=True))
        if math.isfinite(left) and -0.01 <= top <= 1.01
    ]  # fmt: skip
    return element("g", marks, class_="hollow" if is_open else None, style=_colour(marker["color"]))


def _words_of(trace: Props, known: Sequence[object] | None, row: int) -> str:
    """Return the tooltip of the mark in row `row`."""
    words = known[row] if known is not None else None
    name = _text(trace["name"])
    return f"{name}: {_text(words)}" if isinstance(words, str) else name


def _mark(shape: str, half: float) -> Markup:
    if shape not in _SHAPES:
        return element("circle", r=f"{half:g}")
    return element("path", d=_SHAPES[shape].format(*(f"{half * by:.2g}" for by in (0.85, 1.3, 0.45))))


def _note(note: Props, x: _Axis, y: _Axis) -> Markup:
    """Return a vertical text at a position in the panel."""
    words = element("text", _text(note["text"]), transform="rotate(-90)", dx="4", dy="4")
    return element(
        "svg", words, x=f"{x.place(note['x']):.2%}", y=f"{1 - y.place(note['y']):.2%}",
        style=_colour(note["font"]["color"]),
    )  # fmt: skip


def _stroke(line: Props) -> dict[str, object]:
    dash = _DASHES.get(line.get("dash", ""))
    return {
        "style": _colour(line["color"]),
        "stroke_width": line["width"],
        **({"stroke_dasharray": dash} if dash else {}),
    }


def _colour(light: str) -> str:
    return f"color:{light};color:light-dark({light},{_DARK[light]})"


def _legend(traces: Sequence[Props]) -> Markup | None:
    """Return the legend: symbols and names of the traces; None for fewer than two traces."""
    named = [trace for trace in traces if trace.get("showlegend", True) and "name" in trace]
    if len(named) < 2:
        return None
    return element("p", [element("span", _sign(each), _text(each["name"])) for each in named], class_="key")


def _sign(trace: Props) -> Markup:
    line, marker = trace.get("line"), trace.get("marker")
    parts = [element("path", d="M0 7H30", **_stroke(line))] if line else []
    if marker and "markers" in trace["mode"]:
        shape = marker["symbol"].removesuffix("-open")
        hollow = "hollow" if marker["symbol"].endswith("-open") else None
        mark = element("g", _mark(shape, marker["size"] / 2), class_=hollow, transform="translate(15 7)")
        parts.append(element("g", mark, style=_colour(marker["color"])))
    return element("svg", parts, viewBox="0 0 30 14", aria_hidden="true")


def _text(markup: object) -> str:
    """Return the plain text of a plotly label."""
    return html.unescape(str(markup).replace("<br>", " "))
