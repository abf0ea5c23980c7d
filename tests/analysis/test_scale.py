"""Cost stays in proportion to the number of segments, in time and in memory, whatever the segments are."""

from __future__ import annotations

import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.analysis import analyse
from multitracer.capture import CaptureTables
from multitracer.captured import SourceFile
from multitracer.tables import FLOWS, SEGMENTS, Table
from tests.analysis.traffic import ACK, SYN

if TYPE_CHECKING:
    from collections.abc import Callable

BYTES_PER_SEGMENT = {"bulk": 120, "holes": 260, "one_big_hole": 290}
"""What the analysis may add to the table that it reads, at its peak."""


def made(flow: Any, seq: Any, payload: Any, *, ack: Any = 0, flags: int = ACK) -> CaptureTables:
    """Return a capture of whole columns."""
    n = len(seq)
    columns = {column.name: np.zeros(n, dtype=column.dtype) for column in SEGMENTS}
    columns |= {
        "time_ns": np.arange(n, dtype=np.int64) * 1000,
        "flow": np.broadcast_to(flow, n).astype(np.int32),
        "seq": seq.astype(np.uint32),
        "ack": np.broadcast_to(ack, n).astype(np.uint32),
        "payload_bytes": np.broadcast_to(payload, n).astype(np.int32),
        "flags": np.full(n, flags, dtype=np.uint16),
    }
    flows = {column.name: np.zeros(int(columns["flow"].max()) // 2 + 1, dtype=column.dtype) for column in FLOWS}
    return CaptureTables([SourceFile("made.pcap", "pcap")], Table(SEGMENTS, columns), Table(FLOWS, flows))


def bulk(n: int) -> CaptureTables:
    """One connection, every tenth segment an ACK, one in fifty sent again."""
    generator = np.random.default_rng(1)
    acks = np.arange(n) % 10 == 9
    sent = np.cumsum(np.where(acks, 0, 1448))
    again = (generator.random(n) < 0.02) & ~acks
    seq = np.where(acks, 0, sent - 1448 - np.where(again, 30 * 1448, 0))
    return made(acks, seq, np.where(acks, 0, 1448), ack=np.where(acks, sent, 0))


def holes(n: int) -> CaptureTables:
    """One connection that leaves a hole after every segment and fills them in random order, halves first."""
    each = n // 4
    order = np.random.default_rng(2).permutation(each)
    seq = np.concatenate([200 * np.arange(each), 200 * order + 100, 200 * order + 150, 200 * order + 120])
    return made(0, seq, np.repeat([100, 50, 50, 60], each)[: len(seq)])


def one_big_hole(n: int) -> CaptureTables:
    """One hole that is cut into ever more pieces."""
    inside = np.random.default_rng(3).permutation(n - 2) * 2 + 10
    return made(0, np.concatenate([[0, 10 + 2 * n], inside]), 1)


def syn_flood(n: int) -> CaptureTables:
    """A connection for each segment."""
    return made(2 * np.arange(n), np.arange(n), 0, flags=SYN)


def one_port_flood(n: int) -> CaptureTables:
    """SYNs on one pair of endpoints, each with another number: as many connections."""
    return made(0, np.arange(n) * 7919, 0, flags=SYN)


def cpu_s(work: Callable[[], Any]) -> float:
    """Return the least CPU time of three runs: other processes may only add to it."""
    took = []
    for _ in range(3):
        begin = time.process_time()
        work()
        took.append(time.process_time() - begin)
    return min(took)


CAPTURES = [bulk, holes, one_big_hole, syn_flood, one_port_flood]


@pytest.mark.parametrize("capture", CAPTURES)
def test_ten_times_the_segments_cost_about_ten_times_the_time(capture: Callable[[int], CaptureTables]) -> None:
    few, many = capture(20_000), capture(200_000)
    assert cpu_s(lambda: analyse(many)) < 25 * cpu_s(lambda: analyse(few)) + 0.05


@pytest.mark.parametrize("capture", [bulk, holes, one_big_hole])
def test_memory_stays_in_proportion(capture: Callable[[int], CaptureTables]) -> None:
    segments = capture(300_000)
    tracemalloc.start()
    analyse(segments)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < BYTES_PER_SEGMENT[capture.__name__] * 300_000


def test_the_flood_is_as_many_connections_as_segments() -> None:
    assert len(analyse(one_port_flood(1000)).connections) == 1000
    assert len(analyse(syn_flood(1000)).connections) == 1000


def test_the_holes_are_all_filled_once() -> None:
    _, row = analyse(holes(4000)).directions.rows()  # who sends all the data is taken for the server
    assert row["missing_bytes"] == 0
    assert row["unique_bytes"] == 200 * 1000
    assert row["retransmitted_bytes"] == 60 * 1000
