"""Carries a plan out, transaction by transaction, and goes on where a run before was interrupted."""

from __future__ import annotations

import contextlib
import secrets
import time
from typing import TYPE_CHECKING

from multitracer.errors import InputError
from multitracer.manifest import MANIFEST, LogFile, Manifest, checksum, read_manifest, write_manifest
from multitracer.measure.journal import FILE, Journal
from multitracer.measure.outcome import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from multitracer.measure.outcome import Client
    from multitracer.measure.plan import Plan, Transaction

    Connect = Callable[[int], Client]
    """Returns a client, given the number of the run."""
    Progress = Callable[[int, int, int], None]
    """Is told how many transactions are done, how many of them were dropped, and how many are planned."""

HOST = "client"


def carry_out(plan: Plan, folder: Path, connect: Connect, *, progress: Progress) -> Journal:
    """Do every transaction of a plan that is not done yet.

    Parameters
    ----------
    plan : Plan
        What to do.
    folder : Path
        The session folder: new, empty, or of an earlier run of the same plan.
    connect : callable
        Makes the client.
    progress : callable
        Told after each transaction.

    Returns
    -------
    Journal
        What became of each transaction; closed.

    Raises
    ------
    InputError
        If the folder is another session's, or the server does not answer.
    """
    manifest = _opened(plan, folder)
    with contextlib.closing(Journal(folder, plan)) as journal:
        left = [each for each in plan.transactions() if each.number not in journal.outcomes]
        if left:
            with contextlib.closing(connect(secrets.randbits(64))) as client:
                _reach(client, plan)
                for each in _told(left, journal, plan, progress):
                    journal.add(each, client.transact(each))
    _close(manifest, folder)
    return journal


def _reach(client: Client, plan: Plan) -> None:
    try:
        client.reach()
    except UnreachableError as error:
        start = f"multitracer measure serve --protocol {plan.protocol} --listen {plan.server}"
        raise InputError(f"{plan.server}: cannot be reached ({error}); is `{start}` running?") from error


def _told(left: list[Transaction], journal: Journal, plan: Plan, progress: Progress) -> Iterator[Transaction]:
    """Yield the transactions, and tell of the progress before, between and after them."""
    for each in left:
        progress(*_counts(journal), plan.count)
        yield each
    progress(*_counts(journal), plan.count)


def _counts(journal: Journal) -> tuple[int, int]:
    return len(journal.outcomes), sum(outcome != "ok" for outcome in journal.outcomes.values())


def _opened(plan: Plan, folder: Path) -> Manifest:
    """Return the folder's manifest; make both if there are none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = {entry.name for entry in folder.iterdir()} - {f"{MANIFEST}.tmp"}
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; name another folder") from error
    if not found:
        manifest = Manifest(folder.resolve().name, created_ns=time.time_ns())
        manifest.hosts = {HOST: {"role": "client of a measurement"}}
        manifest.variables = {**plan.labels, "measurement": plan.document()}
        write_manifest(folder, manifest)
        return manifest
    manifest = read_manifest(folder) or Manifest("")
    if manifest.variables.get("measurement") != plan.document():
        raise InputError(f"{folder}: holds something else than a run of this plan; name another folder")
    return manifest


def _close(manifest: Manifest, folder: Path) -> None:
    """Note the size and the checksum of what was written."""
    path = folder / FILE
    others = [log for log in manifest.files if log.path != FILE]
    manifest.files = [*others, LogFile(FILE, HOST, path.stat().st_size, checksum(path))]
    write_manifest(folder, manifest)
