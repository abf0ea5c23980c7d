"""The measured part of replay.md: `python -m docs.papers.programs.replay [runs] [kernel] [page]`.

`runs` compares the eight transports over the capacity of two bundled recordings and writes
data/replay/runs.csv. `kernel` sends the same upload over one of them through the kernel's TCP (root, a minute
for each run) and in virtual time, and writes data/replay/kernel.csv. `page` writes both as tables into
replay.md. Without a word all three are done.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from multitracer.analysis.comparison.difference import share, spread
from multitracer.cli._testbed import shown, shown_share
from multitracer.lab.rig.radios import radio_of
from multitracer.lab.scenario.model import ScenarioTraffic
from multitracer.lab.simulator.comparison import MEASURES, TransportResults, TransportRun, compare, runs_of
from multitracer.lab.simulator.run import VirtualRun
from multitracer.lab.testbed.run import run_real

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.lab.rig.radios import RigRadio
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.summary import Summary

ROOT: Path = Path(__file__).parents[3]
FOLDER, PAGE = ROOT / "docs" / "papers" / "data" / "replay", ROOT / "docs" / "papers" / "replay.md"
RUNS, KERNEL = FOLDER / "runs.csv", FOLDER / "kernel.csv"
BEGIN, END = "<!-- measured -->\n", "<!-- end of measured -->"
RADIOS = {"rehearsed-drive": 60, "cellular_upload": 20}
"""Recording -> seconds of a run (ours: all runs of a transport together are longer than the recording)."""
TRANSPORTS = ("tahoe", "reno", "newreno", "sack", "cubic", "vegas", "linux", "wtcp")
COUNT = 6
"""Runs of each transport: the fewest of which a share has an interval (docs/compare.md)."""
UPLOAD_BYTES, QUEUE_PACKETS, KERNEL_RUNS = 8_000_000, 50, 3
"""Of the transfer that the kernel sends too: 40 s at 1.8 Mbit/s (ours)."""
CONTROLS = {"reno": "linux-reno", "cubic": "linux-cubic"}
MOST_APART = 0.03
"""Virtual time and the kernel may differ in goodput by so much (issue 20)."""


def radio_under(name: str) -> RigRadio:
    """Return the radio of a bundled recording as the page's runs have it."""
    return radio_of(str(ROOT / "sample_traces" / name), direction="down", seconds=RADIOS[name])


def write_runs() -> None:
    """Compare the transports over each radio."""
    rows: list[list[object]] = []
    for name in RADIOS:
        radio = radio_under(name)
        for each in compare(list(runs_of(radio.scenario, COUNT, lasts_s=radio.trace_s)), TRANSPORTS):
            rows += [
                [name, each.transport, outcome.seed, *(getattr(outcome, m) for m in MEASURES)]
                for outcome in each.outcomes
            ]
            print(name, each.transport, flush=True)  # noqa: T201  # a program that runs for minutes
    write(RUNS, ("radio", "transport", "seed", *MEASURES), rows)


def upload(congestion: str) -> Scenario:
    """Return the upload over the recorded capacity that both kinds of time send."""
    recorded = ROOT / "sample_traces" / "cellular_upload"
    scenario = radio_of(str(recorded), direction="up", seconds=1).scenario
    queue = replace(scenario.link.queue, limit_packets=QUEUE_PACKETS)
    tcp = replace(scenario.mobile, congestion=congestion, send_buffer_bytes=262_144, receive_buffer_bytes=262_144)
    traffic = (ScenarioTraffic(bytes=UPLOAD_BYTES, direction="up"),)
    link = replace(scenario.link, queue=queue)
    return replace(scenario, link=link, mobile=tcp, fixed=tcp, traffic=traffic, limit_s=120.0)


def write_kernel() -> None:
    """Send the upload through the kernel and in virtual time."""
    rows = []
    for congestion in CONTROLS:
        scenario = upload(congestion)
        rows.append([congestion, "virtual", *_reached(VirtualRun(scenario.as_linux()).run()), ""])
        for number in range(KERNEL_RUNS):
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place) / "run"
                real = run_real(scenario, folder, seed=number + 1)
                variables = json.loads((folder / "manifest.json").read_text())["variables"]
            rows.append([congestion, "kernel", *_reached(real), variables["latest_slot_ms"]])
    header = ("congestion", "time", "goodput_bytes_per_s", "retransmissions", "timeouts", "latest_slot_ms")
    write(KERNEL, header, rows)


def _reached(summary: Summary) -> tuple[float | None, int, int]:
    return summary.goodput_bytes_per_s, summary.tcp_retransmissions, summary.tcp_timeouts


