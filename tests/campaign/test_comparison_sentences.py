"""What is said of two sides is what the numbers allow, and no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from multitracer.analysis.comparison.difference import SideDifference
from multitracer.analysis.comparison.sides import ComparedQuantity, Judged, Matching, SideDifferences
from multitracer.campaign.compared import Names, headline, how, row

NAMES = Names("A", "B")
MATCHING = Matching("", 1.0, np.zeros(0, np.int64), float("nan"))


def judged(name: str, value: float, low: float, high: float, *, shown: bool = False, sessions: int = 6) -> Judged:
    relative = name in ("throughput", "RTT", "goodput of transfers", "completion time")
    quantity = ComparedQuantity(name, relative, 1.0)
    difference = SideDifference(value, low, high, 0.001 if shown else 0.3)
    return Judged(quantity, (sessions, sessions), (1e6, 1e6), (1e6, 1e6), difference, shown)


def says(*of: Judged) -> str:
    return headline(SideDifferences(list(of), MATCHING, are_places=False), NAMES)


SLOWER = judged("throughput", -0.12, -0.19, -0.05, shown=True)


def test_a_difference_that_is_shown_is_claimed_with_its_interval() -> None:
    assert says(SLOWER) == "B is 12 % (5 to 19 %) slower than A."
    assert says(judged("throughput", 0.5, 0.2, 0.9, shown=True)) == "B is 50 % (20 to 90 %) faster than A."

    much = judged("throughput", 12.4, 1.05, 20.8, shown=True)
    assert says(much) == "B is 1240 % (105 to 2080 %) faster than A."
    assert row(much)[5:7] == ("+1,240 %", "+105 to +2,080")


def test_the_rounding_of_a_computation_is_no_difference() -> None:
    assert row(judged("RSRP", -1.47e-08, -1.2e-09, 0.004))[5:7] == ("+0 dB", "+0 to +0.004")
    assert row(judged("throughput", -1.47e-10, -0.02, 0.03))[5:7] == ("+0 %", "-2 to +3")


def test_matched_differences_are_told_from_the_means_beside_them() -> None:
    assert how(MATCHING).startswith("Each session has the same weight.")
    matched = how(Matching("place and hour", 1.0, np.zeros(0, np.int64), 1.0))
    assert "it is not the difference of the two means" in matched


def test_the_limit_that_held_the_slower_side_more_stands_with_it() -> None:
    link = judged("limited by link", 0.31, 0.2, 0.41, shown=True)
    assert says(SLOWER, link) == (
        "B is 12 % (5 to 19 %) slower than A, and link limited B in 31 % (20 to 41 %) more of the time."
    )
    not_shown = judged("limited by link", 0.31, -0.1, 0.6)
    less = judged("limited by application", -0.31, -0.4, -0.2, shown=True)
    assert says(SLOWER, not_shown, less) == "B is 12 % (5 to 19 %) slower than A."


def test_what_the_sessions_cannot_tell_is_said() -> None:
    assert says(judged("throughput", -0.1, -0.3, 0.2)) == (
        "These 12 sessions neither show nor exclude a difference of 5 % or more: "
        "B's throughput is between 30 % lower and 20 % higher than A's."
    )


def test_sides_are_alike_only_if_the_interval_says_so() -> None:
    assert says(judged("throughput", 0.01, -0.02, 0.04)) == (
        "B and A do not differ in practice: B's throughput is between 2 % lower and 4 % higher than A's."
    )


@pytest.mark.parametrize("sessions", [1, 3, 5])
def test_fewer_than_six_sessions_a_side_have_no_factor_and_no_interval(sessions: int) -> None:
    rtt = judged("RTT", 0.2, 0.1, 0.3, shown=True, sessions=sessions)
    words = says(judged("throughput", -0.12, -0.2, -0.1, shown=True, sessions=sessions), rtt)
    assert words == (
        "Whether B's throughput differs from A's cannot be told: it needs 6 sessions per side, and one side has "
        f"{sessions}."
    )


def test_an_interval_without_a_bound_has_no_factor() -> None:
    words = says(judged("throughput", -0.12, -1, np.inf))
    assert "%" not in words
    assert "these 12 sessions exclude no difference" in words


def test_a_limit_of_few_sessions_is_no_reason() -> None:
    link = judged("limited by link", 0.31, 0.2, 0.41, shown=True, sessions=5)
    assert says(SLOWER, link) == "B is 12 % (5 to 19 %) slower than A."


def test_rtt_and_loss_that_are_shown_follow() -> None:
    rtt = judged("RTT", 0.2, 0.1, 0.3, shown=True)
    loss = judged("loss", -0.01, -0.015, -0.005, shown=True)
    assert says(judged("throughput", 0.01, -0.02, 0.04), rtt, loss).endswith(
        "B's RTT is 20 % (10 to 30 %) longer. B loses 1 (0.5 to 1.5) fewer of 100 segments."
    )


def test_without_throughput_the_next_quantity_is_the_answer() -> None:
    nothing = judged("throughput", float("nan"), float("nan"), float("nan"))
    assert says(nothing, judged("RTT", 0.2, 0.1, 0.3, shown=True)) == "B is 20 % (10 to 30 %) slower than A."
    assert "cannot be compared" in says(nothing)


def test_where_the_chosen_quantity_has_no_ratio_the_next_by_priority_is_the_answer() -> None:
    """In the order of the documentation, not in that of the table, where RTT is before throughput."""
    transfers = judged("goodput of transfers", float("nan"), float("nan"), float("nan"))
    rtt = judged("RTT", 0.2, 0.1, 0.3, shown=True)
    assert says(transfers, rtt, SLOWER).startswith("B is 12 % (5 to 19 %) slower than A.")
    assert says(rtt, SLOWER).startswith("B is 20 % (10 to 30 %) slower than A."), "it was chosen: most sessions have it"


def test_transfers_come_before_the_seconds_that_contradict_them() -> None:
    goodput = judged("goodput of transfers", 0.49, 0.4, 0.58, shown=True)
    completion = judged("completion time", -0.33, -0.37, -0.28, shown=True)
    link = judged("limited by link", -0.31, -0.41, -0.2, shown=True)
    assert says(goodput, completion, judged("throughput", -0.23, -0.3, -0.1, shown=True), link) == (
        "B's transfers are 49 % (40 to 58 %) faster than A's, and link limited A in 31 % (20 to 41 %) more of the "
        "time. B's transfers take 33 % (28 to 37 %) less time. "
        "B's throughput over the whole measurement is 23 % (10 to 30 %) lower."
    )


def test_levels_differ_in_db_and_less_than_three_are_none_in_practice() -> None:
    weak = judged("weak signal", 0.12, 0.05, 0.19, shown=True)
    assert says(judged("RSRP", -4.2, -6.3, -2.1, shown=True), weak) == (
        "B's RSRP is 4.2 dB (2.1 to 6.3 dB) lower than A's. B has a weak signal in 12 (5 to 19) more of 100 seconds."
    )
    assert says(judged("RSRP", -0.4, -1.2, 0.5)) == (
        "B and A do not differ in practice: B's RSRP is between 1.2 dB lower and 0.5 dB higher than A's."
    )
    assert says(judged("RSRP", -0.4, -5, 0.5)).startswith(
        "These 12 sessions neither show nor exclude a difference of 3 dB"
    )
    assert "exclude no difference" in says(judged("RSRP", -0.4, -np.inf, np.inf))
    assert row(judged("RSRP", -4.2, -6.3, -2.1))[5:7] == ("-4.2 dB", "-6.3 to -2.1")
    assert row(judged("RSRP", -4.2, -np.inf, np.inf))[6] == "any"


def test_the_share_of_a_weak_signal_is_told_in_seconds() -> None:
    """Of LTE and UMTS no level is comparable, so the weak signal is the answer: more of it is worse, not higher."""
    shown = judged("weak signal", 0.568, 0.496, 0.664, shown=True)
    assert says(shown) == "B has a weak signal in 57 (50 to 66) more of 100 seconds than A."
    at_places = SideDifferences([shown], Matching("place and hour", 1.0, np.zeros(0, np.int64), 1.0), are_places=False)
    assert headline(at_places, NAMES).endswith("of 100 seconds than A at the same places.")
    assert says(judged("weak signal", -1.0, -1.0, -0.9, shown=True)) == (
        "B has a weak signal in 100 (90 to 100) fewer of 100 seconds than A."
    )
    assert says(judged("weak signal", 0.04, -0.03, 0.12)) == (
        "These 12 sessions neither show nor exclude a difference of 5 of 100 seconds or more: "
        "B has a weak signal in between 3 fewer and 12 more of 100 seconds than A."
    )
    assert says(judged("weak signal", 0.0, -0.03, 0.04)).startswith(
        "B and A do not differ in practice: B has a weak signal in between 3 fewer and 4 more of 100 seconds"
    )


def test_a_row_has_no_number_where_there_is_none() -> None:
    assert row(judged("throughput", 0.5, -1, np.inf))[5:7] == ("+50 %", "any")
    assert row(judged("loss", 0.0, -np.inf, np.inf))[5:7] == ("+0 points", "any")


def test_a_finding_that_a_session_has_or_has_not_has_no_median() -> None:
    assert row(judged("limited by link", 0.1, 0.05, 0.2))[3:5] == ("100,000,000 %", "100,000,000 %")
    assert row(judged("finding outage", 0.1, 0.05, 0.2))[3:5] == ("", "")


def test_a_mean_above_0_is_not_shown_as_0_and_0_has_no_sign() -> None:
    small = replace(judged("loss", 0.1, 0.05, 0.2), means=(5e-7, 0.0), medians=(2e-6, 0.04))
    assert row(small)[1:5] == ("< 0.0001 %", "0 %", "0.0002 %", "4 %")
    level = replace(judged("RSRP", 1, 1, 1), means=(-0.00001, 0.00001), medians=(-90.0, float("nan")))
    assert row(level)[1:5] == ("0 dBm", "0 dBm", "-90 dBm", "-")


def test_a_probability_that_is_not_known_is_not_small() -> None:
    unknown = judged("loss", 0.1, 0.05, 0.2)
    unknown = replace(unknown, difference=unknown.difference._replace(p_value=float("nan")))
    assert row(unknown)[7] == "-"
    assert row(judged("loss", 0.1, 0.05, 0.2))[7] == "0.3"
