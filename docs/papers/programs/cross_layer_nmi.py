"""The tables of mutual information of paper 003, of runs of our own: data/cross_layer/nmi.csv.

Downloads with three receive windows and five seeds each; the runs of a window are pooled, each run a session.
"""

from __future__ import annotations

import csv
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from docs.papers.programs.cross_layer_plan import FOLDER, windowed
from docs.papers.programs.cross_layer_seconds import ECIO, FLIGHT, RATE, RLP, RTT, THROUGHPUT, Seconds
from multitracer.analysis.correlation import dependence, table_of
from multitracer.lab.simulator.run import VirtualRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.analysis.correlation import Dependence
    from multitracer.tables import Array

PATH = FOLDER / "nmi.csv"
SEEDS = range(1, 6)
WINDOWS_KB = (8, 16, 64)
"""Of the paper's table 1; its table 2 has 8 and 64."""
LAGS = np.arange(-10, 11)
"""Seconds (ours: a round trip takes at most four)."""


class Pair(NamedTuple):
    """What is compared with what."""

    table: str
    x: str
    y: str
    is_differenced: bool = False
    """Whether it is about the changes from second to second."""

    @property
    def name(self) -> str:
        """Of x, as the page has it."""
        return f"{self.x}, changes" if self.is_differenced else self.x


PAIRS = (
    Pair("1", RATE, RTT),
    Pair("1", RLP, RTT),
    Pair("1", FLIGHT, RTT),
    Pair("2", RATE, THROUGHPUT),
    Pair("2", RLP, THROUGHPUT),
    Pair("-", THROUGHPUT, RATE),
    Pair("-", ECIO, RATE, is_differenced=True),
)
"""Tables 1 and 2 of the paper; then its second conclusion: data decide a rate, not the channel.
The slow shadow of a mobile at rest is no stationary series, so that its changes are compared."""
COLUMNS = ("window_kb", "table", "x", "y", "lag_s", "nmi", "p95_permuted", "p_corrected", "q_value", "n", "reason")


def pooled(window_kb: float) -> tuple[dict[str, Array], Array]:
    """Return the series of all seeds behind each other, and the number of each point's run."""
    runs = [_series(window_kb, seed) for seed in SEEDS]
    names = runs[0]
    session = np.repeat(np.arange(len(runs)), [len(run[RTT]) for run in runs])
    return {name: np.concatenate([run[name] for run in runs]) for name in names}, session


def _series(window_kb: float, seed: int) -> dict[str, Array]:
    watch = Seconds()
    VirtualRun(windowed(window_kb), seed=seed, observers=[watch]).run()
    return watch.series()


def rows() -> Iterator[dict[str, object]]:
    """Yield a line for each pair and window: the lag that stands out most, and how surely."""
    results = [(window_kb, pair, result) for window_kb in WINDOWS_KB for pair, result in pairs_of(window_kb)]
    table = table_of([(f"{w:g} {p.name}", p.y, result) for w, p, result in results])
    peaks = table["is_peak"]
    q_values = dict(zip(zip(table["x"][peaks], table["y"][peaks], strict=True), table["q_value"][peaks], strict=True))
    for window_kb, pair, result in results:
        at = result.peak
        yield {
            "window_kb": window_kb,
            "table": pair.table,
            "x": pair.name,
            "y": pair.y,
            "lag_s": result.peak_lag_s,
            "nmi": result.peak_nmi,
            "p95_permuted": None if at is None else result.p95_permuted[at],
            "p_corrected": result.peak_p_value,
            "q_value": q_values.get((f"{window_kb:g} {pair.name}", pair.y)),
            "n": None if at is None else int(result.n[at]),
            "reason": result.reason,
        }


def pairs_of(window_kb: float) -> Iterator[tuple[Pair, Dependence]]:
    """Yield each pair with what the runs of a window say of it."""
    series, session = pooled(window_kb)
    for pair in PAIRS:
        yield (
            pair,
            dependence(
                series[pair.x], series[pair.y], step_s=1.0, lags=LAGS, session=session, difference=pair.is_differenced
            ),
        )


def write_tables() -> None:
    """Make the runs and write nmi.csv."""
    with PATH.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in rows():
            writer.writerow({name: _text(value) for name, value in row.items()})


def _text(value: object) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@cache
def kept() -> tuple[dict[str, str], ...]:
    """Return the lines of nmi.csv."""
    with PATH.open(encoding="utf-8", newline="") as stream:
        return tuple(csv.DictReader(stream))


def nmi_table() -> str:
    """Return the page's table: a line for each pair, a column for each window."""
    heads = ("table", "of", "with", *(f"{window} KB" for window in WINDOWS_KB))
    cells = {(row["x"], row["y"], row["window_kb"]): _cell(row) for row in kept()}
    lines = [
        (pair.table, pair.y, pair.name, *(cells[pair.name, pair.y, str(window)] for window in WINDOWS_KB))
        for pair in PAIRS
    ]
    return "".join(f"| {' | '.join(each)} |\n" for each in (heads, ["---"] * len(heads), *lines))


def _cell(row: dict[str, str]) -> str:
    """Return a value with its lag; in brackets if it does not stand out."""
    if row["reason"]:
        return f"NA: {row['reason']}"
    shown = f"{float(row['nmi']):.2f} at {float(row['lag_s']):+.0f} s"
    return shown if float(row["q_value"]) < 0.05 else f"({shown})"
