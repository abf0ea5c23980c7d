"""The same packets at two points are found again, whatever the way did to them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.capture import CaptureTables
from multitracer.captured import SourceFile
from multitracer.clock.captures import matching
from multitracer.clock.captures.matching import match
from multitracer.clock.captures.two_captures import relate
from multitracer.tables import FLOWS, NA, SEGMENTS, Table
from tests.examples import examples

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def capture(count: int, **columns: ArrayLike) -> CaptureTables:
    column = {c.name: np.zeros(count, dtype=c.dtype) for c in SEGMENTS}
    column["ip_id"] = np.arange(count).astype(np.uint16)
    column["seq"] = (np.arange(count) * 1448).astype(np.uint32)
    column["payload_bytes"][:] = 1448
    column["flags"][:] = 0x10
    for name, values in columns.items():
        column[name] = np.asarray(values).astype(column[name].dtype)
    flows = {c.name: np.zeros(1, dtype=c.dtype) for c in FLOWS}
    flows["ip_version"][:], flows["vlan"][:] = 4, NA
    flows["address_a"][0], flows["address_b"][0] = np.void(bytes([10] * 16)), np.void(bytes([20] * 16))
    return CaptureTables([SourceFile("x", "pcap")], Table(SEGMENTS, column), Table(FLOWS, flows))


def pairs(near: CaptureTables, far: CaptureTables) -> set[tuple[int, int]]:
    one, other = match(near, far)
    return set(zip(one.tolist(), other.tolist(), strict=True))


@examples(25)
@given(seed=st.integers(0, 1 << 30), share=st.floats(0.3, 1.0))
def test_what_both_hold_is_paired_with_itself_and_nothing_else(seed: int, share: float) -> None:
    luck = np.random.default_rng(seed)
    complete = capture(400)
    keep = [np.flatnonzero(luck.random(400) < share) for _ in range(2)]
    keep[1] = keep[1][np.argsort(keep[1] + luck.uniform(0, 3, len(keep[1])))]  # reordered on the way
    near, far = (CaptureTables(complete.files, complete.segments.take(k), complete.flows) for k in keep)
    found = {(int(keep[0][a]), int(keep[1][b])) for a, b in pairs(near, far)}
    assert found == {(int(k), int(k)) for k in np.intersect1d(keep[0], keep[1])}


def test_copies_are_paired_in_order_where_both_points_show_as_many() -> None:
    doubled = capture(6, ip_id=[1, 2, 2, 3, 4, 5], seq=[0, 10, 10, 20, 30, 40])
    assert pairs(doubled, doubled) == {(k, k) for k in range(6)}


def test_a_repeat_without_identification_is_left_out_where_a_copy_is_missing() -> None:
    near = capture(6, ip_id=[0] * 6, seq=[0, 10, 10, 20, 30, 40])
    far = capture(5, ip_id=[0] * 5, seq=[0, 10, 20, 30, 40])
    assert pairs(near, far) == {(0, 0), (3, 2), (4, 3), (5, 4)}


def test_headers_that_compression_rewrote_do_not_hide_a_packet() -> None:
    near = capture(100)
    far = capture(100, ack=np.where(np.arange(100) % 4 == 0, 77, 0))
    assert pairs(near, far) == {(k, k) for k in range(100)}


def test_a_new_identification_and_new_addresses_do_not_hide_a_packet() -> None:
    near, far = capture(100), capture(100, ip_id=np.arange(100) + 5_000)
    assert pairs(near, far) == {(k, k) for k in range(100)}


def test_an_identification_that_comes_round_again_pairs_no_strangers() -> None:
    """Pure ACKs differ by ACK number; one that is lost at one point must not meet the one 65,536 later."""
    count = 70_000
    complete = capture(count, seq=np.zeros(count), payload_bytes=np.zeros(count), ack=np.arange(count))
    luck = np.random.default_rng(3)
    keep = [np.flatnonzero(luck.random(count) < 0.7) for _ in range(2)]
    near, far = (CaptureTables(complete.files, complete.segments.take(k), complete.flows) for k in keep)
    assert {int(keep[0][a]) - int(keep[1][b]) for a, b in pairs(near, far)} == {0}


def test_a_million_packets_at_each_side_are_aligned_in_three_seconds() -> None:
    count = 1_000_000
    luck = np.random.default_rng(1)
    stamp = np.cumsum(luck.exponential(1e5, count)).astype(np.int64) + 10**18
    back = luck.random(count) < 0.4
    delay = np.where(back, -1, 1) * (20e6 + luck.exponential(2e6, count)).astype(np.int64)
    fields = {
        "flow": back,
        "payload_bytes": np.where(back, 0, 1448),
        "ack": np.where(back, np.arange(count), 0),
        "seq": np.where(back, 0, np.cumsum(np.where(back, 0, 1448)) % (1 << 32)),
    }
    near = capture(count, time_ns=stamp, **fields)
    far = capture(count, time_ns=stamp + delay + 1_500_000_000 + ((stamp - stamp[0]) * 3e-5).astype(np.int64), **fields)
    far = far.where(np.ones(count, dtype=bool))
    order = np.argsort(far.segments["time_ns"], kind="stable")
    far = CaptureTables(far.files, far.segments.take(order), far.flows)
    begin = time.process_time()
    (e,) = relate(near, far)
    took = time.process_time() - begin
    assert abs(e.offset_ns - 1_500_000_000) <= max(e.uncertainty_ns, 200_000)
    assert e.skew_ppm == pytest.approx(30.0, abs=0.5)
    assert took < 3.0 * max(1.0, _slowness())


def _slowness() -> float:
    """Return how much slower than usual this machine sorts now: others may share its cores and memory."""
    values = np.random.default_rng(2).integers(0, 1 << 60, 1_000_000)
    begin = time.process_time()
    np.argsort(values, kind="stable")
    return (time.process_time() - begin) / 0.1


@pytest.mark.slow
@pytest.mark.parametrize("step_ns", [0, 2_000_000_000])
def test_of_long_captures_runs_are_enough_unless_a_clock_jumps(monkeypatch: pytest.MonkeyPatch, step_ns: int) -> None:
    count = 40_000
    luck = np.random.default_rng(5)
    stamp = np.cumsum(luck.exponential(1e6, count)).astype(np.int64) + 10**18
    back = luck.random(count) < 0.4
    late = (20e6 + luck.exponential(2e6, count)).astype(np.int64)
    fields = {
        "flow": back,
        "payload_bytes": np.where(back, 0, 1448),
        "ack": np.where(back, np.arange(count), 0),
        "seq": np.where(back, 0, np.cumsum(np.where(back, 0, 1448)) % (1 << 32)),
    }
    jump = np.where(np.arange(count) > count // 2, step_ns, 0)
    near = capture(count, time_ns=stamp, **fields)
    far = capture(count, time_ns=stamp + np.where(back, -late, late) + 1_500_000_000 + jump, **fields)
    complete = relate(near, far)
    monkeypatch.setattr(matching, "_MOST_ROWS", 10_000)
    some = relate(near, far)
    if step_ns:
        assert len(complete) == 2
        assert some == complete
    else:
        assert some != complete
        assert some[0].evidence < complete[0].evidence / 3
        assert abs(some[0].offset_ns - 1_500_000_000) <= some[0].uncertainty_ns
