"""What a collector is to the rest of the program: the contract of every public module here."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Collector:
    """One live source: bound to the name `COLLECTOR` at the end of one module of `collectors`.

    The module runs as `python -m collectors.NAME -o LOG [--duration SECONDS] …` and ends as the package says.
    """

    name: str
    """The module's name: `tcp_info`."""
    layer: str
    """The layer of the stack its records belong to: packet, tcp, link, radio, position, clock."""
    description: str
    """One line, for `multitracer doctor`."""
    log_format: str
    """The name of the format in `parsers` that reads its log."""
    suffix: str
    """How its logs' names end: `.jsonl`."""
    check: Callable[[], None]
    """Raises PreflightError, with what to do, if the collector cannot run here."""


@functools.cache
def collectors() -> dict[str, Collector]:
    """Return every collector by name.

    Raises
    ------
    PluginError
        If a public module of this package binds no COLLECTOR under its own name.
    """
    package = importlib.import_module("collectors")
    names = sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_"))
    return {name: _collector(name) for name in names}


def _collector(name: str) -> Collector:
    found = getattr(importlib.import_module(f"collectors.{name}"), "COLLECTOR", None)
    if not isinstance(found, Collector) or found.name != name:
        raise PluginError(f"collectors.{name}: no COLLECTOR named {name!r}; add one as its last line")
    return found
