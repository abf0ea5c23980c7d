"""Table I of paper 002 from runs of our own, and what its remedies gain: `make -C docs/papers ray`.

`python -m docs.papers.programs.ray [SEEDS]` runs the scenarios ray-1 to ray-5, as stated and calibrated, over
six transports with three first thresholds; scenarios with chance in them with so many seeds (10). It writes
into data/ray: channel.csv (fades of each seed), runs.csv (each run), table.csv (medians), remedies.csv, and
series.csv (each 100 ms of Tahoe's runs with the scenario's seed). `python -m docs.papers.programs.ray table`
writes the tables of ray.md from these.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from docs.papers.programs.ray_page import CHANNEL, FOLDER, REMEDIES, RUNS, SERIES, TABLE, write_page
from multitracer import __version__
from multitracer.lab.channel.ray import channel_of, switches
from multitracer.lab.channel.switched import SwitchedConfig
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.comparison import RAY_THRESHOLDS
from multitracer.lab.simulator.network import NetworkObserver
from multitracer.lab.simulator.run import VirtualRun
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from multitracer.lab.channel.shared.packet_link import HostName
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.simulator.host import SimulatedSocket
    from multitracer.lab.tcp.packet import TcpPacket

Row = dict[str, Any]
SCENARIOS = (1, 2, 3, 4, 5)
RANDOM = (3, 4)
"""Scenarios with chance in them: cars, and a drawn speed."""
TRANSPORTS = ("tahoe", "reno", "newreno", "sack", "vegas", "cubic")
SEEDS = 10
"""Of each transport in the random scenarios: not measured, some minutes of computing."""
_WINDOW_NS = 100 * NS_PER_MS
"""Of the moving average of the throughput (paper 002, section II)."""


class Remedy(NamedTuple):
    """What a remedy changes in the profile of both hosts, and in the link."""

    tcp: Row
    link: Row


_CAP: Row = {"max_rto_ns": 400 * NS_PER_MS, "max_retransmissions": 1_000}
"""A timer of 400 ms gives up after 5 s otherwise, which is shorter than a fade; ns-2's TCP never gives up."""
_SNOOP: Row = {"snoop": True}
REMEDY: dict[str, Remedy] = {
    "control": Remedy({}, {}),
    "cap": Remedy(_CAP, {}),
    "half": Remedy({"timeout_window": "half"}, {}),
    "short": Remedy({"mtu_bytes": 576}, {}),
    "copies": Remedy({"copies": 2}, {}),
    "cap and half": Remedy({"timeout_window": "half"} | _CAP, {}),
    "Snoop": Remedy({}, _SNOOP),
    "Snoop and cap": Remedy(_CAP, _SNOOP),
    "I-TCP": Remedy({"resume_when_up": True}, {}),
}
"""What paper 002's discussion and conclusion propose; the numbers are ours."""
STARTS_S = (0.0, 0.4, 0.8, 1.2, 1.6)
"""When the five runs of a remedy begin, so that fades meet them at other times: not measured."""


class Variant(NamedTuple):
    """A scenario, as stated or calibrated."""

    number: int
    name: str

    @property
    def bundled(self) -> Scenario:
        """Return it as it is bundled."""
        return load_scenario(f"ray-{self.number}" if self.name == "calibrated" else f"ray-{self.number}-stated")

    @property
    def link(self) -> SwitchedConfig:
        """Return its link."""
        link = self.bundled.link
        assert isinstance(link, SwitchedConfig)
        return link

    def scenario(self, transport: str, **changes: object) -> Scenario:
        """Return it over a transport, with changes to the TCP of both hosts."""
        scenario = self.bundled.with_transport(transport)
        tcp = replace(scenario.fixed, **changes)  # type: ignore[arg-type]
        return replace(scenario, mobile=tcp, fixed=tcp)

    def seeds(self, count: int) -> range:
        """Return the seeds that matter: the scenario's own, and those after it if there is chance in it."""
        first = self.bundled.seed
        return range(first, first + (count if self.number in RANDOM else 1))


