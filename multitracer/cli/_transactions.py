"""Finds sessions with transactions (`measure run`), and writes the output of commands about them."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from multitracer.analysis.transports import compare, pairs, size_statistics, transports_of
from multitracer.cli._messages import warn
from multitracer.cli._output import check_output, replacing
from multitracer.errors import InputError, MultiTracerError
from multitracer.recording.inputs import separate_inputs
from multitracer.recording.read import read
from multitracer.recording.recording import Recording
from multitracer.recording.transactions import LAYER, is_over_tcp, sources_of
from multitracer.recording.window import EVERYTHING
from multitracer.report.transactions_page import (
    MeasuredTransactions,
    factor,
    factors,
    seconds,
    spread,
    write_transactions,
)
from multitracer.words import moment, no_formula, portable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.analysis.transports import Transport
    from multitracer.cli._output import Page
    from multitracer.cli._reading import InputChoice
    from multitracer.figures.palette import ThemeName
    from multitracer.recording.inputs import Inputs
    from multitracer.report.page import Assets
    from multitracer.tables import Row

SCHEMA = "multitracer.transactions/1"
_MOST_NAMES = 4
_MOST_VARIABLES = 40
_LONGEST_VARIABLE = 200
_HEADER = ("transport", "varied", "size", "done", "dropped", "median", "95 %", "mean", "95th percentile", "with set-up")
_RATIO_HEADER = ("size", "ratio", "95 %", "with set-up", "95 %", "difference", "remark")


def measured_sessions(inputs: Sequence[str], *, wanted: bool = False) -> list[Inputs]:
    """Return the sessions of transactions among the inputs; empty if transactions are not to be shown.

    Parameters
    ----------
    inputs : sequence of str
        Names of the inputs as the user gave them.
    wanted : bool
        Whether the user requests transactions; if not, a single session that also has TCP captures does not count.

    Raises
    ------
    InputError
        If transactions are requested, and an input contains none.
    """
    if not wanted and not all(Path(name).is_dir() for name in inputs):
        return []
    sessions = separate_inputs(inputs)
    without = [session for session in sessions if not session.holds(LAYER)]
    if wanted and without:
        raise InputError(
            f"{without[0].name}: this folder contains no transactions; name folders that `measure run` wrote"
        )
    if without or (not wanted and len(sessions) == 1 and sessions[0].points and is_over_tcp(sessions[0])):
        return []
    return sessions


def refuse_capture_options(reading: InputChoice) -> None:
    """Raise an error for options that have no effect on transactions."""
    if reading.connection is not None or reading.window != EVERYTHING or reading.max_packets is not None:
        raise click.UsageError(
            "--connection, --from, --to and --max-packets cannot be used with transactions; omit these options"
        )


def read_transports(
    sessions: Sequence[Inputs], *, pool: bool = False, some: bool = True
) -> tuple[list[Transport], list[str]]:
    """Return the transactions of the sessions by transport, and the reasons why sessions are not used.

    Parameters
    ----------
    sessions : sequence of Inputs
    pool : bool
        See `transports_of`.
    some : bool
        Whether transactions are required, with their efficiency by the captures of both hosts.

    Raises
    ------
    InputError
        If transactions are required and there are none, or if the chosen phone is not there.
    """
    recordings = [_with_captures(session) if some else Recording(session) for session in sessions]
    for recording in recordings:
        recording.check_phone()
    transports = transports_of([each for recording in recordings for each in sources_of(recording)], pool=pool)
    notes = [sentence for recording in recordings for sentence in recording.warnings]
    for sentence in notes:
        warn(sentence)
    if some and not transports:
        raise InputError(
            f"{sessions[0].name}: this session contains no finished transaction; start `measure run` again to continue"
        )
    return transports, notes


def _with_captures(session: Inputs) -> Recording:
    """Return a session with its captures, if they can tell the efficiency of its transactions."""
    if len(session.points) < 2 or not is_over_tcp(session):
        return Recording(session)
    try:
        return read(session)
    except MultiTracerError as error:
        recording = Recording(session)
        recording.warn_once(f"{error}; the efficiency of transactions over TCP is that of the senders")
        return recording


def title_of(sessions: Sequence[Inputs]) -> str:
    """Return the title of a page about these sessions."""
    names = list(dict.fromkeys(session.name for session in sessions))
    return ", ".join(names[:_MOST_NAMES]) + (
        f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    )


def show_transactions(sheet: Page, transports: Sequence[Transport]) -> None:
    """Write a line for each message size of each transport, then the ratios between transports."""
    if not transports:
        sheet.line("No transaction was finished yet.")
        return
    body = [_line(transport, row) for transport in transports for row in size_statistics(transport).rows()]
    sheet.table(_HEADER, body, right=range(2, 10), dispensable=(7, 1, 9))
    for first, second in pairs(transports):
        sheet.line()
        sheet.line(f"{first.name} over {second.name}, {first.vary} varied", bold=True)
        sheet.table(
            _RATIO_HEADER, [_ratio_line(row) for row in compare(first, second).rows()], right=range(6), dispensable=(6,)
        )


def _line(transport: Transport, row: Row) -> tuple[str, ...]:
    return (
        transport.name,
        transport.vary,
        f"{row['size_bytes']:,} B",
        f"{row['count']:,}",
        "all" if row["dropped"] == row["count"] else f"{row['dropped']:,}",
        seconds(row["median_s"]),
        spread(row["median_low_s"], row["median_high_s"]),
        *(seconds(row[name]) or "-" for name in ("mean_s", "p95_s", "with_setup_s")),
    )


def _ratio_line(row: Row) -> tuple[str, ...]:
    cells = [f"{row['size_bytes']:,} B"]
    for name in ("ratio", "setup_ratio"):
        known = row[name] is not None and math.isfinite(row[name])
        ends = factors(row[f"{name}_low"], row[f"{name}_high"])
        cells += [factor(row[name]), ends] if known else ["-", ""]
    gap = row["difference"]
    return (*cells, seconds(gap) if gap is not None and math.isfinite(gap) else "-", row["why"])


def write_transactions_csv(stream: TextIO, transports: Sequence[Transport]) -> None:
    """Write a CSV line for each message size of each transport."""
    writer = csv.writer(stream, lineterminator="\n")
    for number, record in enumerate(_records(transports)):
        if not number:
            writer.writerow(record)
        writer.writerow(["" if v is None else no_formula(v) if isinstance(v, str) else v for v in record.values()])


def write_transactions_json(stream: TextIO, transports: Sequence[Transport]) -> None:
    """Write a JSON object with the sizes of each transport, and the comparisons.

    Unknown or infinite values are null.
    """
    compared = [
        {"first": first.name, "second": second.name, "varied": first.vary} | _known(row)
        for first, second in pairs(transports)
        for row in compare(first, second).rows()
    ]
    document = {"schema": SCHEMA, "sizes": list(_records(transports)), "comparisons": compared}
    stream.write(json.dumps(document, allow_nan=False, indent=1) + "\n")


def _records(transports: Sequence[Transport]) -> Iterator[Row]:
    for transport in transports:
        for row in size_statistics(transport).rows():
            yield {"transport": transport.name, "protocol": transport.protocol, "varied": transport.vary} | _known(row)


def _known(row: Row) -> Row:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


def plot_transactions(
    transports: Sequence[Transport], kind: str, size: int | None, output: str, *, title: str, theme: ThemeName
) -> None:
    """Write a figure of transactions to the file `output`; `kind` selects the figure."""
    from multitracer.cli._plotting import write
    from multitracer.figures.environment import overlay, panels
    from multitracer.figures.rtt_size import cdf_figure, rtt_size_figure

    if kind in ("environment", "panels"):
        figure = (overlay if kind == "environment" else panels)(transports, size, theme=theme)
    elif size is not None:
        raise click.UsageError("--size can be used only with --figure environment or --figure panels")
    else:
        figure = (cdf_figure if kind == "cdf" else rtt_size_figure)(transports, theme=theme)
    with replacing(output) as temporary:
        write(figure, temporary, title=title, theme=theme, as_json=output.endswith(".json"))


def write_measured(
    sessions: Sequence[Inputs],
    target: str,
    links: dict[str, str] | None = None,
    *,
    pool: bool = False,
    assets: Assets | None = None,
) -> str:
    """Write the page of one session to a file, or of several sessions into a folder; return its path.

    Parameters
    ----------
    sessions : sequence of Inputs
        Sessions with transactions.
    target : str
    links : dict of str to str, optional
        Pages in that folder, by the names of sessions.
    pool : bool
        See `transports_of`.
    assets : Assets, optional
        Where script and style of the page go; by default into it.
    """
    from multitracer.report.index import INDEX

    several = len(sessions) > 1
    check_output(target, [path for session in sessions for path in session.paths], files="*.html" * several or None)
    if several:
        try:
            Path(target).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{portable(target)}: cannot create this folder: {error.strerror}; choose another folder"
            ) from error
    page = str(Path(target) / INDEX) if several else target
    transports, notes = read_transports(sessions, pool=pool)
    measured = MeasuredTransactions(
        transports,
        title_of(sessions),
        [(session.name, list(_session_facts(session))) for session in sessions],
        shlex.join(["multitracer", *sys.argv[1:]]),
        notes,
        links or {},
    )
    write_transactions(measured, page, assets)
    return page


def links_to(sessions: Sequence[Inputs], target: str, *, several: bool) -> dict[str, Path]:
    """Return the paths of the reports about the sessions' captures, by name of the session.

    They are in the folder `target`, or beside the page.
    """
    if several:
        from multitracer.report.index import file_name

        taken: set[str] = set()
        return {session.name: Path(target) / file_name(session.name, taken) for session in sessions}
    page = Path(target)
    return {session.name: page.with_name(f"{page.stem}-captures.html") for session in sessions}


def _session_facts(session: Inputs) -> Iterator[tuple[str, str]]:
    """Yield name and value of each fact about a session: times, settings, checksum of its transactions."""
    if session.manifest is not None:
        yield "Recorded", moment(session.manifest.created_ns)
        for name, value in list(session.manifest.variables.document().items())[:_MOST_VARIABLES]:
            if isinstance(value, str | int | float | bool):
                text = str(value)
                yield name, text if len(text) <= _LONGEST_VARIABLE else f"{text[:_LONGEST_VARIABLE]}…"
    for log in session.listed:
        if log.layer != LAYER:
            continue
        yield "File", portable(log.path)
        with suppress(OSError), Path(log.path).open("rb") as stream:  # gone since it was read
            yield "SHA-256", hashlib.file_digest(stream, "sha256").hexdigest()
