"""The sweeps of paper 003 as plans: what each varies, over which values, under which arms.

An arm is one curve of a figure; at a value it gives a scenario. All come from
data/cross_layer/download.toml.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from multitracer.lab.channel.capacity import CapacityConfig, TracedConfig
from multitracer.lab.channel.cdma2000_radio import FASTEST, FUNDAMENTAL, Cdma2000Config
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.lab.scenario.library import load_scenario
from multitracer.protocols.capacity_trace import OPPORTUNITY_BYTES, CapacityTrace
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from multitracer.lab.scenario.model import Scenario

    At = Callable[[float, int], Scenario]
    """From a value and a seed."""
    Control = Callable[[Scenario, float, float], Scenario]
    """From a scenario and the mean rates down and up, in bit/s."""

FOLDER: Path = Path(__file__).parents[1] / "data" / "cross_layer"
BASE: Path = FOLDER / "download.toml"
WINDOWS_KB = (8, 16, 24, 32, 40, 64, 96, 128)
"""Of figure 5, whose axis goes from 8 to 128 KB; 24 to 40 lie around the paper's buffer of 25 to 35 KB."""
CONNECTIONS = (1, 2, 3, 4)
"""Of figure 6."""
SPEEDS_MPH = (0, 15, 30, 45, 60, 75)
"""45, 60 and 75 are those of figure 7."""
ECIO_DB = (-9, -8, -7, -6, -5, -4, -3, -2)
"""The axis of figure 7."""
CELL_M = 3_219.0
"""Two miles: the paper's cells have 2 to 3."""
HIGHWAY_BYTES = 5_000_000
"""What the paper downloaded on the highway."""
TOGETHER_S = 200.0
"""How long downloads at the same time last (ours): nobody ends before the others, so that rates compare."""
ENDLESS_BYTES = 100_000_000
"""More than the link carries in that time."""
KB, M_PER_S_OF_MPH = 1024, 0.44704
"""Bytes; an international mile of 1,609.344 m in an hour."""
OFTEN_S, SELDOM_S, PAUSE_S = 2.5, 6.0, 3.0
"""Mean times between two pauses of the fast rate, and how long one is (ours; the page has what was tried)."""
FRAME_MS = 20
"""Of the traffic channels (C.S0002)."""
_PAUSES_MS = 600_000
"""Of a rate with pauses before it repeats (ours): longer than a download."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """One sweep of the paper."""

    name: str
    axis: str
    """What is varied, with its unit: the title of the horizontal axis."""
    values: tuple[float, ...]
    transports: dict[str, At]
    """Name of a curve -> the scenario at a value."""
    seeds: int
    controls: dict[str, tuple[str, Control]] = field(default_factory=dict)
    """Name of a further curve -> the arm that it controls, and the scenario at the mean rates of that run."""

    @property
    def curves(self) -> tuple[str, ...]:
        """All names of curves, the controls last."""
        return (*self.transports, *self.controls)


@cache
def base() -> Scenario:
    """Return the download that all sweeps begin from."""
    return load_scenario(str(BASE))


def with_tcp(scenario: Scenario, **changes: Any) -> Scenario:
    """Return the scenario with other fields of the TCP of both hosts."""
    ends = {name: replace(getattr(scenario, name), **changes) for name in ("mobile", "fixed")}
    return replace(scenario, **ends)


def with_link(scenario: Scenario, **changes: Any) -> Scenario:
    """Return the scenario with other fields of its link."""
    return replace(scenario, link=replace(_link(scenario), **changes))


def _link(scenario: Scenario) -> Cdma2000Config:
    assert isinstance(scenario.link, Cdma2000Config)
    return scenario.link


def with_radio(scenario: Scenario, **changes: Any) -> Scenario:
    """Return the scenario with other fields of its radio."""
    return with_link(scenario, radio=replace(_link(scenario).radio, **changes))


# --- the controls, and links without a scheduler ---


def at_mean_rate(
    scenario: Scenario, down_bps: float, up_bps: float, *, rate: Literal["mean", "mean-rlp"] = "mean"
) -> Scenario:
    """Return the scenario without the scheduler, at steady rates: the paper's control, or that with RLP."""
    rates = {"mean_bits_per_s": round(down_bps), "mean_up_bits_per_s": round(up_bps)}
    return with_link(scenario, rate=rate, **rates)


