"""A raw log: append-only, with one record in each line, and each line written immediately."""

from __future__ import annotations

import json
import os
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from multitracer.errors import CollectorError, InputError
from multitracer.manifest import sudo_caller

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self


_ENCODER = json.JSONEncoder(separators=(",", ":"))


class Log:
    """The file that a collector writes, or standard output if `path` is None.

    Each call passes its data to the kernel before it returns: if the collector is killed, at most the last
    record is incomplete. The class never writes to an existing file, except a FIFO or a device.

    Raises
    ------
    InputError
        If `path` already exists or cannot be created.
    CollectorError
        If writing fails later, because the disk is full or the reader of a pipe has ended.
    """

    def __init__(self, path: Path | None) -> None:
        self._name = str(path) if path else "standard output"
        self._descriptor = _open(path) if path else os.dup(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def record(self, **fields: object) -> None:
        """Write one JSON object."""
        self.write(line(fields))

    def sync_probe(self, tag: str) -> None:
        """Write the tag of a sync probe, with the present readings of the clocks."""
        self.record(kind="clap", tag=tag, **clock_reading())

    def write(self, data: bytes) -> None:
        """Write complete lines."""
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except OSError as error:
                raise CollectorError(f"{self._name}: cannot write to this log: {error.strerror}") from error


def line(fields: dict[str, object]) -> bytes:
    """Return `fields` as one line of JSON."""
    return _ENCODER.encode(fields).encode() + b"\n"


def clock_reading() -> dict[str, int]:
    """Return CLOCK_REALTIME between two readings of CLOCK_MONOTONIC, in ns: the best of three attempts."""
    return min((_clock_reading() for _ in range(3)), key=_bracket_ns)


def _bracket_ns(reading: dict[str, int]) -> int:
    return reading["monotonic_after_ns"] - reading["monotonic_before_ns"]


def _clock_reading() -> dict[str, int]:
    before, realtime, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    return {"monotonic_before_ns": before, "realtime_ns": realtime, "monotonic_after_ns": after}


def _open(path: Path) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            return os.open(path, flags)
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        raise InputError(f"{path}: the file already exists, and logs are never overwritten; give a new name") from None
    except OSError as error:
        raise InputError(f"{path}: cannot create this file: {error.strerror}; give another path") from error
    if caller := sudo_caller():
        with suppress(OSError):  # a file system without owners
            os.fchown(descriptor, *caller)
    return descriptor
