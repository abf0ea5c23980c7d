"""A diagnostic log through the program `scat` to tables: what both vendors' formats share."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from multitracer.errors import FormatError
from multitracer.radio import RADIO
from multitracer.signalling import HANDOVERS, SIGNALLING
from multitracer.tables import NOT_A_TIME, Table
from parsers._signalling.programs import Bounds, program, run
from parsers._signalling.signalling import read_signalling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.tables import Document

_LAYERS = "nas,rrc"
"""Those that signalling needs: without the users' packets, which SCAT would pass on as well."""
_UNHEARD = "127.77.47.29"
"""SCAT sends each packet by UDP, too: on the loopback (RFC 1122, 3.2.1.3), where nobody listens."""
_LEAST_S, _BYTES_PER_S = 60.0, 50_000
"""SCAT reads 340 kB/s on one core of 2020: a machine seven times slower may finish."""
_LEAST_OUTPUT_BYTES, _EXPANSION = 64 << 20, 8
"""A record of 30 octets becomes a packet of 110, and a second one with the line of its cell."""
_UNKNOWN = re.compile(rb"WARNING: ([Uu]nknown [ -~]{1,100}?)\r?\n")
_MOST_WORDS_BYTES = 16 << 20
"""Of what SCAT says: a line of 130 octets for each record of 300 that it does not know."""
_MOST_BYTES = 2 << 30
"""Of frames that SCAT gets: a day of a busy phone. What follows is counted."""


class Frames(Protocol):
    """The frames of a log, and what was counted of them."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield each whole frame."""

    @property
    def whole(self) -> int:
        """How many were whole."""

    @property
    def damaged(self) -> int:
        """How many were not."""


def tables_of_log(
    frames: Frames, facts: Document, *, path: str, arguments: Sequence[str], suffix: str
) -> dict[str, Table]:
    """Return `signalling`, `radio` and `handovers` of a log.

    Parameters
    ----------
    frames : Frames
        Only whole frames are given to SCAT: it takes damaged ones for whole.
    facts : dict
        For the provenance.
    path : str
        Of the log, for messages.
    arguments : sequence of str
        Of SCAT: whose modem.
    suffix : str
        By which SCAT knows the format.

    Raises
    ------
    FormatError
        If no frame is whole.
    PreflightError
        If scat or tshark is not installed.
    """
    with TemporaryDirectory(prefix="multitracer-") as name:
        folder = Path(name)
        size, left_out = _copy(frames, folder / f"log{suffix}")
        if not frames.whole:
            raise FormatError(path, "no whole frame of a diagnostic log is in it; record it again")
        scat = program("scat")
        program("tshark")
        capture = folder / "messages.pcap"
        command = [scat, *arguments, "-L", _LAYERS, "-C", "-H", _UNHEARD, "-F", str(capture)]
        bounds = Bounds(_LEAST_S + size / _BYTES_PER_S, _LEAST_OUTPUT_BYTES + _EXPANSION * size)
        failure = run([*command, "-d", str(folder / f"log{suffix}")], into=folder / "scat.out", bounds=bounds)
        tables, refused = _read(capture), _refused(folder / "scat.out")
    warnings = [f"scat {failure}; what it had read until then is used"] if failure else []
    warnings += [f"scat does not decode {n:,} of its records: {words}" for words, n in refused.most_common(4)]
    if not len(tables["signalling"]):
        warnings.append("holds no message of signalling that scat decodes")
    if left_out:
        warnings.append(f"{left_out:,} frames behind the first {_MOST_BYTES >> 30} GiB are not used; cut it")
    for table in tables.values():
        known = table.provenance
        table.provenance = known | facts | {"source": path, "warnings": [*warnings, *known["warnings"]]}
    return tables


def _copy(frames: Frames, path: Path) -> tuple[int, int]:
    """Write the whole frames, and return how many octets they have, and how many frames are left out."""
    size = left_out = 0
    with path.open("wb") as file:
        for frame in frames:
            if size + len(frame) > _MOST_BYTES:
                left_out += 1
                continue
            size += file.write(frame)
    return size, left_out


def _refused(output: Path) -> Counter[str]:
    """Return what scat says of records that it does not know, and how often."""
    with output.open("rb") as file:
        words = file.read(_MOST_WORDS_BYTES)
    return Counter(match[1].decode() for match in _UNKNOWN.finditer(words))


def _read(capture: Path) -> dict[str, Table]:
    if not capture.exists() or not capture.stat().st_size:
        tables = {schema.name: Table.empty(schema) for schema in (SIGNALLING, RADIO, HANDOVERS)}
        for table in tables.values():
            table.provenance["warnings"] = []
        return tables
    return read_signalling(capture)


def untimed(tables: dict[str, Table], warning: str) -> dict[str, Table]:
    """Return tables whose times are those of the conversion: without them, and with a warning."""
    for table in tables.values():
        for column in table.schema:
            if column.is_time:
                table.columns[column.name][:] = NOT_A_TIME
        table.provenance["warnings"] = [warning, *table.provenance["warnings"]]
    return tables
