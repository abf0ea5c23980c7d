"""One radio under several transports: what each reaches, over runs that differ in seed and in their start.

Only virtual time can do this: the radio of a run does not know what is sent over it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from multitracer.lab.scenario.model import WTCP
from multitracer.lab.simulator.run import VirtualRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from multitracer.lab.scenario.model import Scenario

    Progress = Callable[[int], None]


@dataclass(frozen=True)
class TransportRun:
    """One run over one transport."""

    transport: str
    seed: int
    goodput_bits_per_s: float | None
    """Payload that arrived, each byte once, from the first packet to the last byte or the run's end."""
    retransmissions: int | None
    """None of WTCP, whose packets are not numbered as TCP's are."""
    timeouts: int | None
    max_rtt_s: float | None
    hole_s: float | None
    """Longest time without new data at the receiver."""


MEASURES = ("goodput_bits_per_s", "retransmissions", "timeouts", "max_rtt_s", "hole_s")
"""The numbers of an `TransportRun`."""


@dataclass(frozen=True)
class TransportResults:
    """What one transport reached in all runs."""

    transport: str
    outcomes: tuple[TransportRun, ...]

    def values(self, measure: str) -> list[float | None]:
        """Return one of `MEASURES` of each run."""
        return [getattr(outcome, measure) for outcome in self.outcomes]


def runs_of(scenario: Scenario, count: int, *, lasts_s: float = 0.0) -> Iterator[Scenario]:
    """Yield the runs of a comparison: with the seeds that follow each other, begun in other parts of a trace.

    Parameters
    ----------
    scenario : Scenario
    count : int
        How many.
    lasts_s : float
        Length of the trace that its link follows; 0 if it follows none: then all runs begin alike.
    """
    for number in range(count):
        start_s = number * lasts_s / count
        traffic = tuple(replace(each, start_s=each.start_s + start_s) for each in scenario.traffic)
        limit_s = scenario.limit_s + start_s
        yield replace(scenario, traffic=traffic, limit_s=limit_s, seed=scenario.seed + number)


def compare(
    runs: Sequence[Scenario], transports: Sequence[str], *, progress: Progress | None = None
) -> list[TransportResults]:
    """Return what each transport reached in each run.

    Parameters
    ----------
    runs : sequence of Scenario
        The same for all transports.
    transports : sequence of str
        Names of `TRANSPORTS`.
    progress : callable, optional
        Called after each run with the number of those that are done.

    Raises
    ------
    InputError
        If there is no such transport, or the link cannot carry it.
    """
    chosen = [(name, [run.with_transport(name) for run in runs]) for name in transports]
    compared: list[TransportResults] = []
    for name, scenarios in chosen:
        outcomes: list[TransportRun] = []
        for scenario in scenarios:
            outcomes.append(_outcome(name, scenario))
            if progress is not None:
                progress(len(compared) * len(runs) + len(outcomes))
        compared.append(TransportResults(name, tuple(outcomes)))
    return compared


def _outcome(transport: str, scenario: Scenario) -> TransportRun:
    summary = VirtualRun(scenario).run()
    flow = summary.flows[0] if summary.flows else None
    is_tcp = transport != WTCP
    return TransportRun(
        transport,
        scenario.seed,
        None if flow is None else flow.rate_bps,
        summary.tcp_retransmissions if is_tcp else None,
        summary.tcp_timeouts if is_tcp else None,
        summary.max_rtt_s,
        summary.longest_receiver_hole_s,
    )
