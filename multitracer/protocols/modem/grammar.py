"""The grammar of AT answers: lines, prefixes, fields. Source: ITU-T V.250, 3GPP TS 27.007 clause 4.

Real modems leave out the space after the colon, put spaces around commas, quote numbers or not, and pad with zeros. All
of these forms are accepted. Text in place of a number is an error of the line, not a missing value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from multitracer.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    Reading = dict[str, Any]
    """Values of one reading by column of RADIO; absent columns are not known."""

LONGEST_LINE = 2000
"""Maximum number of characters of a line; no known answer has a longer line."""
MOST_FIELDS = 64  # bounds memory: the longest line of a profile has some 30 fields
_PREFIXED = re.compile(r"([+!#^*%$][A-Z0-9_]{1,15})\s*:\s*(.*)", re.DOTALL)
_FIELD = re.compile(r'\s*(?:"([^"]*)"|([^,]*))\s*(?:(,)|$)')
_COMMAND = re.compile(r"AT([+!#^*%$&]?[A-Z0-9]+)", re.IGNORECASE)
_EXTENDED = re.compile(r"[+!#^*%$][A-Z][A-Z0-9_]{0,15}")
_QUOTED = re.compile(r'"[^"]*"?')
_BEGINS = re.compile(r"(?<=[^\s,])[+#^!*$%][A-Z][A-Z0-9]{2,15}: ?(?=[\"\d-])")
"""An answer that begins within a line, because the firmware left out the line end before it."""
_ENDS = re.compile(r"(?<=[\d\"\-\s])OK$")
"""A result at the end of an answer, for the same reason."""
_FINAL = re.compile(r"OK|ERROR|ABORTED|COMMAND NOT SUPPORT|\+CM[ES] ERROR:.{0,200}", re.IGNORECASE)
_INTEGER = re.compile(r"[+-]?\d{1,15}")
_REAL = re.compile(r"[+-]?\d{1,12}(?:\.\d{1,9})?")
_HEXADECIMAL = re.compile(r"(?:0[xX])?[0-9A-Fa-f]{1,15}")
_ABSENT = ("", "-", "--", "n/a", "NA")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class AnswerError(RemoteProtocolError):
    """A line of a modem that does not have the format of its command's answers."""


def lines_of(raw: bytes) -> list[str]:
    """Return the lines of an answer that are not empty, decoded as Latin-1.

    Answers that the firmware wrote into one line are separated. The rest of an answer that was broken after a
    comma is appended to it.
    """
    lines: list[str] = []
    for line in re.split(r"[\r\n]+", raw.decode("latin-1")):
        if lines and _goes_on(lines[-1], line):
            lines[-1] += line.strip()
        elif line.strip():
            lines += _separated(line)
    return lines


def _goes_on(line: str, following: str) -> bool:
    """Return whether a line is the rest of the line before, which was broken after a comma."""
    if not line.endswith(",") or len(line) > LONGEST_LINE or not prefixed(line):
        return False
    return following.strip()[:1] == '"' or following.strip()[:1].isdigit()


def _separated(line: str) -> list[str]:
    """Return the answers in one line; most lines have one."""
    if not (_PREFIXED.match(line.strip()) and len(line) <= LONGEST_LINE):
        return [line]
    begins = [match.start() for match in _BEGINS.finditer(line) if line.count('"', 0, match.start()) % 2 == 0]
    parts = [line[at:end] for at, end in zip([0, *begins], [*begins, len(line)], strict=True)]
    if result := _ENDS.search(parts[-1]):
        parts[-1:] = [parts[-1][: result.start()], "OK"]
    return [part for part in parts if part.strip()]


def prefixed(line: str) -> tuple[str, str] | None:
    """Return the prefix of a line and the text after its colon, as `+CSQ` and `15,99`.

    None without a prefix.
    """
    match = _PREFIXED.fullmatch(line.strip())
    return (match[1], match[2].strip()) if match else None


