"""MultiTracer: capture what happens to a TCP connection at every layer, on one clock.

`multitracer.open(path)` reads a capture or a session folder; see `multitracer.notebook`. To read the code,
begin with `multitracer/tables.py`: every room hands tables to the next one.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

_LAZY = {"open": "multitracer.notebook", "Notebook": "multitracer.notebook"}
"""Public names and where they live; what they need is imported when the first of them is asked for."""

__all__ = ["Notebook", "__version__", "open"]


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
