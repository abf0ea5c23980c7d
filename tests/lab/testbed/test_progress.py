"""While a run lasts, a terminal shows how much has arrived."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_terminal import shown
from tests.lab.testbed.running import short_scenario

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.root


def test_a_bar_follows_what_arrives_and_leaves(tmp_path: Path) -> None:
    scenario = short_scenario(tmp_path, size=20_000)  # at 20x over a second, after which the bar is shown
    text = shown("testbed", "run", scenario, "--speed", "20", "-o", tmp_path / "run")
    sizes = re.findall(r"running \x1b\[[^\n\r]*━[^\n\r]* (\d+ k?B) of 20 kB", text)
    assert len(set(sizes)) > 1
    bars, _, after = text.rpartition(" of 20 kB")
    assert bars
    assert "\x1b[2K" in after
    assert "goodput_bytes_per_s" in after
