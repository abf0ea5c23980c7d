"""The KML that G-NetTrack writes beside its log: a placemark for each reading or event, with its values.

They stand in ExtendedData, or in the description, as a table or as lines of name and value.

Each placemark is read as a line of G-NetTrack's own log (`gnettrack.py`), so that levels, cells, times and events mean
the same in both. Names of values differ from those of its columns; rows have the number of their placemark. XML may be
hostile: a document type, which could declare entities, is refused; depth, texts and columns are bounded. Source: files
of G-NetTrack Pro; KML 2.2 (OGC 07-147r2), ExtendedData.
"""

from __future__ import annotations

import html
import io
import re
from typing import TYPE_CHECKING, BinaryIO
from xml.parsers import expat

from multitracer.errors import FormatError
from parsers import gnettrack
from parsers._format import HEAD_BYTES, Format, Match
from parsers._text.lines import LogLines

if TYPE_CHECKING:
    from multitracer.tables import Table

_CHUNK_BYTES = 1 << 16
_DEEPEST = 64
"""Depth of XML elements; KML of G-NetTrack is about 8 deep."""
_LONGEST_TEXT = 16_384
"""Of a description with a table of all values, 100 octets a row; other texts are short."""
_LONGEST_TAG_BYTES = 1 << 20
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


class _Refused(Exception):  # noqa: N818  it never leaves this module
    """XML that is not read further; the argument is the reason."""


class _Reader:
    """Collects the values of placemarks as expat reads them."""

    def __init__(self) -> None:
        self.rows: list[dict[str, str]] = []
        """Values of each placemark by column of G-NetTrack's log."""
        self._names: list[str] = []
        self._values: dict[str, str] | None = None
        self._key = ""
        self._text: list[str] = []
        self._length = self._fed = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._parser.EntityDeclHandler = self._refuse

    def feed(self, chunk: bytes) -> None:
        """Use some bytes; none at the end.

        Raises
        ------
        expat.ExpatError
            If they are not XML.
        """
        self._fed += len(chunk)
        self._parser.Parse(chunk, not chunk)
        if (
            self._fed - max(self._parser.CurrentByteIndex, 0) > _LONGEST_TAG_BYTES
        ):  # expat keeps a tag that is not whole
            raise _Refused(f"a tag or comment of the file is longer than {_LONGEST_TAG_BYTES >> 20} MiB")

    def _refuse(self, *_declared: object) -> None:
        raise _Refused(
            "document types (DOCTYPE) are not accepted, because they may declare entities; remove the DOCTYPE"
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._names.append(name.rpartition(":")[2])
        if len(self._names) > _DEEPEST:
            raise _Refused(f"the XML elements are nested more than {_DEEPEST} levels deep")
        self._text, self._length = [], 0
        if self._names[-1] == "Placemark":
            self._values = {}
        elif self._names[-1] in ("Data", "SimpleData"):
            self._key = attributes.get("name", "").strip()[:64]

    def _characters(self, text: str) -> None:
        self._length += len(text)
        if self._length <= _LONGEST_TEXT:
            self._text.append(text)

    def _end(self, _name: str) -> None:
        name, raw = self._names.pop(), "".join(self._text)
        text = " ".join(raw.split())
        self._text, self._length = [], 0
        if self._values is None:
            return
        if name in ("value", "SimpleData") and self._key and len(self._values) < _MOST_COLUMNS:
            self._values.setdefault(self._key, text)
        elif name == "description":
            for key, value in _ROW.findall(raw) or _LINE.findall(raw):
                self._values.setdefault(key, " ".join(html.unescape(value).split()))
        elif name == "coordinates" and "Longitude" not in self._values:
            longitude, _, rest = text.partition(",")
            self._values |= {"Longitude": longitude.strip(), "Latitude": rest.partition(",")[0].strip()}
        elif name == "Placemark":
            self._use(self._values)
            self._values = None

    def _use(self, values: dict[str, str]) -> None:
        if len(self.rows) >= _MOST_PLACEMARKS:
            raise _Refused(f"only the first {_MOST_PLACEMARKS:,} placemarks are read; split the file")
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
    why = _read(reader, lines)
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


def _read(reader: _Reader, lines: LogLines) -> str | None:
    """Read the document; return why it was not read to its end, or None."""
    try:
        while chunk := lines.stream.read(_CHUNK_BYTES):
            reader.feed(chunk)
        reader.feed(b"")
    except FormatError as error:  # of what unpacks the file
        return error.reason
    except expat.ExpatError as error:
        return f"not valid XML at line {error.lineno:,}: {expat.ErrorString(error.code)}"
    except _Refused as error:
        return str(error)
    except (LookupError, ValueError) as error:
        return f"the character encoding is not supported: {error}"
    return None


FORMAT = Format(
    name="gnettrack-kml",
    layer="radio",
    description="drive tests of G-NetTrack, KML with a placemark for each reading",
    source="files of G-NetTrack Pro; OGC 07-147r2",
    sniff=sniff,
    parse=parse,
)
