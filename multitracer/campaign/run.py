"""A run: finds the sessions, skips unchanged ones, analyses the others, and commits the results.

A watch repeats such a run for sessions that arrive; each session is analysed when it is complete.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from multitracer.campaign.analysed import FAILED, AnalysisTask, spool_alone, spool_session
from multitracer.campaign.arrivals import SessionArrivals, look_at, note
from multitracer.campaign.bucket import store_at
from multitracer.campaign.committer import FOLD_BYTES, FOLD_SESSIONS, Committer, KnownInput
from multitracer.campaign.discovery import sessions_in
from multitracer.campaign.remote import is_url
from multitracer.campaign.store import ATTEMPTS
from multitracer.errors import InputError
from multitracer.words import portable
from parsers import forced_reading

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Generator, Iterable, Iterator

    from multitracer.campaign.discovery import Candidate

    Stop = Callable[[float], bool]
    """Waits for the given seconds, less if the watch must end; returns whether it must."""

    from multitracer.campaign.store import Store

_FOLD_S = 600.0
"""Time in s after which a slow run commits its results for readers. Not measured."""
_PAUSE_S = 5.0
"""Interval in s of polls of a watched folder: sessions arrive more slowly. Not measured."""
_IDLE = 20
"""Ratio of the wait to the duration of a poll: watching 10,000 sessions takes 5 % of a core."""
_COMPACT_FOLDS = 50
"""Number of merges after which a watch compacts small groups: a query opens ten files of each.

