"""Credits the later fragments of an IP datagram to the TCP segment that its first fragment began.

The segment keeps place and time of the first fragment. Its payload is what the fragments carry without a gap
from the start on (RFC 791, 3.2; RFC 8200, 4.5). Fragments are few, so they are taken one by one; the number
of datagrams that are open at a time is bounded, the oldest is given up first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers._packets.ip import Datagrams

_MOST_OPEN = 4096
_MOST_PIECES = 64

Key = tuple[int, ...]


@dataclass(slots=True)
class _Open:
    """A datagram whose fragments are not all there yet."""

    first: int | None = None
    """Number of the packet that brought the first fragment."""
    first_end: int = 0
    """Bytes that the first fragment carries."""
    total: int | None = None
    """Where the last fragment ends."""
    later: Counter[int] = field(default_factory=Counter)
    """Fragments other than the first, by the file that they are in."""
    pieces: list[tuple[int, int]] = field(default_factory=list)
    """Begin and end of the fragments other than the first."""

    def reach(self) -> int:
        """Return up to where the datagram is present without a gap."""
        end = self.first_end
        for begin, piece_end in sorted(self.pieces):
            if begin > end:
                break
            end = max(end, piece_end)
        return end


class Fragments:
    """All fragmented datagrams seen so far."""

    def __init__(self) -> None:
        self._open: dict[Key, _Open] = {}
        self.extra_bytes: dict[int, int] = {}
        """Number of the packet with the first fragment -> bytes that later ones carry."""
        self.without_first: Counter[int] = Counter()
        """Fragments whose first one was given up or never seen, by the file that they are in."""

    def add(self, datagrams: Datagrams, records_before: int, file: int) -> None:
        """Take in fragments of a file, in capture order; `records_before` makes record numbers unique."""
        for key, record, begin, end, more in _rows(datagrams):
            datagram = self._open.setdefault(key, _Open())
            if begin == 0:
                if datagram.first is not None:  # the identification is used again
                    self._close(key)
                    datagram = self._open.setdefault(key, _Open())
                datagram.first, datagram.first_end = record + records_before, end
            else:
                datagram.later[file] += 1
                if len(datagram.pieces) < _MOST_PIECES:
                    datagram.pieces.append((begin, end))
            if not more:
                datagram.total = end
            if datagram.first is not None and datagram.reach() == datagram.total:
                self._close(key)
            elif len(self._open) > _MOST_OPEN:
                self._close(next(iter(self._open)))

    def _close(self, key: Key) -> None:
        datagram = self._open.pop(key)
        if datagram.first is None:
            self.without_first += datagram.later
        elif datagram.pieces:
            self.extra_bytes[datagram.first] = datagram.reach() - datagram.first_end

    def finish(self) -> None:
        """Stop waiting for more fragments."""
        for key in list(self._open):
            self._close(key)


def _rows(datagrams: Datagrams) -> Iterator[tuple[Key, int, int, int, bool]]:
    """Yield key, record, begin, end and whether more follow, of each fragment."""
    packets = datagrams.packets
    offset = datagrams.fragment_offset
    columns = (
        *datagrams.source,
        *datagrams.destination,
        datagrams.identification,
        datagrams.protocol,
        packets.vlan,
        packets.record,
        offset,
        offset + packets.stop - packets.at,
        datagrams.more_fragments,
    )
    for *key, record, begin, end, more in zip(*(c.tolist() for c in columns), strict=True):
        yield (datagrams.version, *key), record, begin, end, more
