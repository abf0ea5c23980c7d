"""A diagnostic log through the program `scat` to tables: what both vendors' formats share."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from multitracer.errors import FormatError, PreflightError
from multitracer.tables import NOT_A_TIME
from parsers._signalling.conversion import MOST_BYTES, Conversion
from parsers._signalling.programs import program
from parsers._signalling.signalling import read_signalling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.tables import Document, Table

_LAYERS = "nas,rrc"
"""Those that signalling needs: without the users' packets, which SCAT would pass on as well."""
_NO_FRAME = "no whole frame of a diagnostic log is in it; record it again"
_UNHEARD = "127.77.47.29"
"""SCAT sends each packet by UDP, too: on the loopback (RFC 1122, 3.2.1.3), where nobody listens."""


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
        try:
            scat = program("scat")
            program("tshark")
        except PreflightError:
            if not any(True for _ in frames):
                raise FormatError(path, _NO_FRAME) from None
            raise
        command = [scat, *arguments, "-L", _LAYERS, "-C", "-H", _UNHEARD]
        conversion = Conversion(Path(name), command, suffix)
        conversion.convert(frames)
        if not frames.whole:
            raise FormatError(path, _NO_FRAME)
        tables = read_signalling(*conversion.captures)
    warnings = _warnings(conversion)
    if not len(tables["signalling"]):
        warnings.append("holds no message of signalling that scat decodes")
    for table in tables.values():
        known = table.provenance
        table.provenance = known | facts | {"source": path, "warnings": [*warnings, *known["warnings"]]}
        table.provenance |= {"failed_frames": conversion.failed.total()}
    return tables


def _warnings(conversion: Conversion) -> list[str]:
    """Return what SCAT did not read, a sentence each."""
    stopped, failed, refused = conversion.stopped, conversion.failed, conversion.refused
    warnings = [f"scat {stopped}; what it had read until then is used"] if stopped else []
    warnings += [
        f"scat fails on {n:,} of its records, which are left out: {words}"
        for words, n in failed.most_common(4)
    ]
    warnings += [f"scat does not decode {n:,} of its records: {words}" for words, n in refused.most_common(4)]
    if conversion.left_out:
        bound = f"{MOST_BYTES >> 30} GiB"
        warnings.append(f"{conversion.left_out:,} frames behind the first {bound} are not used; cut it")
    return warnings


def untimed(tables: dict[str, Table], warning: str) -> dict[str, Table]:
    """Return tables whose times are those of the conversion: without them, and with a warning."""
    for table in tables.values():
        for column in table.schema:
            if column.is_time:
                table.columns[column.name][:] = NOT_A_TIME
        table.provenance["warnings"] = [warning, *table.provenance["warnings"]]
    return tables
