"""A reader with a fixed rate: how many bytes may leave a buffer in each slot."""

from __future__ import annotations

from multitracer.errors import LocalProtocolError
from multitracer.units import NS_PER_S


class Drain:
    """Spends a rate slot by slot; fractions of a byte carry over exactly.

    Parameters
    ----------
    bytes_per_s : int
        The rate at which the far end's terminal reads.
    slot_ns : int
        Time between two calls of `allowance`.
    """

    def __init__(self, *, bytes_per_s: int, slot_ns: int) -> None:
        if bytes_per_s < 1 or slot_ns < 1:
            raise LocalProtocolError(f"drain of {bytes_per_s} B/s in slots of {slot_ns} ns; choose >= 1")
        self._per_slot = bytes_per_s * slot_ns
        self._credit = 0
        self.paused = False
        """Set to read nothing."""

    def allowance(self) -> int:
        """Begin the next slot; return how many bytes may leave in it."""
        if self.paused:
            return 0
        self._credit += self._per_slot
        return self._credit // NS_PER_S

    def spend(self, taken: int) -> None:
        """Note how many bytes left; the allowance that an empty buffer could not use is not saved."""
        if not self.paused:
            self._credit = min(self._credit - taken * NS_PER_S, NS_PER_S - 1)
