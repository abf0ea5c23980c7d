"""docs/simulator.md says what is so."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING

import pytest

from multitracer.lab.scenario.library import parse_scenario
from tests.lab.simulator.reference import PAGE, table, written
from tests.lab.simulator.watch import watched

if TYPE_CHECKING:
    from tests.lab.shared_runs import SharedRuns


@pytest.mark.slow
@pytest.mark.timeout(900)  # it records all bundled scenarios, for others too
def test_the_table_of_scenarios_is_what_they_show(shared_runs: SharedRuns) -> None:
    made = table(lambda scenario: shared_runs.session(scenario).summary)
    assert written() == made, "run: python -m tests.lab.simulator.reference"


def test_the_examples_are_scenarios() -> None:
    example, *parts = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    for part in parts:
        complete = f"{part}[[traffic]]\nbytes = 1\n"
        read = parse_scenario(complete, name="part", path="docs", read_trace=None)  # type: ignore[arg-type]
        assert read.name == "part"
    scenario = parse_scenario(example, name="example", path="docs", read_trace=None)  # type: ignore[arg-type]
    assert tomllib.loads(example)["title"] == scenario.title
    assert (scenario.events[0].duration_s, scenario.traffic[0].aborts_after_s) == (1.2, 60)


def test_every_key_of_the_summary_is_explained() -> None:
    text = PAGE.read_text("utf-8")
    keys = json.loads(json.dumps(watched("fig11-fade").summary.document()))
    assert all(f"`{key}`" in text for key in keys)
