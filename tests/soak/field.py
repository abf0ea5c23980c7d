"""Phone, router and dish for long: `python -m tests.soak.field [--rounds 3600] [--seconds 600]`.

Each collector against its fake at the protocol (adbd, sshd, gRPC): first an hour of rounds as fast as they come, then
ten times unplugged and back, then killed (SIGKILL) and started again, then at its own pace. Memory must stay flat, no
descriptor may leak; of what was answered nothing may be lost but the gap; at its own pace it may take 2 % of a core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import parsers
from tests.collectors.adbd import Phone
from tests.collectors.dish import FakeDish
from tests.collectors.running import command, records, until
from tests.collectors.test_android import Tools, adb, plug, unplug
from tests.collectors.test_remote import Router, options_of
from tests.soak.watch import Watch, complaints

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMES = 10
_MOST_OF_CORE = 0.02
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PATIENCE_S = 30.0


@dataclass
class Source:
    """A fake device, and the collector that asks it."""

    name: str
    options: tuple[object, ...]
    answers: str
    """Kind of the records that an answer gives."""
    plug: Callable[[], None]
    unplug: Callable[[], None]

    def start(self, log: Path, hz: float) -> subprocess.Popen[bytes]:
        """Start the collector."""
        argv = command(self.name, "-o", log, *self.options, "--hz", hz)
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answered(self, log: Path) -> int:
        """Return the number of answers in a log."""
        return len(records(log, self.answers)) if log.exists() else 0


def sources(stack: ExitStack, folder: Path) -> list[Source]:
    """Return the three devices, plugged in; they end with the stack."""
    os.environ["ANDROID_ADB_SERVER_PORT"] = str(20_000 + os.getpid() % 12_000)
    os.environ["HOME"] = str(folder)
    adb("start-server")
    stack.callback(adb, "kill-server")
    phone = Phone(Tools(folder / "tools").folder)
    plug(phone)
    stack.callback(unplug, phone)
    (folder / "router").mkdir(mode=0o700)
    router = Router(folder / "router")
    router.plug()
    stack.callback(router.unplug)
    dish = FakeDish()
    dish.samples = [(30.0, 0.0, 5e7, 3e6)] * 20
    stack.callback(dish.stop)
    to_router = options_of(router)[:-2]
    return [
        Source("android", ("--serial", phone.serial), "answer", lambda: plug(phone), lambda: unplug(phone)),
        Source("remote", to_router, "answer", router.plug, router.unplug),
        Source("starlink", ("--target", f"127.0.0.1:{dish.port}"), "status", dish.start, dish.stop),
    ]


def forward(source: Source, log: Path, rounds: int) -> list[str]:
    """Ask as fast as answers come; return what is wrong."""
    child, watch, began = source.start(log, 1000), Watch(log.parent), time.monotonic()
    reads, place = 0, 0
    try:
        while reads < rounds:
            time.sleep(0.5)
            assert child.poll() is None, f"{source.name} ended by itself"
            watch.look(time.monotonic() - began)
            if not log.exists():
                continue  # a busy machine starts it late
            with log.open("rb") as file:
                file.seek(place)
                text = file.read()
            place += text.rfind(b"\n") + 1
            clocks = [line for line in text[: text.rfind(b"\n") + 1].splitlines() if b'"kind":"clock"' in line[:20]]
            seen = [json.loads(line)["reads"] for line in clocks]
            reads = max([reads, *seen])
    finally:
        child.terminate()
        child.wait(_PATIENCE_S)
    watched = watch.processes[child.pid]
    grew = f"{watched.rss_bytes[-1] / 1e6:.1f} MB, grew {watched.growth_bytes / 1e6:+.2f} MB"
    print(f"  {reads:,} rounds in {time.monotonic() - began:.0f} s, {log.stat().st_size / 1e6:.1f} MB; {grew}")
    return [*complaints(watched), *([] if child.returncode == 0 else [f"{source.name}: exit {child.returncode}"])]


def unplugged(source: Source, log: Path) -> list[str]:
    """Unplug ten times; return what is wrong: a gap too few, or an answer within one."""
    child = source.start(log, 10)
    try:
        for _ in range(_TIMES):
            wanted = source.answered(log) + 3
            until(lambda: source.answered(log) >= wanted)  # noqa: B023  # called at once
            source.unplug()
            lost = len(records(log, "missed")) + 1
            until(lambda: len(records(log, "missed")) >= lost)  # noqa: B023
            source.plug()
        wanted = source.answered(log) + 3
        until(lambda: source.answered(log) >= wanted)
    finally:
        child.terminate()
        child.wait(_PATIENCE_S)
    _, tables = parsers.read(log)
    assert isinstance(tables, dict)
    gaps = tables["gaps"]
    lost_s = float((gaps["until_ns"] - gaps["time_ns"]).sum()) / 1e9
    print(f"  unplugged {_TIMES} times: {len(gaps)} gaps, {lost_s:.1f} s, {sorted(set(gaps['reason'].tolist()))}")
    return [f"{source.name}: {len(gaps)} gaps for {_TIMES}"] if len(gaps) < _TIMES else []


def killed(source: Source, folder: Path) -> list[str]:
    """Kill the collector and start it again; return what is wrong: an answer that is lost, or no log."""
    wrong, ends = [], []
    for part in range(2):
        log = folder / f"killed-{part}.jsonl"
        child = source.start(log, 10)
        until(lambda: source.answered(log) > 5)  # noqa: B023
        child.kill()
        child.wait()
        _, tables = parsers.read(log)
        assert isinstance(tables, dict)
        name = "dish" if source.name == "starlink" else "radio"
        damage = tables[name].provenance["damaged"]
        wrong += [] if damage is None else [f"{source.name}: {damage}"]
        seen = records(log, source.answers)
        own = np.unique(tables[name]["line"])
        wrong += [] if len(own) and len(seen) > 5 else [f"{source.name}: {len(own)} of {len(seen)} answers are rows"]
        ends.append((seen[0]["asked_ns"], seen[-1]["answered_ns"]))
    print(f"  killed: {(ends[1][0] - ends[0][1]) / 1e9:.1f} s without an answer, no record lost or cut")
    return wrong


def at_its_pace(source: Source, log: Path, seconds: float) -> list[str]:
    """Ask once a second; return a complaint if the collector takes more than 2 % of a core."""
    child = source.start(log, 1)
    until(lambda: source.answered(log) > 1)
    before_s, began = _cpu_s(child.pid), time.monotonic()
    time.sleep(seconds)
    share = (_cpu_s(child.pid) - before_s) / (time.monotonic() - began)
    child.terminate()
    child.wait(_PATIENCE_S)
    print(f"  {seconds:.0f} s at 1 Hz: {share:.2%} of a core with its adb or ssh, {log.stat().st_size / 1e3:.0f} kB")
    return [f"{source.name}: {share:.1%} of a core"] if share > _MOST_OF_CORE else []


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process and its children that live."""
    total = 0.0
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total = sum(map(int, stat[11:15])) / _TICKS_PER_S
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            total += _cpu_s(int(child))
    return total


def main() -> None:
    """Run all for each collector; exit 1 if anything is wrong."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--rounds", type=int, default=3600, help="rounds in fast forward; default an hour's")
    options.add_argument("--seconds", type=float, default=600, help="seconds at the collector's own pace")
    chosen = options.parse_args()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="multitracer-field-") as name, ExitStack() as stack:
        for source in sources(stack, Path(name)):
            print(source.name)
            folder = Path(name) / f"{source.name}-logs"
            folder.mkdir()
            wrong += forward(source, folder / "forward.jsonl", chosen.rounds)
            wrong += unplugged(source, folder / "unplugged.jsonl")
            wrong += killed(source, folder)
            wrong += at_its_pace(source, folder / "pace.jsonl", chosen.seconds) if chosen.seconds else []
    if wrong:
        sys.exit("\n".join(wrong))
    print("nothing is lost but the gaps, memory is flat")


if __name__ == "__main__":
    main()
