"""`python -m tests.causes record FOLDER --seeds 1-24`: records; see the package's words."""

from __future__ import annotations

import argparse
from pathlib import Path


def _seeds(text: str) -> list[int]:
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def main() -> None:
    """Do what the command line says."""
    options = argparse.ArgumentParser(description=__doc__)
    commands = options.add_subparsers(dest="command", required=True)
    for name in ("record",):
        command = commands.add_parser(name)
        command.add_argument("folder", type=Path)
        command.add_argument("--seeds", type=_seeds, default=_seeds("1-24"), help="for example 1-24,30")
    chosen = options.parse_args()
    from tests.causes.record import record_all

    record_all(chosen.seeds, chosen.folder.resolve())


if __name__ == "__main__":
    main()
