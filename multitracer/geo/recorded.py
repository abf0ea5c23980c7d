"""Makes the track of a recording: route, quantity for the colour, and events on the route."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.handovers import bounds_ns
from multitracer.analysis.series.labelled import GPS_SPEED, RADIO_SERIES
from multitracer.diagnosis.drive import Drive, drive_of
from multitracer.errors import InputError
from multitracer.figures.palette import SCALES
from multitracer.geo.route_files import geojson, gpx, kml
from multitracer.geo.track import RouteColour, Track, TrackMark
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.recording.radio_context import RadioContext
    from multitracer.recording.recording import Recording
    from multitracer.tables import Table

COLUMNS = {shown.column: label for label, shown in RADIO_SERIES.items()} | {"speed_mps": GPS_SPEED}
"""Label of the series, by the column of radio or position."""
PLAIN_ROUTE = "none"
"""Value of the option for a route without a quantity."""


def recorded_track(recording: Recording, colour: str | None = None) -> Track:
    """Return the track of a recording.

    With a capture, times are those of the sender's clock, as in the report.

    Parameters
    ----------
    recording : Recording
    colour : str, optional
        A column of COLUMNS, the label of its series, or "none". Default: the first of the map's quantities
        that was recorded (RSRP, then RSSI, RSCP, ...).

    Raises
    ------
    InputError
        If the recording has no trustworthy position, or no value of the requested quantity.
    """
    drive = drive_of(recording)
    if drive.route is None:
        drive = Drive(recording.radio_context())
    if drive.route is None:
        raise InputError(f"{recording.name}: this recording contains no reliable position; also record GPS")
    quantity = _quantity(recording, drive.radio_context, colour)
    return Track.of(recording.name, drive.route, quantity, _marks(drive))


def writer_of(path: str) -> Callable[[Track], str]:
    """Return the function that writes a track in the format of the file name's extension.

    Raises
    ------
    InputError
        If no format has this extension.
    """
    ending = Path(path).suffix.lower()
    if ending not in _WRITERS:
        raise InputError(f"{path}: the suffix is not a known route format; use .geojson, .kml or .gpx")
    return _WRITERS[ending]


_WRITERS: dict[str, Callable[[Track], str]] = {".geojson": geojson, ".json": geojson, ".kml": kml, ".gpx": gpx}


def _quantity(recording: Recording, radio_context: RadioContext, colour: str | None) -> RouteColour | None:
    if colour == PLAIN_ROUTE:
        return None
    there = {label: table for label, table in radio_context.series.items() if label in SCALES and len(table)}
    if colour is None:
        return next((RouteColour(SCALES[each], there[each]) for each in SCALES if each in there), None)
    label = COLUMNS.get(colour, colour)
    if label not in there:
        known = ", ".join(column for column, label in COLUMNS.items() if label in there) or "nothing"
        raise InputError(f'{recording.name}: the quantity "{colour}" was not recorded; choose one of {known}')
    return RouteColour(SCALES[label], there[label])


def _marks(drive: Drive) -> Iterator[TrackMark]:
    """Yield a mark for each cell change, bad segment and note of the engineer."""
    for placed in drive.radio_context.markers:
        notes = zip(placed.table["time_ns"].tolist(), placed.table["note"].tolist(), strict=True)
        yield from (TrackMark(time, "note", note or "marked") for time, note in notes if time != NOT_A_TIME)
    for phone in drive.phones[:1]:  # the one that the report shows
        yield from chain(_handovers(phone.handovers), _stretches(drive.stretches))


def _handovers(handovers: Table) -> Iterator[TrackMark]:
    low, high = bounds_ns(handovers)
    for row, took_s in zip(handovers.rows(), ((high - low) / NS_PER_S).tolist(), strict=True):
        rats = [name for name in (row["source_rat"], row["target_rat"]) if name]
        technology = f", {rats[0]} to {rats[1]}" if len(rats) == 2 and rats[0] != rats[1] else ""
        words = f"{row['result']}, shown by the {row['evidence']}, within {took_s:.3g} s{technology}"
        yield TrackMark(row["time_ns"], "change of the cell", words)


def _stretches(bad: Table) -> Iterator[TrackMark]:
    middle = bad["begin_ns"] + (bad["end_ns"] - bad["begin_ns"]) // 2
    for row in np.argsort(bad["begin_ns"], kind="stable").tolist():
        cause = _cause_seconds(bad, row)
        length = f"{bad['seconds'][row]:.0f} s" + (f" (its cause {cause:.0f} s)" if cause else "")
        words = f"{length}: {bad['evidence'][row] or bad['missing'][row]}"
        yield TrackMark(int(middle[row]), str(bad["cause"][row]), words)


def _cause_seconds(bad: Table, row: int) -> float:
    """Return the duration of a bad segment's cause in s, if it differs from the segment's duration.

    Else 0.
    """
    begin, end = (int(bad[name][row]) for name in ("cause_begin_ns", "cause_end_ns"))
    if NOT_A_TIME in (begin, end):
        return 0.0
    cause_s = (end - begin) / NS_PER_S
    return cause_s if abs(cause_s - bad["seconds"][row]) >= 1 else 0.0
