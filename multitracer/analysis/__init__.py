"""From tables of segments to what TCP did; table in, table out, no I/O.

Read `kind.py` first (what can be said of a segment), then `tcp.py` (the entry), then
`segments/examination.py` (the steps). What each number means is in docs/analysis.md, and where it differs
from other tools in docs/differences.md.
"""

from multitracer.analysis.kind import Kind
from multitracer.analysis.tcp import Analysis, analyse

__all__ = ["Analysis", "Kind", "analyse"]
