"""Compares runs in virtual time: transports over the same radio, and Table I of paper 002 beside the paper's.

Transports are compared in runs with different seeds and starts in the trace. Only virtual time can do this: the radio
of a run does not depend on what is sent over it. The runs of a table have the seed of each scenario, so the same
version always gives the same table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.model import WTCP
from multitracer.lab.scenario.radio import power_of
from multitracer.lab.simulator.run import VirtualRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from multitracer.lab.scenario.model import Scenario

    Progress = Callable[[int], None]


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
