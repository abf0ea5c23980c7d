"""Interface queues: order, conservation, drop-tail, and CoDel by its document."""

from __future__ import annotations

import itertools
from math import sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.gsm import Drain
from multitracer.lab.channel.shared.queue import CoDel, DropTail, PacketQueue, Policy, QueueConfig
from multitracer.lab.tcp.packet import Ecn, Segment, TcpPacket, build_packet, parse_packet
from multitracer.units import NS_PER_MS, NS_PER_S

SERVICE_NS = 10 * NS_PER_MS
TARGET_NS, INTERVAL_NS = 20 * NS_PER_MS, 100 * NS_PER_MS


def packet(number: int, *, ecn: int = Ecn.NOT_ECT) -> bytes:
    segment = Segment(1, 2, number, 0, 16, 0, bytes(100))
    return build_packet(TcpPacket(bytes(4), bytes(4), segment, identification=number & 0xFFFF, ecn=ecn))


def codel(*, ecn: bool = False) -> CoDel:
    return CoDel(
        QueueConfig(limit_packets=1_000, policy="codel", ecn=ecn, target_ns=TARGET_NS, interval_ns=INTERVAL_NS)
    )


def overloaded(queue: PacketQueue, *, seconds: float, ecn: int = Ecn.NOT_ECT) -> tuple[list[bytes], list[int]]:
    """Serve a packet each 10 ms while three arrive in 20 ms; return what came out and when drops happened."""
    out, incidents, number = [], [], 0
    for tick in range(int(seconds * NS_PER_S / SERVICE_NS)):
        now_ns = tick * SERVICE_NS
        for _ in range(1 + tick % 2):
            queue.offer(packet(number, ecn=ecn), now_ns=now_ns)
            number += 1
        taken = queue.take(now_ns=now_ns)
        out += [taken] if taken is not None else []
        incidents += [now_ns] * len(queue.incidents())
    return out, incidents


@given(st.lists(st.booleans(), max_size=200), st.integers(1, 12), st.sampled_from(["drop-tail", "codel"]))
def test_every_packet_comes_out_in_order_or_is_reported(arrivals: list[bool], limit: int, policy: Policy) -> None:
    config = QueueConfig(limit_packets=limit, policy=policy, target_ns=TARGET_NS, interval_ns=INTERVAL_NS)
    queue = CoDel(config) if policy == "codel" else DropTail(config)
    sent: list[bytes] = []
    out: list[bytes] = []
    dropped: list[bytes] = []
    for step, arrives in enumerate(arrivals):
        if arrives:
            sent.append(packet(len(sent)))
            assert queue.offer(sent[-1], now_ns=step * SERVICE_NS) or len(queue) == limit
        elif (taken := queue.take(now_ns=step * SERVICE_NS)) is not None:
            out.append(taken)
        dropped += [incident.packet for incident in queue.incidents()]
        assert len(queue) <= limit
        assert len(sent) == len(out) + len(dropped) + len(queue)
    assert out == [p for p in sent if p in out]
    assert not set(out) & set(dropped)


def test_drop_tail_refuses_what_finds_it_full() -> None:
    queue = DropTail(QueueConfig(limit_packets=2))
    assert [queue.offer(packet(n), now_ns=0) for n in range(3)] == [True, True, False]
    (incident,) = queue.incidents()
    assert (incident.kind, incident.packet, incident.cause) == ("dropped", packet(2), "full")
    assert queue.queued_bytes == 2 * len(packet(0))


def test_codel_lets_a_short_burst_pass() -> None:
    queue = codel()
    for number in range(9):
        queue.offer(packet(number), now_ns=0)
    out = [queue.take(now_ns=tick * SERVICE_NS) for tick in range(10)]
    assert out == [*(packet(number) for number in range(9)), None]
    assert queue.incidents() == []


def test_codel_drops_after_an_interval_and_then_by_the_control_law() -> None:
    _, drops = overloaded(codel(), seconds=1.5)
    gaps = [later - earlier for earlier, later in itertools.pairwise(drops)]
    assert INTERVAL_NS <= drops[0] <= 3 * INTERVAL_NS
    for count, gap in enumerate(gaps[:6], start=1):
        assert gap == pytest.approx(INTERVAL_NS / sqrt(count), abs=SERVICE_NS)


def test_codel_never_drops_the_last_packet() -> None:
    queue = codel()
    for number in range(20):  # each waits far longer than the target, alone
        queue.offer(packet(number), now_ns=number * NS_PER_S)
        assert queue.take(now_ns=number * NS_PER_S + 900 * NS_PER_MS) == packet(number)


def test_codel_marks_what_may_be_marked_and_drops_nothing() -> None:
    queue = codel(ecn=True)
    out, incidents = overloaded(queue, seconds=1.5, ecn=Ecn.ECT_0)
    marked = [data for data in out if parse_packet(data).ecn == Ecn.CE]
    assert len(marked) == len(incidents) > 3
    assert len(out) == 150


def test_codel_drops_what_may_not_be_marked() -> None:
    out, drops = overloaded(codel(ecn=True), seconds=1.5)
    assert len(drops) > 3
    assert all(parse_packet(data).ecn == Ecn.NOT_ECT for data in out)


@pytest.mark.parametrize("wrong", [{"limit_packets": 0}, {"target_ns": 0}, {"target_ns": 2, "interval_ns": 1}])
def test_a_queue_that_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        QueueConfig(**wrong)


def test_a_drain_keeps_its_rate_exactly() -> None:
    drain = Drain(bytes_per_s=960, slot_ns=20 * NS_PER_MS)
    taken = []
    for _ in range(500):
        allowed = drain.allowance()
        drain.spend(allowed)
        taken.append(allowed)
    assert sum(taken) == 9_600
    assert set(taken) == {19, 20}


def test_a_drain_saves_nothing_up() -> None:
    drain = Drain(bytes_per_s=960, slot_ns=20 * NS_PER_MS)
    for _ in range(100):
        drain.allowance()
        drain.spend(0)
    assert drain.allowance() <= 20
