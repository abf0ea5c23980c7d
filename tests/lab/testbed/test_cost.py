"""What a run at the link's own speed takes of a core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.testbed.cost import share_of_a_core

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.root

MOST = 0.25
"""What waits by looking takes a whole core. The run takes 3 % of a quiet one, and 7 % beside three suites of
tests: processor time grows with the neighbours. `python -m tests.benchmarks.testbed` holds it to 5 %."""


def test_a_run_at_1x_waits_without_looking(tmp_path: Path) -> None:
    assert share_of_a_core(tmp_path, window_s=10.0) < MOST
