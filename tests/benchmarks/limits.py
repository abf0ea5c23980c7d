"""What saying what limited a transfer costs: `python -m tests.benchmarks.limits` measures this alone.

The captures are those of `diagnose.py`: a transfer over 10 Mbit/s with a loss every 200 segments, each
repaired by a timeout. The peer is our own `diagnose` as it was before it told limits, from the history.
`python -m tests.benchmarks.limits RECORDING...` compares today's program with itself without limits, and
without what findings take from them, on recordings that are there already.
"""

from __future__ import annotations

import io
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks import goals, peers
from tests.benchmarks.measure import cost, median, paired

if TYPE_CHECKING:
    from collections.abc import Iterator

BEFORE = "367e0d7a9989"
"""The commit before `multitracer/diagnosis/limits` was there."""
_ROOT = Path(__file__).parents[2]
_PACKETS = (20_000, 100_000, 500_000)
_AT_MOST_ADDED = 1.0
_AT_MOST_GROWTH = 1.5


def limits_against_before(_: object = None, *, runs: int) -> Iterator[goals.Row]:
    """CPU time that `diagnose` needs more than before it told limits, and how that grows with the packets."""
    with tempfile.TemporaryDirectory() as place:
        before = _taken_out(Path(place) / "before")
        if before is None:
            print(f"no commit {BEFORE} here: the cost of limits is not measured", file=sys.stderr)
            return
        each_us = {}
        for packets, both in [(count, False) for count in _PACKETS] + [(_PACKETS[1], True)]:
            folder = Path(place) / f"{packets}-{both}"
            folder.mkdir()
            _write(folder, packets, both=both)
            row, ours_s = _row(folder, packets, before, both=both, runs=min(runs, 3))
            yield row
            if not both:
                each_us[packets] = ours_s / packets * 1e6
        yield _growth(each_us)


def _write(folder: Path, packets: int, *, both: bool) -> None:
    """Write the captures in a process of their own: this one stays small (see `measure`)."""
    code = (
        "import sys, pathlib; from tests.benchmarks.diagnose import write_session; "
        "write_session(pathlib.Path(sys.argv[1]), int(sys.argv[2]), both=sys.argv[3] == 'True')"
    )
    argv = [sys.executable, "-c", code, str(folder), str(packets), str(both)]
    subprocess.run(argv, check=True, cwd=_ROOT)


def _row(folder: Path, packets: int, before: Path, *, both: bool, runs: int) -> tuple[goals.Row, float]:
    words = ("diagnose", "--json", str(folder))
    theirs = ["env", "-C", str(before), f"PYTHONPATH={before}", sys.executable, "-m", "multitracer", *words]
    pairs = paired(peers.multitracer(*words), theirs, runs=runs)
    added = statistics.median((ours.cpu_s - peer.cpu_s) / peer.cpu_s for ours, peer in pairs)
    ours, peer = (median(list(side)) for side in zip(*pairs, strict=True))
    on = f"{packets // 1000} k, {'both ends' if both else 'sender'}"
    row = goals.Row(
        "`diagnose` / before limits, CPU", on, f"{ours.cpu_s:.2f} s", f"{peer.cpu_s:.2f} s",
        f"{added:+.2f} ×", f"≤ +{_AT_MOST_ADDED:.1f} ×", added <= _AT_MOST_ADDED,
    )  # fmt: skip
    return row, ours.cpu_s


def _growth(each_us: dict[int, float]) -> goals.Row:
    growth = each_us[_PACKETS[-1]] / each_us[_PACKETS[1]]
    shown = ", ".join(f"{packets // 1000} k {each:.1f}" for packets, each in each_us.items())
    return goals.Row(
        "`diagnose`, CPU µs per packet", "20 k to 500 k", shown, "", f"{growth:.2f} × from 100 k to 500 k",
        f"≤ {_AT_MOST_GROWTH} ×", growth <= _AT_MOST_GROWTH,
    )  # fmt: skip


_USER_S = """
import resource, sys
from importlib import import_module
from pathlib import Path
from multitracer.diagnosis import diagnose
from multitracer.diagnosis.limits import group
from multitracer.diagnosis.limits.names import Limit, View
from multitracer.recording.read import read

limits = import_module("multitracer.diagnosis.limits.limited")

def unknown(transfer, account=None):
    cells = limits._all(*limits._complete(transfer), Limit.UNKNOWN)
    return limits.Limited(transfer, View.NOWHERE, cells)

if sys.argv[2] == "without":
    diagnose.limited = group.limited = unknown
for _ in range(2):  # the first one imports
    begin_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    recording = read(Path(sys.argv[1]))
    diagnose.explain(recording).document()
packets = sum(len(each.tables.segments) for each in recording.captures)
print(packets, resource.getrusage(resource.RUSAGE_SELF).ru_utime - begin_s)
"""


def limits_against_none(recordings: list[Path], *, runs: int) -> Iterator[goals.Row]:
    """User CPU time of `diagnose` on recordings, with limits and without them, in turn."""
    for recording in recordings:
        seconds: dict[str, list[float]] = {"with": [], "without": []}
        packets = 0
        for _ in range(runs):
            for side, each in seconds.items():
                argv = [sys.executable, "-c", _USER_S, str(recording), side]
                words = subprocess.run(argv, check=True, cwd=_ROOT, capture_output=True, text=True).stdout
                packets = int(words.split()[0])
                each.append(float(words.split()[1]))
        added = statistics.median(a / b - 1 for a, b in zip(*seconds.values(), strict=True))
        ours, peer = (f"{statistics.median(each):.3f} s" for each in seconds.values())
        yield goals.Row(
            "`diagnose` / without limits, user CPU", f"{packets:,} packets", ours, peer,
            f"{added:+.2f} ×", f"≤ +{_AT_MOST_ADDED:.1f} ×", added <= _AT_MOST_ADDED,
        )  # fmt: skip


def _taken_out(folder: Path) -> Path | None:
    """Write the program as it was before into a folder; None where the history does not go back so far."""
    argv = ["git", "-C", str(_ROOT), "archive", BEFORE, "multitracer", "parsers", "collectors"]
    done = subprocess.run(argv, check=False, capture_output=True)
    if done.returncode:
        return None
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    cost([sys.executable, "-m", "compileall", "-q", str(folder)])
    return folder


ALL: tuple[goals.Goal, ...] = (limits_against_before,)


if __name__ == "__main__":
    given = [Path(each).resolve() for each in sys.argv[1:]]
    for each in limits_against_none(given, runs=5) if given else limits_against_before(runs=3):
        cells = (each.what, each.on, each.ours, each.peer, each.result, each.goal, each.met)
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
