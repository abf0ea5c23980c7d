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
from multitracer.schemas.radio import RADIO
from multitracer.tables import NA
from parsers._format import Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.column_map import RANGES
from parsers._text.lines import LogLines, date_line
from parsers._text.mapped_log import Jumps
from parsers._text.times import integer, noted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Document, Table

_UNAVAILABLE = {2147483647, -2147483648, 9223372036854775807}
"""Numbers that mean a missing value: CellInfo.UNAVAILABLE and UNAVAILABLE_LONG."""
_MOST_CHARACTERS = 1 << 20
_MOST_CELLS = 256
_LARGEST_SNR_DB = 30
"""Maximum SNR in dB: CellSignalStrengthLte.getRssnr is -20 to 30 dB since Android 11."""
_START = re.compile(r"mSignalStrength=|mCellInfo=|mServiceState=")
_CARD = re.compile(r"Phone Id=(\d{1,2})\b")
_STRENGTH = re.compile(r"CellSignalStrength(Lte|Nr|Gsm|Wcdma|Cdma):")
_CELL = re.compile(r"CellInfo(Lte|Nr|Gsm|Wcdma):")
_PRIMARY = re.compile(r"primary=CellSignalStrength(\w{2,8})")
_PAIR = re.compile(r"\b(\w{1,40}) ?= ?(-?\d+)(?=[\s,}\]]|$)")
_BANDS = re.compile(r"\bmBands ?= ?\[([\d, ]{1,40})\]")
_TEXT = re.compile(r"\b(mAlphaLong|mOperatorAlphaLong) ?= ?([^,={}\[\]]{1,64}?)(?= \w+ ?=|[,}]|$)")
_DIGITS = re.compile(r"\b(mMcc|mMnc) ?= ?(\d{2,3})\b")
_STATE = re.compile(r"\bmDataRegState=\d+\((\w{1,24})\)")
_TECHNOLOGY = re.compile(r"\bgetRilDataRadioTechnology=\d+\((\w{1,16})\)")
_LEGACY = re.compile(r"SignalStrength: (-?\d+(?: -?\d+){11,})")
_RAT = {"Lte": "LTE", "Nr": "NR", "Gsm": "GSM", "Wcdma": "UMTS", "Cdma": "CDMA"}
_RIL_RAT = {
    "LTE": "LTE", "LTE_CA": "LTE", "NR": "NR", "NR_SA": "NR", "UMTS": "UMTS", "HSPA": "HSPA", "HSPAP": "HSPA",
    "HSDPA": "HSPA", "HSUPA": "HSPA", "EDGE": "EDGE", "GPRS": "GSM", "GSM": "GSM", "1xRTT": "CDMA",
}  # fmt: skip
"""Technology by the names of ServiceState.rilRadioTechnologyToString."""
_LEVELS: dict[str, dict[str, tuple[str, float]]] = {
    "Lte": {
        "rssi_dbm": ("rssi", 1), "rsrp_dbm": ("rsrp", 1), "rsrq_db": ("rsrq", 1), "sinr_raw": ("rssnr", 1),
        "cqi": ("cqi", 1), "timing_advance": ("ta", 1),
    },
    "Nr": {"rsrp_dbm": ("ssRsrp", 1), "rsrq_db": ("ssRsrq", 1), "sinr_db": ("ssSinr", 1)},
    "Gsm": {"rssi_dbm": ("rssi", 1), "rxqual": ("ber", 1), "timing_advance": ("mTa", 1)},
    "Wcdma": {"rssi_dbm": ("ss", 1), "rscp_dbm": ("rscp", 1), "ecio_db": ("ecno", 1)},
    "Cdma": {"rssi_dbm": ("cdmaDbm", 1), "ecio_db": ("cdmaEcio", 0.1)},
}  # fmt: skip
"""Field of Android and its factor, by technology and table column."""
_IDENTITY = {
    "Lte": {"cell_id": "mCi", "physical_cell_id": "mPci", "area_code": "mTac", "channel": "mEarfcn"},
    "Nr": {"cell_id": "mNci", "physical_cell_id": "mPci", "area_code": "mTac", "channel": "mNrArfcn"},
    "Gsm": {"cell_id": "mCid", "physical_cell_id": "mBsic", "area_code": "mLac", "channel": "mArfcn"},
    "Wcdma": {"cell_id": "mCid", "physical_cell_id": "mPsc", "area_code": "mLac", "channel": "mUarfcn"},
}
_UNSIGNED_DBM = (31, 156)
"""RSRP without its sign: SS-RSRP is -156 to -31 dBm (CellSignalStrengthNr), RSRP of LTE -140 to -43 dBm."""
_NO_BER = 99
"""Value of the BER for "not known or not detectable" (TS 27.007, section 8.5)."""


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
        self._card: int | None = None
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
            self._card = None
        elif card := _CARD.match(plain):
            self._card = integer(card[1])
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
        if text.startswith("mSignalStrength="):
            self._signal_strength(text)
        elif text.startswith("mCellInfo="):
            self._cell_info(text)
        elif text.startswith("mServiceState="):
            self._service_state(text)

    def _append(self, source: str, values: Document) -> None:
        values = self._signed(values)
        known = {name: value for name, value in values.items() if self._can_be(name, value)}
        if known.keys() - {"role", "rat"}:
            self.rows.append({"source": source, **known, **self.stamps, "line": self._begin, "modem": self._card})

    def _signed(self, values: Document) -> Document:
        """Return the values with RSRP and RSRQ negative, where the phone writes them without a sign."""
        rat, rsrp, rsrq = str(values.get("rat", "")), values.get("rsrp_dbm"), values.get("rsrq_db")
        minimum, most = _UNSIGNED_DBM
        is_signed = isinstance(rsrq, int | float) and rsrq < 0
        if isinstance(rsrp, int | float) and minimum <= rsrp <= most and not is_signed:
            self.unsigned.add(rat)
            values = values | {"rsrp_dbm": -rsrp}
            rsrp = None
        if rsrp is None and rat in self.unsigned and isinstance(rsrq, int | float) and rsrq > 0:
            values = values | {"rsrq_db": -rsrq}
        return values

    def _can_be(self, name: str, value: object) -> bool:
        """Return whether a value is possible; count an impossible value."""
        if name not in RANGES or not isinstance(value, int | float):
            return True
        minimum, most = RANGES[name]
        if minimum <= value <= most:
            return True
        self._lines.drop(name)
        return False

    def _signal_strength(self, text: str) -> None:
        if legacy := _LEGACY.search(text):
            self._old_signal_strength([integer(number) for number in legacy[1].split()])
            return
        found_primary = _PRIMARY.search(text)
        primary = found_primary[1] if found_primary else ""
        for technology, part in _parts(text, _STRENGTH):
            values = _levels(technology, part)
            role = "secondary" if technology == "Nr" and primary == "Lte" else "serving"
            if values:
                self._append("mSignalStrength", {"role": role, "rat": _RAT[technology], **values})

    def _old_signal_strength(self, numbers: list[int]) -> None:
        """Read the blank-separated numbers of Android 9 and earlier."""
        gsm, ber = numbers[:2]
        if 0 <= gsm < _NO_BER:
            quality = {"rxqual": ber} if 0 <= ber < _NO_BER else {}
            self._append("mSignalStrength", {"role": "serving", "rssi_dbm": 2.0 * gsm - 113, **quality})
        rsrp, rsrq, snr, cqi = (None if n in _UNAVAILABLE else n for n in numbers[8:12])
        if rsrp is not None and rsrp < 0:
            levels = {"rsrp_dbm": rsrp, "rsrq_db": rsrq, "sinr_db": None if snr is None else snr / 10}
            known = {k: float(v) for k, v in levels.items() if v is not None}
            more = {"cqi": cqi} if cqi is not None else {}
            self._append("mSignalStrength", {"role": "serving", "rat": "LTE", **known, **more})

    def _cell_info(self, text: str) -> None:
        for technology, part in _parts(text, _CELL):
            strength = _STRENGTH.search(part)
            identity = part[: strength.start()] if strength else part
            numbers = _numbers(identity)
            values: Document = {
                ours: numbers[theirs] for ours, theirs in _IDENTITY[technology].items() if theirs in numbers
            }
            values |= _levels(technology, part[strength.end() :]) if strength else {}
            values |= _names(identity)
            role = "serving" if "mRegistered=YES" in part[:64] else "neighbour"
            self._append("mCellInfo", {"role": role, "rat": _RAT[technology], **values})

    def _service_state(self, text: str) -> None:
        values: Document = {}
        if state := _STATE.search(text):
            values["state"] = state[1][:16]
        if technology := _TECHNOLOGY.search(text):
            values["rat"] = _RIL_RAT.get(technology[1], "")
        if operator := next((match[2] for match in _TEXT.finditer(text)), ""):
            values["operator"] = _printable(operator)
        self._append("mServiceState", {"role": "serving", **values})


