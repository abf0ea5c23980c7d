"""Begin and end of a stretch and of its cause: edges are drawn between the seconds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from multitracer.analysis.mobility.seconds import mean_of
from multitracer.analysis.mobility.series import Steps, payload_rate
from multitracer.analysis.mobility.stretches import sharpened, stretches
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S
from tests.analysis.mobility.tables import BEGIN_NS, at_ns
from tests.analysis.mobility.test_handovers import lte
from tests.analysis.mobility.test_stretches import FINE, LOW, drive
from tests.examples import seeds

STEP_S = 0.1


def packets(begin_s: float, end_s: float, *, usual_per_s: float, left: float, seed: int) -> Steps:
    """Return the rate of 60 s of packets, of which only a part comes from `begin_s` to `end_s`."""
    random = np.random.default_rng(seed)
    clock = np.arange(0, 60, 0.001)
    carried = np.cumsum(np.where((clock >= begin_s) & (clock < end_s), left, 1.0)) * usual_per_s * 0.001
    sent = np.cumsum(random.uniform(0.8, 1.2, round(60 * usual_per_s)))
    times = clock[np.searchsorted(carried, sent[sent < carried[-1]])]
    counts = np.bincount((times / STEP_S).astype(int), minlength=600)[:600]
    edges = BEGIN_NS + np.arange(600) * round(STEP_S * NS_PER_S)
    return Steps(edges, counts * 12_000 / STEP_S, round(STEP_S * NS_PER_S))


@pytest.mark.parametrize("usual_per_s", [8.0, 15.0, 200.0])
@pytest.mark.parametrize("left", [0.0, 0.1])
def test_edges_of_a_low_rate_are_found_within_half_a_second(usual_per_s: float, left: float) -> None:
    random = np.random.default_rng(int(usual_per_s))
    for seed in seeds(40):
        begin, end = random.uniform(15, 20), random.uniform(25, 40)
        rate = packets(begin, end, usual_per_s=usual_per_s, left=left, seed=seed)
        seconds = at_ns(np.ceil(begin)), at_ns(np.floor(end))
        first, last = sharpened(rate, *seconds)
        assert (first - BEGIN_NS) / NS_PER_S == pytest.approx(begin, abs=0.5)
        assert (last - BEGIN_NS) / NS_PER_S == pytest.approx(end, abs=0.5)


def test_without_a_finer_rate_the_seconds_stay() -> None:
    assert sharpened(None, at_ns(3), at_ns(9)) == (at_ns(3), at_ns(9))
    level = Steps(np.arange(600) * (NS_PER_S // 10) + BEGIN_NS, np.full(600, 1e6), NS_PER_S // 10)
    assert sharpened(level, at_ns(3), at_ns(9)) == (at_ns(3), at_ns(9))


def seconds(time_ns: int) -> float:
    return (time_ns - BEGIN_NS) / NS_PER_S


def test_coverage_ends_before_tcp_goes_on() -> None:
    lost = {"rsrp_dbm": np.nan, "sinr_db": np.nan, "registration": 2}
    rows = [row | (lost if 20 <= row["at"] < 26 else {"registration": 1}) for row in FINE]
    (row,) = stretches(drive(rows, LOW, "outage", "both")).rows()
    assert (seconds(row["begin_ns"]), seconds(row["end_ns"])) == (20, 30)
    assert (seconds(row["cause_begin_ns"]), seconds(row["cause_end_ns"])) == (19.5, 25.5)
    assert row["cause_within_s"] == 0.5
    assert (row["cause_begin_m"], row["cause_end_m"]) == pytest.approx((195, 255))


def test_interference_that_began_before_the_rate_fell() -> None:
    rows = [row | ({"sinr_db": -3.0} if 14 <= row["at"] < 30 else {}) for row in FINE]
    (row,) = stretches(drive(rows, LOW, "link")).rows()
    assert row["cause"] == "interference"
    assert (seconds(row["cause_begin_ns"]), seconds(row["cause_end_ns"])) == (13.5, 29.5)


def test_edge_that_no_reading_encloses_is_not_known() -> None:
    rows = [row | {"rsrp_dbm": -118.0} for row in FINE if 20 <= row["at"] < 30]
    after = [row for row in FINE if row["at"] >= 30]
    (row,) = stretches(drive([*rows, *after], LOW, "link")).rows()
    assert row["cause"] == "coverage"
    assert row["cause_begin_ns"] in (None, NOT_A_TIME)
    assert seconds(row["cause_end_ns"]) == 29.5


def test_silence_before_the_new_cell_is_the_handovers() -> None:
    rows = [lte(t, 1 + (t >= 22), rsrp_dbm=-80.0, sinr_db=20.0) for t in range(50)]
    rate = [0.0 if 20 <= t < 25 else 10e6 for t in range(50)]
    (row,) = stretches(drive(rows, rate, "outage", "both")).rows()
    assert row["cause"] == "handover"
    assert (seconds(row["cause_begin_ns"]), seconds(row["cause_end_ns"])) == (20, 22)


def test_server_and_its_limit_end_together_and_other_times_of_it_are_others() -> None:
    complete = drive(FINE, LOW, "application", "writes")
    limits = complete.limits
    assert limits is not None
    words, parts = limits.limit.copy(), limits.part.copy()
    words[19], parts[19], words[40], parts[40] = "application", "writes", "application", "writes"
    (row,) = stretches(replace(complete, limits=limits._replace(limit=words, part=parts))).rows()
    assert (seconds(row["begin_ns"]), seconds(row["cause_begin_ns"])) == (20, 19)
    assert (seconds(row["end_ns"]), seconds(row["cause_end_ns"])) == (30, 30)
    assert row["cause_within_s"] == 0


def test_load_shows_its_edges_where_the_cell_says_how_busy_it_is() -> None:
    (row,) = stretches(drive(FINE, LOW, "link")).rows()
    assert row["cause"] == "load"
    assert row["cause_begin_ns"] in (None, NOT_A_TIME)
    busy = [row | {"cell_busy_pct": 95.0 if 21 <= row["at"] < 31 else 20.0} for row in FINE]
    (row,) = stretches(drive(busy, LOW, "link")).rows()
    assert (seconds(row["cause_begin_ns"]), seconds(row["cause_end_ns"])) == (20.5, 30.5)


def test_radio_alone_lasts_from_the_middle_between_two_readings() -> None:
    rows = [row | {"at": row["at"] + 0.8} | ({"rsrp_dbm": -118.0} if 20 <= row["at"] < 30 else {}) for row in FINE]
    (row,) = stretches(replace(drive(rows, LOW, "link"), limits=None, throughput=None)).rows()
    assert (seconds(row["begin_ns"]), seconds(row["end_ns"]), row["seconds"]) == (20.3, 30.3, 10)


def test_the_rate_of_a_second_is_of_what_came_in_that_second_of_utc() -> None:
    """Payload begins within a second: counted from then on, each value would mix two seconds."""
    chance = np.random.default_rng(17)
    time_ns = np.sort(BEGIN_NS // NS_PER_S * NS_PER_S + chance.integers(600_000_000, 9_900_000_000, 400))
    size = chance.integers(1, 1400, 400)
    begin = time_ns[0] // NS_PER_S * NS_PER_S + np.arange(10) * NS_PER_S
    rate = payload_rate(time_ns, size, is_utc=True)
    assert rate is not None
    exact = [8 * size[(time_ns >= each) & (time_ns < each + NS_PER_S)].sum() for each in begin]
    assert mean_of(rate, begin).tolist() == pytest.approx(exact)
