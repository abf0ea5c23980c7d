"""Why one mobile waits in figure 6: an ablation, `python -m docs.papers.programs.wtcp_fairness`.

Three mobiles send over one channel. Two things can starve one of them: the access to the contended channel (DSMA/CD),
whose back-off favours who has just sent, and WTCP's decision rule, which cuts the rate after late packets. Each line
takes one of them away.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from docs.papers.programs.page_part import write_part
from multitracer.lab.channel.cdpd_config import CdpdConfig
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import VirtualRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.scenario.model import Scenario

    Change = Callable[[Scenario], Scenario]

PAGE = Path(__file__).parents[1] / "wtcp.md"
PART = "fairness"
SEEDS = (1, 2, 3, 4, 5)
HEAD = "| what is taken away | Jain's index, complete run | last third | packets |\n| --- | --- | --- | --- |\n"


def _with_access(scenario: Scenario, **changes: int) -> Scenario:
    assert isinstance(scenario.link, CdpdConfig)
    access = replace(scenario.link.access, **changes)
    return replace(scenario, link=replace(scenario.link, access=access))


def _down(scenario: Scenario) -> Scenario:
    return replace(scenario, traffic=tuple(replace(each, direction="down") for each in scenario.traffic))


CHANGES: dict[str, Change] = {
    "nothing": lambda scenario: scenario,
    "growth of the back-off: always 0 to 15 microslots": lambda scenario: _with_access(scenario, max_count=4),
    "advantage of who has just sent: it waits 36 microslots, not 6": lambda scenario: _with_access(
        scenario, min_idle_microslots=36
    ),
    "both": lambda scenario: _with_access(scenario, max_count=4, min_idle_microslots=36),
    "contention: the same flows to the mobiles": _down,
    "WTCP's rule: NewReno": lambda scenario: scenario.with_transport("newreno"),
}
"""Each as what it changes in the scenario of figure 6."""


def row(name: str) -> str:
    """Return the line of one change: medians, and the least index of all seeds."""
    scenario = CHANGES[name](load_scenario("wtcp-fig6"))
    runs = [VirtualRun(scenario, seed=seed).run() for seed in SEEDS]
    documents = [run.document() for run in runs]
    complete = [document["jain_index"] for document in documents]
    last = [document["jain_index_last_third"] for document in documents]
    packets = [sum(flow.delivered_packets for flow in run.flows) for run in runs]
    cells = (name, _indexes(complete), _indexes(last), f"{median(packets):.0f}")
    return f"| {' | '.join(cells)} |\n"


def _indexes(values: list[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f})"


def main() -> None:
    """Write the table into the page."""
    write_part(PAGE, PART, HEAD + "".join(map(row, CHANGES)))


if __name__ == "__main__":
    main()