def _parts(text: str, start: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield technology and text of each object; the text ends at the next match of `start`."""
    matches = list(start.finditer(text))[:_MOST_CELLS]
    ends = [*(match.start() for match in matches[1:]), len(text)]
    for match, end in zip(matches, ends, strict=False):  # without a match there is but the end
        yield match[1], text[match.end() : end]


def _numbers(text: str) -> dict[str, int]:
    """Return the numeric fields that have a value; if a name occurs twice, the first one."""
    pairs = [(match[1], integer(match[2])) for match in _PAIR.finditer(text)]
    return {name: number for name, number in reversed(pairs) if number not in _UNAVAILABLE}


def _levels(technology: str, text: str) -> Document:
    numbers = _numbers(text)
    values: Document = {}
    for ours, (theirs, scale) in _LEVELS[technology].items():
        if theirs in numbers and not (ours == "rxqual" and numbers[theirs] == _NO_BER):
            values[ours] = numbers[theirs] * scale
    if "sinr_raw" in values and "cqiTableIndex" in text:  # a field of Android 12 and later
        values["sinr_db"] = float(values.pop("sinr_raw"))
    return values


def _names(text: str) -> Document:
    values: Document = {}
    digits = {match[1]: match[2] for match in _DIGITS.finditer(text)}
    if len(digits) == 2:
        values["plmn"] = digits["mMcc"] + digits["mMnc"]
    if bands := _BANDS.search(text):
        values["band"] = "/".join(bands[1].replace(" ", "").split(","))[:16]
    if operator := _TEXT.search(text):
        values["operator"] = _printable(operator[2])
    return values


def _printable(text: str) -> str:
    return "".join(c for c in text.strip() if c.isprintable())[:32]


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
    is_json = head.startswith(b"{")  # a log of ours that holds a dump
    return "yes" if (is_state or is_part) and not is_json else "no"


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
    if dumps.unsigned:
        lines.warn(
            f"RSRP and RSRQ of {' and '.join(sorted(dumps.unsigned))} are written without a sign (98 for "
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
