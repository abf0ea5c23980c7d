"""What packages that extend MultiTracer use: formats, collectors, tables and errors.

A package brings a log format under the entry-point group `multitracer.formats`, a collector under
`multitracer.collectors`; docs/formats.md and docs/collectors.md show one of each, whole. The names of this
module are a promise, as those of `multitracer` are.
"""

from __future__ import annotations

from collectors import Collector, Log, Stop, header, parser, ready, run
from multitracer.errors import (
    CollectorError,
    FormatError,
    InputError,
    MultiTracerError,
    PluginError,
    PreflightError,
)
from multitracer.tables import NA, NOT_A_TIME, Column, Schema, Table
from parsers import HEAD_BYTES, Format, Match, formats, read

__all__ = [
    "HEAD_BYTES",
    "NA",
    "NOT_A_TIME",
    "Collector",
    "CollectorError",
    "Column",
    "Format",
    "FormatError",
    "InputError",
    "Log",
    "Match",
    "MultiTracerError",
    "PluginError",
    "PreflightError",
    "Schema",
    "Stop",
    "Table",
    "formats",
    "header",
    "parser",
    "read",
    "ready",
    "run",
]
