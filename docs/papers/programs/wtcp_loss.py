"""What 5 % loss costs NewReno: the second table of wtcp.md, made by `make -C docs/papers wtcp`.

The scenarios are wtcp-fig3a and -fig3b with no loss and with 5 %, the same seeds for both.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from multitracer.lab.channel.cdpd_config import CdpdConfig, LossConfig
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import VirtualRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LINKS = {"19.2 kb/s": "wtcp-fig3a", "50 kb/s": "wtcp-fig3b"}
TRANSPORTS = ("newreno", "wtcp")
LOSS = 0.05  # paper 001, section II: packet losses of 5 % cost TCP 66 % of its throughput
COLUMNS = ("link", "transport", "loss", "seed", "delivered_packets", "version")

Row = dict[str, Any]


def delivered(link: str, transport: str, loss: float, seed: int) -> int:
    """Return the packets that the one flow of a scenario delivers if so many are lost each way."""
    scenario = load_scenario(LINKS[link]).with_transport(transport)
    assert isinstance(scenario.link, CdpdConfig)
    lossy = replace(scenario.link, loss=LossConfig(down=loss, up=loss))
    (flow,) = VirtualRun(replace(scenario, link=lossy), seed=seed).run().flows
    return flow.delivered_packets


def runs(seeds: int, version: str) -> Iterator[Row]:
    """Yield a row for each run."""
    for link in LINKS:
        for transport in TRANSPORTS:
            for loss in (0.0, LOSS):
                for seed in range(1, seeds + 1):
                    packets = delivered(link, transport, loss, seed)
                    yield dict(zip(COLUMNS, (link, transport, loss, seed, packets, version), strict=True))


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of the page: medians and ranges of the packets, and what the loss costs."""
    packets: dict[tuple[str, str, float], list[int]] = {}
    for row in rows:
        key = row["link"], row["transport"], float(row["loss"])
        packets.setdefault(key, []).append(int(row["delivered_packets"]))
    lines = [
        f"| {link} | {'NewReno' if transport == 'newreno' else 'WTCP'} | {_cell(without)} | {_cell(lossy)} "
        f"| {_cost(without, lossy)} |\n"
        for link in LINKS
        for transport in TRANSPORTS
        for without, lossy in [[packets[link, transport, loss] for loss in (0.0, LOSS)]]
    ]
    head = "| link | transport | no loss | 5 % | 5 % costs |\n| --- | --- | --- | --- | --- |\n"
    return head + "".join(lines)


def _cell(packets: list[int]) -> str:
    return f"{median(packets):.0f} ({min(packets)} to {max(packets)})"


def _cost(without: list[int], lossy: list[int]) -> str:
    """Return what the loss costs, by seed: median and range."""
    costs = [1 - lost / complete for complete, lost in zip(without, lossy, strict=True)]
    return f"{median(costs):.0%} ({min(costs):.0%} to {max(costs):.0%})"
