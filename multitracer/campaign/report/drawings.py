"""Lines and bars of a page as inline SVG, without scripts, in the colours of the page's theme.

Also the tables of the page: cells that sort as numbers, and bars for shares of bad time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from multitracer.report.markup import Markup, element
from multitracer.units import NS_PER_S
from multitracer.words import duration, rate, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from multitracer.report.markup import Child
    from multitracer.tables import Row

    Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 420, 240
"""Size of a picture in SVG units: one pixel each on a phone, so that the text is readable there."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 14, 12, 26
_MOST_TICKS = 5
_MIN_SPAN = 1e-300  # below it a step between ticks would leave the range of floats
_LOG_FROM = 20.0
"""Ratio of the highest to the lowest value above which an axis is logarithmic. Not measured."""
_DECADES = 5.0
"""Maximum number of decades of a logarithmic axis; smaller values are drawn at its start."""


class PictureAxis(NamedTuple):
    """One axis of a picture: its range, its ticks, and whether it is logarithmic."""

    low: float
    high: float
    ticks: Sequence[float]
    words: Callable[[float], str]
    """Function that formats a value as text."""
    is_log: bool = False

    def share(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 (start) to 1 (end)."""
        if self.is_log:
            value, low, high = (math.log10(max(each, self.low)) for each in (value, self.low, self.high))
        else:
            low, high = self.low, self.high
        return min(max((value - low) / (high - low or 1), 0.0), 1.0)


def linear(low: float, high: float, words: Callable[[float], str]) -> PictureAxis:
    """Return a linear axis with a few round ticks; `words` converts a tick's value to text."""
    high = high if high - low > _MIN_SPAN else low + 1
    raw = (high - low) / (_MOST_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    ticks = [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]
    return PictureAxis(low, high, ticks, words)


def fitting(values: Sequence[float], words: Callable[[float], str]) -> PictureAxis:
    """Return an axis for some values: linear from 0, or logarithmic.

    It is logarithmic if the largest value is at least twenty times the smallest one above 0.
    """
    high = max(values)
    positive = [each for each in values if each > 0]
    if not positive or high / min(positive) < _LOG_FROM:
        return linear(0.0, high, words)
    low = max(min(positive), high / 10**_DECADES)
    decades = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    return PictureAxis(low, high, [10.0**each for each in decades], words, is_log=True)


def line(points: Points, across: PictureAxis, up: PictureAxis, *, says: str, dots: bool = False) -> Markup:
    """Return points joined by a line.

    Parameters
    ----------
    points : sequence of (float, float)
        Points in ascending order of the first number.
    across, up : PictureAxis
    says : str
        Text alternative of the picture.
    dots : bool
        Whether to mark each point.
    """
    placed = [(_x(across, x), _y(up, y)) for x, y in points]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
    marks = [element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r="2.5") for x, y in placed] if dots else None
    return _picture(across, up, [element("path", d=path, class_="drawn"), element("g", marks)], says)


def bars(points: Points, across: PictureAxis, up: PictureAxis, *, says: str) -> Markup:
    """Return an SVG picture with a vertical bar for each point; `says` is its text alternative."""
    wide = (_WIDTH - _LEFT - _RIGHT) / max(across.high - across.low, 1) * 0.8
    base = _y(up, up.low)
    rows = [
        element(
            "rect",
            element("title", f"{across.words(x)}: {up.words(y)}"),
            x=f"{_x(across, x) - wide / 2:.1f}",
            y=f"{_y(up, y):.1f}",
            width=f"{wide:.1f}",
            height=f"{max(base - _y(up, y), 0.5):.1f}",
        )
        for x, y in points
    ]
    return _picture(across, up, rows, says)


def _x(axis: PictureAxis, value: float) -> float:
    return _LEFT + axis.share(value) * (_WIDTH - _LEFT - _RIGHT)


def _y(axis: PictureAxis, value: float) -> float:
    return _HEIGHT - _BOTTOM - axis.share(value) * (_HEIGHT - _TOP - _BOTTOM)


def _picture(across: PictureAxis, up: PictureAxis, drawn: list[Markup], says: str) -> Markup:
    return element(
        "svg",
        element("title", says),
        [_across(across, tick) for tick in _thinned(across)],
        [_up(up, tick) for tick in up.ticks],
        element("g", drawn, class_="data"),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        class_="drawing",
    )


def _thinned(axis: PictureAxis) -> Sequence[float]:
    """Return those ticks of the horizontal axis whose labels do not overlap."""
    every = math.ceil(len(axis.ticks) / _MOST_TICKS)
    return axis.ticks[::every] if every else axis.ticks


def _across(axis: PictureAxis, value: float) -> list[Markup]:
    x = _x(axis, value)
    line_up = element("path", d=f"M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}", class_="grid")
    anchor = "end" if x > _WIDTH - 2 * _RIGHT else "middle"
    text = element("text", axis.words(value), x=f"{x:.1f}", y=_HEIGHT - 8, text_anchor=anchor)
    return [line_up, text]


def _up(axis: PictureAxis, value: float) -> list[Markup]:
    y = _y(axis, value)
    return [
        element("path", d=f"M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}", class_="grid"),
        element("text", axis.words(value), x=_LEFT - 6, y=f"{y + 4:.1f}", text_anchor="end"),
    ]


_WIDEST_EM = 4.0
"""Width in em of the bar for a share of 100 %."""
_SEEN = 25
"""Maximum number of visible rows of a table; longer tables scroll, so that the page stays short."""
Heads = tuple[tuple[str, bool], ...]
"""Names of columns, each with a flag whether it contains numbers."""
GROUP_HEADS: Heads = (
    ("Bad", True), ("Bad time", True), ("Judged", True), ("Throughput", True), ("RTT", True), ("Loss", True),
    ("Sessions", True),
)  # fmt: skip
"""Column heads for the result of `group_cells`."""


class Cell(NamedTuple):
    """A cell of a table; `value` is what it is sorted by, if not by its text."""

    children: tuple[Child, ...]
    class_: str | None = None
    value: object = None


def table(
    caption: str, heads: Heads, rows: Iterable[Sequence[Cell]], *, filter_id: str = "", cards: bool = False
) -> Markup:
    """Return a table that sorts by each column.

    Parameters
    ----------
    caption : str
    heads : Heads
    rows : iterable of sequence of Cell
        Cells, from `text` and `number`.
    filter_id : str, optional
        Identifier of a text box above the table, which filters the rows; by default there is no box.
    cards : bool
        Whether a phone shows each row as a card whose lines bear the names of the columns.
    """
    columns = (
        element("th", element("button", name, type="button"), scope="col", class_="number" if is_number else None)
        for name, is_number in heads
    )
    names = [name if cards else None for name, _ in heads]
    lines = [
        element("tr", *(_drawn(cell, name or None) for cell, name in zip(row, names, strict=True))) for row in rows
    ]
    made = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", element("tr", columns)),
        element("tbody", lines),
        class_="sortable free cards" if cards else "sortable free",
        data_filter=filter_id or None,
    )
    height = "scroll tall" if len(lines) > _SEEN else "scroll"
    scrolled = element("div", made, class_=height, tabindex="0", role="group", aria_label=caption)
    if not filter_id:
        return scrolled
    box = element("input", id=filter_id, type="search", placeholder="Filter…", aria_label="Filter rows")
    status = element("span", id=f"{filter_id}-told", class_="muted", role="status")
    return element("div", element("div", box, status, class_="bar"), scrolled)


