"""How a plot of xplot is written: heading, commands, numbers.

Source: xplot-xplot.org 0.90.7, demo.0, and the files that tcptrace 6.6.7 writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from multitracer.tables import Array, Times

_AT_ONCE = 1 << 16
"""Rows whose words are in memory at a time."""
END = "go\n"


def heading(title: str, across: str, up: str, *, axes: str = "timeval signed") -> str:
    """Return what stands before the commands; `axes` are the types of x and y."""
    return f"{axes}\ntitle\n{title}\nxlabel\n{across}\nylabel\n{up}\n"


def moment(time_ns: int) -> str:
    """Return a time as xplot's timeval: seconds with six digits, rounded down as tcptrace has them."""
    seconds, rest = divmod(time_ns, NS_PER_S)
    return f"{seconds}.{rest // NS_PER_US:06d}"


def rows(*columns: Array) -> Iterator[tuple[int, ...]]:
    """Yield the rows of columns as Python numbers, few of them at a time."""
    for begin in range(0, len(columns[0]), _AT_ONCE):
        yield from zip(*(column[begin : begin + _AT_ONCE].tolist() for column in columns), strict=True)


def curve(time_ns: Times, value: Array, colour: str, label: str) -> Iterator[str]:
    """Yield dots that lines join, with a label at the first line, as tcptrace draws a curve.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n,)
        Never NA.
    value : ndarray of int64, shape (n,)
    """
    before: tuple[str, int] | None = None
    is_named = False
    for stamp, number in rows(time_ns, value):
        at = moment(stamp)
        yield f"{colour}\ndot {at} {number}\n"
        if before is not None:
            if not is_named:
                yield f"ltext {at} {number} {colour}\n{label}\n"
                is_named = True
            yield f"line {at} {number} {before[0]} {before[1]}\n"
        before = at, number


def timed(time_ns: Times, chosen: Array) -> Array:
    """Return the rows of a mask that carry a time: int64, in capture order."""
    return np.flatnonzero(chosen & (time_ns != NOT_A_TIME))


def lines(*parts: Iterable[str]) -> Iterator[str]:
    """Yield what several parts of a plot write, and the end of the file."""
    for part in parts:
        yield from part
    yield END
