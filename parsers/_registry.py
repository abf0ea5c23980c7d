"""Finds formats: every public module of `parsers`, then the entry points `multitracer.formats`.

A module of ours that does not load is a bug and raises what it raises. A third party's is a `PluginError`
that names it. The same name twice is a `PluginError`, so that no file can be read in two ways by accident.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING

from multitracer.errors import PluginError, UnknownFormatError
from parsers._format import Format

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ENTRY_POINTS = "multitracer.formats"


@functools.cache
def _formats() -> dict[str, Format]:
    found: dict[str, Format] = {}
    for module in (*_own_modules(), *_foreign_modules()):
        fmt = getattr(module, "FORMAT", None)
        if not isinstance(fmt, Format):
            raise PluginError(
                f"{module.__name__}: no FORMAT of type parsers.Format; add one as its last line"
            )
        if fmt.name in found:
            raise PluginError(f"{module.__name__}: a format named {fmt.name!r} exists already; rename one")
        found[fmt.name] = fmt
    return found


def _own_modules() -> Iterator[ModuleType]:
    package = importlib.import_module("parsers")
    names = sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_"))
    for name in names:
        yield importlib.import_module(f"parsers.{name}")


def _foreign_modules() -> Iterator[ModuleType]:
    import importlib.metadata  # noqa: PLC0415  it costs 10 ms, and reading a capture does not need it

    for point in sorted(importlib.metadata.entry_points(group=ENTRY_POINTS), key=lambda p: p.name):
        try:
            yield point.load()
        except Exception as error:  # a plug-in may raise anything while it is imported
            raise PluginError(f"format plug-in {point.name} ({point.value}): {error}; update it") from error


def formats() -> list[Format]:
    """Return every installed format, by name.

    Raises
    ------
    PluginError
        If a plug-in cannot be loaded, binds no FORMAT, or repeats a name.
    """
    return [fmt for _, fmt in sorted(_formats().items())]


def recognise(head: bytes, *, path: str) -> Format:
    """Return the one format that claims `head`: exactly one "yes", else exactly one "maybe".

    Raises
    ------
    UnknownFormatError
        If none or several claim it; the message lists the candidates.
    """
    answers = {fmt.name: fmt.sniff(head) for fmt in formats()}
    for level in ("yes", "maybe"):
        claims = [name for name, answer in answers.items() if answer == level]
        if len(claims) == 1:
            return _formats()[claims[0]]
        if claims:
            raise UnknownFormatError(f"{path}: could be any of {', '.join(claims)}; say which")
    known = ", ".join(answers)
    what = "the file is empty" if not head else f"no known format begins with {head[:8]!r}"
    raise UnknownFormatError(f"{path}: {what}; installed formats: {known}")
