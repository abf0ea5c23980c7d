"""MultiTracer: recording and analysis of TCP connections at all layers, with one clock.

`multitracer.open(path)` reads a capture or a session folder; see `multitracer.Session`. Readers of the code
begin with `multitracer/tables.py`, because packages exchange tables. Plug-ins with their own formats or
collectors use `multitracer.plugins`.
"""

from __future__ import annotations

import importlib
import warnings

__version__ = "0.2.0"

_ENUMS = {
    "Close": "multitracer.schemas.tcp",
    "Flag": "multitracer.captured",
    "GoodputBy": "multitracer.schemas.tcp",
    "HandoverKind": "multitracer.schemas.signalling",
    "Initiator": "multitracer.schemas.tcp",
    "Limit": "multitracer.diagnosis.limits.names",
    "RadioCause": "multitracer.diagnosis.limits.names",
    "ReadBy": "multitracer.protocols.sock_diag",
    "RoundTrips": "multitracer.schemas.tcp",
    "SegmentKind": "multitracer.analysis.group",
    "TcpCaState": "multitracer.protocols.sock_diag",
    "TcpEvent": "multitracer.protocols.sock_diag",
    "TcpPhase": "multitracer.analysis.sender_state",
    "TcpState": "multitracer.protocols.sock_diag",
    "Vantage": "multitracer.schemas.tcp",
    "WindowScaleBy": "multitracer.schemas.tcp",
}
"""The enumerations of the codes and words in columns, and their modules."""
_LAZY = _ENUMS | {
    "MultiTracerDeprecationWarning": "multitracer.errors",
    "MultiTracerError": "multitracer.errors",
    "Session": "multitracer.api.session",
    "columns": "multitracer.api.frames",
    "compare": "multitracer.api.campaign",
    "correlate": "multitracer.api.correlate",
    "epochs": "multitracer.api.events",
    "join_nearest": "multitracer.api.events",
    "open": "multitracer.api.session",
    "open_campaign": "multitracer.api.campaign",
}
"""Public names and their modules; a module is imported when its name is first used."""

_RENAMED = {
    "Notebook": "multitracer.api.session.Session",
    "channel": "multitracer.lab.received_power.received_power",
    "received_power": "multitracer.lab.received_power.received_power",
}
"""Deprecated names of versions before 0.2, and their replacements; they are removed in 0.3."""

__all__ = [
    "Close",
    "Flag",
    "GoodputBy",
    "HandoverKind",
    "Initiator",
    "Limit",
    "MultiTracerDeprecationWarning",
    "MultiTracerError",
    "RadioCause",
    "ReadBy",
    "RoundTrips",
    "SegmentKind",
    "Session",
    "TcpCaState",
    "TcpEvent",
    "TcpPhase",
    "TcpState",
    "Vantage",
    "WindowScaleBy",
    "__version__",
    "columns",
    "compare",
    "correlate",
    "epochs",
    "join_nearest",
    "open",
    "open_campaign",
]


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        new = _RENAMED[name]
        module, _, attribute = new.rpartition(".")
        public = f"multitracer.{attribute}" if attribute in _LAZY else new
        category = importlib.import_module("multitracer.errors").MultiTracerDeprecationWarning
        warnings.warn(f"multitracer.{name} is now {public}, and goes in version 0.3", category, stacklevel=2)
        return getattr(importlib.import_module(module), attribute)
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
