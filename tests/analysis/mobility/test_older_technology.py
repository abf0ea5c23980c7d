"""A phone that falls back to an older technology: what that gives is slow, and nothing else is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis.mobility.stretches import stretches
from tests.analysis.mobility.tables import BEGIN_NS
from tests.analysis.mobility.test_handovers import lte
from tests.analysis.mobility.test_stretches import LOW, drive

if TYPE_CHECKING:
    from multitracer.tables import Row, Table

OLD = range(30, 60)


def phone(of_old: Row, *, cells: int = 1) -> list[Row]:
    """Return readings of LTE, and of another technology for 30 s, in which the cell changes."""
    return [
        lte(t, 100 + (t % cells), rsrp_dbm=np.nan, **of_old) if t in OLD else lte(t, 1, rsrp_dbm=-80.0, sinr_db=20.0)
        for t in range(100)
    ]


def rates(old_bps: float) -> list[float]:
    return [old_bps if t in OLD else 30e6 for t in range(100)]


UMTS = {"rat": "HSPA", "rscp_dbm": -70.0, "ecio_db": -6.0}
EDGE = {"rat": "EDGE", "rssi_dbm": -60.0}


def causes(table: Table) -> list[str]:
    return [str(cause) for cause in table["cause"]]


@pytest.mark.parametrize(("old", "rate", "word"), [(UMTS, 3e6, "3G"), (EDGE, 0.1e6, "2G")])
@pytest.mark.parametrize("cells", [1, 30])
def test_what_an_older_technology_gives_is_neither_a_handover_nor_load(
    old: Row, rate: float, word: str, cells: int
) -> None:
    (row,) = stretches(drive(phone(old, cells=cells), rates(rate), "link")).rows()
    assert row["cause"] == "technology"
    assert row["evidence"].startswith(f"{word} for 30 of 30 s, at its usual rate in this drive; ")
    assert row["missing"] == ""
    assert (row["cause_begin_ns"] - BEGIN_NS, row["cause_end_ns"] - BEGIN_NS) == (29.5e9, 59.5e9)


def test_a_level_does_not_hold_into_another_technology() -> None:
    """Of the last reading in LTE, 3G had a weak level for five seconds, whatever its own was."""
    rows = [row | ({"rsrp_dbm": -119.0} if 27 <= row["at"] < 30 else {}) for row in phone(UMTS)]
    (row,) = stretches(drive(rows, rates(3e6), "link")).rows()
    assert (row["cause"], row["begin_ns"] - BEGIN_NS) == ("technology", 30e9)
    assert row["evidence"].endswith("3.0 Mbit/s; RSCP -70 dBm")


def test_a_slow_second_of_an_older_technology_that_is_usually_fast_has_another_cause() -> None:
    """A drive of the UCC data set: 3G gave 6 Mbit/s, and of its seconds with 2 Mbit/s it is no reason."""
    rate = [2e6 if 40 <= t < 45 else each for t, each in enumerate(rates(9e6))]
    (row,) = stretches(drive(phone(UMTS), rate, "link")).rows()
    assert row["cause"] == "load"


def test_a_change_of_the_cell_at_the_usual_rate_of_the_technology_is_no_reason() -> None:
    """LTE at 20 Mbit/s was bad beside NR, and seven changes of its cell were the cause."""
    rate = [20e6 if 30 <= t < 33 or 50 <= t < 54 else each for t, each in enumerate(rates(36e6))]
    rate = [each if 30 <= t < 60 else 150e6 for t, each in enumerate(rate)]
    rows = [lte(t, 100 + t // 4 if t in OLD else 1, rat="LTE" if t in OLD else "NR", sinr_db=15.0) for t in range(100)]
    assert "handover" not in causes(stretches(drive(rows, rate, "")))


def test_nothing_comes_through_in_an_older_technology_for_another_reason() -> None:
    rate = [0.0 if 40 <= t < 50 else each for t, each in enumerate(rates(3e6))]
    table = stretches(drive(phone(UMTS), rate, "outage", "both"))
    assert "technology" not in causes(table)


def test_a_limit_of_tcp_stays_one_in_an_older_technology() -> None:
    table = stretches(drive(phone(UMTS), rates(3e6), "receiver-window"))
    assert causes(table) == ["TCP"]


def test_a_drive_in_one_technology_is_in_no_older_one() -> None:
    rows = [lte(t, 1, rsrp_dbm=np.nan, **UMTS) for t in range(50)]
    assert causes(stretches(drive(rows, LOW, "link"))) == ["load"]


def test_few_seconds_tell_no_usual_rate() -> None:
    rows = [row if 30 <= row["at"] < 36 or row["at"] not in OLD else lte(row["at"], 1) for row in phone(UMTS)]
    rate = [3e6 if 30 <= t < 36 else 30e6 for t in range(100)]
    assert "technology" not in causes(stretches(drive(rows, rate, "link")))