VARIANTS = tuple(Variant(number, name) for number in SCENARIOS for name in ("stated", "calibrated"))
CLEAN = Variant(3, "stated")
"""A link without a fade: what a remedy costs."""


def fades(variant: Variant, seed: int) -> Row:
    """Return the line of channel.csv."""
    link = variant.link
    down = channel_of(link.ray, seed=seed).fades(link.threshold_dbm)
    return {
        "scenario": variant.number,
        "variant": variant.name,
        "seed": seed,
        "down_percent": round(100 * down.down_share, 2),
        "fades": down.number,
        "fade_s": None if down.mean_s is None else round(down.mean_s, 4),
    }


@cache
def _result(scenario: Scenario, ups: bytes, seed: int) -> tuple[float, int]:
    """Return bytes delivered and timeouts; `ups` is when the link is up, which is all that chance changes."""
    del ups
    summary = VirtualRun(scenario, seed=seed).run()
    return summary.flows[0].delivered_bytes if summary.flows else 0, summary.tcp_timeouts


def _run(variant: Variant, scenario: Scenario, seed: int) -> tuple[float, int]:
    link = variant.link
    began, steps = switches(channel_of(link.ray, seed=seed).power_dbm, link.threshold_dbm)
    return _result(scenario, bytes([began]) + steps.tobytes(), 0 if not len(steps) else seed)


def transport_rows(variant: Variant, count: int) -> Iterator[Row]:
    """Yield the line of each run of a variant."""
    for seed in variant.seeds(count):
        for transport in TRANSPORTS:
            for segments in RAY_THRESHOLDS:
                scenario = variant.scenario(transport, initial_ssthresh_segments=segments)
                delivered, timeouts = _run(variant, scenario, seed)
                yield {
                    "scenario": variant.number,
                    "variant": variant.name,
                    "transport": transport,
                    "ssthresh": segments,
                    "seed": seed,
                    "kbytes_per_s": round(_complete(delivered, scenario), 1),
                    "timeouts": timeouts,
                    "version": __version__,
                }


def _complete(delivered: float, scenario: Scenario) -> float:
    """Return kB/s of whole IP packets, as the paper counts."""
    mtu_bytes = scenario.fixed.mtu_bytes
    return delivered * mtu_bytes / (mtu_bytes - 40) / scenario.limit_s / 1000


def medians(rows: list[Row], channel: list[Row]) -> Iterator[Row]:
    """Yield the lines of table.csv."""
    for variant in VARIANTS:
        here = {"scenario": variant.number, "variant": variant.name}
        of_channel = [row for row in channel if here.items() <= row.items()]
        facts = {key: median(row[key] or 0 for row in of_channel) for key in ("down_percent", "fades", "fade_s")}
        for transport in TRANSPORTS:
            runs = [row for row in rows if (here | {"transport": transport}).items() <= row.items()]
            line = here | {"transport": transport, "seeds": len({row["seed"] for row in runs})} | facts
            for segments in RAY_THRESHOLDS:
                rates = [row["kbytes_per_s"] for row in runs if row["ssthresh"] == segments]
                line[f"r_{segments}"] = median(rates)
                line[f"r_{segments}_least"], line[f"r_{segments}_most"] = min(rates), max(rates)
            yield line


def remedy_rows(variant: Variant) -> Iterator[Row]:
    """Yield, for each remedy, the median of five runs beside the control's."""
    control: list[float] = []
    for name, remedy in REMEDY.items():
        rates = [_remedied(variant, run, start_s, remedy) for run, start_s in enumerate(STARTS_S)]
        control = control or rates
        yield {
            "scenario": variant.number,
            "variant": variant.name,
            "remedy": name,
            "kbytes_per_s": round(median(rates), 1),
            "least": round(min(rates), 1),
            "most": round(max(rates), 1),
            "runs_better": sum(ours > theirs for ours, theirs in zip(rates, control, strict=True)),
            "gain_percent": round(100 * (median(rates) / median(control) - 1), 1),
        }


