"""Encodes columns of integers as text of a page, and chooses the columns and points of a figure that fit.

The encoding of a column has five steps: differences of neighbouring numbers, which are small; zigzag, which makes them
positive; byte planes (all lowest bytes, then all second-lowest bytes, ...), which group similar bytes; gzip; base64. A
short series of a map or an overview is written as varints (`pack_columns`, 7 bits a byte, lowest first;
`points/table.js` holds the inverse). In the page, `points/decoder.js` decodes the columns and computes the minimum and
maximum of each 64 points, so that wide views are fast; `loader.js` runs the decoder in a worker; `table.js` finds the
points in a window; `figure.js`, with `plot.js` and `panel.js`, draws them on a canvas.

`fitted` omits data in a fixed order: first the frame numbers of derived quantities (the packets still have
them); then it rounds times to 1 µs; then it thins points, so that each interval has its first, last, lowest
and highest value, and rare events.

Invariants: the page contains an overview, which is drawn before the other points are read. Rare events are
drawn in all views. A page states which data it omits.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
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
"""Maximum bytes of one encoded number: 64 bits, with 7 bits in each byte."""


def zigzag(numbers: Array) -> Array:
    """Return the differences of consecutive numbers (of the first number to 0) as unsigned numbers.

    Parameters
    ----------
    numbers : ndarray of int, shape (n,)

    Returns
    -------
    ndarray of uint64, shape (n,)
        The encoded differences: 0, 1, 2, 3, ... for 0, -1, 1, -2, ...
    """
    deltas = numbers.astype(np.int64)
    np.subtract(numbers[1:], numbers[:-1], out=deltas[1:], dtype=np.int64)
    signs = deltas >> 63
    deltas <<= 1
    deltas ^= signs
    return deltas.view(np.uint64)


def pack_columns(columns: Mapping[str, Array]) -> Document:
    """Return columns of integers as JSON that `Columns.unpack` of the page decodes.

    Parameters
    ----------
    columns : mapping of str to ndarray of int, each of shape (n,)
        The columns by name: "time" is in ticks, "value" may contain BREAK. `tick_s` and `scale` of the page's
        document give the units.
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
_GZIP_FORMAT = 31
"""The `wbits` of zlib for gzip with its largest window."""
_LONG_BYTES = 1 << 18
"""Size from which only runs of equal bytes are looked for, of which byte planes have many. Of a transfer of 1.4 million
packets that took a sixth of the time, and 10 % more bytes; smaller columns do not take long."""
MOST_POINTS = 5_000_000
"""Maximum points of a figure. In Chromium on two idle cores, this number took 350 to 420 MB, and 17 ms to draw."""

_FEWEST_BINS = 64
"""Minimum number of bins of a thinned series. Not measured."""
_SHRINK = 0.9
"""Factor on the number of bins at the next attempt, because fewer points need more bytes per point. Not measured."""
_COARSEST_TICK_NS = NS_PER_US
"""Largest tick, in ns; it equals the width of the narrowest view of a page."""
_RARE_BYTES = 12
"""Approximate size of a rare event in base64, in bytes; rare events may use two fifths of the budget."""
_MOST_TICKS = 1 << 52
"""Maximum ticks: JavaScript numbers are doubles, which cannot distinguish neighbouring larger integers."""


@dataclass(frozen=True)
class Fitted:
    """The encoded data for the page.

    Parameters
    ----------
    tick_ns : int
        Resolution of the times, in ns.
    lines : list of str
        The texts of the columns; equal texts are written once.
    entries : list of dict
        For each series: the number of points, and the columns with their byte planes and the index of their line.
    reduced : str
        Sentences on the omitted data; "" if nothing was omitted.
    """

    tick_ns: int
    lines: list[str]
    entries: list[Document]
    reduced: str

    @property
    def size(self) -> int:
        """Total length of the lines in bytes."""
        return sum(map(len, self.lines))


def fitted(series: Sequence[Series], budget_bytes: int, *, origin_ns: int, packets: Sequence[bool]) -> Fitted:
    """Return the encoded series, with data omitted until they fit the budget.

    Parameters
    ----------
    series : sequence of Series
    budget_bytes : int
        Maximum total length of all texts, in bytes.
    origin_ns : int
        What the time axis calls 0.
    packets : sequence of bool
        For each series, whether its points are packets or frames; the points of other series are derived.
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
    series: Sequence[Series], budget_bytes: int, origin_ns: int, tick_ns: int, packets: Sequence[bool], reduced: str
) -> Fitted:
    """Return the encoded series after removing points until their texts fit into `budget_bytes`.

    Rare events remain as far as they fit. `reduced` is the sentence about data that were omitted before.
    """
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
            s if keep else thin(replace(s, rare=False), bins=bins) for s, keep in zip(series, complete, strict=True)
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
    series: Sequence[Series], origin_ns: int, tick_ns: int, *, packets: Sequence[bool] | None, reduced: str
) -> Fitted:
    """Return the encoded columns of all series as texts; equal columns share one text.

    `packets` selects the series with a column of frame numbers; None means all.
    """
    lines: list[str] = []
    known: dict[bytes, tuple[int, int]] = {}  # of each column its line and its planes, bytes of a number
    entries: list[Document] = []
    for i, each in enumerate(series):
        columns = columns_of(each, origin_ns, tick_ns, frames=packets is None or packets[i])
        written = []
        for numbers in columns.values():
            digest = hashlib.blake2b(np.ascontiguousarray(numbers, dtype=np.int64).data).digest()
            if digest not in known:
                text, planes = column_text(numbers)
                known[digest] = len(lines), planes
                lines.append(text)
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


def column_text(numbers: Array) -> tuple[str, int]:
    """Return a column of integers as the text of a page, and the bytes of a number, which are its planes."""
    coded = zigzag(numbers)
    planes = max(1, -(-int(coded.max(initial=0)).bit_length() // 8))
    lowest_first = coded.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :planes]
    planes_first = np.ascontiguousarray(lowest_first.T).tobytes()
    strategy = zlib.Z_RLE if len(planes_first) >= _LONG_BYTES else zlib.Z_DEFAULT_STRATEGY
    return base64.b64encode(compressed(planes_first, strategy)).decode(), planes


def compressed(content: bytes, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> bytes:
    """Return bytes as gzip, which a browser decompresses by itself."""
    packer = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_FORMAT, strategy=strategy)
    return packer.compress(content) + packer.flush()


def columns_of(series: Series, origin_ns: int, tick_ns: int, *, frames: bool = True) -> dict[str, Array]:
    """Return the columns of a series as integers: time in ticks, `until` as the difference to the value."""
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
    """Return the largest power of ten, at most 1 µs, that divides all times (relative to the origin), in ns.

    If the time range has more ticks than JavaScript can represent, the ticks are coarser.
    """
    tick = _COARSEST_TICK_NS
    while tick > 1 and any(bool(np.any((s.time_ns - origin_ns) % tick)) for s in series):
        tick //= 10
    ends = [abs(int(s.time_ns[at]) - origin_ns) for s in series if len(s) for at in (0, -1)]
    while max(ends, default=0) // tick > _MOST_TICKS:
        tick *= 10
    return tick
