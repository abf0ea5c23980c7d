"""Figure 6 counts as the paper does: utilizations rounded up, dropped calls apart."""

from __future__ import annotations

import numpy as np
import pytest

from multitracer.errors import InputError
from multitracer.figures.utilization import rounded_up, utilization_figure, utilization_histogram
from multitracer.schemas.findings import UTILIZATION
from multitracer.tables import Table


def test_utilizations_are_rounded_up() -> None:
    assert rounded_up(np.array([0.99, 0.9901, 1.0, 0.97 + 1e-15])).tolist() == [99, 100, 100, 97]


def test_each_bin_has_its_share_and_its_range_of_throughput() -> None:
    drawn = utilization_histogram(
        np.array([0.985, 0.989, 0.999, 0.9]), np.array([800.0, 1000.0, 900.0, 700.0]), excluded=2
    )
    bars, ranges = drawn.data
    shares = dict(zip(bars.x.tolist(), bars.y.tolist(), strict=True))
    assert (shares[99], shares[100], shares[90], shares[95]) == (50, 25, 25, 0)
    at = list(ranges.x).index(99)
    low, high = (ranges.y[at] - ranges.error_y.array[at], ranges.y[at] + ranges.error_y.array[at])
    assert (low, high) == pytest.approx((6.4, 8.0))
    text = " ".join(str(each.text) for each in drawn.layout.annotations).replace("<br>", " ")
    assert "Channel utilization of 4 transfers" in text
    assert "98 % or more in 3 of 4; rounded up, as in figure 6 of paper 004; 2 with a dropped call left out" in text


def _transfers(*rows: tuple[float, float, str]) -> Table:
    """Return UTILIZATION of transfers: utilization, share of the time limited by the link, outcome."""
    given = dict(zip(("utilization", "link_limited_share", "outcome"), zip(*rows, strict=True), strict=True))
    empty = {"U": "", "i": 1, "f": 1000.0}
    columns = {c.name: np.array(given.get(c.name, [empty[c.dtype[0]]] * len(rows)), c.dtype) for c in UTILIZATION}
    return Table(UTILIZATION, columns)


def test_dropped_transfers_are_counted_also_if_no_complete_one_has_a_log() -> None:
    dropped, unlogged = (0.7, np.nan, "dropped"), (np.nan, 0.4, "complete")
    drawn = utilization_figure([("drive", _transfers(dropped, dropped, unlogged))])
    text = " ".join(str(each.text) for each in drawn.layout.annotations).replace("<br>", " ")
    assert "of 1 transfer" in text
    assert "2 with a dropped call left out" in text


def test_without_a_transfer_there_is_no_figure() -> None:
    with pytest.raises(InputError, match="no transfer"):
        utilization_histogram(np.array([]), np.array([]))
