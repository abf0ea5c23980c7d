"""Where it was bad and why: judged on synthetic drives with planted faults, and on small ones by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis.mobility.causes import inherited
from multitracer.analysis.mobility.cells import cell_visits_of
from multitracer.analysis.mobility.handovers import handovers_of
from multitracer.analysis.mobility.route import route_of
from multitracer.analysis.mobility.seconds import DriveLimits, DriveSeries
from multitracer.analysis.mobility.series import Steps
from multitracer.analysis.mobility.stretches import stretches
from multitracer.errors import InputError
from multitracer.schemas.radio import POSITION, RADIO
from multitracer.tables import NA
from multitracer.units import NS_PER_S
from tests.analysis.mobility.drives import CAUSES, Truth, drive_of, truth_of
from tests.analysis.mobility.tables import BEGIN_NS, at_ns, table_of
from tests.analysis.mobility.test_handovers import lte
from tests.analysis.mobility.test_route import north

if TYPE_CHECKING:
    from multitracer.tables import Row, Table

SEEDS = range(20)


def seconds_in(row: Row) -> tuple[float, float]:
    return (row["begin_ns"] - BEGIN_NS) / NS_PER_S, (row["end_ns"] - BEGIN_NS) / NS_PER_S


def judged(truth: Truth, table: Table) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Return per cause: faults that were found, faults, and stretches that are no fault of that cause."""
    rows = [(*seconds_in(row), row["cause"]) for row in table.rows()]
    hits: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for fault in truth.faults:
        half = (fault.end_s - fault.begin_s) / 2
        same = [(a, b) for a, b, cause in rows if cause == fault.cause]
        hits[fault.cause] += any(min(b, fault.end_s) - max(a, fault.begin_s) >= half for a, b in same)
    for begin, end, cause in rows:
        same_faults = [fault for fault in truth.faults if fault.cause == cause]
        half = (end - begin) / 2
        wrong[cause] += not any(min(end, f.end_s) - max(begin, f.begin_s) > half for f in same_faults)
    return hits, Counter(fault.cause for fault in truth.faults), wrong