def _drawn(cell: Cell, name: str | None) -> Markup:
    return element("td", *cell.children, class_=cell.class_, data_value=cell.value, data_name=name)


def text(*words: Child, wrap: bool = False) -> Cell:
    """Return a table cell with text, which is escaped."""
    return Cell(words, "wrap" if wrap else None)


def number(value: float | None, words: Callable[[float], str]) -> Cell:
    """Return a table cell with a number; empty if the number is None. Empty cells sort below all others."""
    if value is None:
        return Cell((), "number", "-1e99")
    return Cell((words(value),), "number", value)


def seconds(value: float | None) -> Cell:
    """Return a table cell with a duration in seconds; empty if it is None."""
    return number(value, lambda each: duration(each * NS_PER_S))


def bar(part: float, complete: float) -> Cell:
    """Return a table cell with `part` as a percentage of `complete`, and a bar; empty if `complete` is 0."""
    if not complete:
        return number(None, str)
    drawn = element("span", class_="share", style=f"width:{part / complete * _WIDEST_EM:.2f}em") if part else None
    words = element("span", share(part, complete), class_="percent")
    return Cell((drawn, words), "number", part / complete)


def group_cells(row: Row) -> list[Cell]:
    """Return the table cells for a group of seconds, in the order of GROUP_HEADS.

    `row` has the counts of the group from `questions.py` or `places.py`.
    """
    return [
        bar(row["bad"], row["judged"]),
        seconds(row["bad"]),
        seconds(row["judged"]),
        number(row["throughput_bps"], rate),
        number(row["rtt_ns"], duration),
        number(row["loss"], lambda each: share(each, 1)),
        number(row["sessions"], lambda each: f"{each:,}"),
    ]
