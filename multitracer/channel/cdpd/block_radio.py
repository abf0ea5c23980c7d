"""One direction of a radio that carries blocks: which blocks are lost, and their share of late.

Every block is decided, sent or not, so that the radio is the same whatever is sent over it, and a modem
that listens to a channel which never pauses measures the very blocks that shaped the traffic.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multitracer.channel.shared.frame_errors import ErrorProcess
    from multitracer.channel.shared.received_power import Signal


class BlockRadio:
    """Loses blocks by an error process; without signal or channel it loses all.

    Parameters
    ----------
    errors : ErrorProcess
        Asked once for each block.
    signal : Signal
        Without it nothing is decoded.
    block_ns : int
        Time of a block.
    report_ns : int
        How far back `bler_percent` looks.
    """

    def __init__(self, errors: ErrorProcess, signal: Signal, *, block_ns: int, report_ns: int) -> None:
        self._errors = errors
        self._signal = signal
        self._block_ns = block_ns
        self._next = 0
        self._last_lost = False
        self._is_deaf = self._is_dead = False
        self._lately: deque[bool | None] = deque(maxlen=max(1, report_ns // block_ns))

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
        losses = [lost for lost in self._lately if lost is not None]
        return 100 * sum(losses) / len(losses) if losses else None

    def _pass(self, until: int) -> None:
        for block in range(self._next, until):
            lost = self._errors.lost(block)  # asked always: an outage does not shift its chance
            lost |= self._is_dead or self._is_deaf or self._signal.is_zero(block * self._block_ns)
            self._last_lost = lost
            self._lately.append(None if self._is_deaf else lost)
        self._next = max(self._next, until)
