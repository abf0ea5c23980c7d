"""The page of one plotly figure, as `multitracer plot` writes it: complete, and without any network."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.errors import InputError
from multitracer.figures.document import document
from multitracer.figures.palette import FONT, THEMES
from multitracer.report.assets import inside
from multitracer.report.markup import element, json_text
from multitracer.report.page import DOCTYPE, head, own_file
from multitracer.words import printable

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.figures.palette import Props, ThemeName


def plot_page(figure: go.Figure | Props, *, title: str, theme: ThemeName) -> str:
    """Return a whole page that shows a figure.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure, or the dict of one
    title : str
        Of the window and the page.
    theme : "light" or "dark"
        As the figure was made.

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
    code = inside(style, f"{plotly_js()}\n{own_file('plot.js')}")
    body = element(
        "body",
        element("h1", printable(title)),
        element("div", id="plot"),
        element("script", json_text(document(figure)), type="application/json", id="figure"),
        code.script,
    )
    return DOCTYPE + element("html", head(printable(title), code), body, lang="en")


def plotly_js() -> str:
    """Return the plotly.js that comes with plotly, without importing plotly.

    Raises
    ------
    InputError
        If plotly is not installed.
    """
    package = find_spec("plotly")
    for folder in (package.submodule_search_locations or []) if package else []:
        code = (Path(folder) / "package_data" / "plotly.min.js").read_text("utf-8")
        return code.replace("</script", r"<\/script")
    raise InputError("plot: plotly is not installed; pip install 'multitracer[figures]'")
