"""Analyses sessions with the workers of a Dask cluster: local processes, or those of a scheduler's address.

Rules of the file
-----------------
- A task is a batch of sessions; each session writes its spool itself, so the result of a task may be lost.
  Only the spool counts: a session without one is submitted again.
- When a worker dies, Dask fails all its batches. A session of such a batch whose attempt file remains was
  being analysed: only this session is a suspect, and is analysed in its own process.
- When the scheduler is lost, all sessions without a spool are submitted again, to new workers of this machine
  or to the same address, for a limited time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import signal
import ssl
import threading
import time
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING

import dask
import pandas as pd
from distributed import Client, Future, LocalCluster, Security
from distributed.comm.core import FatalCommClosedError

from multitracer import __version__
from multitracer.campaign.analysed import DONE, FAILED, AnalysisTask, outcome_of, spool_alone, spool_session
from multitracer.campaign.bucket import store_at
from multitracer.campaign.remote import is_url
from multitracer.errors import InputError
from multitracer.words import portable

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from multitracer.campaign.store import Store

BATCH = 15
"""Number of small sessions per task: a task takes some seconds, its overhead is 1 ms."""
ALONE_BYTES = 100 << 20
"""Size in bytes above which a session is its own task: its analysis needs some ten times that memory."""
_AHEAD = 3
"""Number of batches that wait at each worker: it is never idle, and few batches fail with it.

Not measured."""
_RECONNECT_S = 120.0
"""Time to wait for a lost scheduler: long enough for a restart. Not measured."""
_POLL_S = 0.02
"""Interval of checks of the batches, s: a batch takes a hundred times that. Not measured."""
_PAUSE_S = 1.0
"""Interval of attempts to reconnect, s."""
_SETTINGS = {
    "distributed.scheduler.worker-ttl": "30s",
    "distributed.scheduler.allowed-failures": 0,  # who is to blame is decided here, by the attempts
    "distributed.comm.timeouts.connect": "10s",
    "distributed.comm.timeouts.tcp": "30s",
    "distributed.worker.profile.enabled": False,  # it looks at each worker's stack every 10 ms
    "distributed.worker.preload": [__name__],  # `dask_setup` below
}
_LOST = (OSError, TimeoutError, asyncio.CancelledError)
"""Errors of Dask when the scheduler is lost; CommClosedError is an OSError."""


def versions() -> dict[str, str]:
    """Return the versions of programs by name.

    All workers must have the same, so that they make equal rows.
    """
    return {"multitracer": __version__, "Python": platform.python_version(), "pandas": pd.__version__}


def dask_setup(_: object) -> None:
    """Make a local worker ignore Ctrl-C.

    The terminal sends it to all processes, but this program stops the workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _interrupts_deferred() -> Iterator[list[int]]:
    """Make processes that start during the `with` block ignore Ctrl-C from their start.

    Yield a list of the interrupts of this program meanwhile: none is lost, and none cuts a start of processes. The
    signal is blocked, because threads and processes inherit that; another thread may get it nevertheless.
    """
    interrupts: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    resource_tracker.ensure_running()  # it starts with the first process, and unblocks the signal for those after it
    before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield interrupts
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)


def work(place: str, tasks: list[AnalysisTask]) -> list[str]:
    """Analyse some sessions in a worker of the cluster; return the outcome of each: done or failed."""
    store = store_at(place)
    return [spool_session(store, task) for task in tasks]


def unseen(paths: list[str]) -> list[str]:
    """Return those of `paths` that do not exist on the worker in which this function runs."""
    return [path for path in paths if not os.path.exists(path)]  # noqa: PTH110


