"""docs/papers/wtcp.md shows what each parameter of WTCP does today."""

from __future__ import annotations

import pytest

from docs.papers.programs import wtcp_sensitivity, wtcp_timer

CHECKED = ("delta", "max_loss_share")
"""Each takes some seconds; `python -m docs.papers.programs.wtcp_sensitivity` makes the whole table."""


@pytest.mark.parametrize("key", CHECKED)
def test_the_page_shows_what_a_parameter_does(key: str) -> None:
    page = wtcp_sensitivity.PAGE.read_text("utf-8")
    assert wtcp_sensitivity.row(key) in page, "run python -m docs.papers.programs.wtcp_sensitivity"


def test_every_parameter_is_in_the_table() -> None:
    page = wtcp_sensitivity.PAGE.read_text("utf-8")
    assert [key for key in wtcp_sensitivity.KEYS if f"\n| `{key}` | " not in page] == []


@pytest.mark.slow
def test_the_timer_over_cdpd_is_as_long_as_the_paper_says() -> None:
    line = wtcp_timer.row(2)
    assert line in wtcp_timer.PAGE.read_text("utf-8"), "run python -m docs.papers.programs.wtcp_timer"
    deviation_s, rto_s = (float(cell) for cell in line.split("|")[5:7])
    assert deviation_s >= 8
    assert rto_s >= 32
