"""A sheet: panels in a grid or in one column, with axes other than the time of a capture.

Each figure has two layouts, for a desktop and for a phone (`layout.meta["narrow"]`), because plotly does not
wrap text, and three panels side by side do not fit into 390 pixels. `plot.js` selects the layout. A report
draws the same sheet as static SVG (`report/static_sheet.py`).
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from multitracer.figures.palette import THEMES, template
from multitracer.figures.stack import plain

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.figures.palette import Props, ThemeName

_WIDE_LETTERS, _NARROW_LETTERS = 92, 38
"""Maximum characters in a line on paper, and beside the axis on a phone (measured: 580 and 250 pixels)."""
_LINE_PX = 17
_TITLE_PX = 14
"""Distance in pixels between a panel and the text above it, and between that text and the panel above."""
_BELOW_PX = 46
"""Space for the tick labels and the title of an x axis, in pixels."""
_LEGEND_PX = 24
_BUTTONS_PX = 26
"""Space for plotly's buttons at the top, in pixels."""
_GUTTER = 0.065


@dataclass(frozen=True, slots=True)
class SheetPanel:
    """One panel of a sheet.

    Parameters
    ----------
    title : str
        Title above the panel, in bold.
    height_px : int
    x, y : dict
        Properties of the axes, in addition to those of the theme.
    empty : str
        Text on the reason why the panel is empty; "" if it is not empty.
    notes : list of dict
        Annotations at data coordinates of this panel; their text may contain plotly's HTML tags.
    shapes : list of dict
        Shapes at data coordinates that extend over the full width of the panel.
    own_x : bool
        Whether the panel has its own x labels; otherwise they are below the lowest panel.
    more : str
        Text below the title.
    """

    title: str
    height_px: int
    x: Props = field(default_factory=dict)
    y: Props = field(default_factory=dict)
    empty: str = ""
    notes: list[Props] = field(default_factory=list)
    shapes: list[Props] = field(default_factory=list)
    own_x: bool = True
    more: str = ""


def axis_name(letter: str, number: int) -> str:
    """Return plotly's name of an axis: y, y2, y3, ..."""
    return letter if number == 1 else f"{letter}{number}"


class Sheet(NamedTuple):
    """Panels with their traces.

    Attributes
    ----------
    cells : list of SheetPanel
        Panels from left to right, row by row.
    traces : list of dict
        Traces; the number of a trace's axes is the number of its cell, from 1.
    theme : "light" or "dark"
        Theme of the trace colours.
    columns : int
        Number of columns on a desktop; a phone shows one column.
    """

    cells: list[SheetPanel]
    traces: list[Props]
    theme: ThemeName
    columns: int = 1

    def figure(self) -> go.Figure:
        """Return the sheet as a plotly figure."""
        import plotly.graph_objects as go  # noqa: PLC0415  plotly is optional, and slow to import

        cells, traces, columns = self.cells, self.traces, self.columns
        named = sum(trace.get("showlegend", True) and "name" in trace for trace in traces)
        wide = _Screen(self.theme, _WIDE_LETTERS // columns, columns, named).layout(cells)
        narrow = _Screen(self.theme, _NARROW_LETTERS, 1, named).layout(cells)
        return go.Figure({"data": traces + _blanks(cells), "layout": wide | {"meta": {"narrow": narrow}}})


def sheet(cells: list[SheetPanel], traces: list[Props], *, theme: ThemeName, columns: int = 1) -> go.Figure:
    """Return the figure of a `Sheet`."""
    return Sheet(cells, traces, theme, columns).figure()


def _blanks(cells: list[SheetPanel]) -> list[Props]:
    """Return a trace without points for each panel, because plotly draws no axis without a trace."""
    blank = {"type": "scatter", "x": [None], "y": [None], "showlegend": False, "hoverinfo": "skip"}
    return [
        blank | {"xaxis": axis_name("x", n), "yaxis": axis_name("y", n)}
        for n, cell in enumerate(cells, 1)
        if cell.empty
    ]


@dataclass(frozen=True, slots=True)
class _Screen:
    """Properties of the screen for which a layout is made: characters above a panel, and columns."""

    theme: ThemeName
    letters: int
    columns: int
    named: int
    """Number of traces in the legend."""

    def layout(self, cells: list[SheetPanel]) -> Props:
        narrow = self.letters == _NARROW_LETTERS
        legend_rows = self.named if narrow else -(-self.named // 4)
        legend_px = _LEGEND_PX * legend_rows if self.named > 1 else 0
        top_px = _BUTTONS_PX + legend_px
        rows = [cells[i : i + self.columns] for i in range(0, len(cells), self.columns)]
        inner_px = sum(map(sum, map(self._heights, rows)))
        frame: Props = {
            "template": {"layout": template(self.theme)},
            "hovermode": "closest",
            "height": top_px + inner_px + 8,
            "margin": {"l": 66 if narrow else 80, "r": 12 if narrow else 20, "t": top_px, "b": 8},
            "showlegend": self.named > 1,
            "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"},
            "annotations": [],
            "shapes": [],
        }
        top = 1.0
        for at, row in enumerate(rows):
            above, height, below = self._heights(row)
            domain = [max(0.0, top - (above + height) / inner_px), top - above / inner_px]
            for place, cell in enumerate(row):
                self._put(frame, cell, at * self.columns + place + 1, domain)
            top -= (above + height + below) / inner_px
        return frame

    def _heights(self, row: list[SheetPanel]) -> tuple[int, int, int]:
        """Return the space above the panels of a row, their height, and the space below, each in pixels."""
        lines = max(len(self._lines(cell.title)) + len(self._lines(cell.more)) for cell in row)
        below = _BELOW_PX if any(cell.own_x for cell in row) else 0
        return _TITLE_PX + _LINE_PX * lines, max(cell.height_px for cell in row), below

    def _put(self, frame: Props, cell: SheetPanel, number: int, domain: list[float]) -> None:
        """Add axes, title, notes and shapes of a panel to the layout `frame`."""
        x, y = axis_name("x", number), axis_name("y", number)
        here = {"xref": f"{x} domain", "yref": f"{y} domain", "showarrow": False, "align": "left"}
        title = here | {"x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"}
        words = [f"<b>{line}</b>" for line in self._lines(cell.title)] + self._lines(cell.more)
        frame["annotations"].append(title | {"text": "<br>".join(words)})
        if cell.empty:
            muted = {"color": THEMES[self.theme].muted}
            why = {"text": "<br>".join(self._lines(cell.empty)), "font": muted, "name": "empty"}
            frame["annotations"].append(here | {"x": 0.5, "y": 0.5, "align": "center"} | why)
        frame["annotations"] += [{"xref": x, "yref": y, "showarrow": False} | note for note in cell.notes]
        across = {"xref": f"{x} domain", "yref": y, "x0": 0, "x1": 1}
        frame["shapes"] += [across | shape for shape in cell.shapes]
        labels = {} if cell.own_x else {"showticklabels": False, "ticks": ""}
        width = (1 - _GUTTER * (self.columns - 1)) / self.columns
        left = (number - 1) % self.columns * (width + _GUTTER)
        own = number if number > 1 else ""
        frame[f"xaxis{own}"] = labels | {"domain": [left, left + width], "anchor": y} | cell.x
        frame[f"yaxis{own}"] = {"domain": domain, "anchor": x} | cell.y

    def _lines(self, text: str) -> list[str]:
        return [plain(line) for line in textwrap.wrap(text, self.letters)]
