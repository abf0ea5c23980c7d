"""docs/papers/wtcp.md shows what each parameter of WTCP does today."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from docs.papers.programs import wtcp_factor, wtcp_fairness, wtcp_sensitivity, wtcp_timer
from docs.papers.programs.page_part import read_part

if TYPE_CHECKING:
    from types import ModuleType

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


@pytest.mark.slow
def test_a_sink_that_acknowledges_each_packet_makes_the_factor_of_figure_3b() -> None:
    line = wtcp_factor.row("each packet is acknowledged, not every second one")
    assert line in wtcp_factor.PAGE.read_text("utf-8"), "run python -m docs.papers.programs.wtcp_factor"
    assert 2.5 < float(line.split("|")[4]) < 3.5


@pytest.mark.slow
def test_a_back_off_that_does_not_grow_shares_figure_6_evenly() -> None:
    line = wtcp_fairness.row("growth of the back-off: always 0 to 15 microslots")
    assert line in wtcp_fairness.PAGE.read_text("utf-8"), "run python -m docs.papers.programs.wtcp_fairness"
    assert float(line.split("|")[3].split()[0]) > 0.9


@pytest.mark.parametrize("program", [wtcp_factor, wtcp_fairness])
def test_each_change_has_a_line(program: ModuleType) -> None:
    shown = read_part(program.PAGE, program.PART)
    assert [line.split(" | ")[0].removeprefix("| ") for line in shown.splitlines()[2:]] == list(program.CHANGES)
