"""A capacity trace in Mahimahi's format: when a link could deliver 1504 octets, as text.

    0
    3
    3
    17

Each line is one delivery opportunity, in whole milliseconds since the trace's start; several in one
millisecond are as many lines. Stamps never go back. The last one is also the trace's length, after which it
begins again. There are no comments and no empty lines. Any list of ascending integers looks like such a
trace, so a file is read as one only where an option or a scenario names it.

Source: mm-link of Mahimahi (Netravali et al., USENIX ATC 2015), its rules as its behaviour shows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import FormatError, InputError
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.tables import Document, Times

OPPORTUNITY_BYTES = 1504
"""What one opportunity delivers: an IP packet of 1500 octets and the 4 that a TUN device puts before it."""
_MOST_MS = 1 << 42
"""139 years: beyond it ns do not fit into int64."""
_MOST_DIGITS = 13
"""Of a number up to `_MOST_MS`."""


class CapacityTrace:
    """The delivery opportunities of one direction of a link.

    Parameters
    ----------
    stamps_ms : iterable of int
        One for each opportunity, in ms since the trace's start; never descending, the last above 0.

    Raises
    ------
    InputError
        If there is none, one is negative or too late, they descend, or the trace lasts 0 ms.
    """

    def __init__(self, stamps_ms: Iterable[int]) -> None:
        stamps = np.array(stamps_ms if isinstance(stamps_ms, np.ndarray) else list(stamps_ms), dtype=np.int64)
        if not len(stamps) or stamps[0] < 0 or stamps[-1] > _MOST_MS or np.any(np.diff(stamps) < 0):
            raise InputError(
                "capacity trace: its stamps are whole ms that never go back; there is at least one"
            )
        if stamps[-1] == 0:
            raise InputError("capacity trace: it lasts 0 ms; its last stamp is its length, and is above 0")
        self.stamps_ms: Times = stamps
        """Shape (opportunities,), ms since the trace's start."""

    def __len__(self) -> int:
        """Return the number of opportunities."""
        return len(self.stamps_ms)

    def __eq__(self, other: object) -> bool:
        """Return whether another trace has the same opportunities."""
        return isinstance(other, CapacityTrace) and np.array_equal(self.stamps_ms, other.stamps_ms)

    def __hash__(self) -> int:
        return hash((len(self), self.lasts_ms))

    def __deepcopy__(self, memo: object) -> CapacityTrace:
        """Return the trace itself, which never changes."""
        return self

    @property
    def lasts_ms(self) -> int:
        """The trace's length: its last stamp."""
        return int(self.stamps_ms[-1])

    @property
    def lasts_ns(self) -> int:
        """The trace's length."""
        return self.lasts_ms * NS_PER_MS

    @property
    def mean_bits_per_s(self) -> float:
        """Mean capacity in IP bits, with packets of 1500 octets."""
        return len(self) * (OPPORTUNITY_BYTES - 4) * 8_000 / self.lasts_ms

    def facts(self) -> Document:
        """Return what a manifest says of it."""
        return {"opportunities": len(self), "lasts_ms": self.lasts_ms}

    def text(self) -> str:
        """Return the trace in Mahimahi's format."""
        return "".join(f"{stamp}\n" for stamp in self.stamps_ms.tolist())


def parse_capacity_trace(text: str, *, path: str) -> CapacityTrace:
    """Return the capacity trace that `text` holds.

    Parameters
    ----------
    text : str
        A whole file.
    path : str
        Its name, for messages.

    Raises
    ------
    FormatError
        If a line is no whole number of ms, one goes back, there is none, or the trace lasts 0 ms.
    """
    stamps: list[int] = []
    before = 0
    for at, line in enumerate(text.splitlines(), start=1):
        word = line.strip()
        if not word.isascii() or not word.isdigit() or len(word) > _MOST_DIGITS or int(word) > _MOST_MS:
            reason = "expected a whole number of ms: the time of a delivery opportunity"
            raise FormatError(path, reason, line=at, excerpt=word[:80].encode())
        stamp = int(word)
        if stamp < before:
            raise FormatError(path, f"goes back from {before} to {stamp} ms; sort the trace", line=at)
        before = stamp
        stamps.append(stamp)
    if not stamps:
        raise FormatError(path, "no delivery opportunity; a capacity trace has a line of ms for each")
    if before == 0:
        raise FormatError(path, "lasts 0 ms: its last stamp is its length; end it with one above 0")
    return CapacityTrace(np.array(stamps, dtype=np.int64))