def _remedied(variant: Variant, run: int, start_s: float, remedy: Remedy) -> float:
    """Return kB/s of payload; the random scenarios have another seed in each run."""
    scenario = variant.scenario("tahoe", **remedy.tcp)
    (traffic,) = scenario.traffic
    link = replace(variant.link, **remedy.link)
    scenario = replace(scenario, link=link, traffic=(replace(traffic, start_s=start_s),))
    delivered, _ = _run(variant, scenario, variant.seeds(len(STARTS_S))[run if variant.number in RANDOM else 0])
    return delivered / (scenario.limit_s - start_s) / 1000


class Traced(NetworkObserver):
    """Collects what the five panels of a run show.

    Parameters
    ----------
    sender : str
        The host whose data are looked at.
    """

    def __init__(self, sender: HostName) -> None:
        self._sender = sender
        self._first = -1
        self.sent: list[tuple[int, int]] = []
        """When a packet with data left, and the place of its last byte."""
        self.arrived: list[tuple[int, int]] = []
        """When one arrived, and its IP bytes."""
        self.windows: list[tuple[int, int]] = []

    def packet(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Note a packet with data."""
        if packet is None or not packet.segment.payload or outgoing != (host == self._sender):
            return
        if outgoing:
            self._first = packet.segment.seq if self._first < 0 else self._first
            place = (packet.segment.seq - self._first) % (1 << 32) + len(packet.segment.payload)
            self.sent.append((now_ns, place))
        else:
            self.arrived.append((now_ns, len(data)))

    def state(self, host: HostName, socket: SimulatedSocket, *, now_ns: int) -> None:
        """Note the congestion window."""
        if host == self._sender:
            sender = socket.connection.sender
            self.windows.append((now_ns, sender.congestion.cwnd_bytes // sender.mss_bytes))


def series_rows(variant: Variant) -> Iterator[Row]:
    """Yield what the panels of Tahoe's run with the scenario's seed show, each 100 ms."""
    scenario = variant.scenario("tahoe")
    traced = Traced(scenario.sender)
    VirtualRun(scenario, observers=[traced]).run()
    channel = channel_of(variant.link.ray, seed=scenario.seed)
    for end_ns in range(_WINDOW_NS, int(scenario.limit_s * NS_PER_S) + 1, _WINDOW_NS):
        window = range(end_ns - _WINDOW_NS, end_ns)
        steps = slice(window.start // channel.step_ns, window.stop // channel.step_ns)
        sent = [place for time_ns, place in traced.sent if time_ns in window]
        octets = sum(octets for time_ns, octets in traced.arrived if time_ns in window)
        until = [segments for time_ns, segments in traced.windows if time_ns < end_ns]
        yield {
            "scenario": variant.number,
            "variant": variant.name,
            "time_s": end_ns / NS_PER_S,
            "power_dbm_least": round(float(channel.power_dbm[steps].min()), 2),
            "power_dbm_most": round(float(channel.power_dbm[steps].max()), 2),
            "cwnd_segments": until[-1] if until else None,
            "kbytes_per_s": round(octets * NS_PER_S / _WINDOW_NS / 1000, 1),
            "sequence_bytes": max(sent, default=None),
            "packets_sent": len(sent),
        }


def _write(name: str, rows: Iterable[Row]) -> list[Row]:
    FOLDER.mkdir(exist_ok=True)
    kept = list(rows)
    with (FOLDER / name).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(kept[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
    return kept


def main() -> None:
    """Run everything; write the files and the page."""
    if sys.argv[1:] != ["table"]:
        count = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
        channel = _write(CHANNEL, (fades(v, seed) for v in VARIANTS for seed in v.seeds(count)))
        _write(SERIES, (row for variant in VARIANTS for row in series_rows(variant)))
        faded = (*(variant for variant in VARIANTS if variant.name == "calibrated"), CLEAN)
        _write(REMEDIES, (row for variant in faded for row in remedy_rows(variant)))
        runs = _write(RUNS, (row for variant in VARIANTS for row in transport_rows(variant, count)))
        _write(TABLE, medians(runs, channel))
    write_page()


if __name__ == "__main__":
    main()
