"""The figure of correlations: a matrix of the peaks with their lags, and a curve over the lags for each pair.

A number in the matrix is bold if the false discovery rate of the pair is at most 5 %. In the curves below,
the shaded band is the range of 95 % of the surrogates (chance level) at each lag; the bar at the peak is the
uncertainty of its lag. The last lines give the reasons for pairs without a number, also for print.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.figures.palette import LOOKS, THEMES
from multitracer.figures.sheet import SheetPanel, axis_name, sheet
from multitracer.figures.stack import plain

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.figures.palette import Props, ThemeName
    from multitracer.tables import Array, Table

LEVEL = 0.05
"""Maximum false discovery rate of a significant pair; a convention."""
_ROW_PX, _CURVE_PX = 44, 210
_MOST_PAIRS = 24
"""Maximum number of pairs with a curve, and of pairs with a reason; the matrix has all pairs."""
_MOST_WIDE = 2
"""Maximum number of columns at which a cell shows number and lag in one line on a phone."""
_LETTERS = 24
"""Maximum characters of a name at an axis."""


def correlation_figure(table: Table, *, theme: ThemeName = "light") -> go.Figure:
    """Return the figure of a table of pairs and lags.

    Parameters
    ----------
    table : Table
        SESSIONS_NMI.
    theme : "light" or "dark"
    """
    xs, ys = (list(dict.fromkeys(table[name].tolist())) for name in ("x", "y"))
    cells = [_matrix_cell(table, xs, ys)]
    traces = [_matrix(table, xs, ys, theme)]
    peaks = np.flatnonzero(table["is_peak"])
    surest = peaks[np.lexsort([-table["nmi"][peaks], table["p_corrected"][peaks]])]
    without = np.flatnonzero(np.isnan(table["lag_s"])).tolist()
    for number, peak in enumerate(surest[:_MOST_PAIRS].tolist(), 2):
        cells.append(_curve_cell(table, peak))
        traces += _curve(table, peak, number, theme)
    if len(peaks) > _MOST_PAIRS:
        more = f"; the curves of {len(peaks) - _MOST_PAIRS:,} more pairs are not drawn"
        cells[0] = _matrix_cell(table, xs, ys, more)
    if without:
        cells.append(_reasons_cell(table, without))
    return sheet(cells, traces, theme=theme)


def _matrix_cell(table: Table, xs: list[str], ys: list[str], more: str = "") -> SheetPanel:
    words = (
        f"Colour and number: normalised mutual information ({table['normaliser'][0]}) at its peak; bold, "
        f"with the lag by which the column follows the row: false discovery rate at most {100 * LEVEL:.0f} "
        "%; –: no number"
        if len(table)
        else ""
    )
    across, down = _names(ys), _names(xs) | {"autorange": "reversed"}
    height = max(2, len(xs)) * _ROW_PX
    empty = "" if len(table) else "No pair was compared."
    notes = _notes(table, len(ys))
    return SheetPanel("Which quantity predicts which", height, across, down, empty, notes, more=words + more)


def _names(names: list[str]) -> Props:
    """Return the properties of an axis whose categories are these names."""
    shown = [_short(name) for name in names]
    return {"type": "category", "tickvals": names, "ticktext": shown, "automargin": True}


def _reasons_cell(table: Table, without: list[int]) -> SheetPanel:
    """Return a panel of text: the reasons for pairs without a number."""
    reasons = [f"{table['x'][row]} and {table['y'][row]}: {table['reason'][row]}" for row in without]
    more = f"; and {len(reasons) - _MOST_PAIRS:,} more pairs" if len(reasons) > _MOST_PAIRS else ""
    hidden = {"visible": False}
    return SheetPanel("Without a number", 1, hidden, hidden, " ", more="; ".join(reasons[:_MOST_PAIRS]) + more)


def _short(name: str) -> str:
    return plain(name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…")


def _shown(table: Table) -> Array:
    """Return the indexes of the table rows that the matrix shows: for each pair its peak over the lags.

    A pair without a number has one row, which is also shown.
    """
    return np.flatnonzero(table["is_peak"] | np.isnan(table["lag_s"]))


def _notes(table: Table, columns: int) -> list[Props]:
    """Return an annotation with the text in each cell of the matrix."""
    between = " at " if columns <= _MOST_WIDE else "<br>"
    notes: list[Props] = []
    for row in _shown(table).tolist():
        value, lag_s, q_value = (float(table[name][row]) for name in ("nmi", "lag_s", "q_value"))
        text = "–" if np.isnan(value) else f"{value:.2f}" + f"{between}{lag_s:+g} s" * bool(q_value <= LEVEL)
        note: Props = {"x": str(table["y"][row]), "y": str(table["x"][row]), "text": text}
        if not np.isnan(value):  # on a field, whatever the theme; else on the figure's own ground
            note["text"] = f"<b>{text}</b>" if q_value <= LEVEL else text
            note["font"] = {"color": "#ffffff" if value > _DARK else "#1c2430", "size": 11}
        notes.append(note)
    return notes


_DARK = 0.5
"""Value above which the colour of a cell is so dark that its text is white."""


def _matrix(table: Table, xs: list[str], ys: list[str], theme: ThemeName) -> Props:
    value = np.full((len(xs), len(ys)), np.nan)
    hover = np.full((len(xs), len(ys)), "", dtype=object)
    for row in _shown(table).tolist():
        at = xs.index(str(table["x"][row])), ys.index(str(table["y"][row]))
        value[at] = table["nmi"][row]
        hover[at] = _hover(table, row)
    return {
        "type": "heatmap", "x": ys, "y": xs, "z": value, "customdata": hover, "zmin": 0, "zmax": 1,
        "colorscale": [[0, "#f3f6fa"], [_DARK, "#56b4e9"], [1, "#00446b"]], "showscale": False, "xgap": 2,
        "ygap": 2, "hoverongaps": True, "hovertemplate": "%{customdata}<extra></extra>", "xaxis": "x",
        "yaxis": "y", "showlegend": False,
    }  # fmt: skip


def _hover(table: Table, row: int) -> str:
    x, y = plain(str(table["x"][row])), plain(str(table["y"][row]))
    if table["reason"][row]:
        return f"<b>{x}, {y}</b><br>no number: {plain(str(table['reason'][row]))}"
    low, high = float(table["lag_low_s"][row]), float(table["lag_high_s"][row])
    return (
        f"<b>{y} follows {x} by {table['lag_s'][row]:+g} s</b> ({low:+.3g} to {high:+.3g} s)<br>"
        f"NMI {table['nmi'][row]:.3f}, by chance {table['p95_permuted'][row]:.3f}; "
        f"p {table['p_corrected'][row]:.3g}, q {table['q_value'][row]:.3g}<br>"
        f"Spearman {table['spearman'][row]:+.2f}, {table['n'][row]:,} points"
    )


def _curve_cell(table: Table, peak: int) -> SheetPanel:
    title = f"{table['y'][peak]} and {table['x'][peak]}"
    more = (
        f"p {table['p_corrected'][peak]:.3g} over all lags, q {table['q_value'][peak]:.3g}, "
        f"{table['n'][peak]:,} points in bins of {table['step_s'][peak]:g} s"
    )
    words = f"lag, s (above 0 {plain(str(table['y'][peak]))} follows)"
    x = {"title": {"text": words, "standoff": 4}, "zeroline": True}
    return SheetPanel(title, _CURVE_PX, x, {"rangemode": "tozero", "title": {"text": "NMI"}}, more=more)


def _curve(table: Table, peak: int, number: int, theme: ThemeName) -> list[Props]:
    """Return the traces of a pair: chance band, curve, and peak with the uncertainty of its lag."""
    rows = (table["x"] == table["x"][peak]) & (table["y"] == table["y"][peak])
    own = table.take(rows)
    axes = {"type": "scatter", "xaxis": axis_name("x", number), "yaxis": axis_name("y", number)}
    first = {"showlegend": number == 2}
    colour, muted = LOOKS["goodput"].colour(theme), THEMES[theme].muted
    peak_colour = LOOKS["retransmission"].colour(theme)
    lag_s, value = float(table["lag_s"][peak]), float(table["nmi"][peak])
    low, high = float(table["lag_low_s"][peak]), float(table["lag_high_s"][peak])
    return [
        axes | first | {"name": "95 % of the surrogates", "x": own["lag_s"], "y": own["p95_permuted"],
                        "mode": "lines", "line": {"color": muted, "width": 1, "dash": "dot"},
                        "fill": "tozeroy", "fillcolor": _BANDS[theme],
                        "hovertemplate": "chance %{y:.3f} at %{x:+g} s<extra></extra>"},
        axes | first | {"name": "NMI", "x": own["lag_s"], "y": own["nmi"], "mode": "lines+markers",
                        "line": {"color": colour, "width": 2}, "marker": {"size": 4},
                        "hovertemplate": "NMI %{y:.3f} at %{x:+g} s<extra></extra>"},
        axes | first | {"name": "peak, and where its lag may lie", "x": [lag_s], "y": [value],
                        "mode": "markers", "marker": {"color": peak_colour, "size": 9, "symbol": "diamond"},
                        "error_x": {"type": "data", "symmetric": False, "array": [high - lag_s],
                                    "arrayminus": [lag_s - low], "color": peak_colour, "thickness": 1.5},
                        "hovertemplate": f"{_hover(table, peak)}<extra></extra>"},
    ]  # fmt: skip


_BANDS: dict[ThemeName, str] = {"light": "rgba(107,118,134,0.18)", "dark": "rgba(151,163,179,0.22)"}
"""Fill colour of the chance band, by theme."""
