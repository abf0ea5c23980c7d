"""What the report says of transactions in words."""

from __future__ import annotations

import numpy as np

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
