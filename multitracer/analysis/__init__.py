"""What TCP did, computed from tables of segments: tables in, tables out, no I/O.

A `Capture` (tables `segments` and `flows`) comes in, in the order of the capture. Out come a row for each
connection and two directions (`Analysis`), a row for each segment with its class, round-trip times, verdicts
on retransmissions, phases of the sender, and how far the capture can be trusted.

Read `kind.py` first (what can be said of a segment), then `tcp.py` (the entry), then
`segments/examination.py` (the steps). Sequence numbers are unwrapped to int64 on one axis for all connections
(`segments/axis.py`), so each step runs once for all of them, as operations on whole arrays; there is no loop
over segments.

What must hold: the result is that of the plain rules in tests/analysis/oracle.py, whatever the segments are;
time and memory grow in proportion to the number of segments. Times are int64 ns of the capture's clock, a
missing value is NA. docs/analysis.md has each rule, docs/differences.md where other tools count otherwise.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multitracer.analysis.kind import SegmentKind
    from multitracer.analysis.tcp import Analysis, analyse

__all__ = ["Analysis", "SegmentKind", "analyse"]

_LAZY = {"Analysis": "tcp", "SegmentKind": "kind", "analyse": "tcp"}
"""Names of this room and where they live: what only weighs numbers needs no arrays."""


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(f"multitracer.analysis.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
