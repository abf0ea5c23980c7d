"""How well the largest transfers of a session used their link."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

import multitracer as mt
from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

_ROW = re.compile(r"^\| `(?P<name>[\w-]+)` \| (?P<used>[\d.]+) \| [\d.]+ \| (?P<took>\d+) \|", re.MULTILINE)
_DOCUMENTED = [match.groups() for match in _ROW.finditer((ROOT / "docs/papers/utilization.md").read_text())]
"""Name, utilization in percent and duration in s of each bundled data call."""


def test_the_page_has_the_bundled_data_calls() -> None:
    assert len(_DOCUMENTED) == 16


@pytest.mark.parametrize(("name", "used", "took"), _DOCUMENTED)
def test_the_utilization_of_a_bundled_call_is_that_of_the_page(name: str, used: str, took: str) -> None:
    rows = mt.open(ROOT / "sample_traces" / name).utilization().to_dict("records")
    row = max(rows, key=lambda each: int(each["unique_bytes"]))
    assert f"{100 * row['utilization']:.1f}" == used
    assert f"{row['seconds']:.0f}" == took
    assert row["utilization_rounded_up_pct"] == np.ceil(round(100 * row["utilization"], 7))
    assert row["view"] == "link-log"


def test_without_a_log_of_the_link_the_share_of_the_limit_is_known(sample_session: Path) -> None:
    session = mt.open(sample_session)
    own = session.utilization().set_index("connection")
    assert own["utilization"].isna().all()
    assert own["utilization_rounded_up_pct"].isna().all()
    limits = session.limits(1)
    share = limits.query("limit == 'link'")["seconds"].sum() / limits["seconds"].sum()
    assert own.loc[1, "link_limited_share"] == pytest.approx(share)
    assert share == pytest.approx(0.899, abs=5e-3)


def test_a_session_without_packets_has_no_row() -> None:
    assert mt.open(ROOT / "sample_traces" / "rehearsal").utilization().empty
