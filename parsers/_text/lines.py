"""Lines of a text log, in bounded memory, with what could not be used counted by reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_LINE_BYTES = 1 << 20
_MOST_WARNINGS = 100
ZONELESS = "the time zone is not given; taken as UTC"
_ZONE_DOUBT = "the time zone "
"""How each warning of a time whose zone is not known begins."""


@dataclass(slots=True)
class Lines:
    """The lines of one log, and the counts of them.

    Iterating yields each line as text, without its end; a line that is no UTF-8 is of Windows-1252, in which
    spreadsheets save, and what is not that either becomes U+FFFD. A last line
    that has no end was cut, and a number that was cut is another number: it is not yielded but kept in `cut`.
    Where compressed data are damaged behind some lines, these are all that there are, and `damage` says why.
    """

    stream: BinaryIO
    number: int = 0
    """Of the current line, from 1."""
    cut: bytes = b""
    """A last line that has no end."""
    damage: str | None = None
    """Why there are no more lines, with the byte of the file."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Reason -> lines that could not be used."""
    first_skipped: dict[str, int] = field(default_factory=dict)
    """Reason -> number of the first such line."""
    warnings: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        while row := self._row():
            self.number += 1
            if row.endswith(b"\n"):
                yield _text(row.rstrip(b"\r\n"))
            elif len(row) == _LONGEST_LINE_BYTES:
                self._pass_over()
            else:
                self.cut = row

    def _row(self) -> bytes:
        try:
            return self.stream.readline(_LONGEST_LINE_BYTES)
        except FormatError as error:  # of what unpacks the file
            if not self.number:
                raise
            self.damage = f"{error.reason.removeprefix('damaged ')} at byte {error.offset}"
            return b""

    def _pass_over(self) -> None:
        self.skip("longer than a line of any log")
        while (row := self._row()) and not row.endswith(b"\n"):
            pass

    def skip(self, reason: str, count: int = 1, *, number: int | None = None) -> None:
        """Count the current line, or that of a number, as not used, or so many lines up to it."""
        if count:
            self.skipped[reason] = self.skipped.get(reason, 0) + count
            self.first_skipped.setdefault(reason, self.number if number is None else number)

    def warn(self, text: str) -> None:
        """Note something about the log once."""
        if text not in self.warnings and len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(text)

    def provenance(self, path: str, name: str, **more: object) -> dict[str, object]:
        """Return the counts as a table's provenance."""
        cut = f"the last line is cut after {len(self.cut)} bytes" if self.cut else None
        return {
            "path": path,
            "format": name,
            "lines": self.number,
            "skipped": self.skipped,
            "first_skipped_line": self.first_skipped,
            "damaged": self.damage or cut,
            "warnings": [*self._mostly_skipped(), *self.warnings],
            **({"zone": "unknown"} if self.zone_unknown else {}),
            **more,
        }

    @property
    def zone_unknown(self) -> bool:
        """Whether some times name no time zone, and none is known from elsewhere: they were taken as UTC."""
        return any(text.startswith(_ZONE_DOUBT) for text in self.warnings)

    def _mostly_skipped(self) -> Iterator[str]:
        """Yield, if more than half of the log could not be used, that fact and the reasons."""
        skipped = sum(self.skipped.values())
        if 2 * skipped > self.number:
            most = max(self.skipped, key=self.skipped.__getitem__)
            yield (
                f"{skipped:,} of {self.number:,} lines could not be used; the first is line "
                f"{self.first_skipped[most]:,}: {most}"
            )


def _text(row: bytes) -> str:
    try:
        return row.decode()
    except UnicodeDecodeError:
        return row.decode("cp1252", errors="replace")
