"""Tables of the papers, from runs of the bundled scenarios: Table I of paper 002.

Input: names of scenarios and the values that the paper prints. Output: our value beside the paper's. The runs are
in virtual time with the seed of each scenario, so the same version always gives the same table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.radio import power_of
from multitracer.lab.simulator.run import VirtualRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.lab.scenario.model import Scenario

RAY_THRESHOLDS = (8, 16, 32)
"""First slow-start thresholds of Table I, in packets."""
RAY_PAPER: dict[int, tuple[float, ...]] = {
    1: (21, 3, 1.4, 192, 190, 184),
    2: (27, 50, 0.1, 152, 131, 125),
    3: (5, 6, 0.2, 228, 228, 231),
    4: (45, 4, 2.2, 116, 183, 107),
    5: (46, 54, 0.2, 30, 30, 30),
}
"""Table I of paper 002: T_d in %, N_f, T_f in s, and R in kB/s at each of `RAY_THRESHOLDS`."""


class TableCell(NamedTuple):
    """One value of a table of a paper."""

    scenario: str
    quantity: str
    """Name of the row, with its unit."""
    value: float | None
    """Our value; None if there is none, as the mean duration of no fades."""
    paper: float | None
    """The paper's value; None if the paper has none."""


def ray_table(
    *, stated: bool = False, transport: str = "tahoe", thresholds: Sequence[int] = RAY_THRESHOLDS
) -> Iterator[TableCell]:
    """Yield the cells of Table I of paper 002, scenario by scenario.

    Parameters
    ----------
    stated : bool
        Whether to use the scenarios with the paper's wording (`ray-1-stated`) instead of the calibrated ones.
    transport : str
    thresholds : sequence of int
        First slow-start thresholds, in packets.

    Raises
    ------
    InputError
        If there is no such transport.
    """
    for number, (down_percent, fades, fade_s, *rates) in RAY_PAPER.items():
        name = f"ray-{number}-stated" if stated else f"ray-{number}"
        scenario = load_scenario(name).with_transport(transport)
        ours = power_of(name).fades
        assert ours is not None  # these scenarios have a threshold
        yield TableCell(name, "T_d, %", 100 * ours.down_share, down_percent)
        yield TableCell(name, "N_f", ours.number, fades)
        yield TableCell(name, "T_f, s", ours.mean_s, fade_s)
        printed = dict(zip(RAY_THRESHOLDS, rates, strict=True))
        for packets in thresholds:
            rate = packet_rate(with_first_threshold(scenario, packets)) / 1000
            yield TableCell(name, f"R at {packets} packets, kB/s", rate, printed.get(packets))


def with_first_threshold(scenario: Scenario, packets: int) -> Scenario:
    """Return the scenario with another slow-start threshold at the start, in packets, on both hosts."""
    tcp = {host: replace(getattr(scenario, host), initial_ssthresh_segments=packets) for host in ("mobile", "fixed")}
    return replace(scenario, **tcp)


def packet_rate(scenario: Scenario) -> float:
    """Return the mean rate of delivered data over a whole run, as complete IP packets, in byte/s."""
    summary = VirtualRun(scenario).run()
    delivered_bytes = summary.flows[0].delivered_bytes if summary.flows else 0
    return delivered_bytes * scenario.mtu_bytes / scenario.payload_bytes / scenario.limit_s
