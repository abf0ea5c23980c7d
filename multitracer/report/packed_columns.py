"""Encodes columns of integers as text of a page, and chooses the columns and points of a figure that fit.

A column of a figure is written as differences, zigzag, byte planes, gzip, base64: the differences of
neighbouring numbers are small, zigzag makes them positive, and the planes (all lowest bytes, then all second
ones, ...) group similar bytes. A short series of a map or an overview is written as varints
(`pack_columns`, 7 bits a byte, lowest first; `points/table.js` holds the inverse). In the page,
`points/decoder.js` reads the columns again and makes the blocks of 64 points (lowest, highest) that make far
views quick, `loader.js` has it run in a worker, `table.js` answers what is in a window, and `figure.js` on
`plot.js` on `panel.js` draws it on a canvas.

`fitted` leaves out data in a fixed order. First the frame numbers of derived quantities, which the packets
still have. Then the ticks become 1 µs. Then the finest points: of each interval the first, last, lowest and
highest value stay, and rare events.

What must hold: an overview is in the page itself, and drawn before the rest is read. A rare event is drawn
in every view. A page states what it leaves out.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.figures.series import RARE_LIMIT, thin
from multitracer.units import NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from multitracer.figures.series import Series
    from multitracer.tables import Array, Document

_MOST_BYTES = 10
"""Maximum bytes of one number: 64 bits, 7 a byte."""


def zigzag(numbers: Array) -> Array:
    """Return the differences of numbers, the first one from 0, as numbers without a sign.

    Parameters
    ----------
    numbers : ndarray of int, shape (n,)

    Returns
    -------
    ndarray of uint64, shape (n,)
        0, 1, 2, 3, ... for the differences 0, -1, 1, -2, ...
    """
    deltas = numbers.astype(np.int64)
    deltas[1:] -= numbers.astype(np.int64)[:-1]
    coded: Array = ((deltas << 1) ^ (deltas >> 63)).view(np.uint64)
    return coded


def pack_columns(columns: Mapping[str, Array]) -> Document:
    """Return columns of whole numbers as JSON that `Columns.unpack` reads.

    Parameters
    ----------
    columns : mapping of str to ndarray of int, each of shape (n,)
        "time" is in ticks, and "value" may hold BREAK; `tick_s` and `scale` beside the columns give the
        units.
    """
    shifts = np.uint64(7) * np.arange(_MOST_BYTES, dtype=np.uint64)
    data = []
    for column in columns.values():  # differences as zigzag varints, the first one from 0
        groups = zigzag(column)[:, None] >> shifts
        used = groups != 0
        used[:, 0] = True
        low = (groups & np.uint64(0x7F)).astype(np.uint8)
        low[:, :-1] |= used[:, 1:].astype(np.uint8) << 7
        data.append(bytes(low[used]))
    points = len(next(iter(columns.values())))
    return {"points": points, "columns": list(columns), "data": base64.b64encode(b"".join(data)).decode()}


_GZIP_LEVEL = 6
"""Compression level: level 9 took 15 times as long and saved 5 % on a recorded transfer."""
MOST_POINTS = 5_000_000
"""Maximum points of a figure. In Chromium on two idle cores they took 350 to 420 MB, and 17 ms to draw."""

_FEWEST_BINS = 64
"""Minimum bins of a thinned series. Not measured."""
_SHRINK = 0.9
"""Factor on the number of bins in the next try, because fewer points take more bytes each. Not measured."""
_COARSEST_TICK_NS = NS_PER_US
"""The narrowest view of a page is as wide."""
_RARE_BYTES = 12
"""Approximate base64 size of a rare event; two fifths of the budget are for these."""
_MOST_TICKS = 1 << 52
"""Maximum ticks: JavaScript numbers are doubles, which cannot distinguish neighbouring larger integers."""


@dataclass(frozen=True)
class Fitted:
    """The encoded data for the page.

    Parameters
    ----------
    tick_ns : int
        Resolution of the times.
    lines : list of str
        The texts of the columns; two equal ones are written once.
    entries : list of dict
        For each series: its points, its columns, their planes, and the line of each.
    reduced : str
        Sentences on what was left out; "" if nothing was.
    """

    tick_ns: int
    lines: list[str]
    entries: list[Document]
    reduced: str

    @property
    def size(self) -> int:
        """Bytes of the lines."""
        return sum(map(len, self.lines))


def fitted(series: Sequence[Series], budget_bytes: int, *, origin_ns: int, packets: Sequence[bool]) -> Fitted:
    """Return as much of the series as a budget allows.

    Parameters
    ----------
    series : sequence of Series
    budget_bytes : int
        Of all texts together.
    origin_ns : int
        What the time axis calls 0.
    packets : sequence of bool
        Of each series, whether its points are packets or frames; what it is of others can be derived.
    """
    tick_ns = common_tick_ns(series, origin_ns)
    coarse_ns = max(tick_ns, _COARSEST_TICK_NS)
    derived = "Frame numbers of derived quantities are left out; the packets still have them."
    ticks = " Times are rounded down to 1 µs." if coarse_ns > tick_ns else ""
    steps: list[Callable[[], Fitted]] = [
        lambda: _written(series, origin_ns, tick_ns, packets=None, reduced=""),
        lambda: _written(series, origin_ns, tick_ns, packets=packets, reduced=derived),
        lambda: _written(series, origin_ns, coarse_ns, packets=packets, reduced=derived + ticks),
    ]
    if sum(map(len, series)) <= MOST_POINTS:
        for step in steps:
            done = step()
            if done.size <= budget_bytes:
                return done
    return _thinned(series, budget_bytes, origin_ns, coarse_ns, packets, derived + ticks)


def _thinned(
    series: Sequence[Series],
    budget_bytes: int,
    origin_ns: int,
    tick_ns: int,
    packets: Sequence[bool],
    reduced: str,
) -> Fitted:
    """Return the series with the finest points left out, as many as the budget needs."""
    complete, room = [False] * len(series), 2 * budget_bytes // (5 * _RARE_BYTES)
    for i in sorted(range(len(series)), key=lambda i: len(series[i])):  # the rarest events come first
        if series[i].rare and len(series[i]) <= min(RARE_LIMIT, room):
            complete[i] = True
            room -= len(series[i])
    longest = max((len(s) for s, keep in zip(series, complete, strict=True) if not keep), default=0)
    bins = max(_FEWEST_BINS, min(longest, MOST_POINTS) // 4)
    words = f"{reduced} The finest points are left out."
    while True:
        less = [
            s if keep else thin(replace(s, rare=False), bins=bins)
            for s, keep in zip(series, complete, strict=True)
        ]
        points = sum(map(len, less))
        if points <= MOST_POINTS:
            done = _written(less, origin_ns, tick_ns, packets=packets, reduced=words)
            if done.size <= budget_bytes or bins <= _FEWEST_BINS:
                return done
            share = budget_bytes / done.size
        else:
            share = MOST_POINTS / points
        bins = max(_FEWEST_BINS, int(bins * _SHRINK * min(share, 1)))


def _written(
    series: Sequence[Series],
    origin_ns: int,
    tick_ns: int,
    *,
    packets: Sequence[bool] | None,
    reduced: str,
) -> Fitted:
    """Return the texts of all columns; `packets` says which series keep their frames, None all of them.

    Two equal columns, such as the times of ACKs and of their windows, are one text.
    """
    lines: list[str] = []
    known: dict[bytes, tuple[int, int]] = {}  # of each column its line and its planes, bytes of a number
    entries: list[Document] = []
    for i, each in enumerate(series):
        columns = columns_of(each, origin_ns, tick_ns, frames=packets is None or packets[i])
        written = []
        for numbers in columns.values():
            digest = hashlib.blake2b(numbers.astype(np.int64).tobytes()).digest()
            if digest not in known:
                coded = zigzag(numbers)
                planes = max(1, -(-int(coded.max(initial=0)).bit_length() // 8))
                lowest_first = coded.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :planes]
                planes_first = np.ascontiguousarray(lowest_first.T).tobytes()
                known[digest] = len(lines), planes
                packed = gzip.compress(planes_first, _GZIP_LEVEL, mtime=0)
                lines.append(base64.b64encode(packed).decode())
            written.append(known[digest])
        entries.append(
            {
                "points": len(each),
                "columns": list(columns),
                "planes": [planes for _, planes in written],
                "lines": [line for line, _ in written],
            }
        )
    return Fitted(tick_ns, lines, entries, reduced)


def columns_of(series: Series, origin_ns: int, tick_ns: int, *, frames: bool = True) -> dict[str, Array]:
    """Return the columns of a series as integers: times in ticks, `until` relative to the value."""
    columns = {"time": (series.time_ns - origin_ns) // tick_ns, "value": series.value}
    if series.until is not None:
        columns["until"] = series.until - series.value
    if series.frame is not None and frames:
        columns["frame"] = series.frame
        if series.answer is not None:
            columns["answer"] = series.answer
        if series.file is not None and bool(np.any(series.file)):
            columns["file"] = series.file
    return columns


def common_tick_ns(series: Sequence[Series], origin_ns: int) -> int:
    """Return the largest power of ten of ns, up to 1 µs, that all times are multiples of.

    A longer span than a page can count gets coarser ticks.
    """
    tick = _COARSEST_TICK_NS
    while tick > 1 and any(bool(np.any((s.time_ns - origin_ns) % tick)) for s in series):
        tick //= 10
    ends = [abs(int(s.time_ns[at]) - origin_ns) for s in series if len(s) for at in (0, -1)]
    while max(ends, default=0) // tick > _MOST_TICKS:
        tick *= 10
    return tick
