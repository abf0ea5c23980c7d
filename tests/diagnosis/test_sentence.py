"""What the first sentence names first, and that no large part of the time is silent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from multitracer.diagnosis.limits.names import Limit, Part
from tests.diagnosis.test_limit_findings import answers

if TYPE_CHECKING:
    from pathlib import Path


def test_programs_of_both_ends_are_told_together(tmp_path: Path) -> None:
    """Neither the one that took less is silent, nor stands a smaller share before a larger one."""
    headline = answers(think_ms=400, pause_ms=500).diagnosed(tmp_path, reverse=True).headline
    assert headline.limit is Limit.APPLICATION
    assert headline.part is Part.NONE
    assert re.match(
        r"Mostly the programs at both ends: the client let .* before it asked, .*; "
        r"the server took 4\.0 s to begin 10 answers, usually 0\.4 s each \(9\d% of ",
        headline.sentence,
    )
    assert headline.help.count(";") == 1, "each end has its own remedy"
