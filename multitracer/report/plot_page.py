"""The page of one plotly figure, as `multitracer plot` writes it; the page needs no network.

The module writes the same JSON as plotly without importing plotly: the import and the validation of the
figure take half a second.
"""

from __future__ import annotations

import base64
import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import InputError
from multitracer.figures.palette import FONT, THEMES
from multitracer.report.markup import element, json_text
from multitracer.report.page import DOCTYPE, attached, head, own_file
from multitracer.words import printable

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.figures.palette import Props, ThemeName
    from multitracer.tables import Document


def document(figure: go.Figure | Props) -> Document:
    """Return a figure as JSON, with the same keys and values, in the same order, as plotly writes.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure or dict
        A dict contains traces and layout, as `stack.plain_figure` returns them.
    """
    if not isinstance(figure, dict):
        written: Document = json.loads(figure.to_json())
        return written
    layout = _without_plotly(figure["layout"])
    return {"data": [_trace(trace) for trace in figure["data"]], "layout": layout}


def _trace(trace: Props) -> object:
    kind = {"type": trace["type"]}  # plotly adds it in the end
    return _without_plotly({name: value for name, value in trace.items() if name != "type"}) | kind


def _without_plotly(props: Props) -> Document:
    """Return the properties in plotly's order, without empty ones."""
    return {name: _value(props[name]) for name in sorted(props) if not _is_unset(props[name])}


def _is_unset(value: object) -> bool:
    return value is None or (isinstance(value, list) and not value)


def _value(value: object) -> object:
    if isinstance(value, dict):
        return _without_plotly(value)
    if isinstance(value, list):
        return [_value(each) for each in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind != "f":
        return value.tolist()
    return {"dtype": "f8", "bdata": base64.b64encode(value.astype("<f8", copy=False).tobytes()).decode()}


def plot_page(figure: go.Figure | Props, *, title: str, theme: ThemeName) -> str:
    """Return a complete page that shows a figure.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure, or the dict of one
    title : str
        Title of the window and the page.
    theme : "light" or "dark"
        Theme of the figure.

    Raises
    ------
    InputError
        If plotly is not installed.
    """
    colours = THEMES[theme]
    style = (
        f"body {{ margin: 0; background: {colours.paper}; color: {colours.ink}; font-family: {FONT}; "
        "print-color-adjust: exact; }"  # a figure for dark ground cannot be read without it
        "@media print { h1 { color: #000; } .modebar { display: none; } }"
        "h1 { font-size: 1rem; margin: 14px 16px 4px; font-weight: 650; overflow-wrap: anywhere; }"
    )
    code = attached(style, f"{plotly_js()}\n{own_file('plot.js')}")
    body = element(
        "body",
        element("h1", printable(title)),
        element("div", id="plot"),
        element("script", json_text(document(figure)), type="application/json", id="figure"),
        code.script,
    )
    return DOCTYPE + element("html", head(printable(title), code), body, lang="en")


def plotly_js() -> str:
    """Return the source of plotly.js from the installed plotly package, without importing plotly.

    Raises
    ------
    InputError
        If plotly is not installed.
    """
    package = find_spec("plotly")
    for folder in (package.submodule_search_locations or []) if package else []:
        code = (Path(folder) / "package_data" / "plotly.min.js").read_text("utf-8")
        return code.replace("</script", r"<\/script")
    raise InputError("plot: plotly is not installed; run pip install 'multitracer[figures]'")
