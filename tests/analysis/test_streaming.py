"""Connections of a capture that comes in pieces are those of the capture as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import parsers
from multitracer.analysis import analyse
from multitracer.analysis.streaming import StreamLimits
from multitracer.analysis.streaming.aggregated import RoundTripCounts
from multitracer.analysis.streaming.open_connections import OpenConnections
from multitracer.schemas.tcp import GoodputBy, WindowScaleBy
from multitracer.units import NS_PER_S
from tests.analysis.streams import FOREVER_NS, SEAMS, differences, streamed
from tests.analysis.test_engine_equals_oracle import exchanges
from tests.analysis.traffic import ACK, FIN, MS, RST, START_NS, SYN, Segment, capture
from tests.examples import examples

SAMPLES = Path(__file__).parents[2] / "sample_traces"
CAPTURES = sorted(path for path in SAMPLES.rglob("*.pcap*") if not path.name.startswith("rlp."))


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: str(path.relative_to(SAMPLES)))
def test_bundled_capture_in_pieces(path: Path) -> None:
    complete = parsers.read_capture([path])
    assert not differences(complete, 499, SEAMS)


def transfer(seed: int, *, turns: int = 150) -> list[Segment]:
    """Return two-way transfers with loss, reordering, repeated ACKs, closed windows and used ports."""
    random = np.random.default_rng(seed)
    lines = [_connection(random, pair, turns) for pair in (0, 1, 2, 1)]
    segments: list[Segment] = []
    for line in (lines[:3], lines[3:]):
        queues = [list(reversed(each)) for each in line]
        while any(queues):
            queue = queues[int(random.choice([i for i, each in enumerate(queues) if each]))]
            segments += [queue.pop() for _ in range(min(len(queue), 3))]
    return segments


def _connection(random: np.random.Generator, pair: int, turns: int) -> list[Segment]:
    """Return one connection; some begin before the capture, some wrap around 2^32 more than once."""
    size = int(random.choice([1, 1000, 1_460, 40_000_000]))
    isn = [int(random.integers(2**32)) for _ in range(2)]
    turn = int(random.integers(2))
    lines: list[Segment] = []

    def send(side: int, seq: int, ack: int, payload: int = 0, flags: int = ACK, window: int = 1000) -> None:
        identity = 1 + len(lines) % 60_000
        lines.append(Segment(side ^ turn, isn[side] + seq, payload, flags, isn[1 - side] + ack, window, identity, pair))

    if random.random() < 0.7:
        lines.append(Segment(turn, isn[0], flags=SYN, pair=pair, options={"mss_bytes": 1460, "window_scale": 7}))
        send(1, 0, 1, flags=SYN | ACK)
        send(0, 1, 1)
    sent = acknowledged = 1
    for _ in range(turns):
        for _ in range(int(random.integers(1, 4))):
            if random.random() > 0.05:  # else the capture or the path lost it
                send(0, sent, 1, size)
            sent += size
        if random.random() < 0.1:
            send(0, max(1, sent - size * int(random.integers(1, 5))), 1, size)  # again, or a hole filled
        if random.random() < 0.7:
            acknowledged = max(acknowledged, sent - size * int(random.integers(0, 3)))
        window = 0 if random.random() < 0.03 else 1000
        for _ in range(int(random.integers(1, 5))):
            send(1, 1, acknowledged, window=window)
    if random.random() < 0.6:
        send(0, sent, 1, flags=FIN | ACK)
        send(1, 1, sent + 1, flags=FIN | ACK)
        send(0, sent + 1, 2)
    return lines


@pytest.mark.parametrize("rows", [37, 250])
@pytest.mark.parametrize("seed", range(2))
def test_transfers_with_seams_everywhere(seed: int, rows: int) -> None:
    assert not differences(capture(transfer(seed)), rows, SEAMS)


@pytest.mark.slow
@given(exchanges(longest=50))
@examples(60)
def test_hostile_segments_in_pieces_are_all_counted_once(segments: list[Segment]) -> None:
    limits = StreamLimits(rows=0, own_rows=6, closed_rows=6, context_rows=6, closed_ns=FOREVER_NS)
    connections, directions, _ = streamed(capture(segments), 11, limits)
    assert connections["connection"].tolist() == list(range(1, len(connections) + 1))
    assert directions["packets"].sum() == len(segments)


def test_memory_is_that_of_open_connections() -> None:
    held, stream = [], OpenConnections(StreamLimits(rows=100))
    for number in range(40):
        stream.take_in(capture([_download(i + 100 * number) for i in range(100)]))
        held.append(len(stream))
    assert max(held) <= 200


def _download(turn: int) -> Segment:
    """Return segments of a download without end, every second one an ACK."""
    seq = 1000 * (turn // 2)
    when = START_NS + turn * MS
    return Segment(1, 1, ack=seq, time_ns=when) if turn % 2 else Segment(0, seq, 1000, ack=1, time_ns=when)


def _request(pair: int, at_s: float, *, flags: int = FIN | ACK) -> list[Segment]:
    begin_ns = START_NS + round(at_s * NS_PER_S)
    steps = [(0, 0, SYN, 0), (1, 0, SYN | ACK, 1), (0, 1, ACK, 1), (0, 1, flags, 1), (1, 1, flags, 2)]
    return [
        Segment(side, seq, flags=flag, ack=ack, pair=pair, time_ns=begin_ns + i)
        for i, (side, seq, flag, ack) in enumerate(steps)
    ]


@pytest.mark.parametrize(
    ("flags", "after_s", "left"),
    [
        (FIN | ACK, 230, 0), (FIN | ACK, 250, 1), (RST, 230, 0), (RST, 250, 1), (ACK, 7_000, 0),
        (ACK, 7_500, 1),
    ],
)  # fmt: skip
def test_a_connection_leaves_when_it_is_closed_or_idle_for_long(flags: int, after_s: int, left: int) -> None:
    stream = OpenConnections()
    assert not len(stream.take_in(capture(_request(0, 0, flags=flags))).connections)
    later = capture([*_request(0, 0), *_request(1, after_s), *_request(1, after_s)])
    chosen = later.segments["flow"] >> 1 == 1
    assert len(stream.take_in(later.where(chosen)).connections) == left


def test_the_earlier_of_two_connections_between_the_same_ends_leaves_at_once() -> None:
    stream, again = OpenConnections(), [Segment(0, 5000, flags=SYN, time_ns=START_NS + MS)]
    ended = stream.take_in(capture([*_request(0, 0), *again]))
    assert ended.connections["connection"].tolist() == [1]
    assert stream.end().connections["connection"].tolist() == [2]


def test_a_wrong_stamp_makes_nobody_leave() -> None:
    lines = [*_request(0, 0), *_request(1, 86_400)[:1], *_request(2, 0.1)]
    stream = OpenConnections()
    assert not len(stream.take_in(capture(lines)).connections)
    assert len(stream.end().connections) == 3


def test_round_trip_counts_are_exact_until_there_are_too_many() -> None:
    random = np.random.default_rng(1)
    counts, values = RoundTripCounts(), random.integers(10_000_000, 10_002_000, 5_000)
    for chunk in np.split(values, 10):
        counts.add(chunk)
    assert not counts.is_rounded
    assert counts.quantile(0.95) == np.quantile(values, 0.95)
    counts.add(more := random.integers(1_000_000, 1_000_000_000, 50_000))
    both = np.concatenate([values, more])
    assert len(counts.value) < 10_000
    assert (counts.min_ns, counts.most_ns, counts.sum_ns) == (both.min(), both.max(), both.sum())
    for share in (0.5, 0.95):
        assert counts.quantile(share) == pytest.approx(np.quantile(both, share), rel=1 / 2048)


def test_a_long_connection_without_syn_has_the_window_scale_of_its_beginning() -> None:
    lines = [_download(turn) for turn in range(400)]
    complete = analyse(capture(lines)).directions["window_shift_by"]
    _, directions, _ = streamed(capture(lines), 100, StreamLimits(rows=0, closed_ns=FOREVER_NS))
    assert complete[0] == directions["window_shift_by"][0]
    assert WindowScaleBy.SENT in directions["window_shift_by"].tolist()
    assert GoodputBy.ACKNOWLEDGED in directions["goodput_by"].tolist()
