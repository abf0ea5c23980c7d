"""The figures of paper 001 from runs of our own: `make -C docs/papers wtcp`.

`python -m docs.papers.programs.wtcp [SEEDS]` runs the scenarios wtcp-fig1 to wtcp-fig6 over WTCP, NewReno and
Vegas with so many seeds (20), and writes into data/wtcp: runs.csv (a line for each flow of each run),
series.csv (what the flows of seed 1 had delivered, each 5 s) and figures.csv (medians and ranges over the
seeds). The last one also becomes the table of wtcp.md, and loss.csv (programs/wtcp_loss.py) the one behind
it; `python -m docs.papers.programs.wtcp table` writes these alone, `... loss [SEEDS]` makes the latter. The
pictures are those of programs/wtcp_pictures.py.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from docs.papers.programs import wtcp_loss
from multitracer import __version__
from multitracer.analysis.fairness import jain_index
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import VirtualRun
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


FOLDER: Path = Path(__file__).parents[1] / "data" / "wtcp"
FIGURES = ("1", "3a", "3b", "4a", "4b", "5", "6")
TRANSPORTS = ("wtcp", "newreno", "vegas")
SEEDS = 20
_EVERY_S = 5
"""Between two points of a curve; not measured, 60 to 90 points a figure."""
_LATE = 2 / 3
"""Part of a run after which its flows have had time to share: the last third, as for WTCP's core."""
_RUN_COLUMNS = (
    "figure", "transport", "seed", "flow", "start_s", "ended_s", "delivered_bytes", "delivered_packets",
    "rate_bps", "late_bytes", "version",
)  # fmt: skip
_SERIES_COLUMNS = ("figure", "transport", "flow", "time_s", "delivered_packets", "delivered_bytes")
_FIGURE_COLUMNS = (
    "figure", "transport", "seeds", "packets_median", "packets_least", "packets_most", "ended_s_median",
    "late_jain_median", "late_jain_least", "version",
)  # fmt: skip

PAGE: Path = FOLDER.parents[1] / "wtcp.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->"
LOSS_BEGIN, LOSS_END = "<!-- loss -->\n", "<!-- end of loss -->"
_PAPER = {
    "1": "TCP needs 134 s for 100 KB and backs off in the blackouts (measured in a car)",
    "3a": "WTCP above both, by less than in 3b",
    "3b": "WTCP about 3 times the others",
    "4a": "WTCP as Vegas",
    "4b": "NewReno and Vegas fall as losses grow",
    "5": "WTCP alone: shares converge, nothing is lost",
    "6": "WTCP alone: shares converge, the channel stays used",
}
"""What paper 001 says of each figure in its text; its curves have no numbers."""

Row = dict[str, Any]


class Traced:
    """One run, with what each flow had delivered at the end of every 5 s.

    Parameters
    ----------
    figure, transport : str
    seed : int
    """

    def __init__(self, figure: str, transport: str, seed: int) -> None:
        self._about = {"figure": figure, "transport": transport}
        self._seed = seed
        self._run = VirtualRun(load_scenario(f"wtcp-fig{figure}").with_transport(transport), seed=seed)
        self.series: list[Row] = []
        for time_s in range(_EVERY_S, int(self._run.scenario.limit_s) + 1, _EVERY_S):
            self._run.network.at(time_s * NS_PER_S, self._sample)
        self._summary = self._run.run()
        self._ended_s = self._run.network.now_ns / NS_PER_S

    def _sample(self) -> None:
        for number, meter in sorted(self._run.meters.flows.items()):
            self.series.append({
                **self._about,
                "flow": number + 1,
                "time_s": self._run.network.now_ns // NS_PER_S,
                "delivered_packets": meter.arrived_packets,
                "delivered_bytes": meter.arrived_bytes,
            })  # fmt: skip

    def rows(self) -> Iterator[Row]:
        """Yield the line of each flow."""
        for number, flow in enumerate(self._summary.flows, 1):
            yield {
                **self._about,
                "seed": self._seed,
                "flow": number,
                "start_s": round(flow.start_s, 3),
                "ended_s": round(self._ended_s, 3),
                "delivered_bytes": flow.delivered_bytes,
                "delivered_packets": flow.delivered_packets,
                "rate_bps": round(flow.rate_bps or 0),
                "late_bytes": flow.delivered_bytes - self._before(number, _LATE * self._ended_s),
                "version": __version__,
            }

    def _before(self, number: int, time_s: float) -> int:
        """Return what a flow had delivered at a time."""
        points = [p for p in self.series if p["flow"] == number and p["time_s"] <= time_s]
        return int(points[-1]["delivered_bytes"]) if points else 0


