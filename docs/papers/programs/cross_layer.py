"""The sweeps of paper 003 over our CDMA2000 link, for cross_layer.md: `make -C docs/papers cross-layer`.

`python -m docs.papers.programs.cross_layer run [SWEEP...]` makes the runs that data/cross_layer/*.csv lack,
in virtual time, `nmi` makes and prints tables 1 and 2 (mutual information), `cait` makes the sample of a
CAIT-like log; `tables` writes the tables of the page, `draw` its pictures too (with chromium). A run is
determined by its sweep, arm, value and seed: anybody makes the same.
"""

from __future__ import annotations

import csv
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from docs.papers.programs.cross_layer_plan import FOLDER, SWEEPS, base, with_radio
from docs.papers.programs.cross_layer_watch import CaitLog, Losses, Rates
from docs.papers.programs.studies_watch import Watch
from multitracer.lab.simulator.run import VirtualRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from docs.papers.programs.cross_layer_plan import Sweep
    from multitracer.lab.scenario.model import Scenario

Row = dict[str, Any]

COLUMNS = (
    "arm", "value", "seed", "kbps", "user_kbps", "slowest_kbps", "fastest_kbps", "gap_percent", "jain",
    "sent", "dropped", "lost_on_radio", "resent", "timeouts", "spurious_timeouts", "delay_median_s",
    "delay_most_s", "assigned_kbps", "assigned_up_kbps", "handoffs",
)  # fmt: skip
"""kb/s are thousands of payload bits each second; NA is an empty field. Timeouts: of both ends of an only
connection, SYNs included; of several connections those of the fixed host."""


CAIT, CAIT_S = FOLDER.parents[3] / "sample_traces" / "cdma2000" / "cait.csv", 60
"""The sample of a CAIT-like log, and how many seconds it has: a download with two handoffs."""


class Point(NamedTuple):
    """One run: a curve of a sweep at a value, with a seed."""

    transport: str
    value: float
    seed: int


def points_of(sweep: Sweep) -> Iterator[Point]:
    """Yield all runs of a sweep, seed by seed; the controls of a value come last."""
    for seed in range(1, sweep.seeds + 1):
        for value in sweep.values:
            for transport in sweep.curves:
                yield Point(transport, value, seed)


def path_of(sweep: str) -> Path:
    """Return where the runs of a sweep are kept."""
    return FOLDER / f"{sweep}.csv"


class Watched:
    """One run of a point, and what was seen of it.

    Parameters
    ----------
    scenario : Scenario
    point : Point
    """

    def __init__(self, scenario: Scenario, point: Point) -> None:
        self._point = point
        self._losses, self._rates, self._timeouts = Losses(), Rates(), Watch()
        self._is_alone = len(scenario.traffic) == 1
        observers = [self._losses, self._rates, *([self._timeouts] if self._is_alone else [])]
        self._run = VirtualRun(scenario, seed=point.seed, observers=observers)
        self._timeouts.follow(self._run)
        self._summary = self._run.run()

    def row(self) -> Row:
        """Return the line of the run."""
        named = {"arm": self._point.transport, "value": self._point.value, "seed": self._point.seed}
        row = named | self._shares() | self._incidents() | self._assigned()
        return {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()}

    def _shares(self) -> Row:
        rates = [(flow.rate_bps or 0.0) / 1000 for flow in self._summary.flows]
        document = self._summary.document()
        gap = document["fairness_gap"]
        return {
            "kbps": sum(rates),
            "user_kbps": sum(rates) / len(rates),
            "slowest_kbps": min(rates),
            "fastest_kbps": max(rates),
            "gap_percent": None if gap is None else 100 * gap,
            "jain": None if self._is_alone else document["jain_index"],
        }

    def _incidents(self) -> Row:
        alone = self._timeouts if self._is_alone else None
        return {
            "sent": self._losses.sent,
            "dropped": self._losses.dropped,
            "lost_on_radio": self._losses.lost_on_radio,
            "resent": self._summary.tcp_retransmissions,
            "timeouts": alone.timeouts if alone else self._summary.tcp_timeouts,
            "spurious_timeouts": alone and alone.spurious_timeouts,
            "handoffs": self._losses.handoffs,
            "delay_median_s": alone and alone.delay_median_s,
            "delay_most_s": alone and alone.delay_most_s,
        }

    def _assigned(self) -> Row:
        mobiles, until_ns = len(self._run.scenario.hosts) - 1, self._run.network.now_ns
        means = (self._rates.mean_bps(mobiles, is_down=way, until_ns=until_ns) for way in (True, False))
        return dict(zip(("assigned_kbps", "assigned_up_kbps"), (mean and mean / 1000 for mean in means), strict=True))


def run_at(sweep: Sweep, point: Point, rows: Mapping[Point, Mapping[str, str]]) -> Row:
    """Make the run of a point; a control has the mean rates that its arm was assigned, in `rows`."""
    if point.transport in sweep.transports:
        return Watched(sweep.transports[point.transport](point.value, point.seed), point).row()
    transport, control = sweep.controls[point.transport]
    curve = rows[point._replace(transport=transport)]
    down_bps, up_bps = (1000 * float(curve[name]) for name in ("assigned_kbps", "assigned_up_kbps"))
    scenario = sweep.transports[transport](point.value, point.seed)
    return Watched(control(scenario, down_bps, up_bps), point).row()


@cache
def kept(sweep: str) -> tuple[dict[str, str], ...]:
    """Return the runs of a sweep that are kept."""
    if not path_of(sweep).exists():
        return ()
    with path_of(sweep).open(encoding="utf-8", newline="") as stream:
        return tuple(csv.DictReader(stream))


def run_missing(names: Iterable[str]) -> None:
    """Make the runs that the sweeps lack, seed by seed, and keep each when it is made."""
    for name in names:
        sweep = SWEEPS[name]
        rows = {_point(row): dict(row) for row in kept(name)}
        for point in points_of(sweep):
            if point not in rows:
                rows[point] = {key: _text(value) for key, value in run_at(sweep, point, rows).items()}
                _write(name, rows.values())
        _write(name, (rows[point] for point in points_of(sweep)))
    kept.cache_clear()


def _point(row: Mapping[str, str]) -> Point:
    return Point(row["arm"], float(row["value"]), int(row["seed"]))


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _write(sweep: str, rows: Iterable[Mapping[str, str]]) -> None:
    with path_of(sweep).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(arguments: list[str]) -> None:
    """Do what the command line asks for."""
    match arguments:
        case ["run", *names]:
            run_missing(names or SWEEPS)
        case ["cait"]:
            log = CaitLog(CAIT_S)
            VirtualRun(with_radio(base(), speed_m_per_s=33.5, cell_m=1_000.0), seed=1, observers=[log]).run()
            CAIT.write_text(log.text, encoding="utf-8")
        case ["nmi"]:
            from docs.papers.programs.cross_layer_nmi import nmi_table, write_tables  # noqa: PLC0415  needs an extra

            write_tables()
            print(nmi_table(), end="")  # noqa: T201  # what it was asked for
        case [("draw" | "tables") as what]:
            from docs.papers.programs.cross_layer_page import draw  # noqa: PLC0415  needs a browser

            draw(pictures=what == "draw")
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
