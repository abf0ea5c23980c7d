"""The common part of the two vendors' diagnostic logs: from a log through the program `scat` to tables."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from multitracer.errors import FormatError, PreflightError
from multitracer.tables import NOT_A_TIME
from multitracer.words import count
from parsers._signalling.dissection import ProgramBounds, program, run
from parsers._signalling.signalling import read_signalling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from multitracer.tables import Document, Table

# A diagnostic log through SCAT to captures, also where SCAT fails on a record: it goes on behind that.
#
# SCAT reads its files one after the other and says which. The log is given to it in pieces. If it fails, the
# piece is read once more with a file for each frame, which shows the frame; that one is counted and left out.


MIN_S, BYTES_PER_S = 60.0, 50_000
"""Timeout of SCAT: a minimum in s, and a rate. SCAT reads 340 kB/s on one core of 2020; a machine seven times slower
may finish."""
MIN_OUTPUT_BYTES, EXPANSION = 64 << 20, 8
"""Maximum output of SCAT: a minimum size, and a factor. A record of 30 octets becomes a packet of 110, and a second one
with the line of its cell."""
MOST_BYTES = 2 << 30
"""Maximum size of the frames given to SCAT: a day of a busy phone. Later frames are only counted."""
_CHUNK_BYTES = 256 << 10
"""Size of a chunk: 2 GiB are 8,192 chunks, whose names fit the 2 MiB of a command line (execve(2))."""
_MOST_RESTARTS = 20
"""Maximum failures of SCAT on a log; with more, the modem is not supported. Each costs a second."""
_FAILED = ("failed with status", "was ended by signal")
_READING = re.compile(rb"INFO: Reading from ")
_UNKNOWN = re.compile(rb"WARNING: ([Uu]nknown [ -~]{1,100}?)\r?\n")
_MOST_WORDS_BYTES = 16 << 20
"""Maximum output of SCAT: it writes 130 octets for each unknown record of 300 octets."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A file with a part of the frames of a log."""

    path: Path
    lengths: list[int]
    """Number of octets of each frame."""


class Conversion:
    """Converts a log to GSMTAP packets by the program SCAT.

    Parameters
    ----------
    folder : Path
        Where its files are made.
    command : sequence of str
        SCAT and its options, without files.
    suffix : str
        File name suffix by which SCAT recognises the format.

    Attributes
    ----------
    captures : list of Path
        Captures that SCAT wrote, in the order of the log.
    left_out : int
        Frames beyond the maximum size.
    refused : Counter of str
        Records that SCAT does not support, by its message.
    failed : Counter of str
        Frames on which SCAT failed, by its message.
    runs : list of (int, int)
        Begin and end of each run of SCAT, ns since 1970: it stamps with its own time what has none in the log.
    stopped : str
        Why the rest was not read, as words that follow its name; "" if all was read.
    """

    def __init__(self, folder: Path, command: Sequence[str], suffix: str) -> None:
        self._folder, self._command, self._suffix = folder, command, suffix
        self.captures: list[Path] = []
        self.left_out = 0
        self.refused: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.runs: list[tuple[int, int]] = []
        self.stopped = ""
        self._files = 0

    def convert(self, frames: Iterable[bytes]) -> None:
        """Convert the frames; if SCAT fails on a frame, continue after it."""
        pending = self._written(frames)
        restarts = 0
        while pending:
            capture = self._folder / f"messages-{len(self.runs)}.pcap"
            failure, reading = self._run(pending, capture, counts=True)
            self.captures += [capture] if capture.exists() and capture.stat().st_size else []
            if not failure:
                return
            restarts += 1
            if not failure.startswith(_FAILED) or reading is None or restarts > _MOST_RESTARTS:
                self.stopped = failure
                return
            pending = self._behind(pending[reading], failure) + pending[reading + 1 :]

    def _behind(self, chunk: LogChunk, failure: str) -> list[LogChunk]:
        """Return the frames after the frame on which SCAT failed, as new chunks.

        `failure` is SCAT's message.
        """
        data, begin, single = chunk.path.read_bytes(), 0, []
        for length in chunk.lengths:
            single.append(self._chunk([data[begin : begin + length]]))
            begin += length
        again, reading = self._run(single, self._folder / "again.pcap", counts=False)
        for each in single:
            each.path.unlink()
        words = failure.partition("(")[2].rstrip(")") or failure
        if not again or reading is None:  # it fails only behind others: nothing of the piece is sure
            self.failed[words] += len(chunk.lengths)
            return []
        self.failed[words] += 1
        rest = chunk.lengths[reading + 1 :]
        begin = sum(chunk.lengths[: reading + 1])
        if not rest:
            return []
        behind = self._chunk([data[begin:]])
        return [LogChunk(behind.path, rest)]

    def _written(self, frames: Iterable[bytes]) -> list[LogChunk]:
        """Write all frames to files, and return the files."""
        chunks, held, size, total = [], list[bytes](), 0, 0
        for frame in frames:
            if total + len(frame) > MOST_BYTES:
                self.left_out += 1
                continue
            held.append(frame)
            size += len(frame)
            total += len(frame)
            if size >= _CHUNK_BYTES:
                chunks.append(self._chunk(held))
                held, size = [], 0
        return [*chunks, self._chunk(held)] if held else chunks

    def _chunk(self, frames: list[bytes]) -> LogChunk:
        self._files += 1
        path = self._folder / f"{self._files}{self._suffix}"
        path.write_bytes(b"".join(frames))
        return LogChunk(path, [len(frame) for frame in frames])

    def _run(self, chunks: list[LogChunk], capture: Path, *, counts: bool) -> tuple[str, int | None]:
        """Run SCAT on some chunks; return why it failed, and the index of the chunk that it was reading.

        The reason is "" and the index None if SCAT did not fail.
        """
        size = sum(sum(chunk.lengths) for chunk in chunks)
        bounds = ProgramBounds(MIN_S + size / BYTES_PER_S, MIN_OUTPUT_BYTES + EXPANSION * size)
        files = [str(chunk.path) for chunk in chunks]
        output = self._folder / "scat.out"
        begin_ns = time.time_ns() // 1000 * 1000
        failure = run([*self._command, "-F", str(capture), "-d", *files], into=output, bounds=bounds)
        self.runs.append((begin_ns, time.time_ns()))
        with output.open("rb") as file:
            words = file.read(_MOST_WORDS_BYTES)
        if counts:
            self.refused.update(match[1].decode() for match in _UNKNOWN.finditer(words))
        read = len(_READING.findall(words))
        return failure, read - 1 if 0 < read <= len(chunks) else None


