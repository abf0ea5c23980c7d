"""KML 2.2 (OGC 07-147r2): a folder for each class of the legend, with its lines; a folder of marks.

Google Earth renders a description as HTML: what comes from outside is escaped twice, once for HTML and once
for XML. Each line has a TimeSpan, so that the program's time slider shows the drive.
"""

from __future__ import annotations

from html import escape as html
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape as xml

from multitracer.geo.track import DIGITS, stamp
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.geo.track import Mark, Run, Track

_WIDTH_PX = 4


def kml(track: Track) -> str:
    """Return a track as KML.

    Returns
    -------
    str
        A Document with a style and a folder for each class. Each line has, in ExtendedData, the times and
        the values of its points, separated by spaces, in `unit`; a missing value is "NA".
    """
    return "\n".join(_lines(track)) + "\n"


def _lines(track: Track) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<kml xmlns="http://www.opengis.net/kml/2.2">'
    yield f"<Document><name>{_text(track.title)}</name>"
    for number, (_, colour) in enumerate(track.legend):
        yield f'<Style id="class{number}"><LineStyle><color>{_abgr(colour)}</color>'
        yield f"<width>{_WIDTH_PX}</width></LineStyle></Style>"
    values = ["NA" if value is None else repr(value) for value in track.values()]
    columns = track.stamps(), values
    for number, (words, _) in enumerate(track.legend):
        runs = [run for run in track.runs if run.words == words]
        if runs:
            yield f"<Folder><name>{_text(words)}</name>"
            for run in runs:
                yield from _placemark(track, run, number, columns)
            yield "</Folder>"
    if track.marks:
        yield "<Folder><name>Marks</name>"
        yield from (_mark(mark, lat, lon) for mark, lat, lon in track.marks)
        yield "</Folder>"
    yield "</Document></kml>"


def _placemark(track: Track, run: Run, number: int, columns: tuple[list[str], list[str]]) -> Iterator[str]:
    stamps, values = ([column[point] for point in run.points] for column in columns)
    yield f"<Placemark><name>{_text(run.words)}</name>"
    yield f"<TimeSpan><begin>{stamps[0]}</begin><end>{stamps[-1]}</end></TimeSpan>"
    yield f"<styleUrl>#class{number}</styleUrl><ExtendedData>"
    if track.quantity is not None:
        yield _data("quantity", track.quantity.scale.title)
        yield _data("unit", track.quantity.unit)
        yield _data("values", " ".join(values))
    yield _data("times", " ".join(stamps))
    yield "</ExtendedData><LineString><tessellate>1</tessellate><coordinates>"
    yield " ".join(f"{track.lon_deg[n]:.{DIGITS}f},{track.lat_deg[n]:.{DIGITS}f}" for n in run.points)
    yield "</coordinates></LineString></Placemark>"


def _mark(mark: Mark, lat: float, lon: float) -> str:
    return (
        f"<Placemark><name>{_text(mark.name)}</name>"
        f"<description>{xml(html(printable(mark.words)))}</description>"
        f"<TimeStamp><when>{stamp(mark.time_ns)}</when></TimeStamp>"
        f"<Point><coordinates>{lon:.{DIGITS}f},{lat:.{DIGITS}f}</coordinates></Point></Placemark>"
    )


def _data(name: str, value: str) -> str:
    return f'<Data name="{name}"><value>{_text(value)}</value></Data>'


def _text(text: str) -> str:
    return xml(printable(text))


def _abgr(colour: str) -> str:
    """Return a colour as KML writes it: opaque, blue, green, red."""
    red, green, blue = colour[1:3], colour[3:5], colour[5:7]
    return f"ff{blue}{green}{red}"
