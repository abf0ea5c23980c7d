"""The lines of `inspect` and `analyze` about logs other than captures: names, rows and times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.logs import ParsedLog
from multitracer.tables import NOT_A_TIME
from multitracer.words import count, duration, moment, portable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.cli._output import Page
    from multitracer.recording.application import Counted
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds
    from multitracer.tables import Table

_MOST = 40
"""Logs that are listed; a session of a car has some ten."""
_HEADER = ("host", "log", "format", "rows", "begin", "took")
_STREAMS = ("stream", "path", "connection", "sender says", "receiver says", "captured")
NO_PACKETS = "No packets were captured; what follows are the other logs."


def show_logs(sheet: Page, recording: Recording) -> None:
    """Write a line for each log of a recording: its rows by table, first time, and duration.

    Only rows between --from and --to count.
    """
    whole = [log for layer in _layers(recording) for log in recording.logs(layer)]
    logs = [_within(log, recording.bounds_ns) for log in whole]
    if not logs:
        return
    part = "" if recording.bounds_ns == (None, None) else ", between --from and --to"
    sheet.line(f"{count(len(logs), 'log')}{part}", bold=True)
    sheet.table(_HEADER, [_row(log) for log in logs[:_MOST]], dispensable=(5, 0))
    if len(logs) > _MOST:
        sheet.line(f"and {len(logs) - _MOST:,} more")


def show_streams(sheet: Page, recording: Recording) -> None:
    """Write what a load program counted of each of its streams, and what the captures hold of it."""
    from multitracer.recording.application import counted_streams

    streams = counted_streams(recording)
    if not streams:
        return
    sheet.line()
    sheet.line(f"{count(len(streams), 'stream')} of a load program, in bytes", bold=True)
    sheet.table(_STREAMS, [_stream(each) for each in streams[:_MOST]], right=(3, 4, 5), dispensable=(1,))
    if len(streams) > _MOST:
        sheet.line(f"and {len(streams) - _MOST:,} more")


def _stream(each: Counted) -> tuple[str, ...]:
    counts = (each.sender_bytes, each.receiver_bytes, each.captured_bytes)
    shown = ("-" if number is None else f"{number:,}" for number in counts)
    carried_by = "-" if each.connection is None else f"{each.connection}"
    return f"{each.source} {each.series}", f"{each.sender} -> {each.receiver}", carried_by, *shown


def _layers(recording: Recording) -> Sequence[str]:
    return list(dict.fromkeys(log.layer for log in recording.inputs.listed))


def _within(parsed: ParsedLog, bounds_ns: Bounds) -> ParsedLog:
    """Return the rows of a log in a window; tables without times stay complete."""
    log, tables = parsed
    timed = {name: "time_ns" in table.columns for name, table in tables.items()}
    return ParsedLog(
        log, {name: table.within(*bounds_ns) if timed[name] else table for name, table in tables.items()}
    )


def _row(parsed: ParsedLog) -> tuple[str, ...]:
    log, tables = parsed
    rows = ", ".join(f"{name} {len(table):,}" for name, table in tables.items() if len(table)) or "none"
    begin_ns, end_ns = _first_and_last(list(tables.values()))
    took_ns = None if begin_ns is None or end_ns is None else end_ns - begin_ns
    name = portable(Path(log.path).name)
    host = "" if log.host == log.path else portable(log.host)
    return host, name, log.format, rows, moment(begin_ns), duration(took_ns)


def _first_and_last(tables: Sequence[Table]) -> tuple[int | None, int | None]:
    """Return the first and the last time of the tables; None if there is none."""
    columns = [table["time_ns"] for table in tables if "time_ns" in table.columns]
    timed = [kept for times in columns if len(kept := times[times != NOT_A_TIME])]
    if not timed:
        return None, None
    return min(int(times.min()) for times in timed), max(int(times.max()) for times in timed)
