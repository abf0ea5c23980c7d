"""Runs `multitracer testbed run` as users do, and looks for what it may leave behind."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multitracer.lab.testbed.namespaces import VARIABLE
from tests.cli.program import COMMAND, ENVIRONMENT, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PATIENCE_S = 240.0
"""Only a run that hangs takes so long; a machine with ten times too much to do needs two minutes."""
_INSTANCES = Path("/sys/kernel/tracing/instances")
_NAMESPACES = Path("/run/netns")
SHORT = "[tcp]\nmtu_bytes = 512\n[[traffic]]\nbytes = {}\n"


def short_scenario(folder: Path, *, size: int = 3_000) -> Path:
    """Return a scenario of a few link seconds."""
    path = folder / "short.toml"
    path.write_text(SHORT.format(size))
    return path


def command(scenario: str | Path, folder: Path, *, speed: float, before: tuple[str, ...] = ()) -> list[str]:
    words = ["testbed", "run", str(scenario), "--speed", str(speed), "-o", str(folder)]
    return [*before, *COMMAND, *words]


@contextmanager
def started(
    scenario: str | Path, folder: Path, *, speed: float = 20, before: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    """Start a run; in the end it is stopped, if it has not ended."""
    argv = command(scenario, folder, speed=speed, before=before)
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=ROOT)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
        child.communicate(timeout=PATIENCE_S)


def finished(child: subprocess.Popen[str], *, status: int = 0) -> str:
    """Wait for the end of a run, check its exit status, return its standard error."""
    _, said = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == status, said
    return said


def until(condition: Callable[[], Any], child: subprocess.Popen[str] | None = None) -> None:
    """Wait until something is true, as long as a process runs."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        assert child is None or child.poll() is None, child.communicate()
        time.sleep(0.005)


def left_behind(pid: int) -> list[str]:
    """Return what is there of a run's namespaces and processes, by its maker's number."""
    return [*(path.name for path in _NAMESPACES.glob(f"mt{pid}-*-testbed-*")), *processes(pid).values()]


def processes(maker: int) -> dict[int, str]:
    """Return number and command line of each process of a run."""
    mark = f"\0{VARIABLE}={maker}-".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                if mark in b"\0" + (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def instances(pids: Iterable[int]) -> list[str]:
    """Return the tracing instances that these collectors made."""
    return [path.name for pid in pids for path in _INSTANCES.glob(f"multitracer-{pid}-*")]


def document(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / name).read_text())
    return found


def outcome(folder: Path) -> str | None:
    """Return how the manifest says that the run ended."""
    ended: str | None = document(folder, "manifest.json")["variables"]["ended"]
    return ended
