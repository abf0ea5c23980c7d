"""A run: finds the sessions, passes over what is done, has the rest analysed, and commits it."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from multitracer.campaign.alone import spool_alone
from multitracer.campaign.analysed import FAILED, Task, spool_session
from multitracer.campaign.bucket import store_at
from multitracer.campaign.committer import FOLD_BYTES, FOLD_SESSIONS, Committer, Known
from multitracer.campaign.sources import sessions_in
from multitracer.campaign.store import ATTEMPTS

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from multitracer.campaign.store import Store

_FOLD_S = 600.0
"""A reader sees a slow run's sessions after ten minutes at the latest. Not measured."""
_UNKNOWN = Known(None, "", 0)
"""What the catalogue knows of an input that it does not know; a state that can be listed is not empty."""


@dataclass
class Progress:
    """How far a run is."""

    sessions: int = 0
    """To be analysed."""
    unchanged: int = 0
    """Done before."""
    done: int = 0
    failed: int = 0
    """Of those that are done."""
    damaged: list[str] = field(default_factory=list)
    """Parts whose sessions are analysed again, a sentence each."""
    passed_over: list[str] = field(default_factory=list)
    """Folders that could not be searched, a sentence each."""
    began_s: float = field(default_factory=time.monotonic)

    @property
    def took_s(self) -> float:
        """Seconds since the first session was begun."""
        return time.monotonic() - self.began_s

    @property
    def rate(self) -> float:
        """Sessions a second; 0 before the first one is done."""
        return self.done / max(self.took_s, 1e-9)

    @property
    def remaining_s(self) -> float | None:
        """Seconds until all are done at this rate; None before the first one is done."""
        return (self.sessions - self.done) / self.rate if self.done else None


class Workers(Protocol):
    """Who analyses sessions."""

    def __call__(self, store: Store, tasks: list[Task]) -> Iterator[tuple[Task, str]]:
        """Analyse all tasks, and yield each with how it ended as soon as its spool is written."""


def in_process(store: Store, tasks: list[Task]) -> Iterator[tuple[Task, str]]:
    """Analyse sessions one after the other in this process; see `Workers`."""
    for task in tasks:
        yield task, spool_session(store, task)


def run(
    inputs: Iterable[str],
    place: str | os.PathLike[str],
    *,
    workers: Workers = in_process,
    retry: bool = False,
    shown: Callable[[Progress], None] | None = None,
) -> Progress:
    """Bring a campaign up to date with the sessions below some paths.

    Parameters
    ----------
    inputs : iterable of str
        Folders, files and URLs; see `multitracer.campaign.discovery` and `multitracer.campaign.sources`.
    place : str or path
        The folder of the campaign, or a URL that fsspec knows; made if it is missing.
    workers : Workers
    retry : bool
        Analyse inputs again that failed before, though they did not change.
    shown : callable, optional
        Gets the progress after each session.

    Returns
    -------
    Progress
        How it ended.

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


class _Run:
    """One run over a locked store."""

    def __init__(self, store: Store, committer: Committer, shown: Callable[[Progress], None]) -> None:
        self._store = store
        self._committer = committer
        self._shown = shown
        self._folded_s = time.monotonic()
        self._spooled: list[str] = []
        self._bytes = 0
        self.progress = Progress()

    def all(self, inputs: Iterable[str], workers: Workers, *, retry: bool) -> Progress:
        """Do it."""
        self.progress.damaged = [f"{each.part.name}: {each.sentence}" for each in self._committer.damaged]
        self._fold(self._committer.waiting())  # of a run that was killed
        tasks = list(self._tasks(inputs, retry=retry))
        self.progress.sessions = len(tasks)
        self.progress.began_s = time.monotonic()
        self._shown(self.progress)
        suspected = set(self._store.list(ATTEMPTS))
        alone = [task for task in tasks if task.attempt in suspected]
        for name in suspected - {task.attempt for task in alone}:
            self._store.remove(name)
        for task in alone:
            self._take(task, spool_alone(self._store, task))
        for task, outcome in workers(self._store, [task for task in tasks if task.attempt not in suspected]):
            self._take(task, outcome)
        self._fold(self._spooled)
        return self.progress

    def _tasks(self, inputs: Iterable[str], *, retry: bool) -> Iterator[Task]:
        known = self._committer.known
        sessions = {key for key, each in known.items() if each.session is not None}
        for candidate in sessions_in(inputs, known=sessions, passed_over=self.progress.passed_over):
            session, before, _ = known.get(candidate.key, _UNKNOWN)
            state, size = candidate.state_and_bytes()
            if state and state == before and not (retry and session is None):
                self.progress.unchanged += 1
            else:
                yield Task(candidate, state, session, size)

    def _take(self, task: Task, outcome: str) -> None:
        self.progress.done += 1
        self.progress.failed += outcome == FAILED
        self._spooled.append(task.spool)
        with contextlib.suppress(FileNotFoundError):  # another run over the same bucket folded it
            self._bytes += self._store.size(task.spool)
        is_old = time.monotonic() - self._folded_s > _FOLD_S
        if len(self._spooled) >= FOLD_SESSIONS or self._bytes >= FOLD_BYTES or is_old:
            self._fold(self._spooled)
        self._shown(self.progress)

    def _fold(self, names: list[str]) -> None:
        for begin in range(0, len(names), FOLD_SESSIONS):
            self._committer.fold(names[begin : begin + FOLD_SESSIONS])
        self._spooled, self._bytes, self._folded_s = [], 0, time.monotonic()
