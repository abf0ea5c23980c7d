"""Reads captures: the common part of the packet formats."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np

from multitracer.native import reading
from multitracer.tables import NOT_A_TIME
from parsers._capture.bounds import ERA_YEARS, YEAR_NS
from parsers._packets.decode import Decoder
from parsers._packets.programs import note_programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from multitracer.capture import CaptureTables
    from multitracer.captured import SourceFile
    from multitracer.tables import Numbers
    from parsers._format import Readable
    from parsers._packets.layers import PacketRecords

_RECORD_HEADER_BYTES = 16
"""Record header of pcap; for formats with a longer one too much memory is reserved, which costs nothing."""
_MOST_GAPS = 1000
"""Maximum damaged places in a file; with more, the rest is not read, because each costs a search."""


class FileDamage:
    """Records the damage of a file: the ranges of lost bytes, and why reading ended early."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self._reason: str | None = None
        """Description of the damage at the first damaged place."""
        self._gaps = 0

    @property
    def is_too_much(self) -> bool:
        """Whether reading should end at the next damaged place."""
        return self._gaps >= _MOST_GAPS

    def lost(self, begin: int, end: int, reason: str) -> None:
        """Record that the bytes from `begin` to `end` are lost, and that reading continued after them."""
        ranges = self._source.lost_ranges
        self._gaps += 1
        if ranges and ranges[-1][1] >= begin:
            begin = ranges.pop()[0]
        ranges.append((begin, end))
        self._reason = self._reason or reason
        self._source.damaged = self._words()

    def ended(self, reason: str | None) -> None:
        """Record why reading ended before the end of the stream; None if it did not."""
        words = [self._words() if self._source.lost_ranges else None, reason]
        self._source.damaged = "; ".join(word for word in words if word) or None

    def _words(self) -> str:
        ranges = self._source.lost_ranges
        begin, end = ranges[0]
        words = f"{self._reason}; bytes {begin} to {end - 1} are lost, but reading continued after them"
        if len(ranges) == 1:
            return words
        total = sum(end - begin for begin, end in ranges)
        minimum = "at least " if self.is_too_much else ""
        return f"{words}; with {minimum}{len(ranges) - 1} more such places {total} bytes are lost"


SMALLEST_GRAIN_NS = 1_000_000
"""Smallest grain that is told apart, ns; a finer one is 1."""
_FAR_APART = f"more than {ERA_YEARS} years from the others"


class _Shown(NamedTuple):
    """Summary of packet times: number, range, and steps backwards."""

    packets: int
    """Number of packets with a time; if 0, `last` is the previous one and the other fields are not valid."""
    last: int | None
    steps_back: int
    largest_step_back_ns: int
    repeats: int
    divisor_ns: int
    """Greatest common divisor of the steps; 0 if all are 0."""
    lowest_ns: int
    highest_ns: int


def _what_shows(known: Numbers, last: int | None) -> _Shown:
    """Return the summary of some times; `last` is the time before them.

    Steps backwards that are longer than an era (several years) are not counted.
    """
    lowest_ns = int(known.min(initial=np.iinfo(np.int64).max))
    if lowest_ns == NOT_A_TIME:
        return _what_shows(known[known != NOT_A_TIME], last)
    if not len(known):
        return _Shown(0, last, 0, 0, 0, 0, 0, 0)
    steps = np.diff(known, prepend=known[0] if last is None else last)
    back = steps[:0] if steps.min() >= 0 else steps[(steps < 0) & (steps > -ERA_YEARS * YEAR_NS)]
    repeats = len(steps) - int(np.count_nonzero(steps)) - (last is None)
    divisor_ns = int(np.gcd.reduce(np.abs(steps).view(np.uint64)))
    back_ns = -int(back.min(initial=0))
    return _Shown(len(known), int(known[-1]), len(back), back_ns, repeats, divisor_ns, lowest_ns, int(known.max()))