def test_planted_faults_have_their_causes() -> None:
    """Seeds 20000 to 20399: 4,674 of 4,677 faults found, the three others unknown, none wrong."""
    hits, faults, wrong = Counter[str](), Counter[str](), Counter[str]()
    for seed in SEEDS:
        truth = truth_of(seed, faults=True)
        for total, more in zip((hits, faults, wrong), judged(truth, stretches(drive_of(truth))), strict=True):
            total.update(more)
    for cause in CAUSES:
        print(f"{cause}: {hits[cause]} of {faults[cause]}, {wrong[cause]} wrong")  # noqa: T201 - pytest -s
    assert all(faults[cause] >= 20 for cause in CAUSES)
    assert all(hits[cause] >= 0.95 * faults[cause] for cause in CAUSES)
    assert sum(wrong.values()) <= 0.02 * sum(hits.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_control_drives_have_none(seed: int) -> None:
    truth = truth_of(1000 + seed, faults=False)
    assert len(truth.handovers_s) > 0
    assert list(stretches(drive_of(truth)).rows()) == []


def test_places_and_ranks_agree_with_the_truth() -> None:
    truth = truth_of(3, faults=True)
    rows = list(stretches(drive_of(truth)).rows())
    costs = [row["lost_s"] for row in rows]
    assert costs == sorted(costs, reverse=True)
    for row in rows:
        begin, end = (round(each) for each in seconds_in(row))
        assert row["begin_m"] == pytest.approx(truth.way_m[begin], abs=10)
        assert row["end_m"] == pytest.approx(truth.way_m[end], abs=10)
        assert row["lost_s"] <= row["seconds"] + 1e-9


@pytest.mark.parametrize("seed", [1, 2])
def test_radio_alone_shows_coverage_and_interference_only(seed: int) -> None:
    truth = truth_of(seed, faults=True)
    table = stretches(replace(drive_of(truth), limits=None, throughput=None))
    hits, faults, wrong = judged(truth, table)
    assert set(table["cause"].tolist()) <= {"coverage", "interference"}
    assert hits["coverage"] == faults["coverage"]
    assert not sum(wrong.values())
    assert np.isnan(table["lost_s"]).all()


def drive(rows: list[Row], rate: list[float], limit: str, part: str = "", *, server: bool = True) -> DriveSeries:
    """Return a drive north at 10 m/s with a rate and one limit for each second in which the rate is low."""
    radio = table_of(RADIO, rows)
    handovers = handovers_of(radio)
    time = np.array([at_ns(t) for t in range(len(rate))], dtype=np.int64)
    low = np.array(rate) < 5e6
    limits = DriveLimits(
        time, time + NS_PER_S, np.where(low, limit, "link"), np.where(low, part, ""), np.full(len(rate), server)
    )
    positions = table_of(POSITION, [north(t, 10.0 * t, speed_mps=10.0) for t in range(len(rate))])
    rates = Steps(time, np.array(rate), NS_PER_S)
    return DriveSeries(cell_visits_of(radio, handovers), handovers, route_of(positions), rates, limits)


LOW = [10e6] * 20 + [0.5e6] * 10 + [10e6] * 20
FINE = [lte(t, 1, rsrp_dbm=-80.0, sinr_db=20.0) for t in range(50)]


def test_stretch_says_where_how_bad_and_why() -> None:
    rows = [row | ({"rsrp_dbm": -118.0} if 20 <= row["at"] < 30 else {}) for row in FINE]
    (row,) = stretches(drive(rows, LOW, "link")).rows()
    assert (row["cause"], seconds_in(row), row["seconds"], row["share"]) == ("coverage", (20, 30), 10, 1.0)
    assert row["lost_s"] == pytest.approx(9.5)
    assert (row["throughput_bps"], row["typical_bps"]) == (0.5e6, 10e6)
    assert (row["begin_m"], row["end_m"]) == pytest.approx((200, 300))
    assert (row["cell"], row["rsrp_dbm"]) == (0, -118)
    assert row["evidence"] == "RSRP -118 dBm; weak (below -110 dBm) for 10 of 10 s"


@pytest.mark.parametrize(
    ("limit", "part", "cause"),
    [
        ("application", "think", "server"),
        ("application", "writes", "server"),
        ("link", "", "load"),
        ("receiver-window", "", "TCP"),
        ("recovery", "fast", "TCP"),
        ("recovery", "timer", "unknown"),
        ("application", "nagle", "TCP"),
        ("outage", "both", "unknown"),
        ("unknown", "", "unknown"),
    ],
)
def test_limit_under_good_radio(limit: str, part: str, cause: str) -> None:
    (row,) = stretches(drive(FINE, LOW, limit, part)).rows()
    assert row["cause"] == cause
    assert bool(row["missing"]) == (cause == "unknown")


def test_client_that_thinks_is_no_fault() -> None:
    assert not len(stretches(drive(FINE, LOW, "application", "peer")))


def test_program_of_the_phone_that_is_slow_to_send_is_no_fault_of_the_server() -> None:
    assert not len(stretches(drive(FINE, LOW, "application", "writes", server=False)))


def test_without_radio_a_slow_link_is_unknown() -> None:
    (row,) = stretches(drive([], LOW, "link")).rows()
    assert row["cause"] == "unknown"
    assert row["missing"] == "a reading of the level (RSRP), a reading of the quality (SINR, or RSRQ)"


def test_low_rate_that_the_quality_explains_is_interference() -> None:
    rows = [row | ({"sinr_db": 1.5} if 20 <= row["at"] < 30 else {}) for row in FINE]
    rate = [10e6 if not 20 <= t < 30 else 1.9e6 for t in range(50)]
    (row,) = stretches(drive(rows, rate, "link")).rows()
    assert (row["cause"], row["evidence"]) == ("interference", "RSRP -80 dBm; but SINR 1.5 dB")


@pytest.mark.parametrize(
    ("out", "served"),
    [
        ({"registration": 2}, {"registration": 1}),
        ({"state": "SEARCH"}, {"state": "CONNECT"}),
        ({"state": "NO SERVICE"}, {"state": "Online"}),
        ({"state": "OUT_OF_SERVICE"}, {"state": "IN_SERVICE"}),
    ],
)
def test_modem_that_searches_has_no_coverage(out: Row, served: Row) -> None:
    """Of SIMCom's and Android's words 40 s without a network passed in silence."""
    lost = {"rsrp_dbm": np.nan, "sinr_db": np.nan, **out}
    rows = [row | (lost if 20 <= row["at"] < 30 else served) for row in FINE]
    (row,) = stretches(drive(rows, LOW, "outage", "both")).rows()
    assert row["cause"] == "coverage"
    assert row["evidence"].startswith("no service for 10 of 10 s")


BLANK = {"rat": "", "cell_id": NA, "physical_cell_id": NA, "channel": NA, "rsrp_dbm": np.nan, "sinr_db": np.nan}


@pytest.mark.parametrize("after", [1, 2])
def test_a_log_without_cell_and_level_shows_no_good_radio_and_no_handover(after: int) -> None:
    """G-NetTrack in a hole: the level before it held on, and a new cell behind it was the cause."""
    rows = [row | (BLANK if 20 <= row["at"] < 28 else {}) for row in FINE]
    rows = [row | ({"cell_id": after} if row["at"] >= 28 else {}) for row in rows]
    (row,) = stretches(drive(rows, LOW, "outage", "both")).rows()
    assert row["cause"] == "unknown"
    assert "the log tells no cell and no level for 8 of 10 s" in row["evidence"]
    assert row["missing"].startswith("whether a network served (the registration)")
    assert "load" not in stretches(drive(rows, LOW, "link"))["cause"].tolist()


def test_an_answer_that_never_tells_a_cell_is_no_time_without_one() -> None:
    named = [row | {"source": "+QENG"} for row in FINE if row["at"] % 5 == 0]
    rows = [each for row in named for each in (row, {"at": row["at"] + 2, "source": "+COPS", "operator": "A"})]
    (row,) = stretches(drive(rows, LOW, "outage", "both")).rows()
    assert "tells no cell" not in row["evidence"]
    assert "registration" not in row["missing"]


def test_change_of_the_cell_in_a_short_silence() -> None:
    rows = [lte(t, 1 + (t >= 22), rsrp_dbm=-80.0, sinr_db=20.0) for t in range(50)]
    rate = [0.0 if 21 <= t < 25 else 10e6 for t in range(50)]
    (row,) = stretches(drive(rows, rate, "outage", "both")).rows()
    assert (row["cause"], row["evidence"]) == ("handover", "1 change of the cell; RSRP -80 dBm")


def test_a_silence_between_two_seconds_that_are_half_full_is_a_stretch() -> None:
    """2.9 s of silence, of a handover in a rehearsed drive: one whole second was empty."""
    rows = [lte(t, 1 + (t >= 23), rsrp_dbm=-80.0, sinr_db=20.0) for t in range(50)]
    rate = [10e6 if not 21 <= t < 24 else 0.0 if t == 22 else 2.2e6 for t in range(50)]
    (row,) = stretches(drive(rows, rate, "recovery", "timer")).rows()
    assert (row["cause"], row["seconds"]) == ("handover", 3)
    assert not len(stretches(drive(rows, rate, "link")))


def test_a_repair_at_the_rate_of_the_loaded_cell_is_of_the_load() -> None:
    """The queue is full when the share of the cell falls, so the begin of a load loses data."""
    complete = drive(FINE, LOW, "link")
    assert complete.limits is not None
    words, parts = (column.astype("U26") for column in (complete.limits.limit, complete.limits.part))
    words[20:24], parts[20:24] = "recovery", "fast"
    limits = complete.limits._replace(limit=words, part=parts)
    (row,) = stretches(replace(complete, limits=limits)).rows()
    assert (row["cause"], row["seconds"]) == ("load", 10)
    slower = drive(FINE, [0.05e6 if 20 <= t < 24 else each for t, each in enumerate(LOW)], "link")
    causes = [row["cause"] for row in stretches(replace(slower, limits=limits)).rows()]
    assert sorted(causes) == ["TCP", "load"]


def test_change_at_an_unknown_time_explains_nothing() -> None:
    rows = [lte(t, 1 + (t >= 30), rsrp_dbm=-80.0, sinr_db=20.0) for t in range(50) if not 15 < t < 30]
    (row,) = stretches(drive(rows, LOW, "outage", "both")).rows()
    assert row["cause"] == "unknown"


def test_one_bad_second_is_no_stretch() -> None:
    assert not len(stretches(drive(FINE, [10e6] * 20 + [0.0] + [10e6] * 29, "link")))


def test_limit_of_the_user_decides_what_is_bad() -> None:
    assert not len(stretches(drive(FINE, LOW, "link"), poor_bps=1e5))
    assert stretches(drive(FINE, LOW, "link"), poor_bps=1e6).provenance["poor_bps"] == 1e6


def test_unknown_rate_without_radio_is_not_judged() -> None:
    table = stretches(replace(drive(FINE, LOW, "link"), limits=None))
    assert not len(table)
    assert table.provenance["judged_s"] == {"by rate": 0, "by radio": 50, "not": 0}


def test_repairs_inherit_what_lost_the_data() -> None:
    unknown, coverage, handover, tcp = 1, 2, 4, 7
    limit = np.array(["outage both", "link", "recovery timer", "slow-start", "link", "receiver-window"])
    cause = np.array([unknown, coverage, handover, tcp, tcp, tcp])
    no = np.zeros(6, dtype=bool)
    result = inherited(cause, limit, no, no, np.ones(6))
    assert result.tolist() == [coverage, coverage, coverage, coverage, tcp, tcp]


def test_a_repair_in_which_nothing_arrives_before_the_new_cell_is_the_handovers() -> None:
    rows = [lte(t, 1 + (t >= 24), rsrp_dbm=-80.0, sinr_db=20.0) for t in range(50)]
    silent = [0.0 if 20 <= t < 25 else 10e6 for t in range(50)]
    (row,) = stretches(drive(rows, silent, "recovery", "timer")).rows()
    assert (row["cause"], row["seconds"]) == ("handover", 5)
    trickle = [0.5e6 if 18 <= t < 22 else 0.0 if 22 <= t < 25 else 10e6 for t in range(50)]
    causes = [row["cause"] for row in stretches(drive(rows, trickle, "recovery", "timer")).rows()]
    assert sorted(causes) == ["handover", "unknown"]


def test_a_silence_of_the_timer_that_the_radio_does_not_explain_is_not_tcps_own() -> None:
    """A handover in a log without cells: what lost the data is not known, and what would show it is said."""
    nameless = [lte(t, rsrp_dbm=-92.0, sinr_db=9.0) for t in range(50)]
    silent = [0.0 if 21 <= t < 24 else 10e6 for t in range(50)]
    (row,) = stretches(drive(nameless, silent, "recovery", "timer")).rows()
    assert (row["cause"], row["missing"]) == ("unknown", "the serving cell (its identity)")
    (row,) = stretches(drive(FINE, silent, "recovery", "timer")).rows()
    assert row["missing"].startswith("what the link did")


def test_no_service_ends_where_a_cell_is_read() -> None:
    """Of a hole of 8 s, and of the silence after it in which TCP's timer runs."""
    lost = {"cell_id": -1, "rsrp_dbm": np.nan, "sinr_db": np.nan, "state": "SEARCH", "rat": ""}
    rows = [row | (lost if 20 <= row["at"] < 28 else {"state": "NOCONN"}) for row in FINE]
    rate = [0.0 if 20 <= t < 32 else 10e6 for t in range(50)]
    (row,) = stretches(drive(rows, rate, "outage", "both")).rows()
    assert (row["cause"], row["evidence"]) == ("coverage", "no service for 8 of 12 s")
    alone = replace(drive(rows, rate, "outage"), limits=None, throughput=None)
    (row,) = stretches(alone).rows()
    assert (seconds_in(row), row["evidence"]) == ((19.5, 27.5), "no service for 8 of 8 s")


def test_a_reading_stands_for_no_longer_than_it_can() -> None:
    """One weak reading a minute is no stretch; one in three seconds says how often the radio was read."""

    def alone(every: int) -> Table:
        times = range(0, 300, every)
        rows = [lte(t, 1, rsrp_dbm=-118.0 if 99 <= t < 129 else -80.0, sinr_db=20.0) for t in times]
        return stretches(replace(drive(rows, [], "link"), limits=None, throughput=None))

    assert not len(alone(60))
    assert alone(60).provenance["judged_s"] == {"by rate": 0, "by radio": 5, "not": 236}
    (row,) = alone(3).rows()
    assert row["evidence"] == ("RSRP -118 dBm; weak (below -110 dBm) for 30 of 30 s; the radio was read in 10 of 30 s")


def test_times_of_two_clocks_are_refused() -> None:
    with pytest.raises(InputError, match="drive: the times of this recording span 81,019 days"):
        stretches(drive([*FINE, lte(7e9, 1)], LOW, "link"))


def test_empty_drive_has_no_stretches() -> None:
    assert not len(stretches(drive([], [], "link")))
