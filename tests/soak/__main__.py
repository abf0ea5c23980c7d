"""A capture that runs for long: `python -m tests.soak [--minutes 30] [--hours 24]`.

First in real time: every collector under the supervisor, with the rehearsed modem, GPS and traffic. Then fast
forward: modem, GPS and clocks are asked for as many readings as they take in so many hours, as fast as they
come. Memory must stay flat, no descriptor may leak, no collector die, no log
be of another size than documented; log sizes and the cost of a core are printed.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.recorder.capturing import manifest
from tests.soak.watch import Watch, complaints

if TYPE_CHECKING:
    from collections.abc import Iterable

_EVERY_S = 5.0
_PATIENCE_S = 30.0
_MB_PER_HOUR = {"radio-0.jsonl": 3.0, "gps-0.jsonl": 2.2, "clocks-0.jsonl": 0.2, "tcpdump-0.jsonl": 0.6}
"""As docs/capture.md has them, of the logs whose size does not depend on the traffic."""


def real_time(minutes: float, folder: Path) -> list[str]:
    """Capture in real time; print what it cost, and return what is wrong."""
    session = folder / "drive"
    argv = [sys.executable, "-m", "multitracer", "capture", "-o", str(session), "--rehearse", "--plain", "-i", "lo"]
    quiet = subprocess.DEVNULL
    capture = subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    watch, began = Watch(folder), time.monotonic()
    try:
        while (at_s := time.monotonic() - began) < minutes * 60:
            assert capture.poll() is None, "the capture ended by itself"
            watch.look(at_s)
            time.sleep(min(_EVERY_S, minutes * 6))
    finally:
        capture.send_signal(signal.SIGTERM)
        status = capture.wait(_PATIENCE_S)
    wrong = [] if status == 0 else [f"capture: exit {status}"]
    ended = [(run["name"], run["outcome"]) for run in manifest(session)["collectors"]]
    wrong += [f"{name}: {outcome}" for name, outcome in ended if outcome != "ended"]
    return [*_told(watch), *wrong, *_sizes(session / "mobile", hours=minutes / 60)]


def _sizes(host: Path, *, hours: float) -> list[str]:
    """Print how large the logs are, and return which are far from what is documented, or missing."""
    sizes = {log.name: log.stat().st_size / hours / 1e6 for log in sorted(host.iterdir())}
    for name, size in sizes.items():
        print(f"  {name:22} {size:8.2f} MB/h")
    off = {name: size for name, size in _MB_PER_HOUR.items() if not size / 2 < sizes.get(name, 0) < size * 2}
    return [f"{name}: {sizes.get(name, 0):.2f} MB/h; documented are {size}" for name, size in off.items()]


def fast_forward(hours: float, folder: Path) -> list[str]:
    """Let modem, GPS and clock be read as often as in so many hours; return what is wrong."""
    readings = round(hours * 3600)
    wrong = []
    with ExitStack() as stack:
        modem, gps = folder / "modem", folder / "gps"
        _start(stack, modem, "_rehearsal.modem", "--link", modem, "--delay", 0.0005, 0.001, "--baud", 4000000,
               "--speed", 100)  # fmt: skip
        _start(stack, gps, "_rehearsal.gps", "--link", gps, "--hz", 500, "--speed", 100)
        logs = {"modem": ("--device", modem, "--hz", 500), "gps": ("--device", gps), "host_clock": ("--every", 0.005)}
        paths = {name: folder / f"{name}.jsonl" for name in logs}
        children = [_start(stack, paths[name], name, "-o", paths[name], *options) for name, options in logs.items()]
        wrong = _until_enough(folder, paths, readings, children)
    return wrong


def _until_enough(
    folder: Path, logs: dict[str, Path], readings: int, children: Iterable[subprocess.Popen[bytes]]
) -> list[str]:
    watch, began = Watch(folder), time.monotonic()
    wanted = {"modem": 3 * readings, "gps": 3 * readings, "host_clock": 1}  # a clock is read once a second at most
    seen, places = dict.fromkeys(logs, 0), dict.fromkeys(logs, 0)
    while any(seen[name] < wanted[name] for name in logs):
        watch.look(time.monotonic() - began)
        time.sleep(_EVERY_S)
        assert all(child.poll() is None for child in children), "a collector ended by itself"
        for name, log in logs.items():
            with log.open("rb") as stream:
                stream.seek(places[name])
                text = stream.read()
            places[name] += len(text)
            seen[name] += text.count(b"\n")
    took = time.monotonic() - began
    for name, log in logs.items():
        print(f"  {name:22} {seen[name]:,} records in {took:.0f} s, {log.stat().st_size / 1e6:.1f} MB")
    return _told(watch)


def _start(stack: ExitStack, made: Path, module: str, *options: object) -> subprocess.Popen[bytes]:
    """Start a program beside; return it when the file that it makes is there."""
    command = [sys.executable, "-m", f"collectors.{module}", *map(str, options)]
    quiet = subprocess.DEVNULL
    child = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
    stack.callback(child.wait, _PATIENCE_S)
    stack.callback(child.terminate)
    until = time.monotonic() + _PATIENCE_S
    while not made.exists():
        assert child.poll() is None, f"{module} ended at once"
        assert time.monotonic() < until, f"{module} does not begin"
        time.sleep(0.05)
    return child


def _told(watch: Watch) -> list[str]:
    """Print what each process used, and return what is wrong."""
    wrong, total = [], 0.0
    for watched in watch.processes.values():
        if len(watched.rss_bytes) < 6:
            continue
        total += watched.share_of_core
        memory = f"{watched.rss_bytes[-1] / 1e6:6.1f} MB, grew {watched.growth_bytes / 1e6:+.2f} MB"
        rest = f"{watched.descriptors[-1]} descriptors, {watched.share_of_core:.2%} of a core"
        print(f"  {watched.name:30} {memory}, {rest}")
        wrong += complaints(watched)
    print(f"  together {total:.1%} of a core")
    return wrong


def main() -> None:
    """Run both parts; exit 1 if anything grew or leaked."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--minutes", type=float, default=30)
    options.add_argument("--hours", type=float, default=24)
    chosen = options.parse_args()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="multitracer-soak-") as folder:
        print(f"real time, {chosen.minutes:g} minutes")
        wrong += real_time(chosen.minutes, Path(folder))
        print(f"fast forward, {chosen.hours:g} hours")
        wrong += fast_forward(chosen.hours, Path(folder))
    if wrong:
        sys.exit("\n".join(wrong))
    print("memory is flat, nothing leaks")


if __name__ == "__main__":
    main()