def write(path: Path, header: tuple[str, ...], rows: Sequence[Sequence[object]]) -> None:
    """Write lines of one of the files."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(["" if n is None else round(n, 3) if isinstance(n, float) else n for n in row] for row in rows)


def read(path: Path) -> list[dict[str, str]]:
    """Return the lines of one of the two files."""
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


# --- the page ---


def compared(radio: str) -> list[TransportResults]:
    """Return what data/replay/runs.csv holds of a radio."""
    rows = [row for row in read(RUNS) if row["radio"] == radio]
    of = {name: [_outcome(row) for row in rows if row["transport"] == name] for name in TRANSPORTS}
    return [TransportResults(name, tuple(outcomes)) for name, outcomes in of.items()]


def _outcome(row: dict[str, str]) -> TransportRun:
    goodput, again, timeouts, rtt, hole = (float(row[measure]) if row[measure] else None for measure in MEASURES)
    resent, expired = (None if n is None else int(n) for n in (again, timeouts))
    return TransportRun(row["transport"], int(row["seed"]), goodput, resent, expired, rtt, hole)


def tables() -> str:
    """Return the measured part of the page."""
    return "\n".join([*_comparisons(), *_kernels()])


def _comparisons() -> Iterator[str]:
    for name in RADIOS:
        radio = radio_under(name)
        trace = next(iter(radio.scenario.link.traces.values()))  # type: ignore[union-attr]
        mean = f"{trace.mean_bits_per_s / 1000:,.0f} kbit/s in the mean"
        length = f"{len(trace):,} opportunities in {radio.trace_s:.1f} s"
        yield f"`{name}`, {radio.realism.kind}: {length}, {mean}:\n"
        yield "| transport | goodput, kbit/s | of Reno's | sent again | timeouts | longest RTT, s |"
        yield "|---|---|---|---|---|---|"
        every = compared(name)
        reno = next(each for each in every if each.transport == "reno")
        yield from (_line(each, reno) for each in every)
        yield ""


def _line(each: TransportResults, reno: TransportResults) -> str:
    goodput, again, timeouts, rtt, _ = (spread(each.values(measure)) for measure in MEASURES)
    of_reno = share(each.values(MEASURES[0]), reno.values(MEASURES[0]))
    cells = (
        f"`{each.transport}`",
        shown(goodput, 0, scale=1e-3),
        "100 %" if each is reno else shown_share(of_reno),
        shown(again, 0),
        shown(timeouts, 1),
        shown(rtt, 2),
    )
    return f"| {' | '.join(cells)} |"


def _kernels() -> Iterator[str]:
    rows = read(KERNEL)
    size = f"{UPLOAD_BYTES // 1_000_000} MB up"
    yield f"{size} over the capacity of `cellular_upload` with a queue of {QUEUE_PACKETS} packets, virtual"
    yield f"time as Linux beside the kernel (median of {KERNEL_RUNS}); sent again and timeouts of both:\n"
    yield "| control | virtual, kB/s | kernel, kB/s | apart | sent again | timeouts | latest event, ms |"
    yield "|---|---|---|---|---|---|---|"
    for congestion in CONTROLS:
        model = next(row for row in rows if (row["congestion"], row["time"]) == (congestion, "virtual"))
        real = [row for row in rows if (row["congestion"], row["time"]) == (congestion, "kernel")]
        late = max(float(row["latest_slot_ms"]) for row in real)
        cells = [f"{apart(congestion):+.1%}"]
        cells += [f"{model[key]}, {_median(real, key):.0f}" for key in ("retransmissions", "timeouts")]
        goodputs = float(model["goodput_bytes_per_s"]) / 1000, _median(real, "goodput_bytes_per_s") / 1000
        shown = " | ".join(f"{goodput:.1f}" for goodput in goodputs)
        yield f"| {congestion} | {shown} | {' | '.join(cells)} | {late:.1f} |"


def apart(congestion: str) -> float:
    """Return by how much virtual time's goodput is above the kernel's median, as a share of it."""
    rows = [row for row in read(KERNEL) if row["congestion"] == congestion]
    model = next(float(row["goodput_bytes_per_s"]) for row in rows if row["time"] == "virtual")
    real = _median([row for row in rows if row["time"] == "kernel"], "goodput_bytes_per_s")
    return model / real - 1


def _median(rows: list[dict[str, str]], key: str) -> float:
    return median(float(row[key]) for row in rows)


def filled(page: str) -> str:
    """Return the page with the tables of today's files."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


def main() -> None:
    """Do what the command line names."""
    words = sys.argv[1:] or ["runs", "kernel", "page"]
    if "runs" in words:
        write_runs()
    if "kernel" in words:
        write_kernel()
    if "page" in words:
        PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
