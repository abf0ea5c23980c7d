"""Kill a run of 300 sessions 20 times, at random points, and compare it with an undisturbed one, row for row.

`python -m tests.campaign.killed FOLDER [SESSIONS] [KILLS] [SEED]` says what it saw; it fails if rows differ.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from multitracer.campaign.upkeep import faults, status
from tests.campaign.sessions import make_sessions, rows_of


def _command(drives: Path, place: Path) -> list[str]:
    return [sys.executable, "-m", "multitracer", "campaign", "run", str(drives), "-o", str(place)]


def _done(place: Path) -> int:
    """Return how many sessions are folded or spooled."""
    if not (place / "snapshots").is_dir():
        return 0
    state = status(place)
    return state.rows["sessions"] + state.waiting


def _killed_after(sessions: int, delay_s: float, drives: Path, place: Path) -> bool:
    """Start a run and kill it when so many sessions are done, and a moment later; return whether it ran."""
    process = subprocess.Popen(_command(drives, place), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and _done(place) < sessions:
        time.sleep(0.01)
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def main() -> None:
    """Do it, and print what was seen."""
    folder = Path(sys.argv[1])
    sessions, kills, seed = (int(text) for text in (*sys.argv[2:5], *("300", "20", "22")[len(sys.argv) - 2 :]))
    drives = make_sessions(folder / "drives", sessions)
    began_s = time.monotonic()
    subprocess.run(_command(drives, folder / "undisturbed"), check=True, stdout=subprocess.DEVNULL)
    print(f"undisturbed: {time.monotonic() - began_s:.1f} s")
    chance = random.Random(seed)
    place = folder / "killed"
    ended = 0
    for point in sorted(chance.sample(range(1, sessions), kills)):
        ended += _killed_after(point, chance.uniform(0, 0.2), drives, place)
        if (place / "snapshots").is_dir():
            assert faults(place) == [], point
        print(f"killed at {point}: {_done(place)} sessions folded or spooled", flush=True)
    subprocess.run(_command(drives, place), check=True)
    expected, rows = rows_of(folder / "undisturbed"), rows_of(place)
    assert rows == expected
    print(f"{ended} of {kills} kills met a run; {sum(map(len, rows.values())):,} rows are identical")


if __name__ == "__main__":
    main()
