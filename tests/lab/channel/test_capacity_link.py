"""Capacity traces: Mahimahi's format and rules, against a reckoning that goes through every opportunity."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import FormatError, InputError, LocalProtocolError
from multitracer.lab.channel.capacity import CapacityConfig, CapacityLink, Opportunities, TracedConfig
from multitracer.lab.channel.links import link_of
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.lab.channel.shared.scheduler import ScriptEvent
from multitracer.protocols.capacity_trace import CapacityTrace, parse_capacity_trace
from multitracer.protocols.link_events import PacketDropped, PieceSent
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.lab.channel.over import number_of, packet
from tests.narrowed import of_kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Arrivals = list[tuple[int, int]]
"""(time in ms, octets) of each packet, in order."""


def reckoned(trace: Sequence[int], arrivals: Arrivals, *, queue: QueueConfig, until: int) -> Arrivals:
    """Return (ms, number) of each packet that leaves in `until` opportunities, one opportunity after another.

    Octets are counted one packet at a time in a list; nothing of the link's code is used.
    """
    waiting: deque[tuple[int, int]] = deque()
    coming = deque(enumerate(arrivals))
    out: Arrivals = []
    on_air: list[int] | None = None
    for number in range(until):
        at = number // len(trace) * trace[-1] + trace[number % len(trace)]
        while coming and coming[0][1][0] < at:  # what comes at the same ms is too late
            name, (_, octets) = coming.popleft()
            held = sum(size for _, size in waiting) if queue.limit_bytes else 0
            if len(waiting) < queue.limit_packets and held + octets <= (queue.limit_bytes or 1500):
                waiting.append((name, octets))
        octets_left = 1504
        while octets_left > 0:
            if on_air is None:
                if not waiting:
                    break
                name, octets = waiting.popleft()
                on_air = [name, octets + 4]
            part = min(octets_left, on_air[1])
            octets_left -= part
            on_air[1] -= part
            if on_air[1] == 0:
                out.append((at, on_air[0]))
                on_air = None
    return out


def driven(trace: Sequence[int], arrivals: Arrivals, *, queue: QueueConfig, until_ms: int) -> Arrivals:
    """Return the same of our link, without its delay."""
    config = CapacityConfig(queue=queue, delay_ns=0, up=TracedConfig(trace=CapacityTrace(trace)))
    link = link_of(config, seed=1)
    for number, (at_ms, octets) in enumerate(arrivals):
        link.advance(at_ms * NS_PER_MS)
        head = bytes(4) + number.to_bytes(2) + bytes(14)
        link.send("mobile", b"E" + head[1:] + bytes(octets - len(head)), now_ns=at_ms * NS_PER_MS)
    link.advance(until_ms * NS_PER_MS)
    return [(e.time_ns // NS_PER_MS, e.ip_id or 0) for e in of_kind(PieceSent, link.events("mobile"))]


def bursty(luck: Random, opportunities: int) -> list[int]:
    """Return a trace with runs in one ms, pauses and a stamp of 0."""
    stamps, at = [], 0
    for _ in range(opportunities):
        stamps.append(at)
        at += luck.choice((0, 0, 1, 1, 2, 5, luck.randrange(300) if luck.random() < 0.02 else 1))
    return [*stamps, at + 1]


@pytest.mark.slow
@pytest.mark.parametrize("queue", [QueueConfig(limit_packets=20), QueueConfig(limit_packets=1_000, limit_bytes=9_000)])
def test_a_hundred_thousand_opportunities_deliver_what_an_independent_reckoning_says(queue: QueueConfig) -> None:
    luck = Random(7)
    trace = bursty(luck, 9_999)
    assert len(trace) == 10_000
    until_ms = 10 * trace[-1]
    arrivals: Arrivals = []
    at = 0
    while len(arrivals) < 65_000 and at < until_ms:
        at += luck.choice((0, 0, 1, 1, 2, 3, luck.randrange(500) if luck.random() < 0.01 else 1))
        arrivals.append((at, luck.choice((28, 40, 576, 1472, 1500, luck.randrange(28, 1501)))))
    expected = reckoned(trace, arrivals, queue=queue, until=100_000)
    ours = driven(trace, arrivals, queue=queue, until_ms=until_ms)
    assert len(expected) > 30_000
    assert len(expected) < len(arrivals)  # some found a full queue
    assert ours == expected


@given(stamps=st.lists(st.integers(0, 10**9), min_size=1, max_size=200).map(sorted))
def test_a_trace_survives_its_text(stamps: list[int]) -> None:
    stamps[-1] += 1
    text = "".join(f"{stamp}\n" for stamp in stamps)
    trace = parse_capacity_trace(text, path="x")
    assert trace == CapacityTrace(stamps)
    assert trace.text() == text
    assert (len(trace), trace.lasts_ms) == (len(stamps), stamps[-1])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no delivery opportunity"),
        ("\n", ":1: expected a whole number of ms"),
        ("1\n\n2\n", ":2: expected a whole number of ms"),
        ("1\n-2\n", ":2: expected a whole number of ms"),
        ("1.5\n", ":1: expected a whole number of ms"),
        ("# multitracer error-trace 1\n", ":1: expected a whole number of ms"),
        ("1\n5\n4\n", ":3: the time decreases from 5 to 4 ms"),
        ("0\n0\n", "lasts 0 ms"),
        ("9" * 5000, ":1: expected a whole number of ms"),
        ("٣\n", ":1: expected a whole number of ms"),
    ],
)
def test_a_wrong_trace_is_one_sentence_with_file_and_line(text: str, says: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_capacity_trace(text, path="drive.up")
    message = str(refused.value)
    assert message.startswith("drive.up")
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize("stamps", [[], [3, 2], [0], [-1, 4], [1 << 43]])
def test_stamps_that_are_no_trace_are_refused(stamps: Iterable[int]) -> None:
    with pytest.raises(InputError, match="capacity trace"):
        CapacityTrace(stamps)


def test_a_stamp_of_zero_falls_on_the_end_of_the_round_before() -> None:
    again = Opportunities(CapacityTrace([0, 0, 4, 10]), repeats=True)
    assert again.after(0) == (4 * NS_PER_MS, 1)
    assert again.after(4 * NS_PER_MS) == (10 * NS_PER_MS, 3)
    assert again.after(10 * NS_PER_MS) == (14 * NS_PER_MS, 1)
    once = Opportunities(CapacityTrace([0, 0, 4, 10]), repeats=False)
    assert once.after(9_999_999) == (10 * NS_PER_MS, 1)
    assert once.after(10 * NS_PER_MS) is None


def test_a_million_opportunities_in_a_millisecond_and_hours_without_one_cost_nothing() -> None:
    trace = CapacityTrace([5] * 3_000_000 + [4 * 3_600_000])
    config = CapacityConfig(up=TracedConfig(trace=trace), queue=QueueConfig(limit_packets=10))
    link = CapacityLink(config)
    for number in range(10):
        assert link.send("mobile", packet(number, 1500), now_ns=0)
    assert [number_of(each.packet) for each in link.advance(NS_PER_S)] == list(range(10))
    link.send("mobile", packet(10, 1500), now_ns=NS_PER_S)
    times = []
    while (due_ns := link.next_ns) is not None:
        times.append(due_ns)
        link.advance(due_ns)
    opportunity_ns = 4 * 3_600 * NS_PER_S
    assert times == [opportunity_ns, opportunity_ns + config.delay_ns]
    assert link.is_drained


def test_a_link_without_repetition_ends_with_its_trace_and_says_so() -> None:
    config = CapacityConfig(
        at_end="stop", down=TracedConfig(trace=CapacityTrace([10, 20])), queue=QueueConfig(limit_packets=5)
    )
    link = CapacityLink(config)
    for number in range(4):
        link.send("fixed", packet(number, 1500), now_ns=0)
    link.send("mobile", packet(9), now_ns=0)
    arrived = link.advance(NS_PER_S)
    assert [(each.host, number_of(each.packet)) for each in arrived] == [("fixed", 9), ("mobile", 0), ("mobile", 1)]
    assert link.is_dropped
    assert not link.is_up
    assert link.reading(NS_PER_S).state == "dropped"
    assert not link.send("fixed", packet(5), now_ns=NS_PER_S)
    assert [event.cause for event in of_kind(PacketDropped, link.events("fixed"))] == ["closed"]


def test_the_queue_is_a_routers_whose_drops_no_host_hears_of() -> None:
    config = CapacityConfig(queue=QueueConfig(limit_packets=2), up=TracedConfig(trace=CapacityTrace([1000])))
    link = CapacityLink(config, script=[ScriptEvent(kind="drop", at_s=0)])
    assert all(link.send("mobile", packet(number), now_ns=number) for number in range(5))
    causes = [event.cause for event in of_kind(PacketDropped, link.events("mobile"))]
    assert causes == ["script", "full", "full"]
    told = replace(config, queue=QueueConfig(limit_packets=2, local_drops="told"))
    loud = CapacityLink(told)
    assert [loud.send("mobile", packet(number), now_ns=number) for number in range(3)] == [True, True, False]


def test_parameters_out_of_range_are_refused() -> None:
    for wrong in ({"delay_ns": -1}, {"delay_ns": 61 * NS_PER_S}, {"overhead_bytes": -4}):
        with pytest.raises(LocalProtocolError, match="capacity link"):
            CapacityConfig(**wrong)  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="limit_bytes"):
        QueueConfig(limit_bytes=-1)
    with pytest.raises(LocalProtocolError, match="only the events drop"):
        CapacityLink(CapacityConfig(), script=[ScriptEvent(kind="blackout", at_s=0, duration_s=1)])
