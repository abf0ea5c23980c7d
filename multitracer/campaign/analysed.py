"""Analyses one session in a worker, and writes its spool.

A session that may have caused the death of a worker is analysed in its own process with a memory limit.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from multitracer.campaign import schemas
from multitracer.campaign.bucket import store_at
from multitracer.campaign.discovery import DIGITS, Candidate, candidate_of, content_of
from multitracer.campaign.remote import StoreError
from multitracer.campaign.schemas import packed, unpacked
from multitracer.campaign.session_tables import session_tables
from multitracer.campaign.store import ATTEMPTS, SPOOLS, Store
from multitracer.errors import InputError, MultiTracerError
from multitracer.recording.read import read
from multitracer.words import printable, size
from parsers import force_reading

if TYPE_CHECKING:
    Tables = dict[str, pa.Table]

DONE, FAILED = "done", "failed"
_LONGEST = 1_000
"""Maximum number of characters of a failure's message that are stored."""
_STATE_DIGITS = 16
"""Hexadecimal digits of the state in a spool's name, which distinguish two spools of one input."""


@dataclass(frozen=True, slots=True)
class AnalysisTask:
    """A session to analyse: what is known about it before it is read."""

    candidate: Candidate
    state: str
    """State of the input when it was listed (`Candidate.state`)."""
    session: str | None = None
    """Session that the input contained when it was last read; None if it is not in the catalogue."""
    bytes: int = 0
    """Size of the session's files when it was listed, in bytes."""
    forced: tuple[tuple[str, object], ...] = ()
    """How its captures are read whatever they say, as `parsers.force_reading` takes it: workers are told so."""

    @property
    def attempt(self) -> str:
        """Name of the attempt file, which has the PID of the process that analyses the session.

        If this file remains after the process has ended, the session may have caused its death.
        """
        return f"{ATTEMPTS}/{self.candidate.key}"

    @property
    def spool(self) -> str:
        """Name of the spool, the file with the rows of this session."""
        return f"{SPOOLS}/{self.candidate.key}-{self.state[:_STATE_DIGITS] or 'unlisted'}"


def spool_session(store: Store, task: AnalysisTask) -> str:
    """Analyse a session and write its spool (the file with its rows); return the outcome: done or failed.

    Raises
    ------
    InputError
        If the spool cannot be written; a `StoreError` if a store does not answer.
    """
    store.put(task.attempt, str(os.getpid()).encode("ascii"), lasting=False)
    with force_reading(**dict(task.forced)):
        outcome, tables = _outcome(task)
    store.put(task.spool, packed(tables), lasting=False)
    store.remove(task.attempt)
    return outcome


def outcome_of(store: Store, task: AnalysisTask) -> str | None:
    """Return the outcome in a session's spool (the file with its rows): done or failed.

    None without a complete spool.
    """
    try:
        tables = unpacked(store.read(task.spool))
    except FileNotFoundError:
        return None
    return None if tables is None else str(tables["inputs"]["outcome"][0].as_py())


def spool_failure(store: Store, task: AnalysisTask, sentence: str) -> None:
    """Write the spool (the file with the rows) of a session that failed; `sentence` is the reason."""
    store.put(task.spool, packed(_failure(task, sentence)), lasting=False)
    store.remove(task.attempt)


def _outcome(task: AnalysisTask) -> tuple[str, Tables]:
    try:
        return DONE, _rows(task)
    except StoreError:
        raise  # no session is to blame
    except MemoryError:
        return FAILED, _failure(
            task, f"{task.candidate.path}: out of memory; analyse this input on a machine with more memory"
        )
    except (MultiTracerError, OSError) as error:
        return FAILED, _failure(task, _sentence(task, error))
    except RecursionError as error:
        return FAILED, _failure(task, _bug(task, error))
    except Exception as error:  # noqa: BLE001  # a bug in the reading of one session must not stop the rest
        return FAILED, _failure(task, _bug(task, error))


def _sentence(task: AnalysisTask, error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, MultiTracerError):
        return f"{task.candidate.path}: cannot be read: {error.strerror or error}; check its permissions"
    return str(error)


def _bug(task: AnalysisTask, error: Exception) -> str:
    what = f"{type(error).__name__}: {error}"
    return (
        f"{task.candidate.path}: this is a bug in MultiTracer ({what}); `multitracer report` on this "
        "input shows the error"
    )


