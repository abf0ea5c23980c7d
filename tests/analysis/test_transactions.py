"""Transactions by size and transports beside each other: what is dropped counts, and nothing is guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis.transports import (
    SessionContent,
    Transport,
    cdf_gap,
    compare,
    influence,
    median_draws,
    median_interval,
    pairs,
    size_statistics,
    straight_line,
    transports_of,
)
from tests.transactions import cdpd_like, transactions

if TYPE_CHECKING:
    from multitracer.tables import Table

INF = np.inf


def transports(*tables: Table) -> list[Transport]:
    return transports_of([SessionContent(f"session{n}", table) for n, table in enumerate(tables)])


@pytest.mark.parametrize("count", [1, 2, 7, 10, 101])
def test_drawing_medians_is_what_resampling_gives(count: int) -> None:
    ordered = np.sort(np.random.default_rng(3).exponential(1, count))
    drawn = median_draws(ordered, np.random.default_rng(1), 40_000)
    luck = np.random.default_rng(2)
    resampled = np.median(ordered[luck.integers(0, count, (40_000, count))], axis=1)
    shares = np.linspace(0.02, 0.98, 25)
    at = np.quantile(resampled, shares)
    found = [np.mean(drawn <= value + 1e-12) - np.mean(resampled <= value + 1e-12) for value in at]
    assert np.abs(found).max() < 0.015


def test_the_interval_holds_the_true_median_about_as_often_as_it_says() -> None:
    luck = np.random.default_rng(5)
    hits = 0
    for run in range(400):
        found = median_interval(np.sort(luck.exponential(1, 60)), np.random.default_rng(run))
        hits += found.low <= np.log(2) <= found.high
    assert 0.91 <= hits / 400 <= 0.99


def test_a_dropped_transaction_counts_as_longer_than_any() -> None:
    (transport,) = transports(transactions({128: [1, 2, 3, INF], 256: [1, INF, INF, INF], 512: [INF, INF]}))
    small, middle, large = size_statistics(transport).rows()
    assert (small["count"], small["dropped"], small["median_s"], small["mean_s"]) == (4, 1, 2.5, 2)
    assert (middle["dropped"], middle["median_s"], middle["least_s"], middle["why"]) == (3, INF, 1, "reply 3")
    assert (large["dropped"], large["median_s"], large["mean_s"], large["most_s"]) == (2, INF, None, None)
    assert small["p95_s"] == INF


def test_a_finished_transaction_whose_rtt_is_not_known_is_not_dropped() -> None:
    given = {128: [1, 2, np.nan, INF], 256: [np.nan, np.nan]}
    first, second = transports(transactions(given), transactions(given, protocol="centauruscomm"))
    some, none = size_statistics(first).rows()
    assert (some["count"], some["dropped"], some["median_s"], some["most_s"]) == (4, 1, 2, 2)
    assert (none["count"], none["dropped"], none["median_s"], none["why"]) == (2, 0, None, "")
    some, none = compare(first, second).rows()
    assert (some["count"], some["dropped"], some["other_dropped"], some["ratio"]) == (4, 1, 1, 1)
    assert (none["count"], none["dropped"], none["ratio"], none["cdf_gap"]) == (2, 0, None, 0)


def test_statistics_and_ratios_are_the_same_each_time_and_whatever_is_beside() -> None:
    complete = transports(cdpd_like("tcp"), cdpd_like("centauruscomm"))
    rows = cdpd_like("tcp")
    part = transports(rows.take(rows["size_bytes"] == 1024), cdpd_like("centauruscomm"))
    of_whole = next(row for row in compare(*complete).rows() if row["size_bytes"] == 1024)
    assert list(compare(*part).rows()) == [of_whole]


def test_ratio_difference_and_their_intervals() -> None:
    luck = np.random.default_rng(9)
    ours, theirs = luck.lognormal(np.log(5), 0.2, 200), luck.lognormal(0, 0.2, 200)
    tables = (transactions({4096: ours}), transactions({4096: theirs}, protocol="centauruscomm"))
    (row,) = compare(*transports(*tables)).rows()
    assert row["ratio"] == pytest.approx(np.median(ours) / np.median(theirs))
    assert row["ratio_low"] < 5 < row["ratio_high"] < 1.2 * row["ratio_low"]
    assert row["difference_low"] < row["difference"] == pytest.approx(np.median(ours) - np.median(theirs))
    assert row["cdf_gap"] > 0.95
    assert row["setup_ratio"] is None, "no set-up of a connection is known"


def test_three_transactions_have_a_ratio_but_no_interval() -> None:
    both = transactions({64: [1.0, 2.0, 3.0]}), transactions({64: [4.0] * 9}, protocol="centauruscomm")
    (row,) = compare(*transports(*both)).rows()
    assert (row["ratio"], row["ratio_low"], row["ratio_high"], row["difference_low"]) == (0.5, None, None, None)
    assert row["why"] == "no interval: 3 and 9 transactions, 4 each are the fewest"


def test_a_size_at_which_one_transport_fails_has_no_ratio_but_says_so() -> None:
    first = transactions({8192: [INF] * 9 + [50.0]})
    second = transactions({8192: [9.0] * 10}, protocol="centauruscomm")
    (row,) = compare(*transports(first, second)).rows()
    assert (row["ratio"], row["dropped"], row["other_dropped"]) == (INF, 9, 0)
    assert row["why"] == "half or more were dropped: TCP"
    (row,) = compare(*transports(first, transactions({8192: [INF] * 3}, protocol="centauruscomm"))).rows()
    assert row["ratio"] is None
    assert row["why"] == "half or more were dropped: TCP and CentaurusComm"


def test_the_set_up_of_each_connection_is_added_to_its_own_transaction() -> None:
    table = transactions({128: [1.0, 2.0, 3.0]}, connection="per-session", connect_s=2.0)
    table.columns["connect_s"] = np.array([10.0, 1.0, 2.0])
    other = transactions({128: [4.0] * 3}, protocol="centauruscomm")
    tcp, centaurus = transports(table, other)
    assert size_statistics(tcp)["with_setup_s"].tolist() == [5.0]
    assert np.isnan(size_statistics(centaurus)["with_setup_s"]).all()
    (row,) = compare(tcp, centaurus).rows()
    assert (row["ratio"], row["setup_ratio"]) == (0.5, 1.25)


def test_on_one_connection_the_set_up_is_what_others_took() -> None:
    each = transactions({4096: [9.0] * 3}, connection="per-session", connect_s=2.0)
    one = transactions({128: [1.0] * 3})
    found = {transport.name: transport for transport in transports(one, each)}
    assert set(found) == {"TCP, one connection", "TCP, a connection each"}
    setup = found["TCP, one connection"].setup
    assert setup == (2.0, 3, "TCP, a connection each")
    assert size_statistics(found["TCP, one connection"])["with_setup_s"].tolist() == [3.0]
    assert transports(one)[0].setup is None


def test_arms_are_named_by_what_differs() -> None:
    tables = [
        transactions({64: [1.0]}, labels="location=downtown"),
        transactions({64: [1.0]}, labels="location=suburb"),
        transactions({64: [1.0]}, protocol="centauruscomm", labels="location=downtown"),
    ]
    assert [a.name for a in transports(*tables)] == ["TCP, downtown", "TCP, suburb", "CentaurusComm"]
    sources = [
        SessionContent("a", tables[0], {"tcp_profile": "1999"}),
        SessionContent("b", tables[0], {"tcp_profile": "today"}),
    ]
    assert [a.name for a in transports_of(sources)] == ["TCP, 1999", "TCP, today"]
    assert [a.name for a in transports(tables[0], tables[0])] == ["TCP, session0", "TCP, session1"]
    both = [transactions({64: [1.0]}, vary=vary) for vary in ("request", "reply")]
    assert [a.name for a in transports(*both)] == ["TCP", "TCP"], "they never stand in one panel"


def test_runs_that_nothing_tells_apart_can_be_pooled() -> None:
    tables = [transactions({64: [1.0, 2.0]}) for _ in range(3)]
    tables.append(transactions({64: [5.0]}, labels="place=x"))
    found = transports_of([SessionContent(f"s{n}", table) for n, table in enumerate(tables)], pool=True)
    assert [(transport.name, len(transport.table)) for transport in found] == [("TCP", 6), ("TCP, x", 1)]
    profiles = [
        SessionContent(f"s{n}", tables[0], {"tcp_profile": profile}) for n, profile in enumerate(("1999", "today"))
    ]
    assert [transport.name for transport in transports_of(profiles, pool=True)] == ["TCP, 1999", "TCP, today"]
    messages = [transactions({64: [1.0]}, protocol="centauruscomm") for _ in range(2)]
    sources = [
        SessionContent("a", messages[0], {"tcp_profile": "1999"}),
        SessionContent("b", messages[1], {"tcp_profile": "today"}),
    ]
    assert [a.name for a in transports_of(sources, pool=True)] == ["CentaurusComm"], "it does not use the kernel's TCP"


def test_each_transport_is_compared_with_its_likes() -> None:
    tables = [
        transactions({64: [1.0]}, protocol=protocol, labels=f"location={place}", vary=vary)
        for protocol in ("tcp", "centauruscomm")
        for place in ("downtown", "suburb")
        for vary in ("request", "reply")
    ]
    found = pairs(transports(*tables))
    assert len(found) == 4
    assert all(a.vary == b.vary and str(a.table["labels"][0]) == str(b.table["labels"][0]) for a, b in found)
    plain = [transactions({64: [1.0]}, protocol="centauruscomm") for _ in range(3)]
    assert [(a.name, b.name) for a, b in pairs(transports(*plain))] == [
        ("CentaurusComm, session0", "CentaurusComm, session1"),
        ("CentaurusComm, session0", "CentaurusComm, session2"),
    ]


def test_a_straight_line_is_not_bent_by_the_size_that_breaks_down() -> None:
    rtts = {size: [1 + size / 1000] * 5 for size in (128, 256, 512, 1024, 2048)}
    (transport,) = transports(transactions(rtts | {4096: [60.0] * 5, 8192: [INF] * 5}))
    line = straight_line(size_statistics(transport))
    assert line is not None
    assert line.fixed_s == pytest.approx(1)
    assert line.at(4096) == pytest.approx(5.096)
    assert straight_line(size_statistics(transports(transactions({64: [1.0]}))[0])) is None


def test_what_goes_with_the_rtt_is_told_by_ranks_within_sizes() -> None:
    luck = np.random.default_rng(4)
    table = transactions({64: luck.exponential(1, 50), 4096: 100 + luck.exponential(1, 50)}, radio=True)
    rtt = table["rtt_s"]
    table.columns["bler_percent"] = np.where(rtt > 100, np.exp(rtt - 100), np.exp(rtt))
    table.columns["cell_busy_percent"] = np.where(rtt > 100, 100 - rtt, 200 - rtt)
    table.columns["rssi_dbm"] = np.full(100, -85.0)
    (transport,) = transports(table)
    assert list(influence(transport, "bler_percent")) == pytest.approx([1, 100])
    assert list(influence(transport, "cell_busy_percent")) == pytest.approx([-1, 100])
    assert np.isnan(influence(transport, "rssi_dbm").correlation), "it never changed"
    table.columns["rssi_dbm"] = luck.normal(-85, 5, 100)
    assert abs(influence(transports(table)[0], "rssi_dbm").correlation) < 0.3
    assert influence(transports(transactions({64: [1.0] * 20}))[0], "rssi_dbm").transactions == 0


def test_the_gap_of_two_distributions_has_a_sign_and_a_place() -> None:
    assert cdf_gap(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == (-1.0, 2.0)
    assert cdf_gap(np.array([3.0, INF]), np.array([1.0, 2.0])) == (1.0, 2.0)
    gap, at_s = cdf_gap(np.array([INF]), np.array([INF]))
    assert gap == 0.0
    assert np.isnan(at_s)
