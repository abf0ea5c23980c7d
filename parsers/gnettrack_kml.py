"""The KML that G-NetTrack writes beside its log: a placemark for each reading or event, with its values.

They stand in ExtendedData, or in the description, as a table or as lines of name and value.

Each placemark is read as a line of G-NetTrack's own log (`gnettrack.py`), so that levels, cells, times and events mean
the same in both. Names of values differ from those of its columns; rows have the number of their placemark. Source:
files of G-NetTrack Pro; KML 2.2 (OGC 07-147r2), ExtendedData.
"""

from __future__ import annotations

import html
import io
import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from parsers import gnettrack
from parsers._format import HEAD_BYTES, Format, Match
from parsers._text.lines import LogLines
from parsers._text.xml_reader import XmlReader, XmlRefusedError

if TYPE_CHECKING:
    from multitracer.tables import Table

_LONGEST_TEXT = 16_384
"""Of a description with a table of all values, 100 octets a row; other texts are short."""
_MOST_PLACEMARKS = 1_000_000
"""Ten days of readings each second."""
_MOST_COLUMNS = 200
"""G-NetTrack's own log has up to 130."""
_SNIFFED = re.compile(rb"<kml[\s>]")
_PROVED = re.compile(rb"(?i)g-?nettrack|<Data\s+name=\"(?:TIME|CELLID|eNB)\"|<t[dh][^<>]{0,64}>\s*(?:<b>\s*)?RSRP\b")
_ROW = re.compile(
    r"<t[dh][^<>]{0,64}>\s*(?:<b>\s*)?([A-Za-z][\w /]{0,31}?)\s*:?\s*(?:</b>\s*)?</t[dh]>\s*"
    r"<td[^<>]{0,64}>([^<>]{0,256})</td>"
)
"""A row of the table in a description: name and value."""
_LINE = re.compile(r"(?:^|<br\s{0,4}/?>|[\r\n])\s*([A-Za-z][\w /]{0,31}?)\s*[:=]\s*([^<>\r\n]{1,256})")
"""A line of a description, name: value."""
_COLUMNS = {
    "time": "Timestamp", "enb": "Node", "gnb": "Node", "rnc": "Node", "rsrp": "Level", "rscp": "Level",
    "rxlev": "Level", "rsrq": "Qual", "ecno": "Qual", "rxqual": "Qual", "sinr": "SNR", "info": "EventType",
    "details": "EventDetails",
    "operator": "Operatorname", "tech": "NetworkMode", "networktech": "NetworkMode", "networkmode": "NetworkMode",
    "mode": "NetworkMode",
}  # fmt: skip
"""Columns of G-NetTrack's log by the name of a value in its KML, in small letters; other names are the same."""
_BY_VALUE = (("enb", "LTE"), ("rsrp", "LTE"), ("gnb", "5G"), ("rnc", "UMTS"), ("rscp", "UMTS"), ("rxlev", "GSM"))
"""Technology by the first of these values that a placemark has, if it names none."""
_NOTHING = "no placemark has the time and the level of a reading of G-NetTrack; use the text or CSV file beside it"


class _Reader(XmlReader):
    """Collects the values of placemarks."""

    def __init__(self) -> None:
        super().__init__(_LONGEST_TEXT)
        self.rows: list[dict[str, str]] = []
        """Values of each placemark by column of G-NetTrack's log."""
        self._values: dict[str, str] | None = None
        self._key = ""

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        """Begin a placemark, or one of its values."""
        if name == "Placemark":
            self._values = {}
        elif name in ("Data", "SimpleData"):
            self._key = attributes.get("name", "").strip()[:64]

    def end(self, name: str, text: str) -> None:
        """Use a value of a placemark, or the complete placemark."""
        if self._values is None:
            return
        words = " ".join(text.split())
        if name in ("value", "SimpleData") and self._key and len(self._values) < _MOST_COLUMNS:
            self._values.setdefault(self._key, words)
        elif name == "description":
            for key, value in _ROW.findall(text) or _LINE.findall(text):
                self._values.setdefault(key, " ".join(html.unescape(value).split()))
        elif name == "coordinates" and "Longitude" not in self._values:
            longitude, _, rest = words.partition(",")
            self._values |= {"Longitude": longitude.strip(), "Latitude": rest.partition(",")[0].strip()}
        elif name == "Placemark":
            self._use(self._values)
            self._values = None

    def _use(self, values: dict[str, str]) -> None:
        if len(self.rows) >= _MOST_PLACEMARKS:
            raise XmlRefusedError(f"only the first {_MOST_PLACEMARKS:,} placemarks are read; split the file")
        small = {name.lower(): text for name, text in values.items() if text}
        row: dict[str, str] = {}
        for name, text in values.items():
            row.setdefault(_COLUMNS.get(name.lower(), name), text)
        if not row.get("NetworkMode"):
            row["NetworkMode"] = next((rat for name, rat in _BY_VALUE if name in small), "")
        self.rows.append(row)


def sniff(head: bytes) -> Match:
    """Return "yes" for KML that names G-NetTrack or its values; "maybe" if no placemark has begun yet."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start != b"<" or not _SNIFFED.search(head):
        return "no"
    if _PROVED.search(head):
        return "yes"
    return "maybe" if len(head) >= HEAD_BYTES and b"<Placemark" not in head else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `radio` and `position`, and `markers` where placemarks are events.

    Raises
    ------
    FormatError
        If it is not KML, declares a document type, or no placemark is a reading of G-NetTrack.
    """
    lines, reader = LogLines(stream), _Reader()
    why = reader.read(lines.stream)
    rows = [row for row in reader.rows if row.get("Timestamp") and (row.get("Level") or row.get("EventType"))]
    if not any(row.get("Level") for row in rows):
        raise FormatError(path, why or _NOTHING)
    names = list(dict.fromkeys(name for row in rows for name in row))[:_MOST_COLUMNS]
    first = ("Timestamp", "Longitude", "Latitude", "NetworkMode", "Level")
    names = [*first, *(name for name in names if name not in first)]
    text = "".join("\t".join(each) + "\n" for each in (names, *([row.get(name, "") for name in names] for row in rows)))
    tables = gnettrack.parse(io.BytesIO(text.encode()), path=path)
    for table in tables.values():
        table.provenance["format"] = FORMAT.name
        table.columns |= {"line": table["line"] - 1} if "line" in table.columns else {}
    if why:
        tables["radio"].provenance["damaged"] = why
    return tables


FORMAT = Format(
    name="gnettrack-kml",
    layer="radio",
    description="drive tests of G-NetTrack, KML with a placemark for each reading",
    source="files of G-NetTrack Pro; OGC 07-147r2",
    sniff=sniff,
    parse=parse,
)
