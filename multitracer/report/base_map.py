"""The base map of a drive: lines and outlines of a local GeoJSON file (RFC 7946) near the route.

The file is not trusted: its size, the number of points and the nesting are limited, and no text of the file
is shown, only its name. PMTiles files are not supported: their vector tiles need two more libraries.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.errors import InputError
from multitracer.report.packed_columns import pack_columns
from multitracer.words import portable, printable

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Document, Mask

MOST_BYTES = 64 << 20
"""Maximum file size, enough for all roads of a city. The parsed JSON needs about ten times as much memory."""
NO_ROUTE = "holds no route, so the base map is not used"
MOST_POINTS = 2_000_000
"""Maximum number of points in the file, before lines far from the route are removed."""
_DEEPEST = 16
"""Maximum nesting depth of geometry collections; drawing programs do not nest them."""
MOST_DRAWN = 120_000
"""Maximum points of the base map in a page: about 0.8 MB; the browser examines all of them at each redraw."""
_MARGIN_M = 500.0
_MARGIN_SHARE = 0.1
"""Margin around the route, as a share of the longer side of its bounding box; at least _MARGIN_M. Not measured."""
_CORRIDORS_M = (5_000, 2_000, 500)
"""Maximum distances of lines from a long route, tried in this order until few enough lines remain. Not measured."""
_ROUGHEST_M = 20.0
"""Coarsest grid for thinning lines; if it leaves too many points, lines far from the route are removed. Not measured.
"""
_FINEST_M = 2.0
"""Minimum distance between two points of a line: one pixel at the highest typical zoom. Not measured."""
_COARSEST_M = 1e5
"""Coarsest grid of all; lines that have too many points even on this grid are not roads: only the first are drawn."""
_LINES = {"LineString": 1, "MultiLineString": 2, "Polygon": 2, "MultiPolygon": 3}
"""Types of geometry that are drawn, with the nesting depth of their lines in `coordinates`."""


@dataclass(frozen=True)
class BaseMap:
    """Lines of a base map.

    Attributes
    ----------
    name : str
        Name of the file.
    lon_deg, lat_deg : ndarray of float64, degrees (WGS 84), shape (n,)
    joined : ndarray of bool, shape (n,)
        Whether a line joins the previous point to this one.
    skipped : int
        Number of geometries that are not lines or have invalid coordinates.
    """

    name: str
    lon_deg: Array
    lat_deg: Array
    joined: Mask
    skipped: int


class _Kept(NamedTuple):
    east: Array
    north: Array
    joined: Mask


def base_map_of(recording: Recording, path: str | os.PathLike[str]) -> BaseMap:
    """Return the lines of a GeoJSON file; if the recording has no route, add a warning to it.

    Raises
    ------
    InputError
        As `read_base_map`.
    """
    base = read_base_map(path)
    if recording.radio_context().route is None:
        recording.warn_once(f"{recording.name}: {NO_ROUTE}")
    return base


def read_base_map(path: str | os.PathLike[str]) -> BaseMap:
    """Return the lines of a GeoJSON file.

    Raises
    ------
    InputError
        If the file cannot be read, is not GeoJSON, is too large, or has no line in longitude and latitude.
    """
    where = printable(portable(str(path)))
    document = _parsed(Path(path), where)
    lines, skipped = [], 0
    points = 0
    for line in _lines_of(document, where):
        usable = _coordinates(line)
        if usable is None:
            skipped += 1
            continue
        points += len(usable)
        if points > MOST_POINTS:
            raise InputError(
                f"{where}: the lines of this map have more than {MOST_POINTS:,} points; cut out the region of the drive"
            )
        lines.append(usable)
    if not lines:
        raise InputError(
            f"{where}: this map contains no line in longitude and latitude; export lines as GeoJSON in EPSG:4326"
        )
    joined = np.ones(points, dtype=bool)
    joined[np.cumsum([0, *(len(line) for line in lines[:-1])])] = False
    lon, lat = np.concatenate(lines).T
    return BaseMap(Path(path).name, lon, lat, joined, skipped)


def _parsed(path: Path, where: str) -> Document:
    try:
        if not path.is_file():
            raise InputError(f"{where}: this is not a regular file; name a GeoJSON file")
        with path.open("rb") as stream:
            text = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: cannot read this file ({error}); name a GeoJSON file") from error
    if text.startswith(b"PMTiles"):
        raise InputError(
            f"{where}: this file is a PMTiles file, which is not supported; export the region of the drive as GeoJSON"
        )
    if len(text) > MOST_BYTES:
        raise InputError(f"{where}: this file is longer than {MOST_BYTES >> 20} MiB; cut out the region of the drive")
    try:
        document = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{where}: this file is not valid GeoJSON ({type(error).__name__}); export the map again"
        ) from error
    if not isinstance(document, dict):
        raise InputError(
            f'{where}: this file is not valid GeoJSON, because it is not an object with a "type"; export the map again'
        )
    return document


def _lines_of(document: Document, where: str) -> Iterator[object]:
    """Yield the list of positions of each line in all geometries; the positions are not checked.

    None is yielded for a geometry that has no line.
    """
    waiting: list[tuple[object, int]] = [(document, 0)]
    while waiting:
        each, depth = waiting.pop()
        if depth > _DEEPEST:
            raise InputError(
                f"{where}: the geometry collections are nested more than {_DEEPEST} levels deep; export the map again"
            )
        kind = each.get("type") if isinstance(each, dict) else None
        if kind in ("FeatureCollection", "GeometryCollection") and isinstance(each, dict):
            held = each.get("features" if kind == "FeatureCollection" else "geometries")
            waiting += [(one, depth + 1) for one in reversed(held)] if isinstance(held, list) else []
        elif kind == "Feature" and isinstance(each, dict):
            waiting.append((each.get("geometry"), depth + 1))
        elif isinstance(kind, str) and kind in _LINES and isinstance(each, dict):
            yield from _nested(each.get("coordinates"), _LINES[kind])
        else:
            yield None


def _nested(coordinates: object, depth: int) -> Iterator[object]:
    if depth == 1:
        yield coordinates
    elif isinstance(coordinates, list):
        for each in coordinates:
            yield from _nested(each, depth - 1)
    else:
        yield None


def _coordinates(line: object) -> Array | None:
    """Return longitude and latitude of a line, shape (n, 2); None if it is not a valid line."""
    if not isinstance(line, list) or len(line) < 2:
        return None
    try:
        degrees = np.array([(position[0], position[1]) for position in line], dtype=np.float64)
    except (TypeError, ValueError, IndexError, KeyError, OverflowError):
        return None
    if degrees.shape != (len(line), 2):
        return None
    on_earth = (np.abs(degrees) <= (360, 90)).all()  # NaN is not
    return degrees if on_earth else None


# --- cut to the route ---


def base_document(
    base: BaseMap, to_metres: Callable[[Array, Array], tuple[Array, Array]], route: tuple[Array, Array]
) -> Document:
    """Return the part of a base map around a route as JSON for `map.js`, in whole metres.

    Parameters
    ----------
    base : BaseMap
    to_metres : callable
        Converts latitudes and longitudes to metres east and north, in the coordinates of the route.
    route : pair of ndarray of float64, shape (n,)
        Metres east and north of the route.
    """
    east, north = to_metres(base.lat_deg, base.lon_deg)
    near = _around(_Kept(east, north, base.joined), route)
    where, kept, finest_m = "around the route", *_fitting(near, _ROUGHEST_M)
    for reach_m in _CORRIDORS_M:
        if len(kept.east) <= MOST_DRAWN:
            break
        corridor = _within(near, route, reach_m)
        roughest_m = _COARSEST_M if reach_m == _CORRIDORS_M[-1] else _ROUGHEST_M
        where, kept, finest_m = f"within {reach_m / 1000:g} km of the route", *_fitting(corridor, roughest_m)
    kept = _Kept(*(column[:MOST_DRAWN] for column in kept))
    columns = {
        "x": np.rint(kept.east).astype(np.int64),
        "y": np.rint(kept.north).astype(np.int64),
        "joined": kept.joined.astype(np.int64),
    }
    facts = f"{len(kept.east):,} of {len(near.east):,} points {where}, to {finest_m:.0f} m"
    return pack_columns(columns) | {"words": _words(base, facts if len(kept.east) else "")}


def _fitting(lines: _Kept, roughest_m: float) -> tuple[_Kept, float]:
    """Return lines that are thinned until they fit into the page, and the width of the thinning grid in m.

    The width is at most `roughest_m`.
    """
    finest_m = _FINEST_M
    while len((kept := _thinned(lines, finest_m)).east) > MOST_DRAWN and finest_m * 1.5 <= roughest_m:
        finest_m *= 1.5
    return kept, finest_m


def _within(lines: _Kept, route: tuple[Array, Array], reach_m: float) -> _Kept:
    """Return the line segments near the route.

    One of their endpoints is in a grid cell of the route or in a neighbouring cell; a cell is
    `reach_m` wide.
    """
    own = _cells(route[0], route[1], reach_m)
    wide = [own + east * _ROW + north for east in (-1, 0, 1) for north in (-1, 0, 1)]
    near = np.isin(_cells(lines.east, lines.north, reach_m), np.unique(np.concatenate(wide)))
    inside = lines.joined.copy()
    inside[1:] &= near[1:] | near[:-1]
    return _steps(lines, inside)


_ROW = 1 << 32
"""Factor of the row in the number of a grid cell: larger than the number of cells from pole to pole."""


def _cells(east: Array, north: Array, size_m: float) -> Array:
    cells = np.floor(east / size_m).astype(np.int64) * _ROW + np.floor(north / size_m).astype(np.int64)
    return np.asarray(cells)


def _steps(lines: _Kept, inside: Mask) -> _Kept:
    """Return the line segments that end at the points of the mask `inside`, each with its first point."""
    point = inside.copy()
    point[:-1] |= inside[1:]
    return _Kept(lines.east[point], lines.north[point], inside[point])


def _around(lines: _Kept, route: tuple[Array, Array]) -> _Kept:
    """Return the line segments whose bounding box overlaps the square around the route, in metres."""
    inside = np.zeros(len(lines.east), dtype=bool)
    inside[1:] = lines.joined[1:]
    long_m = max(float(np.ptp(each)) for each in route)
    reach = long_m / 2 + max(_MARGIN_M, _MARGIN_SHARE * long_m)
    for metres, own in zip((lines.east, lines.north), route, strict=True):
        middle = (float(own.min()) + float(own.max())) / 2
        low, high = middle - reach, middle + reach
        inside[1:] &= (np.maximum(metres[1:], metres[:-1]) >= low) & (np.minimum(metres[1:], metres[:-1]) <= high)
    return _steps(lines, inside)


def _thinned(lines: _Kept, finest_m: float) -> _Kept:
    """Return the lines with fewer points: of consecutive points in one grid cell only the first remains.

    A cell is `finest_m` metres wide.
    """
    cell_x, cell_y = np.floor(lines.east / finest_m), np.floor(lines.north / finest_m)
    same = np.zeros(len(cell_x), dtype=bool)
    same[1:] = lines.joined[1:] & (cell_x[1:] == cell_x[:-1]) & (cell_y[1:] == cell_y[:-1])
    left = np.flatnonzero(~same)
    alone = ~lines.joined[left] & ~np.append(lines.joined[left][1:], False)  # a line that lies in one cell
    left = left[~alone]
    return _Kept(lines.east[left], lines.north[left], lines.joined[left])


def _words(base: BaseMap, facts: str) -> str:
    name = f"Base map: {printable(base.name)}: {facts or 'no line of it lies around the route'}"
    return f"{name}; {base.skipped:,} of its geometries are no lines." if base.skipped else f"{name}."
