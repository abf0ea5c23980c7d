"""A session that may have killed a worker, analysed in a process of its own with a limit on its memory."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys

from multitracer.campaign.analysed import FAILED, Task, spool_failure, spool_session
from multitracer.campaign.discovery import Candidate
from multitracer.campaign.store import Store
from multitracer.words import size

_SHARE = 0.8
"""Of the machine's memory: what other programs need is left. Not measured."""


def spool_alone(store: Store, task: Task, *, most_bytes: int | None = None) -> str:
    """Analyse a session in a process of its own; whatever ends that, there is a spool afterwards.

    Parameters
    ----------
    store : Store
    task : Task
    most_bytes : int, optional
        Address space that it may use; by default four fifths of the machine's memory.

    Returns
    -------
    str
        How it ended: done or failed.
    """
    limit = most_bytes or int(_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    words = {
        "store": str(store.folder), "paths": task.candidate.paths, "state": task.state,
        "session": task.session, "most_bytes": limit,
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
    if done.returncode == 0 and store.path(task.spool).exists():
        return outcome
    how = f"with status {done.returncode}"
    if done.returncode < 0:
        how = f"by {signal.Signals(-done.returncode).name}"
    memory = f"in a process of its own with {size(limit)} of memory"
    sentence = (
        f"{task.candidate.path}: its analysis was ended {how} {memory}; look at it with `multitracer report`"
    )
    spool_failure(store, task, sentence)
    return FAILED


def main() -> None:
    """Analyse the session that standard input names."""
    words = json.loads(sys.stdin.buffer.read())
    most = int(words["most_bytes"])
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    task = Task(Candidate(tuple(words["paths"])), words["state"], words["session"])
    sys.stdout.write(spool_session(Store(words["store"]), task))


if __name__ == "__main__":
    main()
