"""A recording that was killed, cut and robbed of a log: every command reads it and says what is missing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import analyze, run
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

DAMAGED = SAMPLES / "damaged"
CUT = "damaged after 79 whole packets"


def test_inspect_says_what_never_ended() -> None:
    done = run("inspect", DAMAGED)
    assert "how this collector ended is not recorded" in done.stdout
    assert CUT in done.stderr


def test_analyze_counts_what_is_whole_and_trusts_it_less() -> None:
    document = analyze(DAMAGED)
    assert document["trust"]["verdict"] == "caution"
    assert [each["forward"]["packets"] for each in document["connections"]] == [46, 36]


def test_diagnosis_makes_do_with_one_side_of_the_link() -> None:
    document = json.loads(run("diagnose", "--json", DAMAGED).stdout)
    account = document["account"]
    assert account["outcome"] == "dropped"
    assert account["inferred"] is False
    assert sum(account["seconds"].values()) == pytest.approx(account["total_s"], abs=1e-4)
    assert "header-decompressor-failure" not in {finding["kind"] for finding in document["findings"]}


@pytest.mark.parametrize("command", [("report",), ("plot",), ("export", "series")])
def test_pages_and_series_are_made_of_what_is_there(tmp_path: Path, command: tuple[str, ...]) -> None:
    output = tmp_path / ("series" if command[0] == "export" else "page.html")
    done = run(*command, DAMAGED, "-o", output)
    assert CUT in done.stderr
    assert output.exists()
    if command[0] == "export":
        assert (output / "RlpSnd_data.csv").exists()
        assert not (output / "RlpRcv_data.csv").exists()
