"""Figure 6 of paper 004 from runs of our own: `make -C docs/papers utilization`.

`python -m docs.papers.programs.figure6 run [FOLDER...]` makes the runs that data/figure6.csv lacks, in
virtual time, takes in the recorded sessions in FOLDER, and repeats the worst with one thing changed;
`python -m docs.papers.programs.figure6 draw` makes the picture and the tables of utilization.md. The
parameters of a run are drawn from its number: anybody makes the same runs.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from multitracer.diagnosis.account.by_slots import reset_episodes
from multitracer.diagnosis.account.uses import LOST
from multitracer.diagnosis.diagnose import diagnose
from multitracer.lab.channel.gsm import LinkConfig
from multitracer.lab.channel.shared.frame_errors import ErrorConfig
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.lab.channel.shared.scheduler import ScriptEvent
from multitracer.lab.scenario.model import Scenario, ScenarioTraffic
from multitracer.lab.simulator.run import record_virtual
from multitracer.lab.tcp.profile import BSD
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

ROOT: Path = Path(__file__).parents[3]
RUNS = ROOT / "docs" / "papers" / "data" / "figure6.csv"
REPEATED = RUNS.with_name("figure6_repeated.csv")
"""The runs at `WORST` or less a second time: with NewReno, and with the other choice of header compression."""
WORST = 0.95
"""Largest utilization of the transfers that the paper looked into (section 4.3)."""
COLUMNS = (
    "run", "radio", "bytes", "direction", "header_compression", "queue_packets", "n2", "outcome",
    "utilization", "throughput_kbps", "resets", "lost_s", "total_s", "spurious_s", "causes",
)  # fmt: skip
HOW_MANY = 60
_MIN_BYTES, _MOST_BYTES = 230_000, 1_500_000
_GOOD = ErrorConfig(kind="gilbert-elliott", good_s=20.0, bad_s=0.06, bad_rate=0.5)
"""The radio of the scenario fig5-typical."""
_POOR_UP = ErrorConfig(kind="gilbert-elliott", good_s=2.2, bad_s=0.3, bad_rate=0.6)
_POOR_DOWN = ErrorConfig(kind="gilbert-elliott", good_s=4.4, bad_s=0.3, bad_rate=0.6)
"""The radio of the scenario radio-poor: 7 % of the frames lost upwards."""
_FADE_EVERY_S, _FADE_S = 100.0, 1.7
"""Beside it in poor radio: shadows in which every frame is lost, with exponential distances and lengths.
Those longer than N2 x T1 = 2.9 s, one in five or six, reset the link. The paper saw 14 resets in 2 poor
hours; the mean length, the free parameter here, is such that at least as many come in an hour."""
_SMALL_QUEUE = 12
"""Packets; the paper's authors compiled a kernel with a small interface buffer too."""


def scenario(number: int) -> Scenario:
    """Return run `number`: every third in a poor radio, all else by chance."""
    luck = Random(f"figure 6, run {number}")  # noqa: S311  # chance that can be repeated
    poor = number % 3 == 2
    size = round(_MIN_BYTES * (_MOST_BYTES / _MIN_BYTES) ** luck.random())
    compressed = luck.random() < 0.5
    link = LinkConfig(
        header_compression="vj-slot-id" if compressed else "none",
        queue=QueueConfig(limit_packets=_SMALL_QUEUE if luck.random() < 0.25 else 50),
        when_exhausted="drop-call" if luck.random() < 0.15 else "reset",
        up=_POOR_UP if poor else _GOOD,
        down=_POOR_DOWN if poor else _GOOD,
    )
    profile = replace(BSD, mtu_bytes=512, timestamps=not compressed)
    return Scenario(
        name=f"figure6-{number}",
        limit_s=7200.0,
        mobile=profile,
        fixed=profile,
        link=link,
        traffic=(ScenarioTraffic(bytes=size, direction="up" if luck.random() < 0.7 else "down"),),
        events=tuple(_shadows(luck)) if poor else (),
        seed=number,
    )


def _shadows(luck: Random) -> Iterator[ScriptEvent]:
    at_s = luck.expovariate(1 / _FADE_EVERY_S)
    while at_s < 7200:
        length_s = luck.expovariate(1 / _FADE_S)
        yield ScriptEvent(kind="fade", at_s=at_s, duration_s=length_s, direction="both")
        at_s += length_s + luck.expovariate(1 / _FADE_EVERY_S)


