"""A capacity trace in Mahimahi's format: the times at which a link could deliver 1504 octets, as text.

    0 3 3 17

Each line is one delivery opportunity, in whole milliseconds since the start of the trace. Several
opportunities in one millisecond are several equal lines. Stamps never decrease. The last stamp is also the
length of the trace, after which it repeats. There are no comments and no empty lines. Any list of ascending
integers looks like such a trace, so a file is read as one only where an option or a scenario names it.

Source: mm-link of Mahimahi (Netravali et al., USENIX ATC 2015); the rules were derived from its behaviour.
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
"""Size of one opportunity: an IP packet of 1500 octets and the 4-octet header of a TUN device."""
_MOST_MS = 1 << 42
"""Maximum time in ms, 139 years: later times in ns do not fit into int64."""
_MOST_DIGITS = 13
"""Maximum number of digits in a line, those of `_MOST_MS`."""


class CapacityTrace:
    """The delivery opportunities of one direction of a link.

    Parameters
    ----------
    stamps_ms : iterable of int
        Time of each opportunity, in ms since the start; never descending, the last one above 0.

    Raises
    ------
    InputError
        If there is no stamp, one is negative or too late, stamps descend, or the trace lasts 0 ms.
    """

    def __init__(self, stamps_ms: Iterable[int]) -> None:
        stamps = np.array(stamps_ms if isinstance(stamps_ms, np.ndarray) else list(stamps_ms), dtype=np.int64)
        if not len(stamps) or stamps[0] < 0 or stamps[-1] > _MOST_MS or np.any(np.diff(stamps) < 0):
            raise InputError(
                "capacity trace: there must be at least one timestamp, and the timestamps must be "
                "whole numbers of ms in ascending order"
            )
        if stamps[-1] == 0:
            raise InputError("capacity trace: the last timestamp is the length of the trace, and must be above 0 ms")
        self.stamps_ms: Times = stamps
        """Times in ms since the start of the trace, shape (opportunities,)."""

    def __len__(self) -> int:
        """Return the number of opportunities."""
        return len(self.stamps_ms)

    def __eq__(self, other: object) -> bool:
        """Return whether another trace has the same opportunities."""
        return isinstance(other, CapacityTrace) and np.array_equal(self.stamps_ms, other.stamps_ms)

    def __hash__(self) -> int:
        return hash((len(self), self.lasts_ms))

    def __deepcopy__(self, memo: object) -> CapacityTrace:
        """Return the trace itself, because it is immutable."""
        return self

    @property
    def lasts_ms(self) -> int:
        """Length of the trace in ms: its last time."""
        return int(self.stamps_ms[-1])

    @property
    def lasts_ns(self) -> int:
        """Length of the trace in ns."""
        return self.lasts_ms * NS_PER_MS

    @property
    def mean_bits_per_s(self) -> float:
        """Mean capacity in bit/s of IP packets, with packets of 1500 octets."""
        return len(self) * (OPPORTUNITY_BYTES - 4) * 8_000 / self.lasts_ms

    def facts(self) -> Document:
        """Return the trace's entry in the manifest: number of opportunities and length."""
        return {"opportunities": len(self), "lasts_ms": self.lasts_ms}

    def text(self) -> str:
        """Return the trace in Mahimahi's format."""
        return "".join(f"{stamp}\n" for stamp in self.stamps_ms.tolist())


def parse_capacity_trace(text: str, *, path: str) -> CapacityTrace:
    """Return the capacity trace in `text`.

    Parameters
    ----------
    text : str
        The complete file.
    path : str
        Name of the file, for messages.

    Raises
    ------
    FormatError
        If a line is not a whole number of ms, a stamp decreases, the file is empty, or the trace lasts 0 ms.
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
            raise FormatError(path, f"the time decreases from {before} to {stamp} ms; sort the trace", line=at)
        before = stamp
        stamps.append(stamp)
    if not stamps:
        raise FormatError(
            path, "the trace contains no delivery opportunity; write one line for each opportunity, with the time in ms"
        )
    if before == 0:
        raise FormatError(
            path, "the trace lasts 0 ms, because the last timestamp is its length; end with a timestamp above 0"
        )
    return CapacityTrace(np.array(stamps, dtype=np.int64))