class StampFacts:
    """Summarizes the time stamps of a file, and writes the summary into the facts of the file."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self._last: int | None = None
        self._years: dict[int, tuple[int, int, int]] = {}
        """Number of packets, smallest and largest time, by years since 1970."""

    def note(self, time_ns: Numbers) -> None:
        """Add times in the order of the file: int64, ns since 1970; NOT_A_TIME if missing."""
        shown = _what_shows(time_ns, self._last)
        known, self._last, lowest, highest = shown.packets, shown.last, shown.lowest_ns, shown.highest_ns
        facts = self._source
        facts.without_time += len(time_ns) - known
        if not known:
            return
        facts.time_steps_back += shown.steps_back
        facts.largest_step_back_ns = max(facts.largest_step_back_ns, shown.largest_step_back_ns)
        facts.time_repeats += shown.repeats
        grain_ns = gcd(facts.time_grain_ns, shown.divisor_ns)
        facts.time_grain_ns = grain_ns if grain_ns >= SMALLEST_GRAIN_NS else min(grain_ns, 1)
        facts.first_ns = lowest if facts.first_ns is None else min(facts.first_ns, lowest)
        facts.last_ns = highest if facts.last_ns is None else max(facts.last_ns, highest)
        if lowest // YEAR_NS == highest // YEAR_NS:
            self._note_year(lowest // YEAR_NS, known, lowest, highest)
        else:
            self._note_years(time_ns[time_ns != NOT_A_TIME])

    def _note_years(self, time_ns: Numbers) -> None:
        year_of = time_ns // YEAR_NS
        for year in np.unique(year_of).tolist():
            here = time_ns[year_of == year]
            self._note_year(year, len(here), int(here.min()), int(here.max()))

    def _note_year(self, year: int, packets: int, lowest: int, highest: int) -> None:
        count, first, last = self._years.get(year, (0, lowest, highest))
        self._years[year] = count + packets, min(first, lowest), max(last, highest)

    def era(self) -> tuple[int, int] | None:
        """Return the first and last time of the era (a range of some years) with most packets.

        Packets outside this era count as packets without a time. None if all times are in one era.
        """
        years, facts = self._years, self._source
        if not years or max(years) - min(years) <= ERA_YEARS:
            return None
        within = {first: [years[y] for y in years if 0 <= y - first < ERA_YEARS] for first in years}
        best = max(within.values(), key=lambda part: sum(count for count, _, _ in part))
        outside = sum(count for count, _, _ in years.values()) - sum(count for count, _, _ in best)
        facts.without_time += outside
        facts.no_time(_FAR_APART, outside)
        facts.first_ns = min(lowest for _, lowest, _ in best)
        facts.last_ns = max(highest for _, _, highest in best)
        return facts.first_ns, facts.last_ns


def decode_file(
    blocks: Iterable[PacketRecords],
    source: SourceFile,
    decoder: Decoder,
    *,
    max_packets: int | None = None,
    share: Callable[[int], float | None] = lambda _: None,
) -> None:
    """Decode the blocks of one file; stop after `max_packets` packets of the file.

    `share` converts a number of decompressed bytes to the fraction of the file, 0 to 1; None if
    unknown.
    """
    clock = StampFacts(source)
    for _ in decode_blocks(blocks, source, decoder, clock, max_packets=max_packets, share=share):
        pass
    if (era := clock.era()) is not None:
        decoder.keep_times(*era)


def decode_blocks(
    blocks: Iterable[PacketRecords],
    source: SourceFile,
    decoder: Decoder,
    clock: StampFacts,
    *,
    max_packets: int | None = None,
    share: Callable[[int], float | None] = lambda _: None,
) -> Iterator[PacketRecords]:
    """Decode the blocks of one file as `decode_file` does; yield each block after it is decoded."""
    decoder.files.append(source)
    done = 0
    with reading(source.path):
        for block in blocks:
            if not len(block):
                continue
            left = len(block) if max_packets is None else max_packets - source.packets
            kept = block.first(left) if left < len(block) else block
            clock.note(kept.time_ns)
            done += int(kept.captured.sum()) + _RECORD_HEADER_BYTES * len(kept)
            note_programs(kept, source)
            decoder.add(kept, source, share=share(done))  # others may have read far ahead
            yield kept
            if left <= len(block) and max_packets is not None:
                source.stopped = True  # at once: a pipe may have no more for a long time
                break
    source.in_order_of_names()


def decode_stream(
    stream: BinaryIO, source: SourceFile, blocks: Callable[[Readable, SourceFile], Iterable[PacketRecords]]
) -> CaptureTables:
    """Return the capture in one stream; `blocks` finds the records in it."""
    readable = cast("Readable", stream)
    decoder = Decoder()
    decode_file(blocks(readable, source), source, decoder)
    return decoder.finish()