def repeated(number: int) -> dict[str, Scenario]:
    """Return the variants of a run by name: each changes one thing that may have cost the time.

    The other compression brings the other choice of timestamps, as in `scenario`.
    """
    same = scenario(number)
    link = same.gsm
    is_compressed = link.header_compression != "none"
    other = replace(link, header_compression="none" if is_compressed else "vj-slot-id")
    newreno = [replace(profile, congestion="newreno") for profile in (same.mobile, same.fixed)]
    plain = [replace(profile, timestamps=is_compressed) for profile in (same.mobile, same.fixed)]
    return {
        "NewReno": replace(same, mobile=newreno[0], fixed=newreno[1]),
        "the other compression": replace(same, mobile=plain[0], fixed=plain[1], link=other),
    }


def row_of(name: str, radio: str, transfer: Transfer) -> dict[str, Any]:
    """Return the line of one transfer."""
    diagnosis = diagnose(transfer)
    books = diagnosis.account
    parameters = transfer.variables.parameters
    link, traffic = parameters["link"], parameters["traffic"][0]
    resets = reset_episodes(transfer.near, slot_ns=transfer.slot_ns) if transfer.near else []
    return {
        "run": name,
        "radio": radio,
        "bytes": traffic["bytes"],
        "direction": traffic["direction"],
        "header_compression": link["header_compression"],
        "queue_packets": link["queue"]["limit_packets"],
        "n2": link["n2"],
        "outcome": books.outcome,
        "utilization": f"{books.utilization:.5f}",
        "throughput_kbps": f"{books.payload_bytes * 8 / 1000 / books.total_s:.3f}",
        "resets": len(resets),
        "lost_s": f"{sum(books.seconds[use] for use in LOST):.2f}",
        "total_s": f"{books.total_s:.1f}",
        "spurious_s": _spurious(diagnosis, transfer),
        "causes": _causes(diagnosis),
    }


def _causes(diagnosis: Diagnosis) -> str:
    """Return the findings that cost time, largest cost first: `link-reset 15.2 s x1; ...`."""
    cost: dict[str, tuple[float, int]] = {}
    for finding in diagnosis.findings:
        if finding.cost_s > 0:
            seconds, times = cost.get(finding.kind, (0.0, 0))
            cost[finding.kind] = seconds + finding.cost_s, times + 1
    costs = sorted(cost.items(), key=lambda item: -item[1][0])
    return "; ".join(f"{kind} {seconds:.1f} s x{times}" for kind, (seconds, times) in costs)


def _spurious(diagnosis: Diagnosis, transfer: Transfer) -> str:
    """Return when the timer expired though nothing was lost, in seconds: `11.2 84.0`."""
    first_ns = int(transfer.sender["time_ns"].min())
    begins = [each.begin_ns for each in diagnosis.findings if each.kind == "spurious-timeout"]
    return " ".join(f"{(at_ns - first_ns) * transfer.speed / NS_PER_S:.1f}" for at_ns in sorted(begins))


def read_rows(path: Path = RUNS) -> list[dict[str, str]]:
    """Return the lines of data/figure6.csv, or of `REPEATED`."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def run(folders: list[str]) -> None:
    """Make the runs that are missing, and take in recorded sessions."""
    done = {row["run"] for row in read_rows()}
    if not done:
        RUNS.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    for number in range(HOW_MANY):
        if f"virtual {number}" not in done:
            _append(_made(f"virtual {number}", "poor" if number % 3 == 2 else "good", scenario(number)))
    for folder in folders:
        transfer = Transfer.of(read(folder))
        name = f"recorded {transfer.variables.scenario or Path(folder).name}"
        size = transfer.variables.parameters["traffic"][0]["bytes"]
        if name not in done and size >= _MIN_BYTES:
            _append(row_of(name, "good", transfer))
    repeat_worst()


def repeat_worst() -> None:
    """Make the variants of the worst runs that are missing."""
    done = {row["run"] for row in read_rows(REPEATED)}
    if not done:
        REPEATED.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    for row in worst(read_rows()):
        number = int(row["run"].removeprefix("virtual "))
        for name, variant in repeated(number).items():
            if f"{row['run']}, {name}" not in done:
                _append(_made(f"{row['run']}, {name}", row["radio"], variant), REPEATED)


def worst(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the complete transfers of a rounded-up utilization of `WORST` or less."""
    return [row for row in rows if row["outcome"] == "complete" and float(row["utilization"]) <= WORST]


def _made(name: str, radio: str, run_of: Scenario) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        session = Path(folder) / "session"
        record_virtual(run_of, session)
        return row_of(name, radio, Transfer.of(read(session)))


def _append(row: dict[str, Any], path: Path = RUNS) -> None:
    with path.open("a", encoding="utf-8", newline="") as stream:
        csv.DictWriter(stream, COLUMNS, lineterminator="\n").writerow(row)


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(sys.argv[2:])
    else:
        from docs.papers.programs.figure6_page import draw

        draw()