LAYERS = "nas,rrc"
"""Layers that SCAT decodes: signalling, without user packets."""
_NO_FRAME = "the log has no complete frame; record again"
UNHEARD = "127.77.47.29"
"""Loopback address (RFC 1122, 3.2.1.3) for the UDP packets of SCAT; no program listens there."""


class LogFrames(Protocol):
    """Interface of the frames of a log, with counts of them."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield each complete frame."""

    @property
    def complete(self) -> int:
        """Number of complete frames."""

    @property
    def damaged(self) -> int:
        """Number of damaged frames."""


def tables_of_log(
    frames: LogFrames, facts: Document, *, path: str, arguments: Sequence[str], suffix: str, has_times: bool = True
) -> dict[str, Table]:
    """Return `signalling`, `radio` and `handovers` of a log.

    Parameters
    ----------
    frames : LogFrames
        Only complete frames are given to SCAT, because it accepts damaged ones.
    facts : dict
        Facts for the provenance.
    path : str
        Name of the log, for messages.
    arguments : sequence of str
        Options of SCAT for the vendor of the modem.
    suffix : str
        File name suffix by which SCAT recognises the format.
    has_times : bool
        Whether the format has times. Without them, all times are those at which SCAT ran: they give the order of
        the messages, and `untimed` must remove them.

    Raises
    ------
    FormatError
        If no frame is complete.
    PreflightError
        If scat or tshark is not installed.
    """
    with TemporaryDirectory(prefix="multitracer-") as name:
        try:
            scat = program("scat")
            program("tshark")
        except PreflightError:
            if not any(True for _ in frames):
                raise FormatError(path, _NO_FRAME) from None
            raise
        command = [scat, *arguments, "-L", LAYERS, "-C", "-H", UNHEARD]
        conversion = Conversion(Path(name), command, suffix)
        conversion.convert(frames)
        if not frames.complete:
            raise FormatError(path, _NO_FRAME)
        tables = read_signalling(*conversion.captures, runs=conversion.runs if has_times else ())
    warnings = _warnings(conversion)
    if not len(tables["signalling"]):
        warnings.append("the log has no signalling message that scat decodes")
    for table in tables.values():
        known = table.provenance
        table.provenance = known | facts | {"source": path, "warnings": [*warnings, *known["warnings"]]}
        table.provenance |= {"failed_frames": conversion.failed.total()}
    return tables


def _warnings(conversion: Conversion) -> list[str]:
    """Return a sentence about each kind of data in the log that SCAT did not convert."""
    stopped, failed, refused = conversion.stopped, conversion.failed, conversion.refused
    warnings = [f"scat {stopped}; the messages read before are used"] if stopped else []
    warnings += [f"scat failed on {n:,} records, which are not used: {words}" for words, n in failed.most_common(4)]
    warnings += [
        f"scat does not decode {n:,} records: {words}{_help_for(words)}"
        for words, n in refused.most_common(_MOST_NAMED)
    ]
    if more := refused.most_common()[_MOST_NAMED:]:
        many = sum(n for _, n in more)
        warnings.append(f"scat does not decode {many:,} records of {count(len(more), 'further kind')}")
    if conversion.left_out:
        bound = f"{MOST_BYTES >> 30} GiB"
        warnings.append(f"{conversion.left_out:,} frames after the first {bound} are not used; split the log")
    return warnings


_MOST_NAMED = 4


def _help_for(words: str) -> str:
    """Return what would help with records that SCAT does not decode; empty where nothing is known to."""
    if "version" not in words.lower() and "0x" not in words:
        return ""
    return (
        "; the modem writes a newer form than this SCAT knows: `pip install -U signalcat`, else send its authors this "
        "log, or record with a modem or firmware of the generation before"
    )


def untimed(tables: dict[str, Table], warning: str) -> dict[str, Table]:
    """Return the tables without times and with a warning; use it if a log has no times of its own."""
    for table in tables.values():
        for column in table.schema:
            if column.is_time:
                table.columns[column.name][:] = NOT_A_TIME
        table.provenance["warnings"] = [warning, *table.provenance["warnings"]]
    return tables