def figure_row(figure: str, transport: str, rows: list[Row]) -> Row:
    """Return medians and ranges over the seeds, of all flows of a run together."""
    seeds = sorted({row["seed"] for row in rows})
    of_seed = [[row for row in rows if row["seed"] == seed] for seed in seeds]
    packets = [sum(row["delivered_packets"] for row in run) for run in of_seed]
    evenness = [jain_index([row["late_bytes"] for row in run]) or 0.0 for run in of_seed]
    return {
        "figure": figure,
        "transport": transport,
        "seeds": len(seeds),
        "packets_median": median(packets),
        "packets_least": min(packets),
        "packets_most": max(packets),
        "ended_s_median": round(median(run[0]["ended_s"] for run in of_seed), 1),
        "late_jain_median": round(median(evenness), 3),
        "late_jain_least": round(min(evenness), 3),
        "version": __version__,
    }


def table(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of the page from the lines of figures.csv."""
    cells: dict[str, dict[str, str]] = {}
    for line in lines:
        packets = f"{float(line['packets_median']):.0f} ({line['packets_least']} to {line['packets_most']})"
        ended = f"{float(line['ended_s_median']):.0f} s"
        even = f"{packets}; {float(line['late_jain_median']):.2f}"
        shown = {"1": ended, "5": even, "6": even}.get(line["figure"], packets)
        cells.setdefault(line["figure"], {})[line["transport"]] = shown
    rows = (
        f"| {figure} | {_PAPER[figure]} | {' | '.join(row[name] for name in TRANSPORTS)} |\n"
        for figure, row in cells.items()
    )
    return "| figure | paper 001 | WTCP | NewReno | Vegas |\n|---|---|---|---|---|\n" + "".join(rows)


def write_page() -> None:
    """Write the tables of data/wtcp/figures.csv and loss.csv into the page."""
    text = PAGE.read_text("utf-8")
    for name, make, begin, end in (
        ("figures.csv", table, BEGIN, END),
        ("loss.csv", wtcp_loss.table, LOSS_BEGIN, LOSS_END),
    ):
        with (FOLDER / name).open(encoding="utf-8", newline="") as stream:
            made = make(csv.DictReader(stream))
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}{made}{end}{rest.partition(end)[2]}"
    PAGE.write_text(text, "utf-8")


def _write(name: str, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / name).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Run everything; write the files and the tables."""
    words = sys.argv[1:]
    part = words.pop(0) if words[:1] in (["table"], ["loss"]) else ""
    seeds = int(words[0]) if words else SEEDS
    if part != "table":
        _write("loss.csv", wtcp_loss.COLUMNS, wtcp_loss.runs(seeds, __version__))
    if not part:
        _run_figures(seeds)
    write_page()


def _run_figures(seeds: int) -> None:
    runs: list[Row] = []
    series: list[Row] = []
    figures: list[Row] = []
    for figure in FIGURES:
        for transport in TRANSPORTS:
            traced = [Traced(figure, transport, seed) for seed in range(1, seeds + 1)]
            rows = [row for each in traced for row in each.rows()]
            runs += rows
            series += traced[0].series
            figures.append(figure_row(figure, transport, rows))
    _write("runs.csv", _RUN_COLUMNS, runs)
    _write("series.csv", _SERIES_COLUMNS, series)
    _write("figures.csv", _FIGURE_COLUMNS, figures)


if __name__ == "__main__":
    main()