Not measured."""
_UNKNOWN = KnownInput(None, "", 0)
"""Entry of an input that is not in the catalogue; the state of a real input is never empty."""


@dataclass
class CampaignProgress:
    """The progress of a run: numbers of sessions that are added, unchanged, failed and remaining."""

    sessions: int = 0
    """Number of sessions to analyse."""
    unchanged: int = 0
    """Number of sessions that were skipped because they are unchanged."""
    failed_before: int = 0
    """Number of these that failed in an earlier run."""
    done: int = 0
    failed: int = 0
    """Number of finished sessions that failed."""
    damaged: list[str] = field(default_factory=list)
    """Damaged parts whose sessions are analysed again, one sentence each."""
    passed_over: list[str] = field(default_factory=list)
    """Folders that could not be searched, one sentence each."""
    waiting: list[str] = field(default_factory=list)
    """Sessions that have not arrived completely, one sentence each."""
    is_watch: bool = False
    began_s: float = field(default_factory=time.monotonic)

    @property
    def took_s(self) -> float:
        """Seconds since the first session was started."""
        return time.monotonic() - self.began_s

    @property
    def rate(self) -> float:
        """Sessions per second; 0 before the first one has finished."""
        return self.done / max(self.took_s, 1e-9)

    @property
    def remaining_s(self) -> float | None:
        """Estimated seconds until all sessions are finished; None before the first one is finished."""
        return (self.sessions - self.done) / self.rate if self.done else None


class Workers(Protocol):
    """Interface of workers that analyse sessions."""

    def __call__(self, store: Store, tasks: list[AnalysisTask]) -> Generator[tuple[AnalysisTask, str]]:
        """Analyse all tasks.

        Yield each task with its outcome as soon as the file with its rows is written.
        """


def in_process(store: Store, tasks: list[AnalysisTask]) -> Generator[tuple[AnalysisTask, str]]:
    """Analyse sessions one after another in this process; see `Workers`."""
    for task in tasks:
        yield task, spool_session(store, task)


def run(
    inputs: Iterable[str],
    place: str | os.PathLike[str],
    *,
    workers: Workers = in_process,
    retry: bool = False,
    shown: Callable[[CampaignProgress], None] | None = None,
) -> CampaignProgress:
    """Bring a campaign up to date with the sessions below some paths.

    Parameters
    ----------
    inputs : iterable of str
        Folders, files and URLs; see `multitracer.campaign.discovery`.
    place : str or path
        The folder of the campaign, or a URL that fsspec knows; made if it is missing.
    workers : Workers
    retry : bool
        Whether to analyse inputs again that failed before, even if they have not changed.
    shown : callable, optional
        Called with the progress after each session.

    Returns
    -------
    CampaignProgress
        The final state.

    Raises
    ------
    InputError
        If an input does not exist, the campaign cannot be written, or another program writes to it; a
        `StoreError` if a store does not answer.
    """
    store = store_at(place)
    store.make()
    with store.locked():
        return _Run(store, Committer(store), shown or (lambda _: None)).all(inputs, workers, retry=retry)


def watch(
    inputs: Iterable[str],
    place: str | os.PathLike[str],
    *,
    stop: Stop,
    workers: Workers = in_process,
    retry: bool = False,
    shown: Callable[[CampaignProgress], None] | None = None,
) -> CampaignProgress:
    """Add sessions below some paths to a campaign as they arrive, until `stop` returns True.

    Parameters
    ----------
    inputs, place, workers, retry
        See `run`; `retry` applies to the sessions at the start.
    stop : callable
        Waits for the given number of seconds, or less if the watch must end; returns whether it must end. It is also
        called between two sessions, with 0 s.
    shown : callable, optional
        Called with the progress after each session and each poll.

    Returns
    -------
    CampaignProgress
        The final state; the snapshot contains every session that was analysed.

    Raises
    ------
    InputError
        See `run`.
    """
    given = list(inputs)
    if urls := [each for each in given if is_url(each)]:
        raise InputError(f"{portable(urls[0])}: --watch does not work with buckets; run again without --watch")
    store = store_at(place)
    store.make()
    with store.locked():
        run = _Run(store, Committer(store), shown or (lambda _: None), stop)
        return run.watch(given, workers, retry=retry)


class _Run:
    """One run over a campaign, whose store is locked."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        shown: Callable[[CampaignProgress], None],
        stop: Stop = lambda _: False,
    ) -> None:
        self._store = store
        self._committer = committer
        self._shown = shown
        self._stop = stop
        self._aggregated_s = time.monotonic()
        self._folds = 0
        self._spooled: list[str] = []
        self._bytes = 0
        self._arrivals: SessionArrivals | None = None
        self._suspected: set[str] = set()
        """Names of the attempt files of a killed run."""
        self._waiting: set[str] = set()
        """Keys of sessions that have not arrived completely."""
        self._noted: list[str] = []
        self.progress = CampaignProgress()

    def all(self, inputs: Iterable[str], workers: Workers, *, retry: bool) -> CampaignProgress:
        """Process all sessions once; return the progress."""
        self._go_on()
        note(self._store, ())
        tasks = list(self._tasks(inputs, retry=retry))
        self._forget_suspects(tasks)
        self._round(tasks, workers)
        return self.progress

    def watch(self, inputs: list[str], workers: Workers, *, retry: bool) -> CampaignProgress:
        """Process complete sessions repeatedly until the watch must end; return the progress."""
        self._arrivals, self.progress.is_watch = SessionArrivals(), True
        self._go_on()
        pause_s, is_first = 0.0, True
        while not self._stop(pause_s):
            began_s = time.monotonic()
            tasks = self._complete(inputs, is_first=is_first, retry=retry and is_first)
            self._note(is_first=is_first)
            pause_s = max(_PAUSE_S, _IDLE * (time.monotonic() - began_s))
            if self._stop(0.0):
                break
            if is_first:
                self._forget_suspects(tasks)
            is_first = False
            self._round(tasks, workers)
            if self._folds >= _COMPACT_FOLDS:
                self._committer.compact()
                self._folds = 0
        return self.progress

    def _go_on(self) -> None:
        """Add the finished sessions of a killed run to the catalogue.

        Record which unfinished sessions may have caused its end.
        """
        self._suspected = set(self._store.list(ATTEMPTS))
        self.progress.damaged = [f"{each.part.name}: {each.sentence}" for each in self._committer.damaged]
        self._fold(self._committer.waiting())

    def _round(self, tasks: list[AnalysisTask], workers: Workers) -> None:
        """Analyse sessions until all are done or the run must stop, and commit the results."""
        self._forget_inner(tasks)
        self.progress.sessions += len(tasks)
        self.progress.began_s = time.monotonic()
        self._shown(self.progress)
        alone = [task for task in tasks if task.attempt in self._suspected]
        rest = [task for task in tasks if task.attempt not in self._suspected]
        is_cut = False
        with contextlib.closing(self._outcomes(alone, rest, workers)) as outcomes:
            for task, outcome in outcomes:
                self._take(task, outcome)
                if is_cut := self._stop(0.0):
                    break
        for task in rest if is_cut else ():  # their workers were stopped: no session is to blame
            self._store.remove(task.attempt)
        self._fold(self._spooled)

    def _forget_suspects(self, tasks: list[AnalysisTask]) -> None:
        """Remove files about sessions that may have ended an earlier run and no longer exist."""
        kept = {task.attempt for task in tasks} | {f"{ATTEMPTS}/{key}" for key in self._waiting}
        for name in self._suspected - kept:
            self._store.remove(name)

    def _forget_inner(self, tasks: list[AnalysisTask]) -> None:
        """Remove subfolders from the campaign that were sessions before their folder's manifest arrived."""
        inner = {each.key for task in tasks for each in task.candidate.inner()}
        if known := inner & self._committer.known.keys():
            self._committer.forget_inputs(known)

    def _outcomes(
        self, alone: list[AnalysisTask], rest: list[AnalysisTask], workers: Workers
    ) -> Generator[tuple[AnalysisTask, str]]:
        for task in alone:
            yield task, spool_alone(self._store, task)
        if rest:
            with contextlib.closing(workers(self._store, rest)) as outcomes:
                yield from outcomes

    def _complete(self, inputs: list[str], *, is_first: bool, retry: bool) -> list[AnalysisTask]:
        """Return the new or changed sessions that are complete.

        In a watch an input may be missing for a time.
        """
        self.progress.unchanged = self.progress.failed_before = 0
        self.progress.waiting, self.progress.passed_over = [], []
        try:
            return list(self._tasks(inputs, retry=retry))
        except InputError as error:
            if is_first:
                raise
            self.progress.passed_over.append(f"{error}; the run continues, and checks this input again")
            return []

    def _note(self, *, is_first: bool) -> None:
        """Write the incomplete sessions into the campaign for `campaign status`, if they have changed."""
        if is_first or self.progress.waiting != self._noted:
            note(self._store, self.progress.waiting)
            self._noted = self.progress.waiting

    def _tasks(self, inputs: Iterable[str], *, retry: bool) -> Iterator[AnalysisTask]:
        known = self._committer.known
        sessions = {key for key, each in known.items() if each.session is not None}
        self._waiting.clear()
        forced = tuple(forced_reading().items())
        for candidate in sessions_in(inputs, known=sessions, passed_over=self.progress.passed_over):
            session, before, _ = known.get(candidate.key, _UNKNOWN)
            state, size = candidate.state_and_bytes()
            if state and state == before and not (retry and session is None):
                self.progress.unchanged += 1
                self.progress.failed_before += session is None
            elif self._has_come(candidate):
                yield AnalysisTask(candidate, state, session, size, forced)
            else:
                self._waiting.add(candidate.key)
        if self._arrivals is not None:
            self._arrivals.keep(self._waiting)

    def _has_come(self, candidate: Candidate) -> bool:
        """Return whether a session may be read; in a watch, only if it is complete."""
        if self._arrivals is None:
            return True
        try:
            lack = self._arrivals.lack(candidate.key, look_at(candidate), time.monotonic())
        except (OSError, InputError) as error:
            lack = f"cannot be read: {error}"
        if lack is not None:
            self.progress.waiting.append(f"{candidate.path}: {lack}")
        return lack is None

    def _take(self, task: AnalysisTask, outcome: str) -> None:
        self._suspected.discard(task.attempt)
        self.progress.done += 1
        self.progress.failed += outcome == FAILED
        self._spooled.append(task.spool)
        try:
            self._bytes += self._store.size(task.spool)
        except FileNotFoundError as error:
            if not is_url(self._store.address):  # of a bucket another run may have folded it
                raise InputError(
                    f"{self._store.name}: the results of {task.candidate.path} are missing, "
                    "because a worker wrote them to another place; make the campaign available on "
                    "every worker by the same path"
                ) from error
        is_old = time.monotonic() - self._aggregated_s > _FOLD_S
        if len(self._spooled) >= FOLD_SESSIONS or self._bytes >= FOLD_BYTES or is_old:
            self._fold(self._spooled)
        self._shown(self.progress)

    def _fold(self, names: list[str]) -> None:
        for begin in range(0, len(names), FOLD_SESSIONS):
            self._committer.fold(names[begin : begin + FOLD_SESSIONS])
            self._folds += 1
        self._spooled, self._bytes, self._aggregated_s = [], 0, time.monotonic()
