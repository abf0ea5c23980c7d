"""The native kernel and Python count the same of the same segments, connection by connection."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer import native
from multitracer.analysis import analyse
from multitracer.analysis.segments import compiled
from multitracer.tables import NOT_A_TIME
from tests.analysis.test_engine_equals_oracle import exchanges, transfers
from tests.analysis.test_scale import CAPTURES
from tests.analysis.traffic import MS, START_NS, Segment, capture, handshake
from tests.native.both import analyse_by_both

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.capture import CaptureTables
    from multitracer.tables import Array

pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")


def timed(segments: list[Segment], seed: int) -> list[Segment]:
    """Return the segments at other times, with stamps, options and marks, as `seed` has it."""
    rng = random.Random(seed)
    now_ns, spread = START_NS, rng.choice((1, 5, 300))
    out = []
    for segment in segments:
        now_ns += rng.choice((0, 1, 1000, MS, 7 * MS, 100 * MS, -MS))
        stamp = (now_ns // MS, now_ns // MS - spread) if rng.random() < 0.9 else None
        options = {"mss": 1460, "scale": rng.choice((-1, 0, 7, 15))} if rng.random() < 0.7 else {}
        marks = rng.choice((0, 0, 0, 0, 2, 4, 0x40))
        out.append(replace(segment, time_ns=now_ns, stamp=stamp, options=options, marks=marks))
    return out


@given(exchanges(), st.integers(0, 2**32))
def test_any_sequence_of_segments(segments: list[Segment], seed: int) -> None:
    analyse_by_both(capture(timed(segments, seed)))


@given(transfers(), st.integers(0, 2**32))
def test_a_plausible_transfer(segments: list[Segment], seed: int) -> None:
    analyse_by_both(capture(timed(segments, seed)))


@given(st.data(), st.integers(0, 2**32))
def test_many_connections(data: st.DataObject, seed: int) -> None:
    parts = [data.draw(exchanges(pair=pair, longest=8)) for pair in range(data.draw(st.integers(1, 5)))]
    order = data.draw(st.permutations([p for p, part in enumerate(parts) for _ in part]))
    remaining = [iter(part) for part in parts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "_AT_ONCE", data.draw(st.integers(1, 4)))
        analyse_by_both(capture(timed([next(remaining[p]) for p in order], seed)))


@pytest.mark.parametrize("made", CAPTURES)
def test_captures_made_to_be_slow(made: Callable[[int], CaptureTables]) -> None:
    analyse_by_both(made(40_000))


def long_transfer(seed: int, count: int) -> list[Segment]:
    """Return a transfer with losses, several windows long; without its handshake if the seed is odd."""
    rng = random.Random(seed)
    out = [] if seed % 2 else handshake(client=2**32 - 5000, server=9)
    sent = acked = 2**32 - 4999
    lost: list[int] = []
    for number in range(count):
        kind = rng.random()
        if kind < 0.55:
            if rng.random() < 0.02:
                lost.append(sent)
            else:
                out.append(Segment(0, sent, 1000, ack=10, ip_id=number % 65536, window=700))
            sent += 1000
        elif kind < 0.6 and lost:
            out.append(Segment(0, lost.pop(0), 1000, ack=10, ip_id=number % 65536, window=700))
        else:
            acked = max(acked, min(lost, default=sent))
            out.append(Segment(1, 10, ack=acked, ip_id=number % 65536, window=rng.choice((400, 400, 500))))
    return out


@pytest.mark.parametrize("seed", range(6))
def test_long_transfers_with_losses(seed: int) -> None:
    segments = long_transfer(seed, 3_000)
    if seed > 3:
        segments = timed(segments, seed)
    directions = analyse_by_both(capture(segments)).directions
    assert directions["retransmitted_segments"].sum() + directions["out_of_order"].sum() > 20
    assert directions["rtt_count"].max() > 100


def test_what_is_left_to_python_stands_beside_the_rest() -> None:
    plain = handshake()
    untimed = [replace(each, pair=1, time_ns=NOT_A_TIME) for each in handshake()]
    again = [replace(each, pair=2) for each in handshake()]
    made = capture([*plain, *untimed, *again])
    made.files[0].without_time = 3
    analysis = analyse_by_both(made)
    assert (analysis.directions["first_ns"] == NOT_A_TIME).tolist() == [False] * 2 + [True] * 2 + [False] * 2
    assert np.count_nonzero(analysis.directions["rtt_count"]) == 4


def test_a_pass_reads_the_segments_of_its_connections_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all segments in each pass, the time was the product of connections and segments."""
    module, rows = native.kernel(), []
    assert module is not None
    counting_pass = module.CountingPass

    class Pass:
        def __init__(self, connections: tuple[int, int]) -> None:
            self._real = counting_pass(connections)
            self.finish = self._real.finish

        def add(self, source: dict[str, Array], options: dict[str, Array], begin: int) -> object:
            rows.append(len(source["seq"]) - begin)
            return self._real.add(source, options, begin)

    monkeypatch.setattr(compiled, "kernel", lambda: SimpleNamespace(CountingPass=Pass))
    monkeypatch.setattr(compiled, "_AT_ONCE", 2)
    made = capture([replace(each, pair=pair) for pair in range(40) for each in handshake()])
    assert len(analyse(made).connections) == 40
    assert sum(rows) == len(made.segments)
