"""The studies that paper 004 proposes in its sections 5 and 6, for studies.md: `make -C docs/papers studies`.

`python -m docs.papers.programs.studies run [STUDY...]` makes the runs that data/studies/*.csv lack, in
virtual time, twenty seeds of each arm; `draw` makes the tables and pictures of the page (pictures with
chromium; `tables` alone). A run is determined by its study, arm and seed: anybody makes the same ones.
"""

from __future__ import annotations

import csv
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from docs.papers.programs.studies_arms import FOLDER, SEEDS, STUDIES
from docs.papers.programs.studies_watch import Datagrams, Watch
from multitracer.lab.simulator.run import VirtualRun
from multitracer.units import BITS_PER_BYTE, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.summary import Summary

Row = dict[str, Any]

COLUMNS = (
    "arm", "seed", "complete", "goodput_bytes_per_s", "link_resets", "rlp_resent", "timeouts",
    "spurious_timeouts", "resent_segments", "needless_segments", "checksum_errors", "delay_median_s",
    "delay_most_s", "hole_s", "second_s", "second_syns", "stale_bytes", "return_goodput_bytes_per_s",
)  # fmt: skip
"""Times in link seconds; NA is an empty field."""
DATAGRAM_COLUMNS = ("datagrams", "datagrams_arrived", "datagram_median_s", "datagram_most_s")
"""Of the study `adaptive` alone, which has a second flow."""


def columns_of(study: str) -> tuple[str, ...]:
    """Return the columns of a study's file."""
    return COLUMNS + (DATAGRAM_COLUMNS if study == "adaptive" else ())


def path_of(study: str) -> Path:
    """Return where the runs of a study are kept."""
    return FOLDER / f"{study}.csv"


def made(study: str, transport: str, seed: int) -> Row:
    """Run one arm with one seed; return its line."""
    scenario = STUDIES[study]()[transport](seed)
    watch = Watch()
    run = VirtualRun(scenario, seed=seed, observers=[watch])
    watch.follow(run)
    datagrams = Datagrams(run) if study == "adaptive" else None
    summary = run.run()
    row = {
        "arm": transport,
        "seed": seed,
        "complete": int(_is_complete(run, scenario)),
        "goodput_bytes_per_s": _goodput(summary, 0),
        "link_resets": summary.rlp_resets,
        "rlp_resent": summary.rlp_retransmissions,
        "timeouts": watch.timeouts,
        "spurious_timeouts": watch.spurious_timeouts,
        "resent_segments": summary.tcp_retransmissions,
        "needless_segments": watch.needless_segments,
        "checksum_errors": summary.checksum_errors,
        "delay_median_s": watch.delay_median_s,
        "delay_most_s": watch.delay_most_s,
        "hole_s": summary.longest_receiver_hole_s,
        "second_s": _duration_s(run, 1),
        "second_syns": watch.syns.get(1),
        "stale_bytes": watch.stale_bytes,
        "return_goodput_bytes_per_s": _goodput(summary, 2) if len(scenario.traffic) > 2 else None,
        **(datagrams.columns() if datagrams is not None else {}),
    }
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}


def _goodput(summary: Summary, number: int) -> float:
    """Return the payload of a traffic each second, until its last byte or else the run's end."""
    rate_bps = summary.flows[number].rate_bps if number < len(summary.flows) else None
    return (rate_bps or 0.0) / BITS_PER_BYTE


def _is_complete(run: VirtualRun, scenario: Scenario) -> bool:
    """Return whether every traffic that the user did not give up arrived."""
    wanted = [(number, each) for number, each in enumerate(scenario.traffic) if not each.aborts_after_s]
    flows = run.meters.flows
    return all(number in flows and flows[number].arrived_bytes == each.bytes for number, each in wanted)


def _duration_s(run: VirtualRun, number: int) -> float | None:
    """Return how long a traffic took, first packet to last new byte; None if it did not arrive."""
    meter = run.meters.flows.get(number)
    if meter is None or meter.began_ns is None or meter.latest_ns is None:
        return None
    is_complete = meter.arrived_bytes == run.scenario.traffic[number].bytes
    return (meter.latest_ns - meter.began_ns) / NS_PER_S if is_complete else None


@cache
def kept(study: str) -> tuple[dict[str, str], ...]:
    """Return the runs of a study that are kept."""
    if not path_of(study).exists():
        return ()
    with path_of(study).open(encoding="utf-8", newline="") as stream:
        return tuple(csv.DictReader(stream))


def run_missing(studies: Iterable[str]) -> None:
    """Make the runs that the studies lack, seed by seed, and keep each when it is made."""
    done = {(study, row["arm"], int(row["seed"])) for study in studies for row in kept(study)}
    wanted = (
        (study, transport, seed) for seed in range(1, SEEDS + 1) for study in studies for transport in STUDIES[study]()
    )
    for study, transport, seed in wanted:
        if (study, transport, seed) not in done:
            is_new = not path_of(study).exists()
            _write(study, [made(study, transport, seed)], mode="w" if is_new else "a")
    kept.cache_clear()
    for study in studies:
        _write(study, _sorted(study), mode="w")
    kept.cache_clear()


def _sorted(study: str) -> list[dict[str, str]]:
    """Return the kept runs by seed and arm."""
    order = {transport: place for place, transport in enumerate(STUDIES[study]())}
    return sorted(kept(study), key=lambda row: (int(row["seed"]), order[row["arm"]]))


def _write(study: str, rows: Iterable[Mapping[str, Any]], *, mode: str) -> None:
    with path_of(study).open(mode, encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns_of(study), lineterminator="\n")
        if mode == "w":
            writer.writeheader()
        writer.writerows(rows)


def main(arguments: list[str]) -> None:
    """Do what the command line asks for."""
    match arguments:
        case ["run", *studies]:
            run_missing(studies or list(STUDIES))
        case [("draw" | "tables") as what]:
            from docs.papers.programs.studies_page import draw  # noqa: PLC0415  needs a browser

            draw(pictures=what == "draw")
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
