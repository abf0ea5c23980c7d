"""TCP analysis of the table of segments. The package takes tables and returns tables; it does no I/O.

The input is a `Capture` (tables `segments` and `flows`) in the order of the capture. The results are a row for each
connection and each of its two directions (`Analysis`), a row for each segment with its class, round-trip times,
verdicts on retransmissions, phases of the sender, and an assessment of how far the capture can be trusted.

Read `SegmentKind` in `group.py` first (the classes of a segment), then `tcp.py` (the entry point), then
`segments/examination.py` (the steps). Sequence numbers are unwrapped to int64 on one axis for all connections
(`segments/axis.py`), so each step runs once for all of them, as operations on complete arrays; there is no
loop over segments.

Two rules hold for every input: the result equals that of the plain rules in tests/analysis/oracle.py, and time and
memory grow in proportion to the number of segments. Times are int64 ns of the capture's clock; a missing value is NA.
docs/analysis.md has each rule, docs/differences.md lists where other tools count differently.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multitracer.analysis.group import SegmentKind
    from multitracer.analysis.tcp import Analysis, analyse

__all__ = ["Analysis", "SegmentKind", "analyse"]

_LAZY = {"Analysis": "tcp", "SegmentKind": "group", "analyse": "tcp"}
"""Public names of the package and the module of each; a module is imported at the first use of its name."""


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(f"multitracer.analysis.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
