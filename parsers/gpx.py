"""GPX 1.0 and 1.1: points of tracks are positions, waypoints with a time are markers.

Times are UTC by the format; a time without a zone may still be local, and a warning says so. Points of a planned route,
and points without a time, are counted but not read. Source: topografix.com/GPX/1/1 and GPX/1/0; speed and course of
1.0, of Garmin's TrackPointExtension and of OsmAnd.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from multitracer.schemas.radio import MARKERS, POSITION
from multitracer.words import count
from parsers._format import Format, Match
from parsers._text.collector_log import Nowhere, Sparse
from parsers._text.column_map import RANGES
from parsers._text.lines import ZONELESS, LogLines
from parsers._text.mapped_log import Jumps
from parsers._text.times import Rows, decimal_of, time_ns
from parsers._text.xml_reader import XmlReader, XmlRefusedError

if TYPE_CHECKING:
    from multitracer.tables import Document, Table

_LONGEST_TEXT = 4096
_LONGEST_NOTE = 256
_SNIFFED = re.compile(rb"<(?:!DOCTYPE\s+)?gpx[\s>]")
_POINTS = ("trkpt", "rtept", "wpt")
_NUMBERS = {
    "ele": "altitude_m", "speed": "speed_mps", "course": "heading_deg", "bearing": "heading_deg",
    "hdop": "hdop", "sat": "satellites", "accuracy": "error_m",
}  # fmt: skip
"""Columns by element of GPX or of an extension. Speed is in m/s in 1.0 and in both extensions."""
_TEXTS = ("time", "fix", "name", "desc", "cmt")
_FIX = {"none": 0, "2d": 2, "3d": 3, "dgps": 3, "pps": 3}
_COMPLETE = ("satellites",)


class _Reader(XmlReader):
    """Handles the elements of a document."""

    def __init__(self, lines: LogLines) -> None:
        super().__init__(_LONGEST_TEXT)
        self._lines = lines
        self.positions = Sparse(POSITION)
        self.markers = Rows(MARKERS, ("time_ns", "line", "note"))
        self.jumps = Jumps()
        self.nowhere = Nowhere()
        self._point: Document | None = None
        self._begin = 0

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        """Begin a point; refuse a document of another kind."""
        if len(self.names) == 1 and name != "gpx":
            raise XmlRefusedError("the XML document is not GPX")
        if name in _POINTS and self._point is None:
            self._point = {"lat_deg": attributes.get("lat"), "lon_deg": attributes.get("lon")}
            self._begin = self.line

    def end(self, name: str, text: str) -> None:
        """Use a value of a point, or the complete point."""
        if self._point is None:
            return
        if name in _POINTS:
            point, self._point = self._point, None
            self._use(name, point)
        elif name in _NUMBERS:
            self._point.setdefault(_NUMBERS[name], text.strip())
        elif name in _TEXTS:
            self._point.setdefault(name, text.strip())

    def _use(self, kind: str, point: Document) -> None:
        self._lines.number = self._begin
        at_ns = time_ns(str(point.get("time") or ""), "iso", None, self._zoneless)
        if kind == "rtept":
            self._lines.skip("a point of a planned route")
        elif at_ns is None:
            self._lines.skip("a waypoint without a time" if kind == "wpt" else "a point without a time")
        elif kind == "wpt":
            note = " ".join(part for key in ("name", "desc", "cmt") if (part := str(point.get(key) or "")))
            shown = "".join(c for c in note if c.isprintable())[:_LONGEST_NOTE]
            self.markers.append(at_ns, self._begin, shown)
        else:
            self.jumps.take(self._begin, at_ns)
            stamps = {"source": "gpx", "time_ns": at_ns, "fix_time_ns": at_ns, "line": self._begin}
            self.positions.append({**stamps, **self._values(point)})

    def _zoneless(self) -> None:
        self._lines.warn(ZONELESS)

    def _values(self, point: Document) -> Document:
        """Return the values of a point; an impossible value is missing and counted."""
        values: Document = {"fix": _FIX.get(str(point.get("fix") or "").casefold())}
        for name in ("lat_deg", "lon_deg", *dict.fromkeys(_NUMBERS.values())):
            if point.get(name):
                values[name] = self._number(name, str(point[name]))
        return self.nowhere.drop(values)

    def _number(self, name: str, text: str) -> float | None:
        value, (minimum, most) = decimal_of(text), RANGES[name]
        if value is None or not minimum <= value <= most:
            self._lines.drop(name)
            return None
        return int(value) if name in _COMPLETE else value


def sniff(head: bytes) -> Match:
    """Return "yes" for XML whose document is a gpx."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    return "yes" if start == b"<" and _SNIFFED.search(head) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `position`, and `markers` where waypoints have a time.

    Raises
    ------
    FormatError
        If it is not GPX, declares a document type, or no point has a time.
    """
    lines = LogLines(stream)
    reader = _Reader(lines)
    why = reader.read(lines.stream)
    if not len(reader.positions) and not len(reader.markers):
        reasons = ", ".join(f"{count(n, 'time')} {reason}" for reason, n in lines.skipped.items())
        raise FormatError(
            path, why or f"no track point of the file has a time ({reasons or 'the file has no track point'})"
        )
    lines.damage = why
    for sentence in reader.jumps.sentences():
        lines.warn(sentence)
    provenance = lines.provenance(path, FORMAT.name, missing=reader.nowhere.note(lines))
    tables = {"position": reader.positions.table(provenance)}
    return tables | ({"markers": reader.markers.table(provenance)} if len(reader.markers) else {})


FORMAT = Format(
    name="gpx",
    layer="position",
    description="tracks and waypoints of GPS receivers, GPX 1.0 and 1.1",
    source="topografix.com/GPX/1/1",
    sniff=sniff,
    parse=parse,
)
