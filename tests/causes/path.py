"""The path between the hosts: compiles `path.c` and `way.c`, writes what it is told and reads its log."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SOURCES = tuple(Path(__file__).with_name(name) for name in ("path.c", "way.c", "way.h"))
FATES = ("on-its-way", "delivered", "queue", "loss", "outage", "policer", "mtu", "syn", "idle")
DELIVERED = FATES.index("delivered")
WAYS = ("up", "down")
NO_WSCALE = 255

RECORD = np.dtype(
    [
        ("enter_ns", "<u8"), ("served_ns", "<u8"), ("due_ns", "<u8"), ("written_ns", "<u8"),
        ("seq", "<u4"), ("ack", "<u4"),
        ("source", "<u2"), ("target", "<u2"), ("length", "<u2"), ("payload", "<u2"), ("ip_id", "<u2"),
        ("window", "<u2"), ("flags", "u1"), ("way", "u1"), ("fate", "u1"), ("ce", "u1"), ("wscale", "u1"),
        ("pad", "V3"), ("tsval", "<u4"),
    ]
)  # fmt: skip


def build(folder: Path) -> Path:
    """Compile the path into `folder` if it is not there yet or older than its sources.

    Raises
    ------
    FileNotFoundError
        If this machine has no C compiler.
    """
    program = folder / "path"
    newest = max(source.stat().st_mtime for source in SOURCES)
    if program.exists() and program.stat().st_mtime >= newest:
        return program
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("no C compiler (cc): the path cannot be built; install gcc")
    folder.mkdir(parents=True, exist_ok=True)
    sources = [str(source) for source in SOURCES if source.suffix == ".c"]
    subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", str(program), *sources, "-lm"], check=True)
    return program


def read_log(file: Path) -> NDArray[np.void]:
    """Return the path's log: a row of `RECORD` for each packet, in the order in which they entered."""
    return np.frombuffer(read_bytes(file), RECORD)


def read_bytes(file: Path) -> bytes:
    """Return what a file holds, or the .gz that took its place."""
    packed = file.with_name(f"{file.name}.gz")
    return gzip.decompress(packed.read_bytes()) if packed.exists() else file.read_bytes()


def lateness_p99_ns(log: NDArray[np.void]) -> int:
    """Return how late the latest hundredth of the packets was written, at least."""
    delivered = log[log["fate"] == DELIVERED]
    if not len(delivered):
        return 0
    late_ns = delivered["written_ns"].astype(np.int64) - delivered["due_ns"].astype(np.int64)
    return int(np.quantile(late_ns, 0.99))
