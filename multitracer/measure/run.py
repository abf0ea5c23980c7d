"""Carries out a plan, transaction by transaction, and continues where an earlier run was interrupted."""

from __future__ import annotations

import contextlib
import secrets
import time
from typing import TYPE_CHECKING

from multitracer.errors import InputError
from multitracer.manifest import (
    MANIFEST,
    Host,
    LogFile,
    Manifest,
    Role,
    checksum,
    read_manifest,
    write_manifest,
)
from multitracer.measure.journal import FILE, Journal
from multitracer.measure.outcome import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.measure.outcome import Client
    from multitracer.measure.plan import Plan

    Connect = Callable[[int], Client]
    """Returns a client, given the number of the run."""
    Progress = Callable[[int, int, int], None]
    """Is told how many transactions are done, how many of them were dropped, and how many are planned."""

HOST = "client"


def carry_out(
    plan: Plan,
    folder: Path,
    connect: Connect,
    *,
    progress: Progress,
    about: Manifest | None = None,
    lasting: bool = True,
) -> Journal:
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
    about : Manifest, optional
        What the manifest of a new folder says beside the plan. If a run is gone on with, its variables must
        be those of the folder.
    lasting : bool
        As `Journal`.

    Returns
    -------
    Journal
        What became of each transaction; closed.

    Raises
    ------
    InputError
        If the folder is another session's, or the server does not answer.
    """
    manifest = opened(plan, folder, about)
    with contextlib.closing(Journal(folder, plan, lasting=lasting)) as journal:
        if is_left(plan, journal):
            with contextlib.closing(connect(secrets.randbits(64))) as client:
                _reach(client, plan)
                do_all(plan, journal, client, progress=progress)
    _close(manifest, folder)
    return journal


def _reach(client: Client, plan: Plan) -> None:
    try:
        client.reach()
    except UnreachableError as error:
        start = f"multitracer measure serve --protocol {plan.protocol} --listen {plan.server}"
        raise InputError(f"{plan.server}: cannot be reached ({error}); is `{start}` running?") from error


def is_left(plan: Plan, journal: Journal) -> bool:
    """Return whether a transaction of the plan is not done yet."""
    return len(journal.outcomes) < plan.count


def do_all(plan: Plan, journal: Journal, client: Client, *, progress: Progress) -> None:
    """Do every transaction that is not in the journal yet; report the progress before and after each one."""
    for each in plan.transactions():
        if each.number not in journal.outcomes:
            tell(journal, plan, progress)
            journal.add(each, client.transact(each))
    tell(journal, plan, progress)


def tell(journal: Journal, plan: Plan, progress: Progress) -> None:
    """Report how many transactions of a plan are done."""
    progress(len(journal.outcomes), journal.dropped, plan.count)


def opened(plan: Plan, folder: Path, about: Manifest | None) -> Manifest:
    """Return the folder's manifest; make folder and manifest if they do not exist.

    Raises
    ------
    InputError
        If the folder is another session's.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        entries = {entry.name for entry in folder.iterdir()} - {f"{MANIFEST}.tmp"}
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; name another folder") from error
    if about is None:
        about = Manifest(folder.resolve().name, created_ns=time.time_ns())
        about.hosts = {HOST: Host(role=Role.CLIENT)}
    about.variables.measurement = plan.measurement()
    about.variables.more |= plan.labels
    if not entries:
        write_manifest(folder, about)
        return about
    manifest = read_manifest(folder) or Manifest("")
    there = manifest.variables.document()
    if any(there.get(name) != value for name, value in about.variables.document().items()):
        raise InputError(f"{folder}: holds something else than a run of this plan; name another folder")
    return manifest


def _close(manifest: Manifest, folder: Path) -> None:
    """Write the sizes and checksums of the files into the manifest."""
    path = folder / FILE
    others = [log for log in manifest.files if log.path != FILE]
    manifest.files = [*others, LogFile(FILE, HOST, path.stat().st_size, checksum(path))]
    write_manifest(folder, manifest)
