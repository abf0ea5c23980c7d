"""`multitracer report` of sessions that hold transactions."""

from __future__ import annotations

import hashlib
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.cli._output import check_output
from multitracer.cli._transactions import read_arms, title_of
from multitracer.errors import InputError
from multitracer.recording.transactions import LAYER
from multitracer.report.index import INDEX, file_name
from multitracer.report.transactions_page import MeasuredTransactions, write_transactions
from multitracer.words import moment, portable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.recording.inputs import Inputs
    from multitracer.report.page import Assets

_MOST = 40
_LONGEST = 200


def write_measured(
    sessions: Sequence[Inputs],
    target: str,
    links: dict[str, str] | None = None,
    *,
    pool: bool = False,
    assets: Assets | None = None,
) -> str:
    """Write the page of one session to a file, of several into a folder; return the page's path.

    Parameters
    ----------
    sessions : sequence of Inputs
        Each holds transactions.
    target : str
    links : dict of str to str, optional
        Pages in that folder, by the names of sessions.
    pool : bool
        See `arms_of`.
    assets : Assets, optional
        Where script and style of the page go; by default into it.
    """
    several = len(sessions) > 1
    check_output(
        target, [path for session in sessions for path in session.paths], files="*.html" * several or None
    )
    if several:
        try:
            Path(target).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{portable(target)}: cannot make this folder: {error.strerror}; choose another"
            ) from error
    page = str(Path(target) / INDEX) if several else target
    arms, notes = read_arms(sessions, pool=pool)
    measured = MeasuredTransactions(
        arms,
        title_of(sessions),
        [(session.name, list(_facts(session))) for session in sessions],
        shlex.join(["multitracer", *sys.argv[1:]]),
        notes,
        links or {},
    )
    write_transactions(measured, page, assets)
    return page


def links_to(sessions: Sequence[Inputs], target: str, *, several: bool) -> dict[str, Path]:
    """Return where the reports of the sessions' captures go: into the folder, or next to the page."""
    if several:
        taken: set[str] = set()
        return {session.name: Path(target) / file_name(session.name, taken) for session in sessions}
    page = Path(target)
    return {session.name: page.with_name(f"{page.stem}-captures.html") for session in sessions}


def _facts(session: Inputs) -> Iterator[tuple[str, str]]:
    """Yield what is known of a session: when, how, and the checksum of its transactions."""
    if session.manifest is not None:
        yield "Recorded", moment(session.manifest.created_ns)
        for name, value in list(session.manifest.variables.document().items())[:_MOST]:
            if isinstance(value, str | int | float | bool):
                text = str(value)
                yield name, text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    for log in session.listed:
        if log.layer != LAYER:
            continue
        yield "File", portable(log.path)
        with suppress(OSError), Path(log.path).open("rb") as stream:  # gone since it was read
            yield "SHA-256", hashlib.file_digest(stream, "sha256").hexdigest()
