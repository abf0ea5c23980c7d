"""What a run in virtual time costs: `python -m tests.benchmarks.virtual` measures this alone.

Processor time of what `testbed run NAME --virtual` does, its logs included, without the start of the
interpreter. A run over 9.6 kbit/s is measured over two links: one with an event for each packet, and a GSM
data call, which has a frame each way every 20 ms, so that its cost does not fall with the traffic.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.lab.channel.ray import channel_of
from multitracer.lab.channel.switched import SwitchedConfig
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import record_virtual
from tests.benchmarks import goals
from tests.lab.rig.virtual import link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.lab.scenario.model import Scenario

RAYS = tuple(f"ray-{number}" for number in range(1, 6))
MOST_S, MOST_POWER_S = 0.5, 0.2
"""For 20 s of a ray scenario, and for its received power alone (issue 20)."""
LEAST_FAST, LEAST_SLOW = 40, 1_000
"""Times as fast as the link: at 2 Mbit/s, and at 9.6 kbit/s (issue 20)."""
LEAST_CALL = 300
"""Of a data call, where the 100 frames of a second have their price (ours)."""
MOST_SESSION_S, MOST_SECTOR_S, MOST_FLOWS_S, MOST_CELL_S = 2.0, 3.0, 3.0, 6.0
"""For 230 kB over a data call, a minute of a sector, 450 s of three WTCP flows, and six minutes of 30 mobiles:
who varies a number makes hundreds of such runs (ours)."""
_CELL = 'limit_s = 360\n[tcp]\nmtu_bytes = 500\n[link]\nkind = "cdpd"\nmobiles = 30\n' + "".join(
    f'[[traffic]]\nhost = "mobile-{k}"\nbytes = 10_000_000\ndirection = "{{direction}}"\nstart_s = {k}\n'
    'transport = "{transport}"\n'
    for k in range(1, 31)
)
_SLOW_BITS_PER_S = 9_600
_SLOW_S = 600.0


def virtual_time(_: object = None, *, runs: int) -> Iterator[goals.Row]:
    """CPU time of the ray scenarios, of their received power, and how much faster than the link it is."""
    for name in RAYS:
        scenario = load_scenario(name)
        seconds = _recorded_s(scenario, runs=runs)
        yield _row("`testbed run --virtual`, 20 s, CPU", name, seconds, MOST_S)
        yield _row("received power of 20 s, CPU", name, _power_s(scenario, runs=runs), MOST_POWER_S)
    fast = load_scenario("ray-1")
    yield _factor("2 Mbit/s", "ray-1", fast, LEAST_FAST, runs=runs)
    assert isinstance(fast.link, SwitchedConfig)
    slow = replace(fast, link=replace(fast.link, bits_per_s=_SLOW_BITS_PER_S, threshold_dbm=-200.0))
    slow = replace(slow, limit_s=_SLOW_S)
    yield _factor("9.6 kbit/s by packets", "ray-1, always up", slow, LEAST_SLOW, runs=runs)
    call = load_scenario("clean-bulk")
    yield _factor("9.6 kbit/s by frames", "clean-bulk", call, LEAST_CALL, runs=runs)
    yield from _shared_links(runs=runs)


def _shared_links(*, runs: int) -> Iterator[goals.Row]:
    """CPU time of the runs that are longest to wait for: a session, a sector, flows beside each other, a full cell."""
    what = "`testbed run --virtual`, CPU"
    session_s = _recorded_s(load_scenario("fig5-typical"), runs=runs)
    yield _row(what, "fig5-typical, 230 kB", session_s, MOST_SESSION_S)
    sector = load_scenario("cdma2000-sector")
    minute = replace(sector, traffic=tuple(replace(each, bytes=5_000_000) for each in sector.traffic), limit_s=60)
    yield _row(what, "cdma2000-sector, 60 s", _recorded_s(minute, runs=runs), MOST_SECTOR_S)
    for transport in ("wtcp", "newreno"):
        flows = load_scenario("wtcp-fig5").with_transport(transport)
        yield _row(what, f"wtcp-fig5, {transport}", _recorded_s(flows, runs=runs), MOST_FLOWS_S)
    for transport, direction in (("wtcp", "up"), ("newreno", "up"), ("newreno", "down")):
        cell = link(_CELL.format(transport=transport, direction=direction))
        cost_s = _recorded_s(cell, runs=runs)
        yield _row(what, f"30 mobiles for 360 s, {transport} {direction}", cost_s, MOST_CELL_S)


def _row(what: str, on: str, seconds: float, at_most: float) -> goals.Row:
    return goals.Row(what, on, f"{seconds:.2f} s", "", f"{seconds:.2f} s", f"≤ {at_most} s", seconds <= at_most)


def _factor(rate: str, on: str, scenario: Scenario, at_least: int, *, runs: int) -> goals.Row:
    lasted_s = _lasted_s(scenario)
    seconds = _recorded_s(scenario, runs=runs)
    times = lasted_s / seconds
    return goals.Row(
        f"time of the link / CPU, {rate}", on, f"{seconds:.2f} s", f"{lasted_s:.0f} s",
        f"{times:,.0f} ×", f"≥ {at_least:,} ×", times >= at_least,
    )  # fmt: skip


def _lasted_s(scenario: Scenario) -> float:
    """Return how long the link was simulated."""
    with tempfile.TemporaryDirectory() as folder:
        summary = record_virtual(scenario, Path(folder) / "run")
    (flow,) = summary.flows
    assert flow.rate_bps, f"{scenario.title}: nothing arrived"
    sent_s = flow.delivered_bytes * 8 / flow.rate_bps
    return flow.start_s + sent_s


def _recorded_s(scenario: Scenario, *, runs: int) -> float:
    def recorded() -> None:
        channel_of.cache_clear()
        with tempfile.TemporaryDirectory() as folder:
            record_virtual(scenario, Path(folder) / "run")

    return _median_s(recorded, runs=runs)


def _power_s(scenario: Scenario, *, runs: int) -> float:
    config = scenario.link
    assert isinstance(config, SwitchedConfig)

    def computed() -> None:
        channel_of.cache_clear()
        channel_of(config.ray, seed=scenario.seed)

    return _median_s(computed, runs=runs)


def _median_s(work: Callable[[], object], *, runs: int) -> float:
    """Return the processor time of some work that was done once before."""
    work()
    costs_s = []
    for _ in range(runs):
        began_s = time.process_time()
        work()
        costs_s.append(time.process_time() - began_s)
    return statistics.median(costs_s)


ALL: tuple[goals.Goal, ...] = (virtual_time,)


if __name__ == "__main__":
    for each in virtual_time(runs=5):
        cells = (each.what, each.on, each.ours, each.peer, each.result, each.goal, each.met)
        sys.stdout.write(f"| {' | '.join(map(str, cells))} |\n")
        sys.stdout.flush()
