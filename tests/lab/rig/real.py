"""Runs `multitracer measure run --over` as users do, and reads what it wrote."""

from __future__ import annotations

import csv
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.cli.program import COMMAND, ENVIRONMENT, ROOT
from tests.lab.testbed.running import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Row = dict[str, str]


@contextmanager
def measuring(
    folder: Path, over: str, *options: str, protocol: str = "tcp", sizes: str = "64,512", sessions: int = 3
) -> Iterator[subprocess.Popen[str]]:
    """Start a measurement; in the end it is stopped, if it has not ended."""
    chosen = ["--protocol", protocol, "--over", over, "--vary", "reply", "--sizes", sizes]
    words = [*chosen, "--sessions", str(sessions), *options, "-o", str(folder)]
    child = subprocess.Popen(
        [*COMMAND, "measure", "run", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=ROOT,
    )  # fmt: skip
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
        child.communicate(timeout=PATIENCE_S)


def transactions(folder: Path) -> list[Row]:
    """Return the finished transactions, in order."""
    path = folder / "transactions.csv"
    if not path.exists():
        return []
    text = path.read_text()
    return list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))


def told(folder: Path) -> list[Row]:
    """Return what the modem was told, and when."""
    with (folder / "truth" / "radio.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def numbers(rows: Sequence[Row]) -> list[int]:
    """Return the places of transactions in their plan."""
    return [int(row["transaction"]) for row in rows]


def spans_ns(rows: Sequence[Row], *, speed: float) -> Iterator[tuple[int, int]]:
    """Yield when each transaction began and ended, as clocks showed it."""
    for row in rows:
        began_ns = int(row["start_ns"])
        yield began_ns, began_ns + round(float(row["rtt_s"]) * 1e9 / speed)
