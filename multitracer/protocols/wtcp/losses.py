"""Random loss or congestion: the most losses of a window that the receiver expects at random."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multitracer.protocols.wtcp.config import WtcpConfig

_LEAST_EXPECTED = 1.0
"""A single loss never means congestion: an overflowing queue drops several (not measured)."""


class LossWindow:
    """Which of the last transmissions are missing, and how many of them may be.

    Parameters
    ----------
    config : WtcpConfig
        Size of the window, and what is known before any loss was learnt.
    """

    def __init__(self, config: WtcpConfig) -> None:
        self._config = config
        self._size = config.loss_window_packets
        self._mask = (1 << self._size) - 1
        self._history = 0
        self._seen = 0
        self._mean = self._variance = config.initial_loss_share * self._size

    @property
    def count(self) -> int:
        """Transmissions of the window that are missing."""
        return self._history.bit_count()

    @property
    def expected(self) -> float:
        """The most losses in a window that are taken for random."""
        spread = self._config.loss_deviations * math.sqrt(self._variance)
        most = self._config.max_loss_share * self._size
        return max(_LEAST_EXPECTED, min(self._mean + spread, most))

    @property
    def is_congested(self) -> bool:
        """Whether more are missing than random losses explain."""
        return self.count > self.expected

    def note_arrival(self, missing: int) -> None:
        """Take a new transmission, before which so many are missing."""
        shift = min(missing, self._size)
        self._history = ((self._history + 1 << shift) - 1 << 1) & self._mask
        self._seen += missing + 1

    def note_late(self, age: int) -> None:
        """Take one that was missing, so many transmissions behind the newest."""
        self._history &= ~(1 << age)

    def learn(self) -> None:
        """Take a whole new window as an example of random losses: the caller holds the rate."""
        if self._seen < self._size:
            return
        self._seen = 0
        error = self.count - self._mean
        self._mean += self._config.loss_gain * error
        self._variance += self._config.loss_gain * (error * error - self._variance)

    def clear(self) -> None:
        """Begin a new window: its losses have been answered."""
        self._history = self._seen = 0
