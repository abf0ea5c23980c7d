"""The packet records of one block, as a format finds them: where each packet lies, when it was captured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multitracer.tables import Numbers
    from parsers._packets.layers import Bytes


@dataclass(slots=True)
class Records:
    """Packet records of one block; arrays of shape (n,), in capture order."""

    data: Bytes
    """The block, with slack behind the last packet (see `layers.PAD_BYTES`)."""
    start: Numbers
    """First captured byte of the packet."""
    captured: Numbers
    """Bytes captured."""
    original: Numbers
    """Bytes on the wire."""
    time_ns: Numbers
    link_type: Numbers | int
    """One for all, or one each."""
    offset: int | None = None
    """Where in the file reading could begin with this block; None if the format does not tell."""

    def __len__(self) -> int:
        return len(self.start)

    def first(self, count: int) -> Records:
        """Return the first `count` records."""
        link_type = self.link_type if isinstance(self.link_type, int) else self.link_type[:count]
        return Records(
            self.data,
            self.start[:count],
            self.captured[:count],
            self.original[:count],
            self.time_ns[:count],
            link_type,
            self.offset,
        )
