"""The drawn drives of a rehearsal, and the link that follows their radio."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.lab.rehearsal.journey import CONTROL, Journey, _distance_m
from multitracer.lab.rehearsal.relay import BANDWIDTH_HZ, CLASSES, RelayQueue, rate_bps
from multitracer.units import NS_PER_S

SEEDS = st.integers(1, 10_000)
PACKET = bytes(1000)
DELAY_NS = 35_000_000


@given(seed=SEEDS)
def test_a_seed_gives_one_drive_on_which_all_six_things_happen(seed: int) -> None:
    events = Journey(seed).events
    assert events == Journey(seed).events
    first = events[:6]
    kinds = ["handover", "handover", "hole", "interference", "load", "stall"]
    assert sorted(event.kind for event in first) == kinds
    breaks = sorted(event.end_s - event.begin_s for event in first if event.kind == "handover")
    assert breaks[0] < 0.3
    assert 2.4 < breaks[1] < 3.6
    assert all(later.begin_s - event.end_s >= 19.9 for event, later in pairwise(events[:20]))


def test_on_the_control_nothing_happens() -> None:
    journey = Journey(CONTROL)
    assert journey.events == ()
    rates = [rate_bps(journey, float(at_s)) for at_s in range(600)]
    assert min(rates) > 0.2 * max(rates), "a fifth of the usual rate is where a drive is called bad"


@given(seed=SEEDS, at_s=st.floats(0, 3600))
def test_the_car_moves_at_its_speed(seed: int, at_s: float) -> None:
    journey = Journey(seed)
    a, b = journey.place(at_s), journey.place(at_s + 0.5)
    moved = _distance_m((a.lat_deg, a.lon_deg), (b.lat_deg, b.lon_deg))
    assert moved <= journey.speed_mps * 0.5 * 1.01
    assert moved >= journey.speed_mps * 0.5 * 0.86, "cos 30 degrees: it cuts a corner of 60 at most"


@given(seed=SEEDS)
def test_radio_and_rate_follow_the_events(seed: int) -> None:
    journey = Journey(seed)
    for event in journey.events[:12]:
        middle, before = (event.begin_s + event.end_s) / 2, event.begin_s - 0.5
        assert rate_bps(journey, before) > 0
        assert (rate_bps(journey, middle) > 0) == (event.kind in ("stall", "interference", "load"))
        assert ("cell_id" in journey.radio(middle)) == (event.kind != "hole")
        passed = int(str(journey.radio(event.end_s + 0.1)["cell_id"])) - int(str(journey.radio(before)["cell_id"]))
        assert passed == (event.kind == "handover")


@given(seed=SEEDS)
def test_interference_and_load_leave_the_level_and_little_of_the_rate(seed: int) -> None:
    journey = Journey(seed)
    good_bps = BANDWIDTH_HZ * 3.3223 * 0.8  # at 15 dB, with a fifth of the cell in use
    for event in journey.events[:12]:
        if event.kind not in ("interference", "load"):
            continue
        at_s = (event.begin_s + event.end_s) / 2
        now, before = numbers(journey, at_s), numbers(journey, event.begin_s - 0.5)
        assert -5 < now["sinr_db"] < 0 if event.kind == "interference" else now["sinr_db"] > 5
        assert (now["cell_busy_pct"] > 80) == (event.kind == "load")
        assert now["rsrp_dbm"] > -105
        assert now["rsrq_db"] < before["rsrq_db"]
        assert 0 < rate_bps(journey, at_s) < 0.2 * good_bps


def numbers(journey: Journey, at_s: float) -> dict[str, float]:
    return {name: float(str(value)) for name, value in journey.radio(at_s).items()}


@pytest.mark.parametrize(("sinr_db", "efficiency"), [(19.9, 3.3223), (20.0, 5.1152), (0.0, 0.6016), (-5.1, 0.0)])
def test_rate_is_that_of_the_documented_class(
    sinr_db: float, efficiency: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"rsrp_dbm": -90.0, "sinr_db": sinr_db, "cell_busy_pct": 25.0}
    monkeypatch.setattr(Journey, "radio", lambda *_: values)
    assert rate_bps(Journey(CONTROL), 1.0) == pytest.approx(BANDWIDTH_HZ * efficiency * 0.75)
    values["rsrp_dbm"] = -118.1
    assert rate_bps(Journey(CONTROL), 1.0) == 0.0
    assert [minimum for minimum, _ in CLASSES] == sorted((minimum for minimum, _ in CLASSES), reverse=True)


def test_packets_wait_through_a_short_break_and_are_discarded_in_a_long_one() -> None:
    def rate(at_s: float) -> float:
        return 0.0 if 1 <= at_s < 1.5 or 3 <= at_s < 9 else 80_000.0

    way = RelayQueue(rate)
    assert way.accept(PACKET, now_ns=NS_PER_S) is None
    assert way.next_ns() == round(1.6 * NS_PER_S) + DELAY_NS, "half a second of break, and 8000 bit"
    assert way.arrived(2 * NS_PER_S) == [PACKET]
    assert way.accept(PACKET, now_ns=4 * NS_PER_S) == "outage"
    assert way.accept(PACKET, now_ns=8 * NS_PER_S) is None
    assert way.arrived(10 * NS_PER_S) == [PACKET]


def test_packets_of_a_slow_link_wait_as_long_as_it_takes() -> None:
    way = RelayQueue(lambda _: 4_000.0)
    assert [way.accept(PACKET, now_ns=0) for _ in range(3)] == [None] * 3
    assert way.next_ns() == 2 * NS_PER_S + DELAY_NS
    assert len(way.arrived(6 * NS_PER_S + DELAY_NS)) == 3, "2 s each; 1.5 s without service would lose them"


@given(sizes=st.lists(st.integers(40, 1500), max_size=60), gap_ms=st.integers(0, 80))
def test_packets_leave_in_order_at_the_rate_and_none_vanishes(sizes: list[int], gap_ms: int) -> None:
    way = RelayQueue(lambda _: 200_000.0)
    packets = [bytes([number]) * size for number, size in enumerate(sizes)]
    dropped = [way.accept(p, now_ns=n * gap_ms * 1_000_000) is not None for n, p in enumerate(packets)]
    arrived = way.arrived(100 * NS_PER_S)
    assert arrived == [packet for packet, lost in zip(packets, dropped, strict=True) if not lost]
    assert way.next_ns() is None


def test_queue_drops_at_its_tail() -> None:
    way = RelayQueue(lambda _: 80_000.0)
    answers = [way.accept(PACKET, now_ns=0) for _ in range(20)]
    assert answers[:12] == [None] * 12
    assert set(answers[12:]) == {"queue"}
    assert math.isclose(way._free_ns, 1.2 * NS_PER_S)
