"""MultiTracer: capture what happens to a TCP connection at every layer, on one clock.

`multitracer.open(path)` reads a capture or a session folder; see `multitracer.Session`. To read the code,
begin with `multitracer/tables.py`: every room hands tables to the next one. Packages that bring formats or
collectors of their own use `multitracer.plugins`.
"""

from __future__ import annotations

import importlib
import warnings

__version__ = "0.1.0"

_LAZY = {
    "MultiTracerError": "multitracer.errors",
    "Session": "multitracer.api.session",
    "columns": "multitracer.api.columns",
    "compare": "multitracer.api.compare",
    "correlate": "multitracer.api.correlate",
    "epochs": "multitracer.api.events",
    "join_nearest": "multitracer.api.events",
    "open": "multitracer.api.session",
    "open_campaign": "multitracer.api.campaign",
    "received_power": "multitracer.api.received_power",
}
"""Public names and where they live; what they need is imported when the first of them is asked for."""

_RENAMED = {"Notebook": "Session"}
"""Names of before, which go with the next release."""

__all__ = [
    "MultiTracerError",
    "Session",
    "__version__",
    "columns",
    "compare",
    "correlate",
    "epochs",
    "join_nearest",
    "open",
    "open_campaign",
    "received_power",
]


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        new = _RENAMED[name]
        warnings.warn(f"multitracer.{name} is now multitracer.{new}", DeprecationWarning, stacklevel=2)
        return __getattr__(new)
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name == "channel":  # a room that may be called: `received_power` by its short name
        return importlib.import_module("multitracer.channel")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