def over_trace(scenario: Scenario, stamps_ms: Iterable[int]) -> Scenario:
    """Return the scenario over delivery opportunities to the mobile, with the link's buffer and delays."""
    link = _link(base())
    queue = QueueConfig(limit_packets=link.buffer_bytes, limit_bytes=link.buffer_bytes)
    delay_ns = link.wired.backhaul_ns + link.wired.fixed_ns
    down = TracedConfig(trace=CapacityTrace(stamps_ms))
    return replace(scenario, link=CapacityConfig(queue=queue, delay_ns=delay_ns, down=down))


def paused(every_s: float, seed: int) -> list[int]:
    """Return the opportunities, in ms, of a fast rate that falls to the fundamental channel's for each pause.

    Parameters
    ----------
    every_s : float
        Mean time between two pauses; each is half to one and a half of it.
    seed : int
    """
    luck = Random(f"{seed} pauses")  # noqa: S311  a run is to be repeated
    stamps: list[int] = []
    now_ms, credit = 0, 0
    while now_ms < _PAUSES_MS:
        for rate, lasts_s in ((FASTEST, every_s * luck.uniform(0.5, 1.5)), (FUNDAMENTAL, PAUSE_S)):
            until_ms = now_ms + FRAME_MS * max(1, round(lasts_s * 1000 / FRAME_MS))
            for frame_ms in range(now_ms, until_ms, FRAME_MS):
                credit += rate.octets
                stamps += [frame_ms + FRAME_MS] * (credit // OPPORTUNITY_BYTES)
                credit %= OPPORTUNITY_BYTES
            now_ms = until_ms
    return stamps


# --- the sweeps ---


def windowed(window_kb: float, _seed: int = 0, *, timestamps: bool = False) -> Scenario:
    """Return the download with another receive window."""
    return with_tcp(base(), receive_buffer_bytes=round(window_kb * KB), timestamps=timestamps)


def _optional(window_kb: float, _seed: int, *, sack: bool, timestamps: bool, linux: bool) -> Scenario:
    scenario = with_tcp(windowed(window_kb, timestamps=timestamps), sack=sack)
    return scenario.as_linux() if linux else scenario


def _in_bursts(window_kb: float, _seed: int, *, frames: int) -> Scenario:
    scenario = windowed(window_kb)
    return with_link(scenario, forward=replace(_link(scenario).forward, burst_frames=frames))


def _together(connections: float, _seed: int) -> Scenario:
    scenario = with_link(base(), mobiles=round(connections))
    (download,) = scenario.traffic
    *mobiles, _ = scenario.hosts
    traffic = tuple(replace(download, host=host, bytes=ENDLESS_BYTES) for host in mobiles)
    return replace(scenario, traffic=traffic, limit_s=TOGETHER_S)


def _driven(speed_mph: float, _seed: int) -> Scenario:
    return with_radio(base(), speed_m_per_s=speed_mph * M_PER_S_OF_MPH)


def _on_highway(speed_mph: float, seed: int, *, handoff_s: float) -> Scenario:
    """Return the paper's download of 5 MB along a row of cells; without an interruption there is one cell."""
    scenario = _driven(speed_mph, seed)
    (download,) = scenario.traffic
    scenario = replace(scenario, traffic=(replace(download, bytes=HIGHWAY_BYTES),))
    if not handoff_s:
        return scenario
    return with_radio(scenario, cell_m=CELL_M, handoff_ns=round(handoff_s * NS_PER_S))


def _scheduled(
    window_kb: float, _seed: int, *, timestamps: bool, buffer_bytes: int = 30_000, **changes: int
) -> Scenario:
    """Return the download with other rules of the assignment to the mobile, and another buffer."""
    scenario = with_link(windowed(window_kb, timestamps=timestamps), buffer_bytes=buffer_bytes)
    return with_link(scenario, forward=replace(_link(scenario).forward, **changes))


def _coupled(window_kb: float, seed: int, *, timestamps: bool, min_rto_ns: int = NS_PER_S) -> Scenario:
    """Return the download with the longest bursts and a deep buffer."""
    scenario = _scheduled(window_kb, seed, timestamps=timestamps, burst_frames=LONG_FRAMES, buffer_bytes=DEEP_BYTES)
    return with_tcp(scenario, min_rto_ns=min_rto_ns)


def _placed(ecio_db: float, _seed: int) -> Scenario:
    return with_radio(base(), ecio_db=ecio_db)


def _pausing(window_kb: float, seed: int, *, every_s: float, timestamps: bool = False, linux: bool = False) -> Scenario:
    scenario = over_trace(windowed(window_kb, timestamps=timestamps), paused(every_s, seed))
    return scenario.as_linux() if linux else scenario


SACK, TIMESTAMPS = "SACK", "SACK and timestamps"
MEAN, MEAN_RLP = "mean rate", "mean rate with RLP"
OPTIONS: dict[str, At] = {
    f"{stack}: {' and '.join(words) or 'neither'}": partial(
        _optional, sack="SACK" in words, timestamps="timestamps" in words, linux=stack == "Linux"
    )
    for stack in ("RFC", "Linux")
    for words in ((), ("SACK",), ("timestamps",), ("SACK", "timestamps"))
}
RULES: dict[str, dict[str, int]] = {
    "asked from 12,000 bytes on": {"request_bytes": 12_000},
    "assigned after 1 s": {"delay_ns": 1 * NS_PER_S},
    "assigned after 4 s": {"delay_ns": 4 * NS_PER_S},
}
"""Other rules of the scheduler: each changes what a window is worth, or lets the rate pause between bursts."""
RULED: dict[str, At] = {
    f"{words}, {rule}": partial(_scheduled, timestamps=words == TIMESTAMPS, **changes)
    for rule, changes in RULES.items()
    for words in (SACK, TIMESTAMPS)
}
DEEP_BYTES = 140_000
"""A buffer that no window of figure 5 fills."""
LONG_FRAMES = 256
"""The longest burst but an endless one (C.S0005)."""
PATIENT, PATIENT_RTO_NS = "SACK, a timeout of at least 1.5 s", 1_500_000_000
COUPLED: dict[str, At] = {
    SACK: partial(_coupled, timestamps=False),
    TIMESTAMPS: partial(_coupled, timestamps=True),
    PATIENT: partial(_coupled, timestamps=False, min_rto_ns=PATIENT_RTO_NS),
}
PAUSED: dict[str, At] = {
    f"{stack}{words}, a pause every {every_s:g} s": partial(
        _pausing, every_s=every_s, timestamps=words == TIMESTAMPS, linux=bool(stack)
    )
    for every_s in (OFTEN_S, SELDOM_S)
    for stack in ("", "Linux: ")
    for words in (SACK, TIMESTAMPS)
}
HANDOFFS, NO_HANDOFFS = "handoffs of 0.2 s", "no handoffs"
HIGHWAY: dict[str, At] = {
    NO_HANDOFFS: partial(_on_highway, handoff_s=0.0),
    HANDOFFS: partial(_on_highway, handoff_s=0.2),
    "handoffs of 2 s": partial(_on_highway, handoff_s=2.0),
}
_at_mean_rate_with_rlp = partial(at_mean_rate, rate="mean-rlp")
_SWEEPS = (
    Sweep(
        "window", "receive window, KB", WINDOWS_KB,
        {SACK: windowed, TIMESTAMPS: partial(windowed, timestamps=True)}, 6,
        {MEAN: (SACK, at_mean_rate), MEAN_RLP: (SACK, _at_mean_rate_with_rlp)},
    ),
    Sweep(
        "bursts", "receive window, KB", (8, 16, 32, 64, 128),
        {f"bursts of {each} frames": partial(_in_bursts, frames=each) for each in (16, 32, 128, 256)}, 2,
    ),
    Sweep("rules", "receive window, KB", (8, 16, 32, 64, 128), RULED, 2),
    Sweep(
        "coupled", "receive window, KB", (16, 32, 64, 128), COUPLED, 6, {MEAN: (SACK, at_mean_rate)},
    ),
    Sweep("options", "receive window, KB", (64,), OPTIONS, 6),
    Sweep("pauses", "receive window, KB", (8, 12, 16, 32, 64), PAUSED, 5),
    Sweep("load", "connections", CONNECTIONS, {SACK: _together}, 12),
    Sweep("speed", "speed, mph", SPEEDS_MPH, {SACK: _driven}, 6),
    Sweep("highway", "speed, mph", SPEEDS_MPH[3:], HIGHWAY, 6),
    Sweep("ecio", "mean Ec/Io, dB", ECIO_DB, {SACK: _placed}, 6),
)  # fmt: skip
"""Seeds are ours: more where ranges over the seeds overlap what the page says of medians."""
SWEEPS = {sweep.name: sweep for sweep in _SWEEPS}
