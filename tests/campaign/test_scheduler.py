"""A real Dask scheduler with its workers: whoever is killed or stopped, no row is lost or twice."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from multitracer.campaign.cluster import OnCluster
from multitracer.campaign.run import run
from multitracer.campaign.store import ATTEMPTS, SPOOLS, Store
from tests.campaign.sessions import make_sessions, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from multitracer.campaign.run import Progress

SESSIONS = 24
WORKERS = 3
TTL_S = 10
"""After which a silent worker counts as dead; `OnCluster` takes 30 s for its own."""
WITHIN_S = 280.0


class Cluster:
    """A scheduler on a port of its own, and its workers, as programs."""

    def __init__(self) -> None:
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
        settings = {"SCHEDULER__WORKER_TTL": f"{TTL_S}s", "SCHEDULER__ALLOWED_FAILURES": "0"}
        environment = os.environ | {f"DASK_DISTRIBUTED__{name}": value for name, value in settings.items()}
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *words], env=environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    started = Cluster()
    yield started
    started.stop()


@pytest.mark.realtime
@pytest.mark.timeout(900)
def test_nothing_is_lost_or_twice_whoever_goes(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multitracer.campaign.cluster.BATCH", 2)
    drives = make_sessions(tmp_path / "drives", SESSIONS)
    run([str(drives)], tmp_path / "expected")
    place = tmp_path / "campaign"
    seen: list[Progress] = []
    ended: list[Progress] = []
    runner = threading.Thread(
        target=lambda: ended.append(
            run([str(drives)], place, workers=OnCluster(address=cluster.address), shown=seen.append)
        )
    )
    runner.start()
    _wait_for(lambda: _analysing(place) > 0, runner)
    os.kill(_analyst(place, cluster), signal.SIGKILL)
    _wait_for(lambda: _spooled(place) >= SESSIONS // 4 and _analysing(place) > 0, runner)
    stopped = _analyst(place, cluster)
    os.kill(stopped, signal.SIGSTOP)
    _wait_for(lambda: _spooled(place) >= SESSIONS // 2, runner)
    cluster.restart()
    with contextlib.suppress(ProcessLookupError):
        os.kill(stopped, signal.SIGCONT)
    runner.join(WITHIN_S)
    assert not runner.is_alive()
    (progress,) = ended
    assert (progress.done, progress.failed) == (SESSIONS, 0)
    assert rows_of(place) == rows_of(tmp_path / "expected")


def _analysing(place: Path) -> int:
    return len(Store(place).list(ATTEMPTS))


def _analyst(place: Path, cluster: Cluster) -> int:
    """Return the number of a worker that analyses a session, or did a moment ago."""
    groups = {process.pid for process in cluster.workers}
    deadline_s = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline_s:
        for path in (place / ATTEMPTS).glob("[!.]*"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if os.getpgid(number := int(path.read_text("ascii"))) in groups:
                    return number
    raise AssertionError("no worker analyses anything")


def _spooled(place: Path) -> int:
    return len(Store(place).list(SPOOLS))


def _wait_for(happens: object, runner: threading.Thread) -> None:
    """Wait until something happens that the run brings about."""
    assert callable(happens)
    deadline_s = time.monotonic() + WITHIN_S
    while not happens():
        assert runner.is_alive(), "the run ended before"
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
