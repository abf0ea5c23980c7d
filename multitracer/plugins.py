"""The API for packages that extend MultiTracer: formats, collectors, tables and errors.

A package registers a log format in the entry-point group `multitracer.formats`, and a collector in
`multitracer.collectors`; docs/formats.md and docs/collectors.md have complete examples, and
`multitracer formats --new NAME` writes a package. The names of this module are stable, like those of `multitracer`.
"""

from __future__ import annotations

from collectors import Collector, Log, Stop, header, parser, ready, run
from multitracer.errors import CollectorError, FormatError, InputError, MultiTracerError, PluginError, PreflightError
from multitracer.schemas.radio import POSITION, RADIO
from multitracer.tables import NA, NOT_A_TIME, Column, Schema, Table
from parsers import HEAD_BYTES, Format, Match, formats, read
from parsers._text.lines import LogLines
from parsers._text.times import Rows, decimal_ns

__all__ = [
    "HEAD_BYTES",
    "NA",
    "NOT_A_TIME",
    "POSITION",
    "RADIO",
    "Collector",
    "CollectorError",
    "Column",
    "Format",
    "FormatError",
    "InputError",
    "Log",
    "LogLines",
    "Match",
    "MultiTracerError",
    "PluginError",
    "PreflightError",
    "Rows",
    "Schema",
    "Stop",
    "Table",
    "decimal_ns",
    "formats",
    "header",
    "parser",
    "read",
    "ready",
    "run",
]
