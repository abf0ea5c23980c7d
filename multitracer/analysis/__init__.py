"""From tables of segments to what TCP did; table in, table out, no I/O.

Read `kind.py` first (what can be said of a segment), then `tcp.py` (the entry), then `kernel.py` (the steps).
What each number means, and where it differs from other tools, is in docs/analysis.md and docs/differences.md.
"""

from multitracer.analysis.kind import Kind
from multitracer.analysis.tcp import Analysis, analyse

__all__ = ["Analysis", "Kind", "analyse"]
