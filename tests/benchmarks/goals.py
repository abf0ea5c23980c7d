"""What is measured and how good it has to be: each function runs one comparison and returns table rows."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import peers
from tests.benchmarks.measure import Cost, cost, median, paired

MIB = 1 << 20
_RECORD_HEADER_BYTES = 16
_SLOW_RUNS = 2
"""Runs of a peer that takes half a minute; CPU time scatters little."""


@dataclass(frozen=True, slots=True)
class Captures:
    """The inputs; see record.py."""

    full: Path
    headers: Path
    bulk: Path
    merged: Path
    transfer: Path
    many: Path
    first_1m: Path
    first_100k: Path
    first_10k: Path
    tiny: Path


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    on: str
    ours: str
    peer: str
    result: str
    goal: str
    met: bool


def packets(capture: Path) -> int:
    """Count the records of one of our own captures (little-endian pcap)."""
    count, position = 0, 24
    size = capture.stat().st_size
    with capture.open("rb") as file:
        while position < size:
            file.seek(position)
            header = file.read(_RECORD_HEADER_BYTES)
            position += _RECORD_HEADER_BYTES + int.from_bytes(header[8:12], "little")
            count += 1
    return count


def summary_against_tcptrace(captures: Captures, *, runs: int) -> Iterator[Row]:
    """Whole-process wall time of the summary of every connection, beside tcptrace -l."""
    for capture, at_most in ((captures.full, 2.0), (captures.bulk, 2.0), (captures.headers, 4.0)):
        pairs = paired(peers.multitracer("analyze", str(capture)), peers.tcptrace(capture), runs=runs)
        ratio = statistics.median(ours.wall_s / peer.wall_s for ours, peer in pairs)
        ours, peer = _medians(pairs)
        yield Row(
            "`analyze` / `tcptrace -l`, wall", capture.stem, f"{ours.wall_s:.2f} s", f"{peer.wall_s:.2f} s",
            f"{ratio:.2f} ×", f"≤ {at_most:.1f} ×", ratio <= at_most,
        )  # fmt: skip


def cpu_against_tshark(captures: Captures, **_: int) -> Iterator[Row]:
    """CPU time beside tshark's conversation table, and beside tshark's fields read into pandas."""
    capture = captures.first_1m
    for what, peer_argv, at_least in (
        ("`tshark -q -z conv,tcp` / `analyze`, CPU", peers.tshark_conversations(capture), 10),
        ("`tshark -T fields` into pandas / `analyze`, CPU", peers.tshark_to_pandas(capture), 25),
    ):
        pairs = paired(peers.multitracer("analyze", str(capture)), peer_argv, runs=_SLOW_RUNS)
        ratio = statistics.median(peer.cpu_s / ours.cpu_s for ours, peer in pairs)
        ours, peer = _medians(pairs)
        yield Row(
            what, capture.stem, f"{ours.cpu_s:.2f} s", f"{peer.cpu_s:.1f} s",
            f"{ratio:.0f} ×", f"≥ {at_least} ×", ratio >= at_least,
        )  # fmt: skip


def cpu_against_scapy(captures: Captures, *, runs: int) -> Iterator[Row]:
    """CPU time per packet; scapy gets a tenth of the packets, or it would take minutes."""
    ours_packets, peer_packets = packets(captures.first_1m), packets(captures.first_100k)
    ours_argv = peers.multitracer("analyze", str(captures.first_1m))
    pairs = paired(ours_argv, peers.scapy(captures.first_100k), runs=runs)
    ours, peer = _medians(pairs)
    ours_us, peer_us = ours.cpu_s / ours_packets * 1e6, peer.cpu_s / peer_packets * 1e6
    ratio = peer_us / ours_us
    yield Row(
        "scapy / `analyze`, CPU per packet", "first_1m, first_100k", f"{ours_us:.2f} µs", f"{peer_us:.0f} µs",
        f"{ratio:.0f} ×", "≥ 200 ×", ratio >= 200,
    )  # fmt: skip


def small_things(captures: Captures, *, runs: int) -> Iterator[Row]:
    """What a user waits for when there is next to nothing to do."""
    with tempfile.TemporaryDirectory() as folder:
        figure = str(Path(folder) / "figure.html")
        for what, on, words, at_most in (
            ("`multitracer --help`", "", ("--help",), 0.2),
            ("`analyze`, 200 packets", "tiny", ("analyze", str(captures.tiny)), 0.2),
            ("`plot`, 200 packets", "tiny", ("plot", str(captures.tiny), "-o", figure), 0.5),
        ):
            yield _wall(what, on, words, at_most=at_most, runs=runs + 4)


def figure_of_the_largest(captures: Captures, *, runs: int) -> Iterator[Row]:
    """From nine million packets to the figure of the connection with the most bytes."""
    with tempfile.TemporaryDirectory() as folder:
        words = ("plot", str(captures.merged), "-o", str(Path(folder) / "figure.html"))
        yield _wall("`plot`, largest connection", captures.merged.stem, words, at_most=8.0, runs=runs)


def memory(captures: Captures, **_: int) -> Iterator[Row]:
    """Peak memory of the summary: at most 300 bytes per packet and 100 MB."""
    for capture in (captures.full, captures.bulk, captures.headers, captures.merged):
        used = cost(peers.multitracer("analyze", str(capture))).peak_bytes
        count = packets(capture)
        per_packet = (used - 100_000_000) / count
        yield Row(
            "`analyze`, peak memory", capture.stem, f"{used / MIB:.0f} MiB", "",
            f"{max(0.0, per_packet):.0f} B per packet above 100 MB", "≤ 300 B", per_packet <= 300,
        )  # fmt: skip


def linearity(captures: Captures, *, runs: int) -> Iterator[Row]:
    """Cost per packet above that of starting up; it may not grow with the size of the capture."""
    start_s = _cpu_s(captures.tiny, runs=runs + 4)
    each_us = {}
    for capture in (captures.first_10k, captures.first_100k, captures.first_1m, captures.headers, captures.merged):
        times = runs + 4 if packets(capture) <= 100_000 else runs
        each_us[capture.stem] = (_cpu_s(capture, runs=times) - start_s) / packets(capture) * 1e6
    growth = each_us[captures.merged.stem] / each_us[captures.first_100k.stem]
    shown = ", ".join(f"{name} {value:.2f}" for name, value in each_us.items())
    yield Row(
        "`analyze`, CPU µs per packet", "10 k to 9 M", shown, "", f"{growth:.2f} × from 100 k to 9 M",
        "≤ 1.5 ×", growth <= 1.5,
    )  # fmt: skip


Goal = Callable[..., Iterator[Row]]
ALL: tuple[Goal, ...] = (
    small_things,
    summary_against_tcptrace,
    cpu_against_tshark,
    cpu_against_scapy,
    figure_of_the_largest,
    memory,
    linearity,
)


def _medians(pairs: list[tuple[Cost, Cost]]) -> tuple[Cost, Cost]:
    return median([ours for ours, _ in pairs]), median([peer for _, peer in pairs])


def _wall(what: str, on: str, words: tuple[str, ...], *, at_most: float, runs: int) -> Row:
    seconds = median([cost(peers.multitracer(*words)) for _ in range(runs)]).wall_s
    return Row(what, on, f"{seconds:.2f} s", "", f"{seconds:.2f} s", f"≤ {at_most} s", seconds <= at_most)


def _cpu_s(capture: Path, *, runs: int) -> float:
    return median([cost(peers.multitracer("analyze", str(capture))) for _ in range(runs)]).cpu_s
