"""Virtual time beside the kernel over traces with pauses: `python -m docs.papers.programs.replay_pauses`.

Draws traces at random, sends a file over each through the kernel's TCP (root; a quarter of an hour) and in
virtual time as Linux, and writes data/replay/pauses.csv and the table of replay.md; with `virtual` only
the rows of virtual time are made again, with `page` only the table.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from docs.papers.programs.replay import FOLDER, PAGE, read, write
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import VirtualRun
from multitracer.lab.testbed.run import run_real
from multitracer.protocols.capacity_trace import CapacityTrace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.lab.scenario.model import Scenario

BEGIN, END = "<!-- pauses -->\n", "<!-- end of pauses -->"
PAUSES = FOLDER / "pauses.csv"
TRACES, KERNEL_RUNS, CONTROLS = 8, 3, ("cubic", "reno")
FIRST_SEED, LASTS_MS = 100, 10_000
_CLEAR_S = 0.5
"""No pause begins so shortly before or after the end of a transfer in virtual time: what is sent a percent
later would wait for its end, and the comparison be one of the pause's length."""
_TEXT = """
limit_s = 60
[tcp]
profile = "modern"
mtu_bytes = 1500
congestion = "{control}"
send_buffer_bytes = 262_144
receive_buffer_bytes = 262_144
[link]
kind = "capacity"
delay_ms = 20
[link.queue]
limit_packets = {queue}
[link.up]
trace = "pauses.up"
[[traffic]]
bytes = {size}
"""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A trace of ten seconds with one or two pauses, repeated, and the transfer over it."""

    seed: int
    trace: CapacityTrace
    idle_gaps_s: tuple[tuple[float, float], ...]
    """Begin and length."""
    queue_packets: int
    size_bytes: int
    """What the trace without its pauses carries."""

    def scenario(self, control: str) -> Scenario:
        """Return the upload under a congestion control."""
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "pauses.up").write_text(self.trace.text())
            path = Path(place) / "pauses.toml"
            path.write_text(_TEXT.format(control=control, queue=self.queue_packets, size=self.size_bytes))
            return load_scenario(str(path))

    def ends_clear(self, end_s: float) -> bool:
        """Return whether no pause begins near a transfer's end."""
        round_s = LASTS_MS / 1000
        gaps_s = [(begin - end_s) % round_s for begin, _ in self.idle_gaps_s]
        return all(_CLEAR_S < gap_s < round_s - _CLEAR_S for gap_s in gaps_s)


def drawn(seed: int) -> Drawn:
    """Return what a seed gives: 1.2 to 3.5 Mbit/s, pauses of 0.3 to 3 s, a queue of 30 to 79 packets."""
    luck = np.random.default_rng(seed)
    bits_per_s, queue = luck.uniform(1.2e6, 3.5e6), int(luck.integers(30, 80))
    stamps = np.sort(luck.integers(0, LASTS_MS, int(bits_per_s * LASTS_MS / 1000 / 12_000)))
    idle_gaps = []
    for _ in range(int(luck.integers(1, 3))):
        length = luck.uniform(0.3, 3.0)
        begin = luck.uniform(1.0, 9.0 - length / 2)
        idle_gaps.append((round(begin, 3), round(length, 3)))
        stamps = stamps[(stamps < begin * 1000) | (stamps > (begin + length) * 1000)]
    trace = CapacityTrace(np.append(stamps, LASTS_MS))
    return Drawn(seed, trace, tuple(idle_gaps), queue, int(bits_per_s / 8 * LASTS_MS / 1000))


def chosen() -> Iterator[tuple[Drawn, dict[str, list[object]]]]:
    """Yield the traces that are compared, each with its rows of virtual time."""
    for seed in count(FIRST_SEED):
        case = drawn(seed)
        made = {control: virtual(case, control) for control in CONTROLS}
        if all(case.ends_clear(case.size_bytes / float(str(row[3]))) for row in made.values()):
            yield case, made


