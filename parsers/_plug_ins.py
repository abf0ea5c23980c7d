"""Formats that other packages bring: how they are found, without loading them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "multitracer.formats"


def entry_points() -> list[EntryPoint]:
    """Return where formats of other packages lie, by name."""
    import importlib.metadata  # noqa: PLC0415  it costs 10 ms, and reading a capture does not need it

    return sorted(importlib.metadata.entry_points(group=ENTRY_POINTS), key=lambda p: (p.name, p.value))


@functools.cache
def has_plug_ins() -> bool:
    """Return whether other packages bring formats."""
    return bool(entry_points())
