"""What a segment is does not depend on whether its connection is looked at alone or among all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import parsers
from multitracer.analysis import analyse, group
from multitracer.analysis.segments.segment_rows import outline
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

CAPTURES = sorted(path for path in SAMPLES.rglob("tcp*.pcap*") if path.is_file())


@pytest.mark.parametrize("rows", [1, 5_000, group.GROUP_ROWS])
@pytest.mark.parametrize("path", CAPTURES[:12], ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_outline_is_that_of_each_connection(path: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "GROUP_ROWS", rows)
    capture = parsers.read_capture([str(path)])
    analysis = analyse(capture)
    found = outline(capture, analysis.partition)
    for number in range(1, len(analysis.connections) + 1):
        own = analysis.partition.rows_of(number - 1)
        segments = analysis.tcp_segments(number)
        for name, values in found.items():
            assert np.array_equal(values[own], segments[name]), name


def test_columns_of_the_only_connection_are_those_of_the_capture_and_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = str(SAMPLES / "typical-1450k" / "mobile" / "tcp-0.pcap.xz")
    copied = analyse(parsers.read_capture([path])).tcp_segments(1)
    monkeypatch.setattr("multitracer.analysis.segments.segment_rows._MANY", 1)
    capture = parsers.read_capture([path])
    shared = analyse(capture).tcp_segments(1)
    assert np.shares_memory(shared["seq"], capture.segments["seq"])
    with pytest.raises(ValueError, match="read-only"):
        shared["seq"][0] = 0
    assert all(shared[name].tobytes() == copied[name].tobytes() for name in copied.columns)
