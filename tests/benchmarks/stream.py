"""What a stream costs: a capture of any size through a pipe into `analyze --stream`, its memory and time.

`python -m tests.benchmarks.stream [MB...]` measures these sizes, by default 300 MB and 5 GB, whose goal is
150 MB of memory.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.benchmarks import peers

DEFAULT_MB = (300, 5000)


def used(megabytes: float, *options: str) -> tuple[float, float, float]:
    """Return MiB of memory and seconds of processor time of a summary, and how many seconds it took."""
    writer = [sys.executable, "-m", "tests.benchmarks.endless", str(megabytes)]
    reader = peers.multitracer("analyze", *options, "-")
    begin = os.times().elapsed
    with subprocess.Popen(writer, stdout=subprocess.PIPE) as source:
        child = subprocess.Popen(reader, stdin=source.stdout, stdout=subprocess.DEVNULL)
        assert source.stdout is not None
        source.stdout.close()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{reader}: exit {child.returncode}")
    return usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime, os.times().elapsed - begin


if __name__ == "__main__":
    for size in map(float, sys.argv[1:] or DEFAULT_MB):
        memory, cpu_s, wall_s = used(size, "--stream")
        print(f"{size:.0f} MB: {memory:.0f} MiB of memory, {cpu_s:.1f} s of CPU, {wall_s:.1f} s")
