"""What `diagnose` calls the rows that its findings rest on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cli.program import call

if TYPE_CHECKING:
    from pathlib import Path


def test_rows_of_the_only_capture_are_named_after_its_end(sample_sender: Path, sample_receiver: Path) -> None:
    for capture, end in ((sample_sender, "sender"), (sample_receiver, "receiver")):
        assert json.loads(call("diagnose", "--json", capture).stdout)["view"] == end
        lines = [line for line in call("diagnose", capture).stdout.splitlines() if "evidence:" in line]
        assert lines
        assert all(place.startswith(f"{end}:") for line in lines for place in line.split()[1:])