def fields_of(text: str) -> list[tuple[str, bool]]:
    """Return the comma-separated fields of a text; each is a pair of the field and whether it was quoted.

    Raises
    ------
    AnswerError
        If there are more fields than any command has, or a quotation mark is not closed.
    """
    fields: list[tuple[str, bool]] = []
    at = 0
    while True:
        match = _FIELD.match(text, at)
        if not match or len(fields) == MOST_FIELDS:
            raise AnswerError("the fields of the answer are not a valid list; skip the line")
        quoted = match[1] is not None
        fields.append((match[1] if quoted else match[2].strip(), quoted))
        if not match[3]:
            return fields
        at = match.end()


def command_name(command: str) -> str:
    """Return the prefix of the answer to a command: `+CSQ` for `AT+CSQ`, `S112` for `ATS112?`."""
    match = _COMMAND.match(command.strip())
    return match[1].upper() if match else ""


def command_names(command: str) -> tuple[str, ...]:
    """Return the prefixes of the answers to a command line, in order.

    `+QNWINFO` and `+QENG` for `AT+QNWINFO;+QENG="servingcell"` (V.250, 5.2.1); empty without a command.
    """
    first = command_name(command)
    if not first:
        return ()
    names = _EXTENDED.findall(_QUOTED.sub("", command.upper()))
    return tuple(dict.fromkeys([first, *names]))


def is_final(line: str) -> bool:
    """Return whether a line is a final result, such as OK or ERROR."""
    return _FINAL.fullmatch(line.strip()) is not None


class LineFields:
    """The fields of one line by position; a position after the last field counts as absent."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def text(self, at: int, *, most: int = 64) -> str:
        """Return the field at a position without control characters, at most `most` characters."""
        return _CONTROLS.sub("", self._at(at))[:most]

    def integer(self, at: int, minimum: int = -(1 << 40), most: int = 1 << 40) -> int | None:
        """Return the field at a position as an integer.

        None if it is absent or outside `minimum` to `most`.
        """
        text = self._number(at, _INTEGER)
        return None if text is None else _within(int(text), minimum, most)

    def hexadecimal(self, at: int, *, most: int = 1 << 40) -> int | None:
        """Return the field at a position, a hexadecimal number; None if it is absent or above `most`."""
        text = self._number(at, _HEXADECIMAL)
        return None if text is None else _within(int(text, 16), 0, most)

    def real(self, at: int, minimum: float = -1e9, most: float = 1e9) -> float | None:
        """Return the field at a position as a number; None if it is absent or outside `minimum` to `most`."""
        text = self._number(at, _REAL)
        if text is None or not minimum <= float(text) <= most:
            return None
        return float(text)

    def plmn(self, country: int, network: int) -> str:
        """Return MCC and MNC as one string of digits, from the fields at two positions; empty if absent."""
        mcc, mnc = self._number(country, _INTEGER), self._number(network, _INTEGER)
        return f"{mcc:0>3.3}{mnc:0>2.3}" if mcc and mnc else ""

    def _at(self, at: int) -> str:
        return self._texts[at].strip() if -len(self._texts) <= at < len(self._texts) else ""

    def _number(self, at: int, form: re.Pattern[str]) -> str | None:
        text = self._at(at).replace(" ", "")
        if text in _ABSENT:
            return None
        if not form.fullmatch(text):
            raise AnswerError(f"field {at + 1} of the answer is not a number; skip the line")
        return text


def _within(value: int, minimum: int, most: int) -> int | None:
    return value if minimum <= value <= most else None


def reported(**columns: float | str | None) -> Reading:
    """Return a reading with the given columns, without those that are None."""
    return {name: value for name, value in columns.items() if value is not None and value != ""}


def index_db(index: int | None, *, zero: float, step: float = 1.0) -> float | None:
    """Return the value in dB of a reported index: `zero + step * index`; None if the index is None."""
    return None if index is None else zero + step * index
