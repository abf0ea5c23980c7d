"""Output of `adb shell dumpsys telephony.registry`, once or in a loop with a `date` before each.

`mSignalStrength` gives a row for each technology with a value, `mCellInfo` a row for each cell,
`mServiceState` one row. 2147483647 (CellInfo.UNAVAILABLE) means a missing value. Only time stamps at the
start of a line are read; Android's event log at the end, with indented times, is ignored. Subscriber and
phone numbers are ignored.

Some phones (Huawei) write RSRP and RSRQ without a sign, as the radio interface layer reports them (positive
numbers for 44 to 156 dB below 1 mW); those of a cell whose RSRP is positive are made negative.

The unit of `rssnr` is dB if the line has fields of Android 12 or later, 0.1 dB if one value of the log is
above 30; otherwise the unit is not known, and only `sinr_raw` has the number. Source: frameworks/base of
Android, telephony/java/android/telephony/CellSignalStrength*.java, CellIdentity*.java, SignalStrength.java.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.errors import FormatError
from multitracer.protocols.modem.android import is_coded, readings_of, signed
from multitracer.schemas.radio import RADIO
from multitracer.tables import NA
from parsers._format import Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.column_map import RANGES
from parsers._text.lines import LogLines, date_line
from parsers._text.mapped_log import Jumps
from parsers._text.times import integer, noted

if TYPE_CHECKING:
    from multitracer.tables import Document, Table

_MOST_CHARACTERS = 1 << 20
_LARGEST_SNR_DB = 30
"""Maximum SNR in dB: CellSignalStrengthLte.getRssnr is -20 to 30 dB since Android 11."""
_START = re.compile(r"mSignalStrength=|mCellInfo=|mServiceState=")
_CARD = re.compile(r"Phone Id=(\d{1,2})\b")


class RegistryDumps:
    """Reads the dumps of a log, and collects the rows.

    `stamps` are the columns of time of the rows that follow; a line with a date sets `time_ns`.
    """

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.rows = Sparse(RADIO)
        self.stamps: Document = {"time_ns": None}
        self._text: list[str] = []
        self._length = 0
        self._begin = 0
        self._in_events = False
        self.card: int | None = None
        """Number of the SIM card of the rows that follow; None if it is not known."""
        self.jumps = Jumps()
        self.unsigned: set[str] = set()
        """Technologies whose levels were written without a sign."""

    def take(self, text: str) -> None:
        """Read one line."""
        if text and not text[0].isspace():
            stamp = date_line(text)
            if stamp is not None:
                self.flush()
                time_ns = self._lines.time_of(stamp)
                self.stamps, text, self._in_events = {"time_ns": time_ns}, stamp.rest, False
                self.jumps.take(self._lines.number, time_ns)
                if stamp.caveat:
                    self._lines.warn(stamp.caveat)
        plain = text.strip()
        if plain.startswith("last known state"):
            self._in_events = False
        elif plain.endswith("logs:"):
            self.flush()
            self._in_events = True
        if self._in_events or not plain:
            return
        if _START.match(plain) or plain.startswith(("Phone Id=", "last known state")):
            self.flush()
            self._begin = self._lines.number
        if plain.startswith("last known state"):
            self.card = None
        elif card := _CARD.match(plain):
            self.card = integer(card[1])
        self._add(plain)

    def _add(self, text: str) -> None:
        self._length += len(text)
        if self._length <= _MOST_CHARACTERS:
            self._text.append(text)
        elif self._text:
            self._lines.skip("a statement is longer than any that Android writes")
            self._text = []

    def flush(self) -> None:
        """Decode the current object, which may have several lines."""
        text = " ".join(self._text)
        self._text, self._length = [], 0
        for source, values in readings_of(text):
            self._append(source, values)

    def _append(self, source: str, values: Document) -> None:
        values = signed(values, self.unsigned)
        known = {name: value for name, value in values.items() if self._can_be(name, value)}
        if known.keys() - {"role", "rat"}:
            self.rows.append({"source": source, **known, **self.stamps, "line": self._begin, "modem": self.card})

    def _can_be(self, name: str, value: object) -> bool:
        """Return whether a value is possible; count an impossible value."""
        if name not in RANGES or not isinstance(value, int | float):
            return True
        minimum, most = RANGES[name]
        if minimum <= value <= most:
            return True
        self._lines.drop(name)
        return False


def _in_tenths(table: Table) -> bool:
    """Set sinr_db from rssnr if one value proves the unit 0.1 dB; return whether the unit is unknown."""
    raw = table["sinr_raw"]
    known = ~table.missing("sinr_raw")
    if (np.abs(raw[known]) > _LARGEST_SNR_DB).any():
        table["sinr_db"][known] = raw[known] / 10
        return False
    return bool(known.any())


def _unnumbered(table: Table) -> None:
    """Remove the SIM card number from the rows of a phone with only one card."""
    numbers = table["modem"][~table.missing("modem")]
    if len(np.unique(numbers)) < 2:
        table["modem"][:] = NA


def sniff(head: bytes) -> Match:
    """Return "yes" for output with the radio state of the telephony registry."""
    is_state = b"last known state:" in head and b"mCallState=" in head
    is_part = b"mSignalStrength=SignalStrength" in head or b"mCellInfo=[CellInfo" in head
    is_within = head.startswith((b"{", b"====", b"PK"))  # a log of ours, or a bug report, that holds a dump
    return "yes" if (is_state or is_part) and not is_within else "no"


def radio_of(dumps: RegistryDumps, lines: LogLines, provenance: Document, placed: Document) -> Table:
    """Return the readings of dumps, with warnings on what their texts leave open.

    Parameters
    ----------
    dumps : RegistryDumps
        After `flush`.
    lines : LogLines
        The log, which gets the warnings.
    provenance : dict
        Of the table.
    placed : dict
        Columns that replace those of the rows.
    """
    table = dumps.rows.table(provenance, placed)
    _unnumbered(table)
    if is_coded(dumps.unsigned):
        lines.warn("RSRP, RSRQ and SINR of NR are written as codes of TS 38.331 (87 for -69 dBm) and were converted")
    if unsigned := dumps.unsigned & {"LTE", "NR"}:
        lines.warn(
            f"RSRP and RSRQ of {' and '.join(sorted(unsigned))} are written without a sign (98 for "
            "-98 dBm) and were made negative"
        )
    if _in_tenths(table):
        lines.warn(
            "the unit of rssnr (dB or 0.1 dB) is unknown in this version of Android, so its values are only in sinr_raw"
        )
    return table


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the table `radio`.

    Raises
    ------
    FormatError
        If the log contains no radio reading.
    """
    lines = LogLines(stream)
    dumps = RegistryDumps(lines)
    for text in lines:
        dumps.take(text)
    dumps.flush()
    for sentence in dumps.jumps.sentences():
        lines.warn(sentence)
    if not len(dumps.rows):
        raise FormatError(path, "the file contains no value of mSignalStrength, mCellInfo or mServiceState")
    table = radio_of(dumps, lines, {}, {})
    table.provenance = noted(lines.provenance(path, FORMAT.name), table.provenance.get("missing", {}))
    return {"radio": table}


FORMAT = Format(
    name="telephony-registry",
    layer="radio",
    description="`dumpsys telephony.registry` of Android, once or in a loop with `date`",
    source="Android, frameworks/base, telephony/java/android/telephony",
    sniff=sniff,
    parse=parse,
)
