"""HTML that cannot be injected into: the one place where text becomes markup.

A page is built from `element` calls. Text is escaped unless it is `Markup`, and only this module and the
program's own CSS and JavaScript make `Markup`.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable

_VOID = frozenset({"meta", "link", "input", "br", "hr"})


class Markup(str):
    """A string that is HTML already."""

    __slots__ = ()


Child = str | Markup | Iterable["Child"] | None


def element(tag: str, /, *children: Child, **attributes: object) -> Markup:
    """Return one HTML element.

    Parameters
    ----------
    tag : str
        Tag name; the program's own, never from input.
    children : str, Markup, iterable of them, or None
        A str is escaped and shown unchanged; None is left out.
    attributes
        A trailing underscore is dropped and others become hyphens (``class_``, ``aria_label``). True writes
        the bare name; None and False leave the attribute out.
    """
    opening = tag
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name = key.removesuffix("_").replace("_", "-")
        opening += f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
    return Markup(f"<{opening}>") if tag in _VOID else Markup(f"<{opening}>{join(children)}</{tag}>")


def fold(title: str, *children: Child, note: str = "", class_: str = "", **attributes: object) -> Markup:
    """Return a section that opens when its title is pressed.

    Parameters
    ----------
    title : str
    children : str, Markup, iterable of them, or None
    note : str
        Text beside the title: a summary of the section.
    class_ : str
        Additional CSS class.
    attributes
        Attributes of the section, as in `element`; with an ``id`` an address that ends with it opens the
        section.
    """
    more = element("span", note, class_="muted") if note else None
    summary = element("summary", element("h2", title), more)
    return element("details", summary, children, class_=f"fold {class_}".rstrip(), **attributes)


def join(children: Iterable[Child]) -> Markup:
    """Return the children one after the other, text escaped."""
    texts: list[str] = []
    for child in children:
        if isinstance(child, str):
            texts.append(child if isinstance(child, Markup) else html.escape(child))
        elif child is not None:
            texts.append(join(child))
    return Markup("".join(texts))


def json_text(value: object) -> Markup:
    """Return JSON that is safe inside a script element and in JavaScript: no <, >, & and line separators."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def script_hash(code: str) -> str:
    """Return the source expression that lets a content security policy run exactly this script."""
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
