"""The native kernel and Python say the same of where segments lie, and of what is outstanding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from multitracer import native
from multitracer.analysis import analyse
from tests.analysis.test_engine_equals_oracle import exchanges
from tests.analysis.traffic import Segment, capture
from tests.native.both import python_only

if TYPE_CHECKING:
    from multitracer.capture import CaptureTables
    from multitracer.tables import Table

pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")


def tables(of: CaptureTables) -> list[Table]:
    analysis = analyse(of)
    numbers = range(1, len(analysis.connections) + 1)
    each = [table for number in numbers for table in (analysis.tcp_segments(number), analysis.sack_blocks(number))]
    complete = [connections.segments() for _, connections in analysis.examined(analysis.connections["connection"] - 1)]
    return each + complete


@given(exchanges())
def test_segments_lie_where_python_says(segments: list[Segment]) -> None:
    of = capture(segments)
    fast = tables(of)
    with python_only():
        slow = tables(of)
    for one, other in zip(fast, slow, strict=True):
        for name in one.columns:
            assert one[name].dtype == other[name].dtype
            assert one[name].tolist() == other[name].tolist(), name