@dataclass(frozen=True, slots=True)
class ClusterCertificates:
    """Files in PEM format with which this program and a scheduler prove to each other who they are.

    Parameters
    ----------
    certificate : str
        Certificate of this program.
    authority : str
        Certificate of the authority that signed those of the cluster, and of nothing else: Dask compares no
        names, so every certificate of this authority is believed.
    key : str, optional
        Private key of this program; by default it is in the file of the certificate.
    """

    certificate: str
    authority: str
    key: str | None = None

    def security(self) -> Security:
        """Return them as Dask takes them.

        Raises
        ------
        InputError
            If a file cannot be used.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_cert_chain(self.certificate, self.key)
            context.load_verify_locations(self.authority)
        except OSError as error:  # SSLError is one
            names = ", ".join(portable(each) for each in (self.certificate, self.key, self.authority) if each)
            why = getattr(error, "reason", None) or error.strerror
            raise InputError(
                f"{names}: these cannot be used for TLS ({why}); name a certificate, its key and the certificate of "
                "its authority, in PEM format"
            ) from error
        return Security(
            tls_ca_file=self.authority,
            tls_client_cert=self.certificate,
            tls_client_key=self.key or self.certificate,
            require_encryption=True,
        )


@dataclass
class OnCluster:
    """Workers of a Dask cluster; see `multitracer.campaign.run.Workers`.

    Parameters
    ----------
    jobs : int
        Number of local processes, without an address.
    address : str, optional
        Address of a scheduler, `tcp://HOST:PORT` or `tls://HOST:PORT`; its workers must reach inputs and campaign
        by the same paths. Scheduler and workers can run any code in this process: Dask exchanges pickles.
    certificates : ClusterCertificates, optional
        For an address with TLS.
    """

    jobs: int = 1
    address: str | None = None
    certificates: ClusterCertificates | None = None

    def __post_init__(self) -> None:
        """Raise InputError if address and certificates do not fit."""
        has_tls = (self.address or "").startswith("tls://")
        if self.certificates is not None and not has_tls:
            raise InputError(
                f"{self.address}: certificates need a scheduler with TLS; give its address as tls://HOST:PORT"
            )
        if has_tls and self.certificates is None:
            raise InputError(f"{self.address}: TLS needs certificates; add --cluster-cert FILE and --cluster-ca FILE")
        self._security = self.certificates.security() if self.certificates else None

    def __call__(self, store: Store, tasks: list[AnalysisTask]) -> Generator[tuple[AnalysisTask, str]]:
        """Analyse all tasks; yield each task with its outcome as soon as the file with its rows is written.

        Raises
        ------
        InputError
            If the cluster cannot be reached for two minutes, has other versions, or lacks a path.
        """
        waiting = {task.spool: task for task in tasks}
        lost_s: float | None = None
        while waiting:
            try:
                with dask.config.set(_SETTINGS), self._client() as client:
                    self._check(client, store, waiting.values())
                    for task, outcome in _Round(client, store, list(waiting.values())).results():
                        lost_s = None
                        if waiting.pop(task.spool, None) is not None:
                            yield task, outcome
            except _LOST as error:
                if isinstance(error, FatalCommClosedError):
                    raise InputError(
                        f"{self.address}: no connection by TLS ({error}); check the certificates of both sides"
                    ) from error
                lost_s = lost_s or time.monotonic()
                if time.monotonic() - lost_s > _RECONNECT_S:
                    where = self.address or "the workers of this machine"
                    raise InputError(
                        f"{where}: the scheduler has not answered for {_RECONNECT_S:g} s; start the "
                        "scheduler and this run again"
                    ) from error
                time.sleep(_PAUSE_S)

    @contextlib.contextmanager
    def _client(self) -> Iterator[Client]:
        if self.address is not None:
            with Client(self.address, security=self._security, set_as_default=False) as client:
                yield client
            return
        with _interrupts_deferred() as interrupts:
            cluster = LocalCluster(
                n_workers=self.jobs,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",  # without one it is port 8787 of all interfaces
                scheduler_kwargs={"dashboard": False},
                silence_logs=logging.CRITICAL,
            )
        with cluster:
            if interrupts:
                signal.raise_signal(signal.SIGINT)
            with Client(cluster, set_as_default=False) as client:
                yield client

    def _check(self, client: Client, store: Store, tasks: Iterable[AnalysisTask]) -> None:
        """Raise an error if a worker has other versions, or cannot read the inputs or the campaign."""
        if self.address is None:
            return
        self._check_versions(client)
        parents = {os.path.dirname(task.candidate.paths[0]) for task in tasks}  # noqa: PTH120
        paths = [path for path in sorted({store.address, *parents}) if not is_url(path)]
        for worker, lacking in client.run(unseen, paths).items():
            if missing := [path for path in lacking if os.path.exists(path)]:  # noqa: PTH110
                raise InputError(
                    f"{self.address}: worker {worker} cannot find {portable(missing[0])}; make "
                    "this path available on every worker"
                )

    def _check_versions(self, client: Client) -> None:
        own = versions()
        try:
            there = {"its scheduler": client.run_on_scheduler(versions), **client.run(versions)}
        except ImportError as error:
            raise InputError(
                f"{self.address}: MultiTracer is not installed on the cluster ({error}); install "
                f"version {__version__} there"
            ) from error
        for name, theirs in there.items():
            for package, version in theirs.items():
                if version != own[package]:
                    raise InputError(
                        f"{self.address}: {name} has {package} {version}, but this program has "
                        f"{own[package]}; install the same versions"
                    )


class _Round:
    """The tasks that were submitted to the workers of one cluster client."""

    def __init__(self, client: Client, store: Store, tasks: list[AnalysisTask]) -> None:
        self._client = client
        self._store = store
        self._batches = batches(tasks)
        self._held: dict[Future, list[AnalysisTask]] = {}

    def results(self) -> Iterator[tuple[AnalysisTask, str]]:
        """Yield each task with its outcome.

        If a worker fails, the spools (files with the rows of one session) show which sessions of
        its batch are finished.

        Raises
        ------
        OSError
            If the scheduler is lost.
        """
        self._submit()
        while self._held:
            ended = [future for future in self._held if future.status != "pending"]
            if self._client.status != "running" or any(future.status == "lost" for future in ended):
                raise OSError("the connection to the scheduler is lost")
            for future in ended:
                batch = self._held.pop(future)
                if future.status == "finished":
                    yield from zip(batch, self._outcomes(future, len(batch)), strict=True)
                else:
                    self._raise_own(future)
                    yield from self._after_death(batch)
            if ended:
                self._submit()  # asks the scheduler: not at every look
            else:
                time.sleep(_POLL_S)

    def _submit(self) -> None:
        most = _AHEAD * max(1, len(self._client.scheduler_info(n_workers=-1)["workers"]))
        while self._batches and len(self._held) < most:
            batch = self._batches.pop(0)
            self._held[self._client.submit(work, self._store.address, batch, pure=False)] = batch

    def _outcomes(self, future: Future, sessions: int) -> list[str]:
        """Return the outcomes that a worker tells; only a worker of another program tells something else."""
        outcomes = future.result()
        known = outcomes if isinstance(outcomes, list) else []
        if len(known) != sessions or not all(each in (DONE, FAILED) for each in known):
            raise InputError("a worker of the cluster returned no outcomes; use workers that run only MultiTracer")
        return known

    def _raise_own(self, future: Future) -> None:
        """Raise a worker's error that is about the campaign, not about a session.

        For example, the disk is full, or the campaign has another path on the worker.
        """
        error = future.exception() if future.status == "error" else None
        if isinstance(error, InputError):
            raise error

    def _after_death(self, batch: list[AnalysisTask]) -> Iterator[tuple[AnalysisTask, str]]:
        """Yield the finished tasks of a batch whose worker died, with their outcomes.

        The session that was being analysed is analysed again alone; the others are submitted again.
        """
        rest = []
        for task in batch:
            if (outcome := outcome_of(self._store, task)) is not None:
                yield task, outcome
            elif self._store.has(task.attempt):
                yield task, spool_alone(self._store, task)
            else:
                rest.append(task)
        if rest:
            self._batches.insert(0, rest)


def batches(tasks: list[AnalysisTask]) -> list[list[AnalysisTask]]:
    """Return the tasks in batches: each large session alone, largest first.

    Then the small ones, many per batch.
    """
    large = [task for task in tasks if task.bytes > ALONE_BYTES]
    small = [task for task in tasks if task.bytes <= ALONE_BYTES]
    large.sort(key=lambda task: -task.bytes)
    return [[task] for task in large] + [small[i : i + BATCH] for i in range(0, len(small), BATCH)]
