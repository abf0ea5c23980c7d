"""A full send buffer by the kernel's variables: nothing is unsent, windows have room, ACKs wake it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from multitracer.diagnosis.limits.names import Limit, Viewpoint
from multitracer.diagnosis.limits.observed import Answers, DelaySamples, Observed, Sends
from multitracer.diagnosis.limits.partition import RuleEvidence, partition
from multitracer.diagnosis.limits.windows import full_buffer, full_congestion_window
from multitracer.schemas.sender import TCP_STATE
from multitracer.tables import NA, Table
from multitracer.units import NS_PER_MS

MSS = 1448
TURN_NS, TURNS, SEGMENTS = 60 * NS_PER_MS, 12, 20
"""In each turn ten ACKs, a millisecond apart, free the room of twenty segments; forty are still under way."""
WOKEN_NS, READ_NS = NS_PER_MS // 20, 10 * NS_PER_MS


def observed(late_ns: int, *, rest_bytes: int = 0, ack_every_ns: int = TURN_NS, of_cwnd: int = 0) -> Observed:
    """Return a transfer whose program writes so long after the ACK that ends a turn.

    If there is a small rest of what it wrote before, that ACK lets it go, and the peer asks for the next.

    Of `of_cwnd` turns at the end the kernel says that the congestion window is full and more waits.
    """
    ends = (1 + np.arange(TURNS)) * TURN_NS
    sent = np.concatenate([end + late_ns + 1000 * np.arange(SEGMENTS) for end in [0, 0, *ends]])
    sizes = np.full(len(sent), MSS)
    if rest_bytes:
        sent = np.append(sent, ends + WOKEN_NS)
        order = np.argsort(sent, kind="stable")
        sent, sizes = sent[order], np.append(sizes, np.full(TURNS, rest_bytes))[order]
    end_bytes = 1 + np.cumsum(sizes)
    come = np.concatenate([end + NS_PER_MS * np.arange(-9, 1) for end in ends])
    acked = np.minimum(1 + 2 * MSS * (1 + np.arange(len(come))), end_bytes[-1])
    asked = ends + late_ns - WOKEN_NS if rest_bytes else np.empty(0, dtype=np.int64)
    extra = np.union1d(np.setdiff1d(np.arange(0, ends[-1], ack_every_ns), come), asked)
    time = np.concatenate([come, extra])
    order = np.argsort(time, kind="stable")
    acks = np.maximum.accumulate(np.concatenate([acked, np.ones(len(extra), dtype=np.int64)])[order])
    no, none = np.zeros(len(sent), dtype=bool), np.zeros(len(sent), dtype=np.int64)
    nothing = np.zeros(len(acks), dtype=np.int64)
    payload = np.where(np.isin(time[order], asked), 100, 0)
    sends = Sends(
        sent, end_bytes - sizes, end_bytes, no, no, no, none, np.arange(len(sent)), no, none
    )  # fmt: skip
    answers = Answers(
        time[order], acks, acks, acks + 10**9, payload, nothing > 0, np.arange(len(acks)), nothing
    )  # fmt: skip
    empty = np.empty(0, dtype=np.int64)
    return Observed(
        Viewpoint.BOTH_ENDS, 0, int(ends[-1]) + TURN_NS, 0, sends, answers, DelaySamples(empty, empty, empty),
        floor_ns=20 * NS_PER_MS, mss_bytes=MSS, reaction_ns=NS_PER_MS // 2, state=readings(of_cwnd),
    )  # fmt: skip


def readings(of_cwnd: int) -> Table:
    """Return the kernel's variables every 10 ms, of which one is just before each ACK that ends a turn."""
    time = np.arange(NS_PER_MS // 2, (TURNS + 1) * TURN_NS, READ_NS) + 5 * NS_PER_MS
    is_cwnd = time > (TURNS + 1 - of_cwnd) * TURN_NS
    columns = {
        "time_ns": time,
        "notsent_bytes": np.where(is_cwnd, 9 * MSS, 0),
        "cwnd_bytes": np.where(is_cwnd, 40 * MSS, 100 * MSS),
        "send_queue_bytes": np.where(is_cwnd, 49 * MSS, 40 * MSS),
        "sndbuf_limited_ns": np.zeros(len(time), dtype=np.int64),
    }
    others = {each.name: each for each in TCP_STATE.columns if each.name not in columns}
    absent = {name: np.full(len(time), NA).astype(each.dtype) for name, each in others.items()}
    return Table(TCP_STATE, columns | absent)


def test_a_writer_that_waits_for_a_third_of_its_buffer_is_limited_by_it() -> None:
    full = full_buffer(observed(WOKEN_NS))
    assert full.total_ns > 0.9 * (TURNS - 1) * TURN_NS


@pytest.mark.parametrize(("late_ns", "ack_every_ns"), [(25 * NS_PER_MS, TURN_NS), (7 * NS_PER_MS // 10, NS_PER_MS)])
def test_a_program_that_writes_in_its_own_time_is_not(late_ns: int, ack_every_ns: int) -> None:
    """Also where ACKs come so often that one is always near."""
    assert not full_buffer(observed(late_ns, ack_every_ns=ack_every_ns)).total_ns


def test_a_small_rest_that_waits_for_an_ack_is_nagles() -> None:
    full = full_buffer(observed(25 * NS_PER_MS, rest_bytes=300))
    assert full.total_ns <= TURNS * READ_NS, "between two readings it looks the same"


def test_a_full_congestion_window_between_is_not_the_buffers() -> None:
    seen = observed(WOKEN_NS, of_cwnd=5)
    full, cwnd = full_buffer(seen), full_congestion_window(seen)
    assert cwnd.total_ns > 4 * TURN_NS
    assert not full.overlap_ns(cwnd.begin, cwnd.end).any()
    assert full.total_ns > 0.8 * (TURNS - 6) * TURN_NS


def test_a_full_buffer_is_sure_only_if_the_kernel_counted_it() -> None:
    """By the rhythm of the ACKs alone a program that writes when ACKs come looks the same."""
    for counted_ns, is_possible in ((0, True), (TURNS * TURN_NS // 2, False)):
        seen = observed(WOKEN_NS)
        assert seen.state is not None
        grows = np.linspace(0, counted_ns, len(seen.state)).astype(seen.state["sndbuf_limited_ns"].dtype)
        columns = {each.name: seen.state[each.name] for each in TCP_STATE.columns} | {"sndbuf_limited_ns": grows}
        counted = replace(seen, state=Table(TCP_STATE, columns))
        cells = partition(counted, RuleEvidence.of(counted))
        full = cells.limit == Limit.SENDER_BUFFER
        length_ns = (cells.end - cells.begin)[full]
        assert length_ns.sum() > 0.8 * (TURNS - 1) * TURN_NS
        assert length_ns[cells.possible[full] == is_possible].sum() > 0.8 * length_ns.sum()
