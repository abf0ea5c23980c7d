"""A capture that runs for long: `python -m tests.soak [--minutes 30] [--hours 100]`.

First in real time: every collector under the supervisor, with the rehearsed modem, GPS and traffic. Then fast
forward: the whole recorder, until modem and GPS have as many readings as in so many hours, as fast as they come;
probes and readings of the clocks come as often as they can, and captures are cut into files of
1 MB. Memory must stay flat, no descriptor may leak, no collector die, no log be of another size than documented, and
the session must be complete; log sizes and the cost of a core are printed.
"""

from __future__ import annotations

import argparse
import io
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from collectors import collectors
from multitracer.cli._capture import planned
from multitracer.errors import PreflightError
from multitracer.manifest import changed_files, read_manifest
from multitracer.recorder.folder import SessionFolder
from multitracer.recorder.plan import PlannedCollector, RecordingPlan
from multitracer.recorder.screen import PlainView
from multitracer.recorder.supervisor import Supervisor
from multitracer.recording.read import read
from multitracer.units import NS_PER_S
from tests.recorder.capturing import manifest
from tests.soak.watch import Watch, complaints

_EVERY_S = 5.0
_PATIENCE_S = 30.0
_SPEED = 100
"""Simulated seconds in a second of fast forward, as far as the collectors come."""
_LEAST_PROBES = 60
"""Minimum number of sync probes in a simulated hour: half of those in an hour of real time."""
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
    """Record until modem and GPS have as many readings as in so many hours; return what is wrong."""
    modem, gps, session = folder / "modem", folder / "gps", folder / "forward"
    with ExitStack() as stack:
        _start(stack, modem, "multitracer.lab.rehearsal.modem", "--link", modem, "--delay", 0.0005, 0.001,
               "--baud", 4000000, "--speed", 100)  # fmt: skip
        _start(stack, gps, "multitracer.lab.rehearsal.gps", "--link", gps, "--hz", 500, "--speed", 100)
        traffic = [sys.executable, "-m", "multitracer.lab.rehearsal.traffic"]
        stack.callback(subprocess.Popen(traffic, stdin=subprocess.DEVNULL).terminate)
        logs = {name: session / "mobile" / f"{stem}-0.jsonl" for name, stem in (("modem", "radio"), ("gps", "gps"))}
        recorder = _start(stack, logs["gps"], "tests.soak", "--record", session, modem, gps)
        wrong = _until_enough(folder, logs, round(3 * hours * 3600), recorder)
        recorder.send_signal(signal.SIGTERM)
        wrong += [] if recorder.wait(_PATIENCE_S) == 0 else [f"the recorder: exit {recorder.returncode}"]
    return wrong + _lacks(session, hours)


def record(session: Path, modem: Path, gps: Path) -> None:
    """Run the recorder with every collector that works here, each as fast as it can."""
    options: dict[str, tuple[str, ...]] = {
        "modem": ("--device", str(modem), "--hz", "500"),
        "gps": ("--device", str(gps)),
        "host_clock": ("--every", "0.005"),
        "tcp_info": (),
        "tcpdump": ("--interface=lo", "--file-mb=1"),
        "tcp_probe": (),
    }
    sources: list[PlannedCollector] = []
    for name, more in options.items():
        with suppress(PreflightError):
            if name not in ("modem", "gps"):
                collectors()[name].check()
            sources += planned(collectors()[name], more, {})
    screen = io.StringIO()
    plan = RecordingPlan(sources=tuple(sources), sync_probe_every_ns=30 * NS_PER_S // _SPEED)
    Supervisor(plan, SessionFolder(session, plan), PlainView(screen.write, screen.write)).run()


def _lacks(session: Path, hours: float) -> list[str]:
    """Return what the recorded session lacks."""
    manifest = read_manifest(session)
    assert manifest is not None
    wrong = [f"{run.name}: {run.outcome}" for run in manifest.collectors if run.outcome != "ended"]
    wrong += changed_files(session, manifest)
    probes = (session / "mobile" / "claps.jsonl").read_bytes().count(b"\n")
    recording = read(session)
    packets = sum(capture.tables.files[0].packets for capture in recording.captures)
    files, size = len(manifest.files), sum(log.bytes or 0 for log in manifest.files)
    print(f"  {files} files with {size / 1e6:,.0f} MB, {probes:,} probes, {packets:,} packets in the first files")
    wrong += [] if probes >= hours * _LEAST_PROBES else [f"only {probes} probes"]
    return wrong + recording.inputs.warnings


def _until_enough(folder: Path, logs: dict[str, Path], records: int, recorder: subprocess.Popen[bytes]) -> list[str]:
    watch, began = Watch(folder), time.monotonic()
    seen, places = dict.fromkeys(logs, 0), dict.fromkeys(logs, 0)
    while any(seen[name] < records for name in logs):
        watch.look(time.monotonic() - began)
        time.sleep(_EVERY_S)
        assert recorder.poll() is None, "the recorder ended by itself"
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
    command = [sys.executable, "-m", module, *map(str, options)]
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
    options.add_argument("--hours", type=float, default=100)
    options.add_argument("--record", nargs=3, type=Path, metavar=("SESSION", "MODEM", "GPS"), help="record, fast")
    chosen = options.parse_args()
    if chosen.record:
        record(*chosen.record)
        return
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="multitracer-soak-") as folder:
        print(f"real time, {chosen.minutes:g} minutes")
        wrong += real_time(chosen.minutes, Path(folder)) if chosen.minutes else []
        print(f"fast forward, {chosen.hours:g} hours")
        wrong += fast_forward(chosen.hours, Path(folder))
    if wrong:
        sys.exit("\n".join(wrong))
    print("memory is flat, nothing leaks")


if __name__ == "__main__":
    main()