def _rows(task: AnalysisTask) -> Tables:
    candidate = task.candidate
    with candidate.here() as here:
        inputs = here.inputs()
        if not inputs.points and not inputs.listed:
            why = f" ({inputs.warnings[0]})" if inputs.warnings else ""
            raise InputError(f"{here.path}: this input contains no readable capture or log{why}")
        content = content_of(inputs)
        session = content[:DIGITS]
        tables = session_tables(read(inputs), session, candidate.path, content) if session != task.session else {}
    if here.paths != candidate.paths:
        tables = {name: _renamed(table, here.parent, candidate.parent) for name, table in tables.items()}
    if not task.state or candidate.state() != task.state:
        raise InputError(
            f"{candidate.path}: the files changed during the analysis; start the run again when the session is complete"
        )
    return tables | {"inputs": _input(task, session, DONE)}


def _renamed(table: pa.Table, before: str, after: str) -> pa.Table:
    """Return the table with the path `before` replaced by `after` in all texts.

    `before` is the path of a local copy of the session, `after` the path of the session.
    """
    for number, field in enumerate(table.schema):
        if field.type == pa.string():
            texts = pc.replace_substring(table.column(number), f"{before}/", f"{after}/")
            table = table.set_column(number, field, texts)
    return table


def _failure(task: AnalysisTask, sentence: str) -> Tables:
    key, path = task.candidate.key, task.candidate.path
    row = {"input": key, "path": path, "sentence": printable(sentence)[:_LONGEST]}
    return {"inputs": _input(task, None, FAILED), "failures": schemas.of_rows("failures", [row])}


def _input(task: AnalysisTask, session: str | None, outcome: str) -> pa.Table:
    row = {
        "session": session, "input": task.candidate.key, "path": task.candidate.path,
        "state": task.state, "outcome": outcome,
    }  # fmt: skip
    return schemas.of_rows("inputs", [row])


_SHARE = 0.8
"""Share of the machine's memory that an analysis may use; the rest is for other programs. Not measured."""
_STORE_FAILED = os.EX_TEMPFAIL
"""Exit status of the process if a store does not answer: the cause is not the session."""


def spool_alone(store: Store, task: AnalysisTask, *, most_bytes: int | None = None) -> str:
    """Analyse a session in its own process and write its spool (the file with its rows).

    A spool is written even if the process dies.

    Parameters
    ----------
    store : Store
    task : AnalysisTask
    most_bytes : int, optional
        Maximum address space of the process; by default four fifths of the machine's memory.

    Returns
    -------
    str
        The outcome: done or failed.

    Raises
    ------
    StoreError
        If the store does not answer.
    """
    limit = most_bytes or int(_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    words = {
        "store": store.address, "paths": task.candidate.paths, "state": task.state,
        "session": task.session, "most_bytes": limit, "forced": dict(task.forced),
    }  # fmt: skip
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(
        command,
        input=json.dumps(words).encode(),
        capture_output=True,
        check=False,
        start_new_session=True,  # Ctrl-C ends this program, and is no fault of the session
    )
    outcome = done.stdout.decode("ascii", "replace").strip()
    if done.returncode == _STORE_FAILED:
        raise StoreError(done.stdout.decode("utf-8", "replace"))
    if done.returncode == 0 and store.has(task.spool):
        return outcome
    how = f"with status {done.returncode}"
    if done.returncode < 0:
        how = f"by {signal.Signals(-done.returncode).name}"
    memory = f"in a separate process with {size(limit)} of memory"
    sentence = (
        f"{task.candidate.path}: the analysis ended {how} {memory}; run `multitracer report` on "
        "this input to see the error"
    )
    spool_failure(store, task, sentence)
    return FAILED


def main() -> None:
    """Analyse the session that standard input describes."""
    words = json.loads(sys.stdin.buffer.read())
    most = int(words["most_bytes"])
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    forced = tuple(words["forced"].items())
    task = AnalysisTask(candidate_of(tuple(words["paths"])), words["state"], words["session"], forced=forced)
    try:
        sys.stdout.write(spool_session(store_at(words["store"]), task))
    except StoreError as error:
        sys.stdout.write(str(error))
        sys.exit(_STORE_FAILED)


if __name__ == "__main__":
    main()
