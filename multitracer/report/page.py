"""The frame of every page, which loads nothing from the network, and how it is printed.

The content security policy forbids loading and allows only the script of this package, by its hash: even an
unescaped script in a host name could not run.

The script and the style are in the page itself, or in files of a folder that many pages share. Browsers check
`integrity` only for pages from a network, so that for pages from a disk a policy cannot name a file by its
hash. A page with shared files therefore contains a loader; the policy allows the loader by its hash, and the
one file that the loader requests (`strict-dynamic`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from multitracer import __version__
from multitracer.errors import InputError
from multitracer.report.markup import Markup, element, json_text, script_hash
from multitracer.report.replacing import replacing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.report.markup import Child
    from multitracer.report.signalling_section import Viewer

FOLDER = "assets"
_LETTERS = 16
"""Number of hexadecimal digits of the hash in a file name (64 bits): each version has its own file."""
_LOADER = """\
"use strict";
(() => {
  const [address, integrity] = %s;
  const script = document.createElement("script");
  script.async = false;
  script.src = address;
  if (location.protocol !== "file:") script.integrity = integrity;
  script.onerror = () => {
    const lost = document.createElement("p");
    lost.className = "lost";
    lost.textContent =
      `This page lacks ${address}: keep its folder beside it, or make the page with --assets inline.`;
    document.body.prepend(lost);
  };
  document.currentScript.after(script);
})();
"""


class Attached(NamedTuple):
    """The script and style of a page, and the policy that allows them.

    Attributes
    ----------
    policy : str
        The sources of scripts and of styles that a content security policy allows.
    style, script : Markup
        HTML elements with the style and the script.
    needs : str
        Text on the files that the page needs.
    """

    policy: str
    style: Markup
    script: Markup
    needs: str


class Assets:
    """A folder of scripts and styles that many pages share; the hash of the content is part of the file name.

    Parameters
    ----------
    folder : path
        Created with the first page.
    address : str
        Relative URL of the folder in the pages.
    """

    def __init__(self, folder: str | os.PathLike[str], address: str = FOLDER) -> None:
        self._folder = Path(folder)
        self._address = address
        self._written: set[str] = set()

    def attach(self, style: str, script: str) -> Attached:
        """Write a page's style and script to the folder if missing, and return elements that load them.

        Raises
        ------
        InputError
            If a file cannot be written.
        """
        loader = _LOADER % json.dumps([self._add(script, "js"), script_hash(script).strip("'")])
        return Attached(
            f"script-src {script_hash(loader)} 'strict-dynamic'; style-src 'self' 'unsafe-inline'",
            element("link", rel="stylesheet", href=self._add(style, "css")),
            element("script", Markup(loader)),
            f"This page needs its folder {FOLDER}, but no network and no server.",
        )

    def _add(self, text: str, kind: str) -> str:
        content = text.encode()
        name = f"{sha256(content).hexdigest()[:_LETTERS]}.{kind}"
        if name not in self._written:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as failure:
                raise InputError(
                    f"{self._folder}: cannot create this folder: {failure.strerror}; choose another folder"
                ) from failure
            with replacing(self._folder / name) as temporary:
                temporary.write_bytes(content)
            self._written.add(name)
        return f"{self._address}/{name}"


def attached(style: str, script: str, assets: Assets | None = None) -> Attached:
    """Return a page's style and script: as files of `assets`, or within the page if `assets` is None."""
    if assets is not None:
        return assets.attach(style, script)
    return Attached(
        f"script-src {script_hash(script)}; style-src 'unsafe-inline'",
        element("style", Markup(style)),
        element("script", Markup(script)),
        "This page needs no network and no server.",
    )


DOCTYPE = "<!doctype html>\n"

_POINTS_CODE = "link decoder loader table axes marks packets trend panel plot figure"
_FIGURE_CODE = ("timeline.js", "tracks.js", *(f"points/{name}.js" for name in _POINTS_CODE.split()))
_MAP_CODE = ("drive/map_gestures.js", "drive/map.js")
"""Scripts of the map; each uses only those before it."""
_SIGNALLING_CODE = tuple(f"signalling/{name}.js" for name in ("messages", "lanes", "tree", "list", "signalling"))


