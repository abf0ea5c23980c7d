"""The labelled series of a connection as files, one each (paper 004, section 4.5).

A file is comma-separated text: comments with label, unit, source and meaning, a line of column names, then a
row per point. The file name is our label; no part of it comes from a capture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.units import NS_PER_S
from multitracer.words import no_formula, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from multitracer.tables import Table

_TOLD = ("label", "unit", "source", "doc")


def write_series(
    folder: Path,
    series: Iterable[Table],
    *,
    origin_ns: int,
    bounds_ns: tuple[int | None, int | None] = (None, None),
) -> None:
    """Write each of SERIES to `LABEL.csv`, unless it has no point within the bounds.

    Parameters
    ----------
    folder : Path
        Exists.
    series : iterable of Table
        With their provenance.
    origin_ns : int
        What the column `seconds` counts from.
    bounds_ns : pair of int or None
        Begin and end of the points to write, the end not included; None leaves a side open.
    """
    for table in filter(len, (_between(whole, *bounds_ns) for whole in series)):
        path = folder / f"{table.provenance['label']}.csv"
        with path.open("w", encoding="utf-8", newline="") as stream:
            stream.writelines(_lines(table, origin_ns))


def _between(series: Table, begin_ns: int | None, end_ns: int | None) -> Table:
    inside = np.ones(len(series), dtype=bool)
    if begin_ns is not None:
        inside &= series["time_ns"] >= begin_ns
    if end_ns is not None:
        inside &= series["time_ns"] < end_ns
    return series.take(inside)


def _lines(table: Table, origin_ns: int) -> Iterator[str]:
    for name in _TOLD:
        yield f"# {name}: {printable(table.provenance[name])}\n"
    unit = no_formula(table.provenance["unit"])
    yield f"time_ns,seconds,value_{unit}\n"
    for time_ns, value in zip(table["time_ns"].tolist(), table["value"].tolist(), strict=True):
        yield f"{time_ns},{_seconds(time_ns - origin_ns)},{value:.15g}\n"


def _seconds(ns: int) -> str:
    """Return seconds with all digits: a float of such a time would lose some."""
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // NS_PER_S}.{abs(ns) % NS_PER_S:09d}"
