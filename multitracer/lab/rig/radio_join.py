"""Writes the radio and the place during each transaction into its line of transactions.csv.

It serves every measurement: over a modelled link, virtual or real, and in the field. `recording.transactions` says
which readings belong to a transaction.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import io
import os
import stat
from itertools import zip_longest
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError, InputError
from multitracer.manifest import checksum, write_manifest
from multitracer.recording.inputs import find_inputs
from multitracer.recording.recording import Recording
from multitracer.recording.transactions import transactions_of
from multitracer.schemas.transactions import CONTEXT, LOGGED, RADIO_READINGS
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from multitracer.tables import Table

FILE = "transactions.csv"
_DAMAGED = "this line is damaged; repair or remove the line"
_NO_FILE = "this is not a file that can be replaced, such as a link or a folder; put the file itself there"
_NO_FILE_ERRORS = (errno.ELOOP, errno.EISDIR, errno.ENXIO)
"""Errors of `open` on a link, a folder, and a socket."""


def join_radio(folder: Path) -> int:
    """Fill the columns of radio and place in a session folder's transactions.csv.

    Parameters
    ----------
    folder : Path
        A session folder of `measure run` with the logs of its modem and its GPS receiver: in the folder itself, or
        in that of a host. A second call gives the same result.

    Returns
    -------
    int
        Number of transactions with a radio value.

    Raises
    ------
    InputError
        If there are no transactions, or a run is writing them.
    FormatError
        If transactions.csv is damaged.
    """
    path = folder / FILE
    with _locked(path) as stream:
        labels, rows = _read(stream, path)
        recording = Recording(find_inputs(folder))
        table = _parsed(recording, path)
        _check(rows, table, path)
        for row, values in zip(rows, table.rows(), strict=True):
            row |= {name: "" if values[name] is None else _shown(name, values[name]) for name in _JOINED}
        _replace(path, [*LOGGED[0], *labels], rows)
    _note(recording, path)
    return int((table[RADIO_READINGS] != NA).sum())


def _parsed(recording: Recording, path: Path) -> Table:
    """Return TRANSACTIONS of the file; raise an error with the recording's reason if it could not read the file."""
    for log, table in transactions_of(recording):
        if log.path == str(path):
            return table
    why = next((note for note in recording.warnings if str(path) in note), f"{path}: no parser knows this file")
    raise InputError(why.removesuffix("; skipped"))


def _check(rows: list[dict[str, str]], table: Table, path: Path) -> None:
    """Raise an error for the first line that the parser could not read."""
    read = table["transaction"].tolist()
    for line, (row, number) in enumerate(zip_longest(rows, read), start=2):
        if row is None or row["transaction"] != str(number):
            raise FormatError(path, _DAMAGED, line=line)


_JOINED = (
    *(column for columns in CONTEXT.values() for column in columns), RADIO_READINGS,
    *(f"{name}_{what}" for name in CONTEXT for what in ("age_s", "readings", "absent")),
)  # fmt: skip
_DECIMALS = {"lat_deg": 7, "lon_deg": 7}
"""Decimals of a value, three by default; seven decimals of a degree are a centimetre."""


def _shown(name: str, value: object) -> str:
    """Return the text of a cell."""
    return repr(round(value, _DECIMALS.get(name, 3))) if isinstance(value, float) else str(value)


# --- transactions.csv ---


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open the file and lock it during the `with` block, so that no run of a measurement writes it."""
    try:
        stream = open(path, "rb", opener=_opened)  # noqa: SIM115  # closed below; Path has no opener
    except FileNotFoundError as error:
        raise InputError(
            f"{path}: this folder does not exist; name a folder that `multitracer measure run` wrote"
        ) from error
    except OSError as error:
        if error.errno in _NO_FILE_ERRORS:
            raise InputError(f"{path}: {_NO_FILE}") from error
        raise InputError(f"{path}: cannot read this file: {error.strerror}") from error
    with stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise InputError(f"{path}: {_NO_FILE}")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"{path}: a measurement is still writing to this folder; wait until the measurement ends"
            ) from error
        yield stream


def _opened(path: str, flags: int) -> int:
    """Open a file but no link, as that is replaced later, and without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _read(stream: BinaryIO, path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the columns of the labels, and the lines as cells by column; an incomplete last line is left out."""
    text = stream.read()
    complete = text[: text.rfind(b"\n") + 1].decode("utf-8", "replace")
    reader = csv.reader(io.StringIO(complete, newline=""))
    try:
        header, *rows = list(reader) or [[]]
    except csv.Error as error:  # a cell of more than 128 KiB, or a carriage return within a line
        raise FormatError(path, _DAMAGED, line=reader.line_num) from error
    plain = next((known for known in LOGGED if tuple(header[: len(known)]) == known), None)
    if plain is None:
        raise FormatError(path, "the first line is not the header of transactions.csv", line=1)
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise FormatError(path, _DAMAGED, line=line)
    return header[len(plain) :], [dict(zip(header, row, strict=True)) for row in rows]


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
