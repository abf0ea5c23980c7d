"""A real Dask scheduler with its workers: whoever is killed or stopped, no row is lost or twice.

All accidents of one run: a worker is killed, scheduler and workers are killed and started again, a worker is
stopped as a machine that sleeps until the run is over, and one session kills each worker that reads it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from multitracer.campaign.run import run
from multitracer.campaign.store import ATTEMPTS, SPOOLS, Store
from tests.campaign.deadly import environment_of, make_deadly
from tests.campaign.sessions import make_sessions, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.usefixtures("lost_connections")

SESSIONS = 24
WORKERS = 2
TTL_S = 10
"""After which a silent worker counts as dead; `OnCluster` takes 30 s for its own."""
WITHIN_S = 280.0
RUN = """
import sys
from multitracer.campaign import cluster
from multitracer.cli import main
cluster.BATCH = 2
sys.argv[0] = "multitracer"
main()
"""
"""The program, with tasks so small that every worker has some."""


class Cluster:
    """A scheduler on a port of its own, and its workers, as programs."""

    def __init__(self, environment: dict[str, str]) -> None:
        settings = {"SCHEDULER__WORKER_TTL": f"{TTL_S}s", "SCHEDULER__ALLOWED_FAILURES": "0"}
        self._environment = environment | {f"DASK_DISTRIBUTED__{name}": value for name, value in settings.items()}
        del self._environment["PYTHONWARNINGS"]  # Dask's own are not ours
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.scheduler = self._scheduler()
        self.workers = [self._worker() for _ in range(WORKERS)]

    def restart(self) -> None:
        """Kill everything at once, and start it again at the same address."""
        self.stop()
        self.scheduler = self._scheduler()
        self.workers = [self._worker() for _ in range(WORKERS)]

    def stop(self) -> None:
        """Kill everything."""
        for process in (self.scheduler, *self.workers):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _scheduler(self) -> subprocess.Popen[bytes]:
        port = self.address.rpartition(":")[2]
        return self._start("scheduler", "--host", "127.0.0.1", "--port", port, "--no-show", "--no-dashboard")

    def _worker(self) -> subprocess.Popen[bytes]:
        return self._start("worker", self.address, "--nthreads", "1", "--no-dashboard")

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *words], env=self._environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return environment_of(tmp_path / "packages")


@pytest.fixture
def cluster(environment: dict[str, str]) -> Iterator[Cluster]:
    started = Cluster(environment)
    yield started
    started.stop()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_lost_or_twice_whoever_goes(cluster: Cluster, environment: dict[str, str], tmp_path: Path) -> None:
    drives = make_sessions(tmp_path / "drives", SESSIONS)
    run([str(drives)], tmp_path / "expected")
    deadly = make_deadly(tmp_path / "deadly")
    place = tmp_path / "campaign"
    command = ["campaign", "run", deadly, drives, "-o", place, "--cluster", cluster.address]
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *map(str, command)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        with contextlib.suppress(ProcessLookupError):  # the deadly session had killed it
            os.kill(_at_work(place, cluster, program), signal.SIGKILL)
        _wait_for(lambda: _spooled(place) >= SESSIONS // 3, program)
        cluster.restart()
        with _asleep(place, cluster, program) as sleeper:
            words, errors = program.communicate(timeout=WITHIN_S)
            assert program.returncode == 0, errors
            assert _state(sleeper) == "T", "the run waited for the worker that sleeps"
    assert f"{SESSIONS + 1} sessions analysed" in words
    assert "1 of them failed" in words
    _wait_for_late_rows(place, sleeper)
    expected = rows_of(tmp_path / "expected")
    for _ in range(2):
        rows = rows_of(place)
        (failure,) = rows.pop("failures")
        assert "SIGKILL" in failure
        failed = [row for row in rows["inputs"] if "'failed'" in row]
        assert len(failed) == 1
        rows["inputs"] = [row for row in rows["inputs"] if row not in failed]
        assert rows == {name: each for name, each in expected.items() if name != "failures"}
        run([str(drives)], place)  # takes what came late


def _at_work(place: Path, cluster: Cluster, program: subprocess.Popen[str]) -> int:
    """Return the number of a worker that analyses a session, or did a moment ago."""
    groups = {process.pid for process in cluster.workers}
    found: list[int] = []

    def look() -> bool:
        for number in _numbers(place):
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(number) in groups:
                    found.append(number)
        return bool(found)

    _wait_for(look, program)
    return found[0]


@contextlib.contextmanager
def _asleep(place: Path, cluster: Cluster, program: subprocess.Popen[str]) -> Iterator[int]:
    """Stop a worker amid a session, and its nanny, and wake them at the end: they end what they had begun."""
    worker, group = _stopped(place, cluster, program)
    while _state(worker) != "T" or worker not in _numbers(place):
        os.killpg(group, signal.SIGCONT)  # it had just written its spool, or the deadly session had killed it
        worker, group = _stopped(place, cluster, program)
    yield worker
    os.killpg(group, signal.SIGCONT)


def _stopped(place: Path, cluster: Cluster, program: subprocess.Popen[str]) -> tuple[int, int]:
    """Stop the group of a worker, and return both their numbers."""
    while True:
        worker = _at_work(place, cluster, program)
        with contextlib.suppress(ProcessLookupError):
            group = os.getpgid(worker)
            os.killpg(group, signal.SIGSTOP)
            _wait_for(partial(_is_still, worker), program)
            return worker, group


def _numbers(place: Path) -> list[int]:
    """Return the numbers of the processes that analyse a session, as the attempts name them."""
    store = Store(place)
    numbers = []
    for name in store.list(ATTEMPTS):
        with contextlib.suppress(FileNotFoundError):  # its session is done meanwhile
            numbers.append(int(store.read(name)))
    return numbers


def _state(number: int) -> str:
    """Return the state of a process as Linux has it: T if it is stopped; "" if it is gone."""
    try:
        text = Path(f"/proc/{number}/stat").read_text("ascii")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return text.rpartition(")")[2].split()[0]


def _is_still(number: int) -> bool:
    return _state(number) in ("T", "Z", "")


def _wait_for_late_rows(place: Path, sleeper: int) -> None:
    """Wait until who woke has written what it had begun, or was killed by its nanny."""
    deadline_s = time.monotonic() + WITHIN_S
    while _state(sleeper) not in ("", "Z") and not _spooled(place):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def _spooled(place: Path) -> int:
    return len(Store(place).list(SPOOLS)) if place.exists() else 0


def _wait_for(happens: Callable[[], bool], program: subprocess.Popen[str]) -> None:
    """Wait until something happens that the run brings about."""
    deadline_s = time.monotonic() + WITHIN_S
    while not happens():
        assert program.poll() is None, "the run ended before"
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
