"""Where the processor time of one packet goes: `python -m tests.benchmarks.one_packet ray-1`.

A timer of processor time interrupts runs of a scenario, and what is at work then gets the tick: the innermost
file of the stack that `_PARTS` names. Microseconds are those of a packet with data and its ACK.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.lab.channel.ray import channel_of
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import record_virtual

if TYPE_CHECKING:
    from types import FrameType

    from multitracer.lab.scenario.model import Scenario

_PARTS = {
    "simulator/tcp_state_log": "log of TCP's variables",
    "protocols/rlpdump": "log of the link's events",
    "protocols/gsmtap": "log of the link's events",
    "protocols/pcap_file": "captures",
    "scenario/session_folder": "truth of each packet",
    "scenario/meters": "meters",
    "scenario/summary": "meters",
    "protocols/tcp/packet": "headers and checksums",
    "protocols/tcp": "TCP of both ends",
    "simulator/application": "applications",
    "scenario/payload": "applications",
    "channel/ray": "received power",
    "channel/": "link",
    "protocols/channel_events": "link",
    "simulator/": "events, hosts, rows of logs",
}
"""Part of a path -> what it is; the first that fits."""
_TICK_S = 0.001
_RUNS = 10


def _part(frame: FrameType | None) -> str:
    while frame is not None:
        path = frame.f_code.co_filename
        for part, name in _PARTS.items():
            if f"multitracer/{part}" in path:
                return name
        frame = frame.f_back
    return "begin and end of the run"


def _run(scenario: Scenario) -> int:
    """Return how many packets with data left a host."""
    channel_of.cache_clear()
    with tempfile.TemporaryDirectory() as folder:
        record_virtual(scenario, Path(folder) / "run")
        lines = (Path(folder) / "run/truth/segments.csv").read_text("utf-8").splitlines()[1:]
    return sum(int(line.split(",")[5]) > 0 for line in lines)


def main(name: str) -> None:
    """Print a line for each part, the largest first."""
    scenario, ticks = load_scenario(name), Counter[str]()
    packets = _run(scenario)
    signal.signal(signal.SIGPROF, lambda _, frame: ticks.update([_part(frame)]))
    began_s = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, _TICK_S, _TICK_S)
    for _ in range(_RUNS):
        _run(scenario)
    signal.setitimer(signal.ITIMER_PROF, 0)
    packet_us = (time.process_time() - began_s) / _RUNS / packets * 1e6
    sys.stdout.write(f"{name}: {packets:,} packets with data, {packet_us:.0f} us each\n")
    for part, count in ticks.most_common():
        sys.stdout.write(f"{packet_us * count / ticks.total():6.1f} us  {part}\n")


if __name__ == "__main__":
    main(sys.argv[1])
