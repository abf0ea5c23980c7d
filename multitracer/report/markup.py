"""Generates HTML safely: text becomes markup only in this module, which escapes it.

A page is built from `element` calls. Text is escaped unless it is `Markup`, and only this module and the
program's own CSS and JavaScript make `Markup`.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable

_VOID = frozenset({"meta", "link", "input", "br", "hr"})


class Markup(str):
    """A string that contains HTML and is not escaped again."""

    __slots__ = ()


Child = str | Markup | Iterable["Child"] | None


def element(tag: str, /, *children: Child, **attributes: object) -> Markup:
    """Return one HTML element.

    Parameters
    ----------
    tag : str
        Tag name; always a constant of the program, never input.
    children : str, Markup, iterable of them, or None
        A str is escaped; None is ignored.
    attributes
        Attributes of the element. A trailing underscore is removed from a name, other underscores become
        hyphens (``class_``, ``aria_label``). For True only the name is written; for None and False nothing.
    """
    opening = tag
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name = key.removesuffix("_").replace("_", "-")
        opening += f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
    return Markup(f"<{opening}>") if tag in _VOID else Markup(f"<{opening}>{join(children)}</{tag}>")


def fold(title: str, *children: Child, note: str = "", class_: str = "", **attributes: object) -> Markup:
    """Return a section that opens when the user clicks its title.

    Parameters
    ----------
    title : str
    children : str, Markup, iterable of them, or None
    note : str
        Text beside the title: a summary of the section.
    class_ : str
        Additional CSS class.
    attributes
        Attributes of the section, as in `element`. If there is an ``id``, a link to it opens the section.
    """
    more = element("span", note, class_="muted") if note else None
    summary = element("summary", element("h2", title), more)
    return element("details", summary, children, class_=f"fold {class_}".rstrip(), **attributes)


def join(children: Iterable[Child]) -> Markup:
    """Return the concatenated children; text is escaped."""
    texts: list[str] = []
    for child in children:
        if isinstance(child, str):
            texts.append(child if isinstance(child, Markup) else html.escape(child))
        elif child is not None:
            texts.append(join(child))
    return Markup("".join(texts))


def with_code(text: str) -> Markup:
    """Return a sentence of the program in which commands and names stand between backticks, as they stand on a page."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a lone backtick is one
        return join([text])
    return join([element("code", part) if n % 2 else part for n, part in enumerate(parts)])


def unbroken(text: str) -> str:
    """Return a text whose numbers stay on one line with their units, and with a sign of comparison."""
    return _UNIT.sub("\u00a0", text)


_UNIT = re.compile(
    r"(?<=\d) (?=(?:[kMGT]?bit/s|[kMGT]?B(?:/s)?|dBm|dB|km|m|h|min|s|ms|µs|ns|%)(?![\w/]))|(?<=[<>]) (?=\d)"
)


def json_text(value: object) -> Markup:
    """Return JSON for a script element or JavaScript; <, >, & and line separators are escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def script_hash(code: str) -> str:
    """Return the hash source for a content security policy that allows exactly this script."""
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
