"""How a campaign grows: `python -m tests.benchmarks.campaign_sessions --sizes 100 1000 10000`.

It makes sessions in virtual time, of ten shapes in turn: calls over GSM with overflows, fades and resets,
ray-traced links that fade, cdma2000 with its pilot, measurements over CDPD with a modem's log, and copies of
the bundled drive with its radio and route. Then processes of their own make campaigns of the first of them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.measure import Cost, cost

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINEAR = 1.1
"""A machine's own speed changes by some percent in an hour."""
_FOLDER = 100
"""Sessions in a folder: a day of a car."""
_CUT = {"fig4-slow-start": 25, "fig8-resets-vj": 40, "fig11-fade": 25, "radio-poor": 25, "ray-4": 2, "ray-5": 2}
"""Scenario -> seconds of it: a tenth of a second of processor time, in which something happens."""
_DRIVE = Path("sample_traces/rehearsed-drive")


def make(folder: Path, number: int) -> None:
    """Make one session; its number decides its shape and is its seed."""
    from multitracer.lab.scenario.library import load_scenario
    from multitracer.lab.simulator.run import record_virtual

    shapes = (*_CUT, "cdma2000-download", "cdma2000-download", "cdpd", "drive")
    shape = shapes[number % len(shapes)]
    if shape == "drive":
        _copied_drive(folder, number)
    elif shape == "cdpd":
        _measurement(folder, number)
    else:
        scenario = replace(load_scenario(shape), limit_s=_CUT.get(shape, 12), title=f"{shape} {number}")
        record_virtual(scenario, folder, seed=number)


def _copied_drive(folder: Path, number: int) -> None:
    """Copy the bundled drive; a manifest of its own makes it another session."""
    shutil.copytree(_DRIVE, folder)
    manifest = folder / "manifest.json"
    document = json.loads(manifest.read_text("utf-8"))
    document["name"] = f"drive {number}"
    manifest.write_text(json.dumps(document), "utf-8")


def _measurement(folder: Path, number: int) -> None:
    from tests.lab.rig.virtual import link, plan, run

    over = link('[link]\nkind = "cdpd"\n[[traffic]]\nbytes = 1\n')
    run(plan("tcp", (64, 1500), 3), folder, over, seed=number, capture=True)


def folders_of(place: Path, sessions: int) -> list[str]:
    """Return the folders that hold the first sessions, and make what is missing of them."""
    for number in range(sessions):
        folder = place / f"{number // _FOLDER:04}" / f"{number:06}"
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(place / "unfinished", ignore_errors=True)
            make(place / "unfinished", number)
            (place / "unfinished").rename(folder)
    return [str(place / f"{first // _FOLDER:04}") for first in range(0, sessions, _FOLDER)]


def plain(folders: list[str]) -> int:
    """Analyse sessions into all tables in this process, with no spool and no part; return how many."""
    from multitracer.campaign.discovery import DIGITS, candidates, content_of
    from multitracer.campaign.session_tables import session_tables
    from multitracer.recording.read import read

    done = 0
    for candidate in candidates(folders, known=set(), passed_over=[]):
        inputs = candidate.inputs()
        content = content_of(inputs)
        session_tables(read(inputs), content[:DIGITS], candidate.path, content)
        done += 1
    return done


def _busy_s() -> float:
    """Return the processor time that the machine spent on anything since its start (proc(5), /proc/stat)."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def _shared(argv: list[str]) -> tuple[Cost, float]:
    """Run a command; return its cost, and the cores that others left to it in the mean."""
    before_s = _busy_s()
    each = cost(argv)
    others_s = _busy_s() - before_s - each.cpu_s
    return each, (os.cpu_count() or 1) - others_s / each.wall_s


def measured(place: Path, sizes: list[int]) -> Iterator[str]:
    """Yield a row for each campaign, for the second run of each, and for the comparisons of the first."""
    program, first = [sys.executable, "-m", "multitracer", "campaign", "run"], min(sizes)
    this = [sys.executable, "-m", "tests.benchmarks.campaign_sessions"]
    yield _row("to make the sessions", max(sizes), *_shared([*this, "--make", str(max(sizes)), "--keep", str(place)]))
    each_ms: dict[int, float] = {}
    for size in sorted(sizes):
        folders = folders_of(place, size)
        out = ["-o", str(place / f"campaign-{size}")]
        complete, cores = _shared([*program, *folders, *out])
        each_ms[size] = 1e3 * complete.cpu_s / size
        yield _row("a campaign", size, complete, cores)
        yield _row("its second run", size, *_shared([*program, *folders, *out]))
    folders = folders_of(place, first)
    yield _row("all tables, no campaign", first, *_shared([*this, "--plain", *folders]))
    out = ["-o", str(place / "campaign-jobs"), "--jobs", "2"]
    yield _row("a campaign, --jobs 2", first, *_shared([*program, *folders, *out]))
    most = max(each_ms.values()) / each_ms[first]
    verdict = "linear" if most <= _LINEAR else "NOT linear"
    yield f"\n{verdict}: a session costs at most {most:.2f} times what it does among {first:,}"


def _row(what: str, sessions: int, each: Cost, cores: float) -> str:
    cpu_ms, used = 1e3 * each.cpu_s / sessions, each.cpu_s / each.wall_s
    return (
        f"| {what} | {sessions:,} | {each.wall_s:.1f} s | {each.cpu_s:.1f} s | {cpu_ms:.1f} ms "
        f"| {each.peak_bytes / (1 << 20):.0f} MiB | {used:.2f} of {cores:.2f} |"
    )


def main() -> None:
    """Measure, or be the process that is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--keep", type=Path, help="make sessions and campaigns here, and take what is there")
    parser.add_argument("--plain", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--make", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plain or options.make:
        plain(options.plain) if options.plain else folders_of(options.keep, options.make)
        return
    with tempfile.TemporaryDirectory() as temporary:
        for row in measured(options.keep or Path(temporary), options.sizes):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