def virtual(case: Drawn, control: str) -> list[object]:
    """Return the row of a run in virtual time."""
    summary = VirtualRun(case.scenario(control).as_linux()).run()
    reached = summary.goodput_bytes_per_s, summary.tcp_retransmissions, summary.tcp_timeouts
    return [case.seed, control, "virtual", *reached, ""]


def _kernel(case: Drawn, control: str, number: int) -> list[object]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        summary = run_real(case.scenario(control), folder, seed=number)
        late_ms = json.loads((folder / "manifest.json").read_text())["variables"]["latest_slot_ms"]
    reached = summary.goodput_bytes_per_s, summary.tcp_retransmissions, summary.tcp_timeouts
    return [case.seed, control, "kernel", *reached, late_ms]


HEADER = ("seed", "congestion", "time", "goodput_bytes_per_s", "retransmissions", "timeouts", "latest_slot_ms")


def write_pauses(*, kernel: bool) -> None:
    """Make the rows of virtual time, and those of the kernel or keep these."""
    lines: list[list[object]] = []
    for case, made in islice(chosen(), TRACES):
        for control in CONTROLS:
            real: list[list[object]]
            if kernel:
                real = [_kernel(case, control, number) for number in range(1, KERNEL_RUNS + 1)]
            else:
                real = [list(row.values()) for row in rows(case.seed, control, "kernel")]
            lines += [made[control], *real]
            print(case.seed, control, flush=True)  # noqa: T201  # a program that runs for minutes
    write(PAUSES, HEADER, lines)


def rows(seed: int, control: str, time: str) -> list[dict[str, str]]:
    """Return the kept rows of a trace and a control: `kernel` or `virtual`."""
    wanted = str(seed), control, time
    return [row for row in read(PAUSES) if (row["seed"], row["congestion"], row["time"]) == wanted]


def apart(seed: int, control: str) -> float:
    """Return by how much virtual time's goodput is above the kernel's median, as a share of it."""
    (ours,) = rows(seed, control, "virtual")
    real = median(float(row["goodput_bytes_per_s"]) for row in rows(seed, control, "kernel"))
    return float(ours["goodput_bytes_per_s"]) / real - 1


def seeds() -> list[int]:
    """Return the seeds of the traces that were compared."""
    return sorted({int(row["seed"]) for row in read(PAUSES)})


def table() -> Iterator[str]:
    """Yield the lines of the page's table."""
    yield "| Mbit/s | pauses (at), s | control | virtual, kB/s | kernel, kB/s | apart | again | timeouts |"
    yield "|---|---|---|---|---|---|---|---|"
    for seed in seeds():
        case = drawn(seed)
        rate = f"{case.size_bytes * 8 / LASTS_MS / 1000:.1f}"
        idle_gaps = ", ".join(f"{length:.1f} ({begin:.1f})" for begin, length in case.idle_gaps_s)
        for control in CONTROLS:
            (ours,), real = (rows(seed, control, time) for time in ("virtual", "kernel"))
            pairs = [
                f"{ours[key]}, {median(float(row[key]) for row in real):.0f}" for key in ("retransmissions", "timeouts")
            ]
            kernel_kb = median(float(row["goodput_bytes_per_s"]) for row in real) / 1000
            goodput = f"{float(ours['goodput_bytes_per_s']) / 1000:.1f} | {kernel_kb:.1f}"
            yield (
                f"| {rate} | {idle_gaps} | {control} | {goodput} | {apart(seed, control):+.1%} | {' | '.join(pairs)} |"
            )


def filled(page: str) -> str:
    """Return the page with the table of today's file."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = "\n".join(table())
    return f"{before}{BEGIN}\n{lines}\n{END}{after}"


if __name__ == "__main__":
    if sys.argv[1:] != ["page"]:
        write_pauses(kernel=sys.argv[1:] != ["virtual"])
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
