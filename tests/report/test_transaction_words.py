"""What the report says of transactions in words."""

from __future__ import annotations

import numpy as np
import pytest

from multitracer.analysis.transports import SessionContent, compare, transports_of
from multitracer.report.transactions_page import comparison_sentence, cost_words
from tests.transactions import transactions

_WIDE = list(np.linspace(1.0, 9.0, 8))


def test_an_rtt_that_falls_with_the_size_has_a_minus() -> None:
    (transport,) = transports_of([SessionContent("falls", transactions({100: [5.0] * 3, 1100: [4.0] * 3}), {})])
    assert cost_words(transport) == "5.1 s − 1 ms a byte"
    (transport,) = transports_of([SessionContent("grows", transactions({100: [4.0] * 3, 1100: [5.0] * 3}), {})])
    assert cost_words(transport) == "3.9 s + 1 ms a byte"


def test_transports_whose_interval_holds_one_are_not_called_equal() -> None:
    sources = [SessionContent(p, transactions({64: _WIDE}, protocol=p), {}) for p in ("tcp", "centauruscomm")]
    tcp, other = transports_of(sources)
    said = comparison_sentence(tcp, other, compare(tcp, other))
    assert "TCP cannot be distinguished from CentaurusComm at 64 bytes" in said


def test_fewer_than_six_transactions_of_a_size_have_no_factor() -> None:
    """Five a side have an interval in the table, but a sentence does not claim it."""
    fast, slow = ([value + offset for value in (0.01, 0.02, 0.03, 0.04, 0.05)] for offset in (1.0, 9.0))
    sources = [
        SessionContent(protocol, transactions({64: values, 128: [*values, values[0]]}, protocol=protocol), {})
        for protocol, values in (("tcp", slow), ("centauruscomm", fast))
    ]
    tcp, other = transports_of(sources)
    table = compare(tcp, other)
    assert np.isfinite(table["ratio_low"]).all()
    said = comparison_sentence(tcp, other, table)
    assert "cannot be compared with CentaurusComm at 64 bytes: 5 transactions of a size were measured" in said
    assert "took 8.80 times as long as CentaurusComm at 128 bytes" in said


@pytest.mark.parametrize(("setups", "is_told"), [(2, False), (5, False), (6, True)])
def test_a_median_of_few_set_ups_makes_no_factor(setups: int, is_told: bool) -> None:
    """A median of two set-ups made "15.5 times (95 %: 15.2 to 15.7)", whose interval is that of the RTT alone."""
    table = transactions({64: _WIDE}, protocol="tcp")
    table.columns["connect_s"][:setups] = 70.0
    other = transactions({64: _WIDE}, protocol="centauruscomm")
    tcp, quick = transports_of([SessionContent("tcp", table, {}), SessionContent("cc", other, {})])
    compared = compare(tcp, quick)
    assert compared["setups"].tolist() == [setups]
    assert np.isfinite(compared["setup_ratio"]).all()
    assert np.isfinite(compared["setup_ratio_low"]).all() == is_told
    said = comparison_sentence(tcp, quick, compared, name="setup_ratio")
    assert ("15 times as long" in said) == is_told
    assert (f"{setups} set-ups of a connection were measured, and 6 are needed" in said) != is_told
