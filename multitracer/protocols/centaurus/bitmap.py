"""The bitmap of a message's segments: slot `n` is bit `n % 8`, lowest first, of octet `n // 8`."""

from __future__ import annotations


class Bitmap:
    """One bit for each segment slot of a message.

    Examples
    --------
    >>> held = Bitmap(10)
    >>> held.set(0), held.set(9), bytes(held).hex(), held.missing(0)
    (None, None, '0102', 1)
    """

    __slots__ = ("_bits", "slots")

    def __init__(self, slots: int, bits: int = 0) -> None:
        self.slots = slots
        self._bits = bits

    @classmethod
    def full(cls, slots: int) -> Bitmap:
        """Return the bitmap of a complete message."""
        return cls(slots, (1 << slots) - 1)

    @classmethod
    def parse(cls, octets: bytes, slots: int) -> Bitmap | None:
        """Return the bitmap as it is on the wire, None if its length or unused bits do not fit."""
        bits = int.from_bytes(octets, "little")
        if len(octets) != octets_of(slots) or bits >> slots:
            return None
        return cls(slots, bits)

    def __bytes__(self) -> bytes:
        return self._bits.to_bytes(octets_of(self.slots), "little")

    def __contains__(self, slot: int) -> bool:
        return bool(self._bits >> slot & 1)

    def __or__(self, other: Bitmap) -> Bitmap:
        return Bitmap(self.slots, self._bits | other._bits)

    def set(self, slot: int) -> None:
        """Mark a slot as held."""
        self._bits |= 1 << slot

    def missing(self, first: int) -> int | None:
        """Return the lowest slot from `first` on that is 0, None if there is none."""
        rest = ~self._bits >> first
        slot = first + (rest & -rest).bit_length() - 1
        return slot if slot < self.slots else None

    @property
    def is_full(self) -> bool:
        """Whether every slot is 1."""
        return self._bits == (1 << self.slots) - 1

    @property
    def count(self) -> int:
        """How many slots are 1."""
        return self._bits.bit_count()


def octets_of(slots: int) -> int:
    """Return how many octets the bitmap of so many slots takes."""
    return (slots + 7) // 8


def slots_of(size_bytes: int, segment_bytes: int) -> int:
    """Return into how many segments a message is cut; an empty one has none."""
    return -(-size_bytes // segment_bytes)
