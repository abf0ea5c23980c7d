"""What `inspect` and `analyze` tell people of logs that are no captures: which they are, and their times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.tables import NOT_A_TIME
from multitracer.words import count, duration, moment, portable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.cli._page import Page
    from multitracer.logs import ParsedLog
    from multitracer.recording.recording import Recording
    from multitracer.tables import Table

_MOST = 40
"""Logs that are listed; a session of a car has some ten."""
_HEADER = ("host", "log", "format", "rows", "begin", "took")
NO_PACKETS = "No packets were captured; what follows are the other logs."


def show_logs(sheet: Page, recording: Recording) -> None:
    """Write a line for each log of a recording: its rows by table, its first time, and how long it is."""
    logs = [log for layer in _layers(recording) for log in recording.logs(layer)]
    if not logs:
        return
    sheet.line(count(len(logs), "log"), bold=True)
    sheet.table(_HEADER, [_row(log) for log in logs[:_MOST]], dispensable=(5, 0))
    if len(logs) > _MOST:
        sheet.line(f"and {len(logs) - _MOST:,} more")


def _layers(recording: Recording) -> Sequence[str]:
    return list(dict.fromkeys(log.layer for log in recording.inputs.listed))


def _row(parsed: ParsedLog) -> tuple[str, ...]:
    log, tables = parsed
    rows = ", ".join(f"{name} {len(table):,}" for name, table in tables.items() if len(table)) or "none"
    begin_ns, end_ns = _first_and_last(list(tables.values()))
    took_ns = None if begin_ns is None or end_ns is None else end_ns - begin_ns
    name = portable(Path(log.path).name)
    host = "" if log.host == log.path else portable(log.host)
    return host, name, log.format, rows, moment(begin_ns), duration(took_ns)


def _first_and_last(tables: Sequence[Table]) -> tuple[int | None, int | None]:
    """Return the first and the last time of the tables, None where there is none."""
    columns = [table["time_ns"] for table in tables if "time_ns" in table.columns]
    timed = [kept for times in columns if len(kept := times[times != NOT_A_TIME])]
    if not timed:
        return None, None
    return min(int(times.min()) for times in timed), max(int(times.max()) for times in timed)
