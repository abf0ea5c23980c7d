"""GPX 1.1 (topografix.com): a track for each run of one colour, a waypoint for each mark.

The colour is that of the extension gpx_style 0.2; the value of a point stands in an extension of our own, as
a number with its unit as attribute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from multitracer import __version__
from multitracer.geo.track import DIGITS, stamp
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.geo.track import Mark, Run, Track

NAMESPACE = "urn:multitracer:track:1"
"""Of the element `value` in the extensions of a point."""
_STYLE = "http://www.topografix.com/GPX/gpx_style/0/2"


def gpx(track: Track) -> str:
    """Return a track as GPX.

    Returns
    -------
    str
        Waypoints, then tracks in order of time. A point without a value has no extension. The description
        names the classes and their colours.
    """
    return "\n".join(_lines(track)) + "\n"


def _lines(track: Track) -> Iterator[str]:
    legend = "; ".join(f"{words}: {colour}" for words, colour in track.legend)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<gpx version="1.1" creator="MultiTracer {__version__}" xmlns="http://www.topografix.com/GPX/1/1"'
    yield f' xmlns:mt="{NAMESPACE}">'
    yield f"<metadata><name>{_text(track.title)}</name><desc>{_text(legend)}</desc></metadata>"
    yield from (_mark(mark, lat, lon) for mark, lat, lon in track.marks)
    unit = "" if track.quantity is None else quoteattr(track.quantity.unit)
    extensions = [
        "" if value is None else f"<extensions><mt:value unit={unit}>{value!r}</mt:value></extensions>"
        for value in track.values()
    ]
    stamps = track.stamps()
    for run in track.runs:
        yield from _track(track, run, stamps, extensions)
    yield "</gpx>"


def _track(track: Track, run: Run, stamps: list[str], extensions: list[str]) -> Iterator[str]:
    yield f'<trk><name>{_text(run.words)}</name><extensions><line xmlns="{_STYLE}">'
    yield f"<color>{run.colour[1:]}</color></line></extensions><trkseg>"
    for n in run.points:
        place = f'lat="{track.lat_deg[n]:.{DIGITS}f}" lon="{track.lon_deg[n]:.{DIGITS}f}"'
        yield f"<trkpt {place}><time>{stamps[n]}</time>{extensions[n]}</trkpt>"
    yield "</trkseg></trk>"


def _mark(mark: Mark, lat: float, lon: float) -> str:
    return (
        f'<wpt lat="{lat:.{DIGITS}f}" lon="{lon:.{DIGITS}f}"><time>{stamp(mark.time_ns)}</time>'
        f"<name>{_text(mark.name)}</name><desc>{_text(mark.words)}</desc></wpt>"
    )


def _text(text: str) -> str:
    return escape(printable(text))
