"""How much memory a diagnosis takes for each packet: what docs/benchmarks.md says must not creep up."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from multitracer.native import kernel
from tests.benchmarks.growth import write_order
from tests.benchmarks.measure import cost

if TYPE_CHECKING:
    from pathlib import Path

FEW, MANY = 100_000, 400_000
MOST_BYTES = 345
"""A packet more, with the kernel: about 280 B of both orders; 417 and 542 B before columns were made in blocks."""
MOST_BYTES_IN_PYTHON = 450


@pytest.mark.slow
@pytest.mark.parametrize("order", ["one_connection", "all_retransmissions"])
def test_a_packet_more_takes_so_much_memory_at_most(order: str, tmp_path: Path) -> None:
    peaks = []
    for packets in (FEW, MANY):
        capture = tmp_path / f"{packets}.pcap"
        write_order(str(capture), order, packets)
        peaks.append(cost([sys.executable, "-m", "multitracer", "diagnose", str(capture)]).peak_bytes)
    most = MOST_BYTES_IN_PYTHON if kernel() is None else MOST_BYTES
    assert peaks[1] - peaks[0] < most * (MANY - FEW)
