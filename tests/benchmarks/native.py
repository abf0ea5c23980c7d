"""The native kernel beside the fastest peers and beside Python: part of `make bench` where it is installed.

`make bench BENCH_ARGS="--only native"` measures this alone. `cargo install pcap-toolkit@0.5.0` and
`.venv/bin/pip install netflower==1.1.0` bring the two peers that no distribution has.
`python -m tests.benchmarks.native CAPTURE…` reads and analyses captures with the kernel and without it.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.native import VARIABLE, kernel, state
from tests.benchmarks import goals, peers
from tests.benchmarks.measure import cost, median, paired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.measure import Cost

_READ = "import sys; from parsers._chunks import read_capture; read_capture(sys.argv[1:])"
_PACKED = {".gz": (["gzip", "-c"], "zcat"), ".zst": (["zstd", "-qc"], "zstdcat")}
_SEGMENTS = 1_000_000
_RUNS = 7
_MANY_RUNS = 14
"""Of what takes as long as dd: single pairs were 2.9 to 3.7 times dd."""
_OWN = """
import sys, time
from multitracer.cli._program import run
status = run(["inspect", sys.argv[1]])
print(time.process_time(), file=sys.stderr)
sys.exit(status)
"""
"""Ends standard error with the processor time of this process: without tshark, which it starts."""
_PHONE_LOG = Path("mobileinsight", "examples", "logs", "attach_sample.mi2log")
_PHONE_LOG_BYTES = 10_000_000
_SESSIONS = 100
_DRIVE = "sample_traces/rehearsed-drive"
"""Three minutes of positions, radio and transfers."""


def native(*words: str) -> list[str]:
    """Return our command with the kernel."""
    return ["env", f"{VARIABLE}=1", *peers.multitracer(*words)]


def without(*words: str) -> list[str]:
    """Return our command without the kernel."""
    return ["env", f"{VARIABLE}=0", *peers.multitracer(*words)]


def summary(captures: goals.Captures, *, runs: int) -> Iterator[goals.Row]:
    """The summary of every connection beside tcptrace's, and beside that of tshark's dissectors."""
    for capture in (captures.full, captures.bulk, captures.headers, captures.transfer):
        ours = native("analyze", str(capture))
        yield _wall("`analyze` / `tcptrace -l`", capture, ours, peers.tcptrace(capture), 0.35, runs=runs)
    ours, peer = native("analyze", "--json", str(captures.many)), peers.tcptrace(captures.many)
    yield _wall("`analyze --json` / `tcptrace -l`", captures.many, ours, peer, 0.35, runs=runs)
    pairs = paired(native("analyze", str(captures.first_1m)), peers.tshark_conversations(captures.first_1m), runs=2)
    yield _cpu("`tshark -q -z conv,tcp` / `analyze`", captures.first_1m, pairs, 40)


def pcap_toolkit(captures: goals.Captures, *, runs: int) -> Iterator[goals.Row]:
    """The summary beside the flows of a program in Rust, where it is installed."""
    for capture in (captures.full, captures.bulk, captures.headers):
        if shutil.which("pcap-toolkit"):
            ours, peer = native("analyze", str(capture)), peers.pcap_toolkit(capture)
            yield _wall("`analyze` / `pcap-toolkit stats`", capture, ours, peer, runs=runs)


def netflower(captures: goals.Captures, **_: int) -> Iterator[goals.Row]:
    """The summary beside the features of flows by a package in Python, where it is installed."""
    if find_spec("netflower"):
        complete = captures.first_100k  # of nanoseconds dpkt makes decimals, which netflower 1.1.0 cannot add up
        capture = _made(complete.with_name(f"{complete.stem}_us.pcap"), ["editcap", "-F", "pcap", str(complete), "-"])
        pairs = paired(native("analyze", str(capture)), peers.netflower(capture), runs=2)
        yield _cpu("`netflower` / `analyze`", capture, pairs)


def formats(captures: goals.Captures, *, runs: int) -> Iterator[goals.Row]:
    """What a format and a compression cost, beside the tool that only unpacks; and reading, beside dd."""
    capture = captures.headers
    plain = native("analyze", str(capture))
    other = _made(capture.with_suffix(".pcapng"), ["editcap", "-F", "pcapng", str(capture), "-"])
    yield _wall("`analyze`, pcapng / pcap", capture, native("analyze", str(other)), plain, 1.2, runs=runs)
    for ending, (pack, unpack) in _PACKED.items():
        packed = _made(capture.with_name(capture.name + ending), [*pack, str(capture)])
        ours, peer = native("analyze", str(packed)), [unpack, str(packed)]
        yield _wall(f"`analyze` of {ending} / `{unpack}`", capture, ours, peer, 1.3, runs=runs)
    full = str(captures.full)
    peer = ["dd", "bs=1M", "of=/dev/null", f"if={full}", "status=none"]
    tables = ["env", f"{VARIABLE}=1", sys.executable, "-c", _READ, full]
    for what, ours, times in (("`analyze`", native("analyze", full), runs), ("reading to tables", tables, _MANY_RUNS)):
        yield _wall(f"{what} / `dd bs=1M`", captures.full, ours, peer, 3.0, runs=times)


def memory(captures: goals.Captures, **_: int) -> Iterator[goals.Row]:
    """Peak memory of text and JSON, and of Parquet, which needs the tables."""
    with tempfile.TemporaryDirectory() as folder:
        for form, at_most in (([], 30), (["--json"], 30), (["--parquet", "-o", f"{folder}/tables"], 70)):
            for capture in (captures.full, captures.bulk, captures.headers, captures.merged):
                used = cost(native("analyze", *form, str(capture))).peak_bytes
                each = (used - 100_000_000) / goals.packets(capture)
                yield goals.Row(
                    f"`analyze {form[0] if form else ''}".strip() + "`, peak memory", capture.stem,
                    f"{used / goals.MIB:.0f} MiB", "", f"{max(0.0, each):.0f} B per packet above 100 MB",
                    f"≤ {at_most} B", each <= at_most,
                )  # fmt: skip
                shutil.rmtree(f"{folder}/tables", ignore_errors=True)


def the_rest(captures: goals.Captures, *, runs: int) -> Iterator[goals.Row]:
    """What is left beside decoding: start-up, a figure, a diagnosis."""
    tiny = str(captures.tiny)
    yield _alone("`analyze`, 200 packets", "tiny", native("analyze", tiny), 0.10, runs=runs + 4)
    imports = [sys.executable, "-c", "import numpy, click"]
    pairs = paired(without("analyze", tiny), imports, runs=runs + 4)
    above_s = statistics.median(ours.wall_s - peer.wall_s for ours, peer in pairs)
    ours, peer = _medians(pairs)
    yield goals.Row(
        "`analyze` without the kernel, above `import numpy, click`", "tiny", f"{ours.wall_s:.3f} s",
        f"{peer.wall_s:.3f} s", f"{above_s:.3f} s", "≤ 0.06 s", above_s <= 0.06,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        words = ("plot", str(captures.merged), "-o", f"{folder}/figure.html")
        yield _alone("`plot`, largest connection", captures.merged.stem, native(*words), 2.5, runs=runs)
        session = Path(folder) / "session"
        session.mkdir()
        _write(session)
        yield _alone("`diagnose`", "1 M, both ends", native("diagnose", "--json", str(session)), 1.5, runs=runs)


def waits(captures: goals.Captures, *, runs: int) -> Iterator[goals.Row]:
    """What a user waits for: why one large transfer was slow, its report, the first correlation, a campaign."""
    transfer = str(captures.transfer)
    with tempfile.TemporaryDirectory() as folder:
        yield _alone("`diagnose`", captures.transfer.stem, native("diagnose", transfer), 1.6, runs=runs)
        page = native("report", transfer, "-o", f"{folder}/report.html")
        yield _alone("`report`", captures.transfer.stem, page, 3.5, runs=runs)
        first = ["env", f"XDG_CACHE_HOME={folder}/cache", *native("correlate", _DRIVE)]
        yield _alone("`correlate`, the first on a machine", "drive of 3 min", first, 5.0, runs=1)
        make = ["--make", str(_SESSIONS), "--keep", f"{folder}/sessions"]
        cost([sys.executable, "-m", "tests.benchmarks.campaign_sessions", *make])
        used = cost(native("campaign", "run", f"{folder}/sessions/0000", "-o", f"{folder}/campaign"))
        each_ms = 1e3 * used.cpu_s / _SESSIONS
        yield goals.Row(
            "native `campaign run`, CPU a session", f"{_SESSIONS} sessions of ten shapes", f"{used.cpu_s:.1f} s", "",
            f"{each_ms:.0f} ms", "≤ 120 ms", each_ms <= 120,
        )  # fmt: skip


def phone_log(captures: goals.Captures, *, runs: int) -> Iterator[goals.Row]:
    """A diagnostic log of a phone, without what tshark takes for it; where logs of other projects are."""
    log = Path(os.environ.get("MULTITRACER_FIXTURES", "."), _PHONE_LOG)
    if log.is_file():
        times = -(-_PHONE_LOG_BYTES // log.stat().st_size)
        large = _made(captures.tiny.with_name(f"phone{log.suffix}"), ["cat", *[str(log)] * times])
        own_s = statistics.median(_own_cpu_s(large) for _ in range(runs))
        size = f"{large.stat().st_size / 1e6:.0f} MB"
        yield goals.Row(
            "`inspect` of .mi2log, own CPU", size, f"{own_s:.2f} s", "", f"{own_s:.2f} s", "≤ 2 s", own_s <= 2
        )


def _own_cpu_s(path: Path) -> float:
    argv = [sys.executable, "-c", _OWN, str(path)]
    return float(subprocess.run(argv, check=True, capture_output=True, text=True).stderr.split()[-1])


def _write(session: Path) -> None:
    """Write the captures in a process of their own: this one stays small (see `measure`)."""
    code = (
        "import sys, pathlib; from tests.benchmarks.diagnose import write_session; "
        f"write_session(pathlib.Path(sys.argv[1]), {_SEGMENTS}, both=True)"
    )
    subprocess.run([sys.executable, "-c", code, str(session)], check=True, cwd=Path(__file__).parents[2])


def _made(path: Path, argv: list[str]) -> Path:
    """Return a capture in another form; make it if it is not there yet."""
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("wb") as stream:
            subprocess.run(argv, check=True, stdout=stream)
        unfinished.rename(path)
    return path


def _medians(pairs: list[tuple[Cost, Cost]]) -> tuple[Cost, Cost]:
    return median([ours for ours, _ in pairs]), median([peer for _, peer in pairs])


def _wall(
    what: str, capture: Path, ours: list[str], peer: list[str], at_most: float | None = None, *, runs: int
) -> goals.Row:
    pairs = paired(ours, peer, runs=runs)
    ratio = statistics.median(one.wall_s / two.wall_s for one, two in pairs)
    one, two = _medians(pairs)
    return goals.Row(
        f"native {what}, wall", capture.stem, f"{one.wall_s:.2f} s", f"{two.wall_s:.2f} s", f"{ratio:.2f} ×",
        f"≤ {at_most} ×" if at_most else "", at_most is None or ratio <= at_most,
    )  # fmt: skip


def _cpu(what: str, capture: Path, pairs: list[tuple[Cost, Cost]], at_least: float | None = None) -> goals.Row:
    ratio = statistics.median(two.cpu_s / one.cpu_s for one, two in pairs)
    one, two = _medians(pairs)
    return goals.Row(
        f"{what}, native, CPU", capture.stem, f"{one.cpu_s:.2f} s", f"{two.cpu_s:.1f} s", f"{ratio:.0f} ×",
        f"≥ {at_least} ×" if at_least else "", at_least is None or ratio >= at_least,
    )  # fmt: skip


def _alone(what: str, on: str, argv: list[str], at_most: float, *, runs: int) -> goals.Row:
    seconds = median([cost(argv) for _ in range(runs)]).wall_s
    return goals.Row(f"native {what}", on, f"{seconds:.2f} s", "", f"{seconds:.2f} s", f"≤ {at_most} s",
                     seconds <= at_most)  # fmt: skip


def rows(captures: list[str], *, runs: int = _RUNS) -> Iterator[tuple[str, ...]]:
    """Yield for each capture what reading and analysing cost by both paths, and how much less that is."""
    for path in captures:
        works = {"read": [sys.executable, "-c", _READ, path], "`analyze`": peers.multitracer("analyze", path)}
        for what, command in works.items():
            pairs = paired(["env", f"{VARIABLE}=1", *command], ["env", f"{VARIABLE}=0", *command], runs=runs)
            native, python = (median(list(side)) for side in zip(*pairs, strict=True))
            times = (f"{each:.2f} s" for each in (native.cpu_s, python.cpu_s, native.wall_s, python.wall_s))
            less = python.cpu_s / native.cpu_s, python.wall_s / native.wall_s
            yield what, path, *times, *(f"{each:.2f} ×" for each in less)


ALL: tuple[goals.Goal, ...] = (
    (summary, pcap_toolkit, netflower, formats, memory, the_rest, waits, phone_log)
    if find_spec("multitracer._native")
    else ()
)
"""None without the kernel: the other rows measure Python then."""


if __name__ == "__main__":
    if kernel() is None:
        sys.exit(f"captures are read by {state()}: make native")
    print("| what | capture | CPU, native | CPU, Python | wall, native | wall, Python | CPU | wall |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows(sys.argv[1:]):
        print(f"| {' | '.join(row)} |", flush=True)
