"""Compares transports over the same radio, in runs with different seeds and starts in the trace.

Only virtual time can do this: the radio of a run does not depend on what is sent over it.
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
    """The result of one run over one transport."""

    transport: str
    seed: int
    goodput_bits_per_s: float | None
    """Delivered payload bits per second, from the first packet to the last byte or the end of the run."""
    retransmissions: int | None
    """Number of retransmissions; None for WTCP, whose packet numbers differ from those of TCP."""
    timeouts: int | None
    max_rtt_s: float | None
    hole_s: float | None
    """Longest time without new data at the receiver, s."""


MEASURES = ("goodput_bits_per_s", "retransmissions", "timeouts", "max_rtt_s", "hole_s")
"""Fields of a `TransportRun` that are compared."""


@dataclass(frozen=True)
class TransportResults:
    """The results of one transport in all runs."""

    transport: str
    outcomes: tuple[TransportRun, ...]

    def values(self, measure: str) -> list[float | None]:
        """Return one number of each run; `measure` is a name in `MEASURES`.

        None where the run has no value.
        """
        return [getattr(outcome, measure) for outcome in self.outcomes]


def runs_of(scenario: Scenario, count: int, *, lasts_s: float = 0.0) -> Iterator[Scenario]:
    """Yield the scenarios of a comparison's runs: each has the next seed and another start in the trace.

    Parameters
    ----------
    scenario : Scenario
    count : int
        Number of runs.
    lasts_s : float
        Length of the trace that the link follows, s; 0: no trace, and all runs start alike.
    """
    for number in range(count):
        start_s = number * lasts_s / count
        traffic = tuple(replace(each, start_s=each.start_s + start_s) for each in scenario.traffic)
        limit_s = scenario.limit_s + start_s
        yield replace(scenario, traffic=traffic, limit_s=limit_s, seed=scenario.seed + number)


def compare(
    runs: Sequence[Scenario], transports: Sequence[str], *, progress: Progress | None = None
) -> list[TransportResults]:
    """Return the results of each transport in each run.

    Parameters
    ----------
    runs : sequence of Scenario
        Scenarios, the same for all transports.
    transports : sequence of str
        Names of `TRANSPORTS`.
    progress : callable, optional
        Called after each run with the number of finished runs.

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
