"""Adds the modem readings during a transaction to its line of transactions.csv.

It serves every measurement: over a modelled link, virtual or real, and in the field. A transaction lasts from
its request until its reply is complete; a dropped one lasts until the client gives up, at most until the next
begins. Each value is the mean of the readings in that time. If there is none, the value is that of the last
reading in the two link seconds before; otherwise the cell is empty.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import os
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.errors import FormatError, InputError
from multitracer.manifest import checksum, write_manifest
from multitracer.recording.inputs import find_inputs
from multitracer.recording.recording import Recording
from multitracer.schemas.transactions import RADIO_COLUMNS, TRANSACTIONS
from multitracer.units import NOT_A_TIME, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from multitracer.tables import Numbers, Table

    Readings = tuple[Numbers, NDArray[np.float64]]
    """Times, sorted, and values."""

FILE = "transactions.csv"
_BEFORE_S = 2.0
"""Maximum age of a reading before the transaction, in link seconds."""
_SOURCES = {"rssi_dbm": "rssi_dbm", "bler_percent": "bler_pct", "cell_busy_percent": "cell_busy_pct"}
"""Columns of the table RADIO, by column of transactions.csv."""
_LATEST_NS = 1 << 62
_NEAR = ("client", "mobile")
"""Names of hosts whose modem counts as the client's, if several hosts have a radio log."""


def join_radio(folder: Path) -> int:
    """Fill the columns of the radio in a session folder's transactions.csv.

    Parameters
    ----------
    folder : Path
        A session folder of `measure run` in which a radio log lies: in the folder itself, or in that of a
        host. A second call gives the same result.

    Returns
    -------
    int
        Number of transactions with a radio value.

    Raises
    ------
    InputError
        If there are no transactions, a run is writing them, or several hosts have a radio log and none of
        them is called client or mobile.
    FormatError
        If transactions.csv is damaged.
    """
    path = folder / FILE
    recording = Recording(find_inputs(folder))
    readings = _readings(recording)
    with _locked(path) as stream:
        header, rows = _read(stream, path)
        second_ns = NS_PER_S / recording.speed
        spans = [_span_ns(row, second_ns, path, line) for line, row in enumerate(rows, start=2)]
        nexts = [*(begin_ns for begin_ns, _ in spans[1:]), _LATEST_NS]
        for row, (begin_ns, end_ns), next_ns in zip(rows, spans, nexts, strict=False):
            row.update(_values(readings, begin_ns, min(end_ns, next_ns), round(_BEFORE_S * second_ns)))
        _replace(path, header, rows)
    _note(recording, path)
    return sum(bool(row["radio_readings"]) for row in rows)


def _readings(recording: Recording) -> dict[str, Readings]:
    """Return the readings of the client's modem for its serving cell, by the columns of transactions.csv."""
    by_host: dict[str, list[Table]] = {}
    for log, table in recording.tables("radio", "radio"):
        by_host.setdefault(log.host, []).append(table)
    near = [host for host in (str(recording.folder), *_NEAR) if host in by_host]
    if not near and len(by_host) > 1:
        names = " and ".join(by_host)
        raise InputError(
            f'{recording.folder}: several hosts ({names}) have a radio log; rename the folder of the client to "mobile"'
        )
    used = by_host[(near or list(by_host))[0]] if by_host else []
    return {name: _of_column(used, name) for name in _SOURCES}


def _of_column(tables: list[Table], name: str) -> Readings:
    times, values = [np.empty(0, np.int64)], [np.empty(0, np.float64)]
    for table in tables:
        measured = table[_SOURCES[name]]
        used = (table["role"] == "serving") & ~np.isnan(measured) & (table["time_ns"] != NOT_A_TIME)
        times.append(table["time_ns"][used])
        values.append(measured[used])
    joined = np.concatenate(times)
    order = np.argsort(joined, kind="stable")
    return joined[order], np.concatenate(values)[order]


def _values(readings: dict[str, Readings], begin_ns: int, end_ns: int, before_ns: int) -> dict[str, str]:
    """Return the radio cells of one transaction's line as text, by column.

    A cell is the mean from `begin_ns` to `end_ns`, else the last value at most `before_ns` earlier, else empty.
    """
    cells = dict.fromkeys(RADIO_COLUMNS, "")
    counts = []
    for name, (times, values) in readings.items():
        first, past = np.searchsorted(times, begin_ns), np.searchsorted(times, end_ns, "right")
        if past > first:
            counts.append(int(past - first))
            cells[name] = _shown(float(values[first:past].mean()))
        elif first and times[first - 1] >= begin_ns - before_ns:
            counts.append(0)
            cells[name] = _shown(float(values[first - 1]))
    if counts:
        cells["radio_readings"] = str(max(counts))
    return cells


def _shown(value: float) -> str:
    """Return a mean as text, rounded to three decimals."""
    return repr(round(value, 3))


# --- transactions.csv ---


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open the file and lock it during the `with` block, so that no run of a measurement writes it."""
    try:
        with path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield stream
    except BlockingIOError as error:
        raise InputError(
            f"{path}: a measurement is still writing to this folder; wait until the measurement ends"
        ) from error
    except FileNotFoundError as error:
        raise InputError(
            f"{path}: this folder does not exist; name a folder that `multitracer measure run` wrote"
        ) from error


def _read(stream: BinaryIO, path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the column names, and the lines as cells by column; an incomplete last line is left out."""
    text = stream.read()
    complete = text[: text.rfind(b"\n") + 1].decode("utf-8", "replace")
    header, *rows = list(csv.reader(io.StringIO(complete, newline=""))) or [[]]
    if tuple(header[: len(TRANSACTIONS.names) - 1]) != TRANSACTIONS.names[:-1]:
        raise FormatError(path, "the first line is not the header of transactions.csv", line=1)
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise FormatError(path, "this line is damaged; repair or remove the line", line=line)
    return header, [dict(zip(header, row, strict=True)) for row in rows]


def _span_ns(row: dict[str, str], second_ns: float, path: Path, line: int) -> tuple[int, int]:
    """Return start and end of a transaction in ns; `second_ns` is the length of a link second."""
    try:
        begin_ns = int(row["start_ns"])
        lasted_s = float(row["rtt_s"] or 0.0)
        if row["outcome"] != "ok":
            lasted_s += float(row["timeout_s"])
        end_ns = begin_ns + round(lasted_s * second_ns)
    except (ValueError, OverflowError):
        begin_ns = end_ns = -1
    if not 0 <= begin_ns <= end_ns < _LATEST_NS:
        raise FormatError(path, "this line is damaged; repair or remove the line", line=line)
    return begin_ns, end_ns


def _replace(path: Path, header: list[str], rows: list[dict[str, str]]) -> None:
    """Write the lines to a new file, then replace the old file by the new one."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, header, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def _note(recording: Recording, path: Path) -> None:
    """Update size and checksum of the file in the manifest, if the manifest lists the file."""
    manifest = recording.manifest
    if manifest is None:
        return
    for log in manifest.files:
        if log.path == path.name:
            log.bytes, log.sha256 = path.stat().st_size, checksum(path)
    write_manifest(path.parent, manifest)
