"""Output of `campaign`: its progress, and query results as text, CSV, JSON and Parquet."""

from __future__ import annotations

import csv
import json
import math
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from multitracer.cli._output import page, replacing, text_output
from multitracer.cli._progress import ProgressText
from multitracer.errors import InputError
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, no_formula, portable, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from multitracer.campaign.query import QueryAnswer
    from multitracer.campaign.run import CampaignProgress, Workers

_MOST_ROWS = 1_000
"""Maximum number of rows that are printed as text; the number of further rows is printed."""
_MOST_CHARACTERS = 1_000
"""Maximum length of a cell that is printed as text: a thousand rows are held in memory for their widths."""
_GROUP_BYTES = 64 << 20
"""Size of a row group of a Parquet file, in bytes in memory. Not measured."""


class CampaignProgressLine(ProgressText):
    """Shows the progress of a run on standard error."""

    def __call__(self, progress: CampaignProgress) -> None:
        """Show the progress of the run, if the next update is due."""
        self.tell(lambda: watch_words(progress) if progress.is_watch else progress_words(progress))


def progress_words(progress: CampaignProgress) -> str:
    """Return the progress of a run as text.

    Example: 120 of 4,000 sessions, 3.1 a second, 20 min 51 s left, 2 failed.
    """
    words = [f"{progress.done:,} of {progress.sessions:,} sessions"]
    if progress.remaining_s is not None:
        words += [_speed(progress.rate), f"{duration(progress.remaining_s * 1e9)} remaining"]
    words += [f"{progress.failed:,} failed"] if progress.failed else []
    return ", ".join(words)


def _speed(per_s: float) -> str:
    return f"{per_s:.3g} a second" if per_s >= 1 or not per_s else f"one every {duration(1e9 / per_s)}"


def watch_words(progress: CampaignProgress) -> str:
    """Return the progress of a watch as text.

    Example: 12 sessions added, 1 incomplete (/srv/day3: a.pcap is missing).
    """
    words = [f"{count(progress.done, 'session')} added"]
    ahead = progress.sessions - progress.done
    words += [f"{ahead:,} remaining"] if ahead else []
    words += [f"{progress.failed:,} failed"] if progress.failed else []
    if progress.waiting:
        number = len(progress.waiting)
        words += [f"{number:,} incomplete ({printable(progress.waiting[0])})"]
    return ", ".join(words)


def watch_campaign(inputs: Iterable[str], campaign: str, *, workers: Workers, retry: bool) -> CampaignProgress:
    """Watch folders and add their sessions until a signal arrives; return the progress at the end."""
    from multitracer.campaign.run import watch
    from multitracer.recorder.supervisor import Signals

    with Signals() as signals, CampaignProgressLine() as line:

        def stop(wait_s: float) -> bool:
            until_s = time.monotonic() + wait_s
            while not signals.taken and (left_s := until_s - time.monotonic()) > 0:
                signals.wait(round(left_s * NS_PER_S))
            return bool(signals.taken)

        return watch(inputs, campaign, stop=stop, workers=workers, retry=retry, shown=line)


# --- answers ---


_FORMS = ("csv", "json", "parquet")
"""Formats of a query's result that the suffix of a file can name."""


def write_answer(answer: QueryAnswer, form: str | None, output: str | None) -> None:
    """Write the result of a query, while it is computed.

    Parameters
    ----------
    answer : QueryAnswer
    form : "csv", "json" or None
        Output format; by default that of the file's suffix, else text.
    output : str or None
        A file; None or "-" is standard output.

    Raises
    ------
    InputError
        If nothing names the format of the file: a table of text would lack rows.
    """
    ending = Path(output).suffix.lower().removeprefix(".") if output else ""
    if form is None and output not in (None, "-") and ending not in _FORMS:
        known = ", ".join(f".{each}" for each in _FORMS)
        raise InputError(f"{portable(output)}: the suffix must be one of {known}; or name the format, such as --csv")
    form = form or (ending if ending in _FORMS else "text")
    if form == "parquet":
        with replacing(output) as temporary:
            _write_parquet(answer, temporary)
        return
    with text_output(output) as stream:
        {"csv": _write_csv, "json": _write_json, "text": _write_text}[form](answer, stream)


def _write_parquet(answer: QueryAnswer, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, answer.schema, compression="zstd") as writer:
        waiting: list[pa.RecordBatch] = []
        held_bytes = 0
        for batch in answer.batches:
            waiting.append(batch)
            held_bytes += batch.nbytes
            if held_bytes >= _GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting, held_bytes = [], 0
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))


def _write_text(answer: QueryAnswer, stream: TextIO) -> None:
    sheet = page(stream)
    shown: list[list[str]] = []
    rows = 0
    for batch in answer.batches:
        first = batch.slice(0, max(_MOST_ROWS - len(shown), 0))
        shown += [[_short(_text(cell)) for cell in row] for row in _rows([first])]
        rows += len(batch)
    if not answer.schema.names:
        return
    right = [
        number for number, kind in enumerate(answer.schema.types) if str(kind).startswith(("int", "uint", "double"))
    ]
    sheet.table(answer.schema.names, shown, right=right)
    if rows > len(shown):
        sheet.line(f"and {rows - len(shown):,} more rows are not shown; --csv or -o FILE writes all rows")


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"


def _text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.6g}"
    return _plain_text(cell)


def _plain_text(cell: object) -> str:
    plain = _plain(cell)
    if isinstance(plain, str):
        return plain
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, list | dict) else str(plain)


def _write_csv(answer: QueryAnswer, stream: TextIO) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([no_formula(name) for name in answer.schema.names])
    for row in _rows(answer.batches):
        writer.writerow([_csv(cell) for cell in row])


def _csv(cell: object) -> object:
    """Return a cell for CSV: empty for a missing value.

    A text that could be a formula begins with an apostrophe.
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    return cell if isinstance(cell, int | float) else no_formula(_plain_text(cell))


def _write_json(answer: QueryAnswer, stream: TextIO) -> None:
    stream.write("[")
    separator = "\n"
    for row in _rows(answer.batches):
        record = dict(zip(answer.schema.names, map(_plain, row), strict=True))
        stream.write(separator + json.dumps(record, allow_nan=False))
        separator = ",\n"
    stream.write("\n]\n")


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[object, ...]]:
    for batch in batches:
        yield from zip(*(_cells(column) for column in batch.columns), strict=True)


def _cells(column: pa.Array) -> list[object]:
    """Return the cells of a column as Python values; times are texts with nanoseconds."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.string())
    cells: list[object] = column.to_pylist()
    return cells


def _plain(cell: object) -> object:
    """Return a cell for JSON: null for NaN, an object for a map, a text for types that JSON does not have."""
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    if cell is None or isinstance(cell, bool | int | str):
        return cell
    if isinstance(cell, list):
        if cell and all(isinstance(each, tuple) and len(each) == 2 for each in cell):
            return {str(name): _plain(value) for name, value in cell}
        return [_plain(each) for each in cell]
    if isinstance(cell, dict):
        return {str(name): _plain(value) for name, value in cell.items()}
    return cell.isoformat() if isinstance(cell, datetime) else str(cell)
