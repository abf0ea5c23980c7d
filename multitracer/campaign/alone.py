"""A session that may have killed a worker, analysed in a process of its own with a limit on its memory."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from multitracer.campaign.analysed import FAILED, Task, spool_failure, spool_session
from multitracer.campaign.bucket import store_at
from multitracer.campaign.remote import StoreError
from multitracer.campaign.sources import candidate_of
from multitracer.words import size

if TYPE_CHECKING:
    from multitracer.campaign.store import Store

_SHARE = 0.8
"""Of the machine's memory: what other programs need is left. Not measured."""
_STORE_FAILED = os.EX_TEMPFAIL
"""How the process ends when a store does not answer: the session is not to blame."""


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

    Raises
    ------
    StoreError
        If a store does not answer.
    """
    limit = most_bytes or int(_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    words = {
        "store": store.address, "paths": task.candidate.paths, "state": task.state,
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
    if done.returncode == _STORE_FAILED:
        raise StoreError(done.stdout.decode("utf-8", "replace"))
    if done.returncode == 0 and store.has(task.spool):
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
    task = Task(candidate_of(tuple(words["paths"])), words["state"], words["session"])
    try:
        sys.stdout.write(spool_session(store_at(words["store"]), task))
    except StoreError as error:
        sys.stdout.write(str(error))
        sys.exit(_STORE_FAILED)


if __name__ == "__main__":
    main()
