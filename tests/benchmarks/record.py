"""Record the captures that the benchmarks read: real kernel TCP through a slow, lossy path of namespaces.

Recorded once into `.bench/` and kept; delete a file there to record it anew. Every capture is a
little-endian nanosecond pcap of Ethernet and IPv4 taken at the sender.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.netns import Namespaces, routed_path, stop

BENCH = Path(__file__).parents[2] / ".bench"
_HEADERS_ONLY = 96
CUTS = {"first_1m": 1_000_000, "first_100k": 100_000, "first_10k": 10_000, "tiny": 200}
"""Captures of the first packets of `headers`, for slow tools and for linearity."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one capture is recorded."""

    name: str
    connections: int
    total_bytes: int
    rate: str
    port: int
    """Every recipe has its own, so that no tuple repeats when captures are merged."""
    one_in: int = 2000
    """One packet in so many is lost, besides those that the full queue drops."""
    snap_length: int = _HEADERS_ONLY
    latency: str = "15ms"


FULL = Recipe("full", 600, 1_110_000_000, "400mbit", 5201, snap_length=262_144)
HEADERS = Recipe("headers", 2000, 5_800_000_000, "800mbit", 5202)
BULK = Recipe("bulk", 1, 2_760_000_000, "700mbit", 5203, latency="40ms")
TRANSFER = Recipe("transfer", 1, 2_000_000_000, "700mbit", 5204, snap_length=262_144, latency="40ms")
MANY = Recipe("many", 6147, 1_500_000_000, "800mbit", 5205)


def recorded(recipe: Recipe, *, folder: Path = BENCH) -> Path:
    """Return the recipe's capture; record it if it is not there yet."""
    path = folder / f"{recipe.name}.pcap"
    if not path.exists():
        folder.mkdir(exist_ok=True)
        _record(recipe, path)
    return path


def _record(recipe: Recipe, path: Path) -> None:
    """Record to another name first, so that a capture is either whole or absent."""
    unfinished = path.with_suffix(".unfinished")
    with routed_path(rate=recipe.rate, one_in=recipe.one_in, latency=recipe.latency) as hosts:
        _traffic(hosts, "b", "receive", "--port", str(recipe.port))
        tcpdump = _start_tcpdump(hosts, recipe, unfinished)
        source = _traffic(
            hosts, "a", "send", "--port", str(recipe.port), "--connections", str(recipe.connections),
            "--bytes", str(recipe.total_bytes),
        )  # fmt: skip
        if source.wait():
            raise RuntimeError(f"{recipe.name}: the traffic source failed with status {source.returncode}")
        time.sleep(1)
        _check_nothing_dropped(recipe, tcpdump)
    unfinished.rename(path)


def _traffic(hosts: Namespaces, label: str, role: str, *options: str) -> subprocess.Popen[str]:
    child = hosts.start(label, sys.executable, "-m", "tests.benchmarks.traffic", role, *options)
    if role == "receive":
        _wait_for_listener(hosts, label)
    return child


def _wait_for_listener(hosts: Namespaces, label: str) -> None:
    deadline = time.monotonic() + 20
    while not hosts.run(label, "ss", "-Htln").stdout:
        if time.monotonic() > deadline:
            raise RuntimeError("the traffic sink did not start to listen within 20 s")
        time.sleep(0.05)


def _start_tcpdump(hosts: Namespaces, recipe: Recipe, path: Path) -> subprocess.Popen[str]:
    child = hosts.start(
        "a", "tcpdump", "-i", "to-r", "-s", str(recipe.snap_length), "-B", "262144", "-Z", "root",
        "--time-stamp-precision", "nano", "-w", str(path), "tcp", stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stderr is not None
    for line in child.stderr:
        if "listening on" in line:
            return child
    raise RuntimeError("tcpdump ended before it began to listen")


def _check_nothing_dropped(recipe: Recipe, tcpdump: subprocess.Popen[str]) -> None:
    stop(tcpdump, patience_s=60)
    _, words = tcpdump.communicate()
    dropped = re.search(r"(\d+) packets? dropped by kernel", words)
    if not dropped or dropped[1] != "0":
        raise RuntimeError(f"{recipe.name}: the capture is not whole, run again: {words.strip()}")


def first_packets(source: Path, count: int, name: str) -> Path:
    """Return a capture of the first `count` packets of another."""
    path = source.with_name(f"{name}.pcap")
    if not path.exists():
        _complete(path, "editcap", "-F", "nsecpcap", "-r", str(source), "{}", f"1-{count}")
    return path


def merged(sources: list[Path], name: str) -> Path:
    """Return the headers of all `sources` in one capture, as if recorded at the same time."""
    path = sources[0].with_name(f"{name}.pcap")
    if path.exists():
        return path
    parts = [path.with_suffix(f".part{i}") for i in range(len(sources))]
    begin = _first_second(sources[0])
    for source, part in zip(sources, parts, strict=True):
        shift = f"{begin - _first_second(source):.9f}"
        _complete(part, "editcap", "-F", "nsecpcap", "-s", str(_HEADERS_ONLY), "-t", shift, str(source), "{}")
    _complete(path, "mergecap", "-F", "nsecpcap", "-w", "{}", *map(str, parts))
    for part in parts:
        part.unlink()
    return path


def _first_second(path: Path) -> float:
    with path.open("rb") as file:
        head = file.read(32)
    return int.from_bytes(head[24:28], "little") + int.from_bytes(head[28:32], "little") / 1e9


def _complete(path: Path, *argv: str) -> None:
    unfinished = path.with_suffix(path.suffix + ".unfinished")
    subprocess.run([str(unfinished) if a == "{}" else a for a in argv], check=True, capture_output=True)
    unfinished.rename(path)


def main() -> None:
    """Record everything that is missing."""
    full, headers, bulk, _, _ = (recorded(recipe) for recipe in (FULL, HEADERS, BULK, TRANSFER, MANY))
    for name, count in CUTS.items():
        first_packets(headers, count, name)
    merged([full, headers, bulk], "merged")


if __name__ == "__main__":
    main()
