"""The experiments of paper 000 again, for experiments.md.

`python -m docs.papers.programs.experiments run` makes those in virtual time that data/experiments/ lacks, and
what experiments_sweep.md is about (its sweep takes half an hour, cell by cell; what is done stays); `take
FOLDER` takes in what `measure run` recorded under the kernel's TCP in FOLDER/NAME (or FOLDER/NAME-1, -2, ...
for a run in several parts), and `draw` makes the tables and pictures of the page (pictures with chromium;
`tables` alone; of both pages).
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import parsers
from docs.papers.programs import experiment_bluetooth, experiment_segments, experiment_sweep
from multitracer.analysis.transports import SessionContent, Transport, transports_of
from multitracer.cli._program import run as multitracer

if TYPE_CHECKING:
    from multitracer.tables import Table

ROOT = Path(__file__).parents[3]
DATA = ROOT / "docs" / "papers" / "data" / "experiments"
_CDPD, _BLUETOOTH = "128,256,512,1024,2048,4096,8192", "64,128,256,512,1024,2048,4096,8192"
SIZES = {"cdpd": _CDPD, "bluetooth": _BLUETOOTH, "cdpd-palm": _CDPD, "bluetooth-linux22": _BLUETOOTH}
SESSIONS = {"cdpd": 100, "bluetooth": 1000, "cdpd-palm": 100, "bluetooth-linux22": 200}
_SETUPS = 25
"""Transactions a size with a connection each: enough for the median of the set-up."""


@dataclass(frozen=True, slots=True)
class Run:
    """One experiment: a transport over a link."""

    link: str
    transport: str
    """As in file names: tcp1999, tcptoday, tcp (that of the link's scenario), cc, ccearly."""
    real: bool = True
    """Whether the kernel's TCP ran in real time, or ours in virtual time."""
    vary: str = "reply"
    each: bool = False
    """Whether each transaction sets up a connection of its own."""

    @property
    def name(self) -> str:
        """The name of its file."""
        parts = ("" if self.real else "virtual", self.link, self.transport)
        more = ("" if self.vary == "reply" else self.vary, "persession" if self.each else "")
        return "-".join(filter(None, (*parts, *more)))

    @property
    def folder(self) -> str:
        """The name of its folder in FOLDER."""
        link = self.link + ("req" if self.vary == "request" else "")
        return "-".join([link, self.transport, *["persession"] * self.each])

    @property
    def path(self) -> Path:
        """Where its transactions are kept."""
        return DATA / f"{self.name}.csv.gz"

    @property
    def options(self) -> list[str]:
        """What `measure run` is told."""
        protocol = "tcp" if self.transport.startswith("tcp") else "centauruscomm"
        found = ["--over", self.link, "--protocol", protocol, "--vary", self.vary, "--sizes", SIZES[self.link]]
        found += ["--sessions", str(_SETUPS if self.each else SESSIONS[self.link])]
        profile = self.transport.removeprefix("tcp") if protocol == "tcp" else ""
        found += ["--tcp-profile", profile] if profile else []
        found += ["--extension", "early-start"] if self.transport == "ccearly" else []
        return found + ["--connection", "per-session"] * self.each


_TRANSPORTS = {"cdpd": ("tcp1999", "tcptoday", "cc", "ccearly"), "bluetooth": ("tcp1999", "tcptoday", "cc")}
RUNS = tuple(
    Run(link, transport, real, vary, each)
    for link, transports in _TRANSPORTS.items()
    for real in (True, False)
    for vary in (("reply",) if link == "bluetooth" else ("reply", "request"))
    for transport in transports
    for each in ((False, True) if link == "cdpd" and vary == "reply" and "tcp" in transport else (False,))
) + tuple(
    Run(link, transport, real=False, vary=vary)
    for link, vary in (("cdpd-palm", "request"), ("bluetooth-linux22", "reply"))
    for transport in ("tcp", "cc")
)


def transactions(run: Run) -> Table:
    """Return the transactions of a run."""
    _, tables = parsers.read(run.path)
    assert isinstance(tables, dict)
    return tables["transactions"]


@cache
def arms(link: str, *, real: bool, vary: str = "reply") -> dict[str, Transport]:
    """Return the arms of a link by transport; those with a connection each as `tcp1999 each`."""
    chosen = [run for run in RUNS if (run.link, run.real, run.vary) == (link, real, vary) and run.path.exists()]
    sources = [SessionContent(run.name, transactions(run), {"transport": _WORDS[run.transport]}) for run in chosen]
    found = {arm.source.name: arm for arm in transports_of(sources)}
    keys = {run.name: run.transport + (" each" if run.each else "") for run in chosen}
    return {keys[name]: arm for name, arm in found.items()}


_WORDS = {"tcp": "", "tcp1999": "1999", "tcptoday": "today", "cc": "", "ccearly": "early start"}


def run_missing() -> None:
    """Make the virtual runs that are not there."""
    DATA.mkdir(exist_ok=True)
    for run in RUNS:
        if run.real or run.path.exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / run.name
            if multitracer(["measure", "run", "--virtual", *run.options, "-o", str(target)]):
                raise ChildProcessError(f"{run.name}: `multitracer measure run` failed")
            keep(run, [target])


def take(folder: Path) -> None:
    """Take in what was recorded in real time."""
    DATA.mkdir(exist_ok=True)
    for run in RUNS:
        if run.real:
            parts = [p for p in sorted(folder.iterdir()) if re.fullmatch(rf"{run.folder}(-\d+)?", p.name)]
            keep(run, [part for part in parts if (part / "transactions.csv").exists()])


def keep(run: Run, folders: list[Path]) -> None:
    """Put the transactions of a run's folders into one file, whose bytes depend on nothing else."""
    rows: list[list[str]] = []
    for folder in folders:
        with (folder / "transactions.csv").open(encoding="utf-8", newline="") as stream:
            header, *lines = csv.reader(stream)
        rows += [*([] if rows else [header]), *lines]
    if not rows:
        return
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([list(map(_short, row)) for row in rows])
    run.path.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))


def _short(cell: str) -> str:
    """Return a number without digits that no clock and no radio has."""
    return repr(round(float(cell), 6)) if re.fullmatch(r"\d+\.\d{7,}(e[-+]?\d+)?", cell) else cell


def run_studies() -> None:
    """Make what experiments_sweep.md lacks."""
    experiment_sweep.run_missing()
    for study in (experiment_segments, experiment_bluetooth):
        if not study.FILE.exists():
            study.make()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run"]:
            run_missing()
            run_studies()
        case ["take", place]:
            take(Path(place))
        case ["draw" | "tables" as what]:
            from docs.papers.programs.experiment_pages import write_pages

            write_pages(pictures=what == "draw")
        case _:
            raise SystemExit(__doc__)
