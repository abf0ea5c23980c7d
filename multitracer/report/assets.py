"""The script and the style of a page: in the page itself, or once in a folder beside many pages.

Browsers check `integrity` only over a network, so a policy cannot name a file by its hash where pages are
opened from a disk. A page beside its assets therefore holds a loader, which the policy allows by its hash
together with what the loader asks for (`strict-dynamic`): one file, whose hash is checked wherever a browser
can.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from multitracer.errors import InputError
from multitracer.report.markup import Markup, element, script_hash
from multitracer.report.replacing import replacing

if TYPE_CHECKING:
    import os

FOLDER = "assets"
_LETTERS = 16
"""Of a hash in a file's name: 64 bits, so that two versions of the program do not share a file."""
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
    """How a page has its code.

    Attributes
    ----------
    policy : str
        The sources of scripts and of styles that a content security policy allows.
    style, script : Markup
        The elements.
    needs : str
        What the page needs to be shown, in words.
    """

    policy: str
    style: Markup
    script: Markup
    needs: str


def inside(style: str, script: str) -> Attached:
    """Return a page's own style and script; the page is one file."""
    return Attached(
        f"script-src {script_hash(script)}; style-src 'unsafe-inline'",
        element("style", Markup(style)),
        element("script", Markup(script)),
        "This page needs no network and no server.",
    )


class Assets:
    """A folder of scripts and styles that many pages share; a file is named by its content.

    Parameters
    ----------
    folder : path
        Made at the first page.
    address : str
        Of the folder as the pages name it, relative to their own place.
    """

    def __init__(self, folder: str | os.PathLike[str], address: str = FOLDER) -> None:
        self._folder = Path(folder)
        self._address = address
        self._written: set[str] = set()

    def attach(self, style: str, script: str) -> Attached:
        """Return a page's style and script as files of the folder, which are written once.

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
            self._write(name, content)
        return f"{self._address}/{name}"

    def _write(self, name: str, content: bytes) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise InputError(
                f"{self._folder}: cannot make this folder: {failure.strerror}; choose another place"
            ) from failure
        with replacing(self._folder / name) as temporary:
            temporary.write_bytes(content)
        self._written.add(name)


def attached(style: str, script: str, assets: Assets | None) -> Attached:
    """Return a page's style and script: in the folder if there is one, else in the page."""
    return inside(style, script) if assets is None else assets.attach(style, script)
