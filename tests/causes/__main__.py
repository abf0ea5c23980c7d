"""Records a corpus of known causes, tells the truth about it, and judges the program by it.

`python -m tests.causes record|truth|judge|all FOLDER [--seeds 1-24,30] [--kinds NAME,NAME]`. FOLDER gets the
recordings, and `results/` in it a verdict a recording and `tables.md`. What is there is not made again.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.causes.judge import GROUP, VIEWS

if TYPE_CHECKING:
    from tests.causes.judge import Judged


def _seeds(text: str) -> list[int]:
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def _kinds(text: str) -> set[str]:
    from tests.causes.kinds import KINDS

    kinds, known = set(text.split(",")), {kind.name for kind in KINDS}
    if kinds - known:
        raise argparse.ArgumentTypeError(
            f"no kind {', '.join(sorted(kinds - known))}; there are {', '.join(sorted(known))}"
        )
    return kinds


def _recordings(folder: Path, chosen: argparse.Namespace) -> list[Path]:
    """Return the recordings there are, of the seeds and kinds that were asked for."""
    found = [path for seed in chosen.seeds for path in sorted(folder.glob(f"{seed:05d}-*"))]
    return [path for path in found if not chosen.kinds or path.name.partition("-")[2] in chosen.kinds]


def _record(folder: Path, chosen: argparse.Namespace) -> None:
    from tests.causes.kinds import kind_of
    from tests.causes.record import record_all

    seeds = [seed for seed in chosen.seeds if not chosen.kinds or kind_of(seed).name in chosen.kinds]
    given_up = record_all(seeds, folder)
    print(f"{len(given_up)} given up because the machine was busy")


def _truth(folder: Path, chosen: argparse.Namespace) -> None:
    from tests.causes.truth import write

    for each in _recordings(folder, chosen):
        if chosen.again or not (each / "truth" / "truth.json").exists():
            shares = write(each)["transfers"][0]["shares"]
            print(each.name, ", ".join(f"{limit} {share:.0%}" for limit, share in shares.items()), flush=True)


def _judge(folder: Path, chosen: argparse.Namespace) -> None:
    from tests.causes.tables import page
    from tests.causes.truth import write

    results = folder / "results"
    results.mkdir(exist_ok=True)
    judged: list[Judged] = []
    faults: dict[str, dict[str, bool]] = {}
    controls: set[str] = set()
    for each in _recordings(folder, chosen):
        if not (each / "truth" / "truth.json").exists():
            write(each)
        truth = json.loads((each / "truth" / "truth.json").read_text())
        judged_one = truth["transfers"][0]
        faults[each.name] = judged_one.get("joint", judged_one)["faults"]
        controls |= {each.name} if truth["control"] else set()
        judged += _verdicts(each, truth, results / f"{each.name}.json", chosen)
    (results / "tables.md").write_text(page(judged, faults, controls))
    print(results / "tables.md")


def _verdicts(each: Path, truth: dict[str, Any], file: Path, chosen: argparse.Namespace) -> list[Any]:
    from tests.causes.judge import Judged, judge

    if chosen.again or not file.exists():
        found = [judge(each, truth, view) for view in chosen.views]
        file.write_text(json.dumps([asdict(one) for one in found if one], indent=1))
    return [Judged(**one) for one in json.loads(file.read_text())]


_STEPS = {"record": [_record], "truth": [_truth], "judge": [_judge], "all": [_record, _truth, _judge]}


def main() -> None:
    """Do what the command line says."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("step", choices=_STEPS)
    options.add_argument("folder", type=Path)
    options.add_argument("--seeds", type=_seeds, default=_seeds("1-24"), help="for example 1-24,30")
    options.add_argument("--kinds", type=_kinds, default=set(), metavar="NAME,NAME", help="these kinds alone")
    options.add_argument("--views", nargs="+", default=[*VIEWS, GROUP])
    options.add_argument("--again", action="store_true", help="truths and verdicts, not recordings")
    chosen = options.parse_args()
    try:
        for step in _STEPS[chosen.step]:
            step(chosen.folder.resolve(), chosen)
    except (FileNotFoundError, PermissionError) as error:
        options.exit(1, f"Error: {error}\n")


if __name__ == "__main__":
    main()