def document(
    title: str,
    *sections: Child,
    figures: list[dict[str, object]] | None = None,
    route: dict[str, object] | None = None,
    signalling: Viewer | None = None,
    assets: Assets | None = None,
) -> str:
    """Return a complete page.

    Parameters
    ----------
    title : str
        Title of the window and the page.
    sections
        Content of ``main``.
    figures : list of dict, optional
        Figures from `embed.embed`; the texts of their series are written at the end of the page.
    route : dict, optional
        Map from `route_map.map_document`.
    signalling : Viewer, optional
        Viewer of messages from `signalling_section.signalling_viewer`; its section is among the sections.
    assets : Assets, optional
        Folder for script and style; by default the page contains them.

    Raises
    ------
    InputError
        If the assets cannot be written.
    """
    scripts = [
        *(map(own_file, _FIGURE_CODE) if figures or route or signalling else []),
        *(map(own_file, _MAP_CODE) if route else []),
        *(map(own_file, _SIGNALLING_CODE) if signalling else []),
        own_file("page.js"),
    ]
    texts = [  # columns of figures stand behind all else: the overview need not wait
        element("script", Markup("\n".join(lines)), type="text/plain", id=f"points-{number}")
        for number, figure in enumerate(figures or [])
        if isinstance(lines := figure.pop("lines"), list) and lines
    ]
    if signalling is not None:
        texts.append(element("script", Markup("\n".join(signalling.lines)), type="text/plain", id="messages"))
    held = {"figures": figures, "route": route, "signalling": signalling and signalling.document}
    data = [
        element("script", json_text(value), type="application/json", id=name) for name, value in held.items() if value
    ]
    style = [own_file("page.css"), *([own_file("points/figure.css")] if figures else [])]
    style += [own_file("signalling/signalling.css")] if signalling else []
    return complete_page(
        title, sections, code=attached("".join(style), "\n".join(scripts), assets), data=data, texts=texts
    )


def complete_page(
    title: str,
    sections: Sequence[Child],
    *,
    code: Attached,
    data: Child = None,
    texts: Child = None,
    kicker: str = "MultiTracer report",
) -> str:
    """Return a complete page with these sections and this code.

    Parameters
    ----------
    title : str
        Title of the window and the page.
    sections : sequence
        Content of ``main``.
    code : Attached
        Style and script.
    data, texts
        Elements before and after the script.
    kicker : str
        Text above the title.
    """
    theme = element("button", "Light / dark", class_="theme", type="button", title="Switch between light and dark")
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


def head(title: str, code: Attached) -> Markup:
    """Return the head element of a page, with the policy that allows only the page's own code."""
    policy = (
        f"default-src 'none'; {code.policy}; img-src data: blob:; worker-src blob:; base-uri 'none'; form-action 'none'"
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
    """Return the text of a file of this package."""
    return (resources.files("multitracer.report") / name).read_text("utf-8")


def write(path: str | os.PathLike[str], page: str) -> None:
    """Write a page under a temporary name and rename it, so that a reader never sees an incomplete page.

    If the path is not a regular file (a pipe, /dev/null), the page is written to it directly.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(page.encode("utf-8", "backslashreplace"))


# The same page as PDF, printed by Chromium.


_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
_PATIENCE_S = 180
"""Timeout of the browser in seconds; it prints a page of 8 MB in some seconds. Not measured."""


def browser() -> str:
    """Return the path of an installed browser that can print to PDF.

    Raises
    ------
    InputError
        If no such browser is installed.
    """
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if path is None:
        raise InputError("report --pdf: Chromium is not installed; run apt-get install chromium")
    return path


def print_pdf(page: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Print a page of this package to a PDF file; the file appears only when it is complete.

    Parameters
    ----------
    page : path
        Path of the HTML file.
    path : path
        Path of the PDF file.

    Raises
    ------
    InputError
        If no browser is installed, printing fails, or the file cannot be written.
    """
    executable = browser()
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder) / "report.pdf"
        _run([executable, *_arguments(Path(folder)), f"--print-to-pdf={printed}", Path(page).resolve().as_uri()])
        if not printed.is_file():
            raise InputError(f"{path}: {executable} did not write this PDF file; print the page from a browser instead")
        with replacing(path) as temporary:
            shutil.copyfile(printed, temporary)


def _arguments(profile: Path) -> list[str]:
    """Return the arguments for printing without a window, and without the browser's header and footer."""
    sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # root has none
    return [
        "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--no-pdf-header-footer", f"--user-data-dir={profile / 'profile'}", *sandbox,
    ]  # fmt: skip


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=False, capture_output=True, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired as late:
        raise InputError(
            f"{command[0]} did not write the PDF file within {_PATIENCE_S} s; print the page from a browser instead"
        ) from late
