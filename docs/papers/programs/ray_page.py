"""The tables of ray.md, from the files that `make -C docs/papers ray` wrote."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from docs.papers.programs.page_part import read_part, write_part
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.comparison import RAY_PAPER, RAY_THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FOLDER: Path = Path(__file__).parents[1] / "data" / "ray"
PAGE: Path = FOLDER.parents[1] / "ray.md"
CHANNEL, RUNS, TABLE, REMEDIES, SERIES = "channel.csv", "runs.csv", "table.csv", "remedies.csv", "series.csv"
CALIBRATION = {
    "1": "antennas at 2 m, threshold -70 dBm",
    "2": "wall at 100 m, walk 18 degrees away from it, threshold -72.5 dBm",
    "3": "lane at 10.5 m, cars from 5.2 m on, gaps up to 200 m, seed 8",
    "4": "street from -45 m on, threshold -69 dBm, seed 15",
    "5": "threshold -44.5 dBm",
}
TRANSPORTS = {
    "tahoe": "Tahoe",
    "reno": "Reno",
    "newreno": "NewReno",
    "sack": "SACK",
    "vegas": "Vegas",
    "cubic": "CUBIC",
}

PAPER = {str(number): values for number, values in RAY_PAPER.items()}
"""Table I of paper 002."""

Line = dict[str, str]


def lines_of(name: str) -> list[Line]:
    """Return the lines of one of the files."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _table(header: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _of(lines: list[Line], **facts: str) -> Line:
    (line,) = (line for line in lines if facts.items() <= line.items())
    return line


def _own_seed(scenario: str, variant: str) -> Line:
    """Return which lines are runs of a scenario with its own seed."""
    form = "" if variant == "calibrated" else "-stated"
    seed = load_scenario(f"ray-{scenario}{form}").seed
    return {"scenario": scenario, "variant": variant, "seed": str(seed)}


def _fades(line: Line) -> str:
    share, number, mean = (float(line[key] or 0) for key in ("down_percent", "fades", "fade_s"))
    return f"{share:.1f} %, {number:g}, " + (f"{mean:.2f} s" if number else "-")


def fades() -> str:
    """Return the table of T_d, N_f and T_f."""
    lines = lines_of(CHANNEL)

    def rows() -> Iterator[Sequence[str]]:
        for scenario, (share, number, mean, *_) in PAPER.items():
            ours = [_fades(_of(lines, **_own_seed(scenario, variant))) for variant in ("stated", "calibrated")]
            yield scenario, f"{share} %, {number}, {mean} s", *ours, CALIBRATION[scenario]

    return _table(("scenario", "paper 002", "as stated", "calibrated", "by"), rows())


def _rates(lines: list[Line], scenario: str, variant: str) -> str:
    own = {"transport": "tahoe"} | _own_seed(scenario, variant)
    runs = (_of(lines, ssthresh=str(packets), **own) for packets in RAY_THRESHOLDS)
    return " · ".join(f"{float(run['kbytes_per_s']):.0f}" for run in runs)


def _seeds(medians: list[Line], scenario: str) -> str:
    """Return the median and the range over all seeds of a scenario, at a first threshold of 16."""
    line = _of(medians, scenario=scenario, variant="calibrated", transport="tahoe")
    if line["seeds"] == "1":
        return "-"
    return "{:.0f} ({:.0f} to {:.0f})".format(*(float(line[key]) for key in ("r_16", "r_16_least", "r_16_most")))


def rates() -> str:
    """Return the table of R with Tahoe."""
    runs, medians = lines_of(RUNS), lines_of(TABLE)

    def rows() -> Iterator[Sequence[str]]:
        for scenario, numbers in PAPER.items():
            paper = " · ".join(map(str, numbers[3:]))
            ours = (_rates(runs, scenario, variant) for variant in ("stated", "calibrated"))
            yield scenario, paper, *ours, _seeds(medians, scenario), f"{250 * (1 - numbers[0] / 100):.0f}"

    header = ("scenario", "paper 002", "as stated", "calibrated", "ten seeds, at 16", "250 (1 - T_d) of the paper")
    return _table(header, rows())


def transports() -> str:
    """Return the table of R with six transports, calibrated: all with the same seeds."""
    runs = [line for line in lines_of(RUNS) if line["variant"] == "calibrated"]

    def cell(name: str, scenario: str) -> str:
        here = [line for line in runs if (line["transport"], line["scenario"]) == (name, scenario)]
        rates = (
            median(float(line["kbytes_per_s"]) for line in here if line["ssthresh"] == segments)
            for segments in ("8", "16", "32")
        )
        return " · ".join(f"{rate:.0f}" for rate in rates)

    header = ("transport", *(f"scenario {s}" for s in PAPER))
    return _table(header, ([title, *(cell(name, s) for s in PAPER)] for name, title in TRANSPORTS.items()))


def remedies() -> str:
    """Return the table of what remedies gain."""
    lines = lines_of(REMEDIES)
    columns = [*((s, "calibrated") for s in PAPER), ("3", "stated")]
    names = list(dict.fromkeys(line["remedy"] for line in lines))

    def cell(name: str, scenario: str, variant: str) -> str:
        line = _of(lines, remedy=name, scenario=scenario, variant=variant)
        rate = f"{float(line['kbytes_per_s']):.0f}"
        if name == "control":
            return rate
        return f"{rate} ({float(line['gain_percent']):+.0f} %, {line['runs_better']}/5)"

    header = ("remedy", *(f"scenario {s}" for s in PAPER), "clean link")
    return _table(header, ([name, *(cell(name, *column) for column in columns)] for name in names))


TABLES: dict[str, Callable[[], str]] = {"fades": fades, "rates": rates, "transports": transports, "remedies": remedies}
"""Each stands in the page between `<!-- NAME -->` and `<!-- end of NAME -->`."""


def written(name: str) -> str:
    """Return a table as the page has it."""
    return read_part(PAGE, name)


def write_page() -> None:
    """Write the tables."""
    for name, make in TABLES.items():
        write_part(PAGE, name, make())
