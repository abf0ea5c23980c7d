"""The dialects of the classic capture file: length of a record's header, and meaning of its numbers.

Sources: draft-ietf-opsawg-pcap; pcap-savefile(5); the comments of libpcap's sf-pcap.c (versions before 2.4,
Kuznetzov's header) and of Wireshark's libpcap.h and libpcap.c (the patched libpcaps of 1999, Nokia, IXIA).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from parsers._capture.bounds import LARGEST_PACKET, largest_packet

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from multitracer.tables import Mask, Numbers
    from parsers._capture.lanes import Following
    from parsers._packets.layers import Bytes

FILE_HEADER_BYTES = 24
RECORD_HEADER_BYTES = 16
"""Record header bytes that all dialects have in common."""
PROBE_BYTES = 64 * 1024
"""Bytes of a file that are read to choose between dialects with the same magic number."""
NEAR_S = 30 * 86_400
"""Maximum plausible time between consecutive records of a file."""

_LARGEST_SPECULATED = 65_600


class _Magic(NamedTuple):
    name: str
    tick_ns: int
    headers: tuple[int, ...]
    """Possible lengths of a record header, the standard one first."""
    extra: int = 0
    """Bytes between the file's header and the first record."""


MAGICS = {
    0xA1B2C3D4: _Magic("", 1000, (16, 24, 20)),
    0xA1B23C4D: _Magic("", 1, (16,)),
    0xA1B2CD34: _Magic("modified (Kuznetzov)", 1000, (24, 28)),
    0x1C0001AB: _Magic("IXIA lcap", 1000, (16,), 4),
    0x1C0001AC: _Magic("IXIA lcap", 1, (16,), 4),
}
_HEADER_NAMES = {20: "Nokia", 28: "modified (ss990915)"}


class Dialect(NamedTuple):
    """A variant of the pcap format: the layout of the records of one file."""

    order: str
    """struct's sign for the byte order."""
    magic: _Magic
    header_bytes: int
    """Length of a record's header."""
    swapped: bool
    """Whether the two lengths may be swapped (before version 2.4): the smaller one is the captured length."""
    link_type: int
    snap_length: int
    high_seconds: int = -1
    """The upper 16 bits of the first record's seconds, by which likely records are recognised."""
    declared_ns: int = 0
    """Unit of time stamps that the file names, ns, if another one was guessed; else 0."""
    declared_link: int = -1
    """Link type that the file names, if its frames show another one; else -1."""

    @property
    def first_record(self) -> int:
        """Position of the first record in the file, in bytes."""
        return FILE_HEADER_BYTES + self.magic.extra

    @property
    def largest(self) -> int:
        """Maximum captured length in bytes; a record with a larger length is damaged."""
        return largest_packet(self.link_type)

    @property
    def ticks_per_second(self) -> int:
        """Number of units of the sub-second field in a second."""
        return 1_000_000_000 // self.magic.tick_ns

    def with_tick(self, tick_ns: int, declared_ns: int = 0) -> Dialect:
        """Return the same dialect with another unit of time stamps; `declared_ns` if that is a guess."""
        return self._replace(magic=self.magic._replace(tick_ns=tick_ns), declared_ns=declared_ns)

    @property
    def description(self) -> str:
        """The name of the dialect as text."""
        order = "little-endian" if self.order == "<" else "big-endian"
        unit = {1: "ns", 1000: "µs", 1_000_000: "ms"}.get(self.magic.tick_ns, "s")
        special = _HEADER_NAMES.get(self.header_bytes, self.magic.name)
        if self.header_bytes == 24 and not special:
            special = "modified (ss990417)"
        lengths = "lengths before version 2.4" if self.swapped else ""
        return ", ".join(word for word in (order, unit, special, lengths) if word)

    @property
    def layout(self) -> dict[str, bool | int]:
        """The layout of the records, as parameters for the native kernel."""
        return {
            "big_endian": self.order == ">",
            "header_bytes": self.header_bytes,
            "swapped": self.swapped,
            "tick_ns": self.magic.tick_ns,
            "largest": LARGEST_PACKET,
            "near_s": NEAR_S,
        }

    def lengths(self, view: memoryview | bytes, at: int) -> tuple[int, int]:
        """Return the captured and the original length, in bytes, of the record at position `at`."""
        captured, original = struct.unpack_from(self.order + "II", view, at + 8)
        if self.swapped and captured > original:
            return original, captured
        return captured, original

    def following(self, data: Bytes) -> Following:
        """Return a function that converts positions of records to positions of the next records."""
        import numpy as np  # noqa: PLC0415  # only damage, and Python alone, look at all records at once

        captured = np.ndarray((len(data) - 11,), self.order + "u4", data, offset=8, strides=(1,))
        header_bytes = self.header_bytes
        return lambda at: at + captured[at] + header_bytes

    def plausible(self, data: Bytes, at: Numbers) -> Mask:
        """Return a mask of the positions where a record may begin, by lengths and fraction of a second."""
        from parsers._packets.layers import rows  # noqa: PLC0415

        words = rows(data, at, 16).view(self.order + "u4").reshape(-1, 4)
        captured, original = words[:, 2], words[:, 3]
        sane: Mask = (captured <= original) & (original <= _LARGEST_SPECULATED) & (words[:, 1] < 1_000_000_000)
        return sane

    def likely(self, chunks: NDArray[np.uint8]) -> Mask:
        """Return a mask of the bytes at which the upper half of the seconds equals the first record's.

        See `RecordLayout`.
        """
        first, second = (3, 2) if self.order == "<" else (0, 1)
        width = chunks.shape[1] - 8
        high: Mask = chunks[:, first : first + width] == self.high_seconds >> 8
        high &= chunks[:, second : second + width] == self.high_seconds & 0xFF
        return high


def is_magic(head: bytes) -> bool:
    """Return whether `head` begins with a magic number in either byte order."""
    return any(int.from_bytes(head[:4], order) in MAGICS for order in ("little", "big"))
