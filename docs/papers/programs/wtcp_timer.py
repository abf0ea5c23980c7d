"""How large TCP's timeout becomes over CDPD: the table of wtcp.md, `python -m docs.papers.programs.wtcp_timer`.

Paper 001, section II: bursts make the deviation of the round trip "very high (e.g. 8 sec)", and the timeout "very large
(e.g. 32 sec)". Here a TCP of its years downloads for an hour over the bundled link `cdpd`, with all its outages.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from docs.papers.programs.page_part import write_part
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.model import ScenarioTraffic
from multitracer.lab.simulator.network import NetworkObserver
from multitracer.lab.simulator.run import VirtualRun
from multitracer.lab.tcp.profile import BSD
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.lab.channel.shared.packet_link import HostName
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.simulator.host import SimulatedSocket

PAGE = Path(__file__).parents[1] / "wtcp.md"
PART = "timer"
SEEDS = (1, 2, 3)
_HOUR_S = 3_600.0
_MTU_BYTES = 552
"""Packets of 512 bytes of data, as in the paper's example of a time on air."""
_LARGE_RTO_NS = 32 * NS_PER_S
HEAD = (
    "| seed | samples | mean RTT, s | longest RTT, s | largest deviation, s "
    "| largest RTO, s | time with RTO ≥ 32 s, % |\n"
    "| --- | --- | --- | --- | --- | --- | --- |\n"
)


class Timer(NamedTuple):
    """The estimator of the sender after a sample, in ns."""

    time_ns: int
    rtt_ns: int
    deviation_ns: int
    rto_ns: int
    """Without back-off."""


class TimerWatch(NetworkObserver):
    """Keeps the state of the sender's estimator whenever it has changed."""

    def __init__(self) -> None:
        self.samples: list[Timer] = []

    def state(self, host: HostName, socket: SimulatedSocket, *, now_ns: int) -> None:
        """Note the estimator of the fixed host, which sends."""
        rto = socket.connection.sender.rto
        if host != "fixed" or rto.latest_ns is None or rto.rttvar_ns is None or rto.backoff:
            return
        seen = Timer(now_ns, rto.latest_ns, rto.rttvar_ns, rto.rto_ns)
        if not self.samples or seen[1:] != self.samples[-1][1:]:
            self.samples.append(seen)


def scenario() -> Scenario:
    """Return the download of an hour, with BSD's TCP."""
    tcp = replace(BSD, mtu_bytes=_MTU_BYTES)
    traffic = (ScenarioTraffic(bytes=1 << 30, direction="down"),)
    return replace(load_scenario("cdpd"), traffic=traffic, limit_s=_HOUR_S, mobile=tcp, fixed=tcp)


def row(seed: int) -> str:
    """Return the line of one run."""
    watch = TimerWatch()
    VirtualRun(scenario(), seed=seed, observers=[watch]).run()
    times_ns = [each.time_ns for each in watch.samples] + [round(_HOUR_S * NS_PER_S)]
    large_ns = sum(
        end_ns - each.time_ns
        for each, end_ns in zip(watch.samples, times_ns[1:], strict=True)
        if each.rto_ns >= _LARGE_RTO_NS
    )
    cells = (
        f"{seed}",
        f"{len(watch.samples):,}",
        f"{sum(each.rtt_ns for each in watch.samples) / len(watch.samples) / NS_PER_S:.1f}",
        f"{max(each.rtt_ns for each in watch.samples) / NS_PER_S:.0f}",
        f"{max(each.deviation_ns for each in watch.samples) / NS_PER_S:.1f}",
        f"{max(each.rto_ns for each in watch.samples) / NS_PER_S:.1f}",
        f"{100 * large_ns / _HOUR_S / NS_PER_S:.1f}",
    )
    return f"| {' | '.join(cells)} |\n"


def main() -> None:
    """Write the table into the page."""
    write_part(PAGE, PART, HEAD + "".join(map(row, SEEDS)))


if __name__ == "__main__":
    main()
