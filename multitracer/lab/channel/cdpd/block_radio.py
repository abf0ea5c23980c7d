"""One direction of a radio that carries blocks: which blocks are lost, and their share of late.

Every block is decided, sent or not, so that the radio is the same whatever is sent over it, and a modem
that listens to a channel which never pauses measures the very blocks that shaped the traffic.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from multitracer.protocols.error_trace import LostRuns

if TYPE_CHECKING:
    from multitracer.lab.channel.shared.frame_errors import ErrorProcess
    from multitracer.lab.channel.shared.received_power import Signal


class BlockRadio:
    """Loses blocks by an error process; without signal or channel it loses all.

    Parameters
    ----------
    errors : ErrorProcess
        Asked once for each block.
    signal : Signal, optional
        Where it is zero, nothing is decoded; None is a channel on which power does not count.
    block_ns : int
        Time of a block.
    report_ns : int
        How far back `bler_percent` looks.
    """

    def __init__(self, errors: ErrorProcess, signal: Signal | None, *, block_ns: int, report_ns: int) -> None:
        self._errors = errors
        self._signal = signal
        self._block_ns = block_ns
        self._next = 0
        self._last_lost = False
        self._is_deaf = self._is_dead = False
        self._lately: deque[bool | None] = deque(maxlen=max(1, report_ns // block_ns))
        self.lost = LostRuns()
        """Every block that was destroyed, for whatever reason."""

    def set_outage(self, now_ns: int, *, deaf: bool, dead: bool) -> None:
        """Change the channel's state: dead (no block can be decoded), deaf (the modem does not receive)."""
        self._pass(now_ns // self._block_ns)
        self._is_deaf, self._is_dead = deaf, dead

    def is_lost(self, block: int) -> bool:
        """Return whether a block is destroyed; call it in the order of the blocks, which may have gaps."""
        self._pass(block + 1)
        return self._last_lost

    def bler_percent(self, now_ns: int) -> float | None:
        """Return the share of lost blocks in the last report; None if no block was received in its time."""
        self._pass(now_ns // self._block_ns)
        received = len(self._lately) - self._lately.count(None)
        return 100 * self._lately.count(True) / received if received else None

    def _pass(self, until: int) -> None:
        """Decide all blocks before `until`, those of each second of the signal together."""
        while self._next < until:
            is_zero, end = False, until
            if self._signal is not None:
                is_zero = self._signal.is_zero(self._next * self._block_ns)
                end = min(until, -(-self._signal.until_ns // self._block_ns))
            # asked always: an outage does not shift its chance
            lost = self._errors.lost_slots(self._next, end)
            if is_zero or self._is_dead or self._is_deaf:
                lost = [True] * len(lost)
            self._last_lost = lost[-1]
            if True in lost:
                for place, is_lost in enumerate(lost):
                    if is_lost:
                        self.lost.add(self._next + place)
            self._lately.extend([None] * len(lost) if self._is_deaf else lost)
            self._next = end
