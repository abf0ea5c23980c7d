"""The frame of every page, which loads nothing from the network.

The content security policy forbids all loading and allows exactly the script that is written here, by its
hash; a script that came in with a host's name could not run even if it were not escaped.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.report.assets import attached
from multitracer.report.markup import Markup, element, json_text
from multitracer.report.replacing import replacing

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from multitracer.report.assets import Assets, Attached
    from multitracer.report.markup import Child

DOCTYPE = "<!doctype html>\n"

_POINTS_CODE = "link decoder loader table axes marks packets trend panel plot figure"
_FIGURE_CODE = ("timeline.js", "tracks.js", *(f"points/{name}.js" for name in _POINTS_CODE.split()))
_MAP_CODE = ("drive/map_gestures.js", "drive/map.js")
"""In the order in which they need each other."""


def document(
    title: str,
    *sections: Child,
    figures: list[dict[str, object]] | None = None,
    route: dict[str, object] | None = None,
    assets: Assets | None = None,
) -> str:
    """Return a whole page.

    Parameters
    ----------
    title : str
        Of the window and the page.
    sections
        What goes into ``main``.
    figures : list of dict, optional
        From `embed.embed`; their texts stand at the end of the page.
    route : dict, optional
        From `route_map.map_document`, for its section.
    assets : Assets, optional
        Where script and style go; by default into the page.

    Raises
    ------
    InputError
        If the assets cannot be written.
    """
    scripts = [
        *(map(own_file, _FIGURE_CODE) if figures or route else []),
        *(map(own_file, _MAP_CODE) if route else []),
        own_file("page.js"),
    ]
    texts = [_text(number, figure.pop("lines")) for number, figure in enumerate(figures or [])]
    data = [
        element("script", json_text(held), type="application/json", id=name)
        for name, held in (("figures", figures), ("route", route))
        if held
    ]
    style = [own_file("page.css"), *([own_file("points/figure.css")] if figures else [])]
    return whole_page(
        title, sections, code=attached("".join(style), "\n".join(scripts), assets), data=data, texts=texts
    )


def whole_page(
    title: str,
    sections: Sequence[Child],
    *,
    code: Attached,
    data: Child = None,
    texts: Child = None,
    kicker: str = "MultiTracer report",
) -> str:
    """Return a page of sections with its frame.

    Parameters
    ----------
    title : str
        Of the window and the page.
    sections : sequence
        What goes into ``main``.
    code : Attached
        Style and script.
    data, texts
        What stands before the script and behind it.
    kicker : str
        What stands above the title.
    """
    theme = element(
        "button", "Light / dark", class_="theme", type="button", title="Switch between light and dark"
    )
    names = element("div", element("p", kicker, class_="kicker"), element("h1", title))
    made = f"Made by MultiTracer {__version__}. {code.needs}"
    body = element(
        "body",
        element("header", names, theme),
        element("main", sections),
        element("footer", element("p", made)),
        data,
        code.script,
        texts,
    )
    return DOCTYPE + element("html", head(title, code), body, lang="en", data_theme="light")


def _text(number: int, lines: object) -> Markup | None:
    """Return the columns of a figure as text, which stands behind all else: the overview need not wait."""
    if not isinstance(lines, list) or not lines:
        return None
    return element("script", Markup("\n".join(lines)), type="text/plain", id=f"points-{number}")


def head(title: str, code: Attached) -> Markup:
    """Return the head of a page on which its own code may run, and nothing else."""
    policy = (
        f"default-src 'none'; {code.policy}; img-src data: blob:; worker-src blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="generator", content=f"MultiTracer {__version__}"),
        element("title", title),
        code.style,
    )


def own_file(name: str) -> str:
    """Return a file of this package as text."""
    return (resources.files("multitracer.report") / name).read_text("utf-8")


def write(path: str | os.PathLike[str], page: str) -> None:
    """Write a page under a temporary name and rename it, so that a reader never sees half of it.

    A place that is no regular file (a pipe, /dev/null) is written to, never replaced.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(page.encode("utf-8", "backslashreplace"))
