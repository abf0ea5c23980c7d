"""What the receiver sees of the path: the ratio of both rates, and the queue that grows."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multitracer.protocols.wtcp.config import WtcpConfig


class RunningRatio:
    """Receiving rate by sending rate, as an exponentially weighted average.

    Separations at both ends are averaged and then divided: the mean of single ratios is above 1 on any path
    whose delay varies.

    Parameters
    ----------
    gain : float
        Weight of a new packet.
    """

    def __init__(self, gain: float) -> None:
        self._gain = gain
        self._sent_ns = self._received_ns = 0.0

    def add(self, sent_ns: int, received_ns: int) -> None:
        """Take the separations of one packet from the one before, at the sender and at the receiver."""
        self._sent_ns += self._gain * (sent_ns - self._sent_ns)
        self._received_ns += self._gain * (received_ns - self._received_ns)

    def clear(self) -> None:
        """Forget all packets."""
        self._sent_ns = self._received_ns = 0.0

    @property
    def value(self) -> float:
        """The ratio; NaN before any packet."""
        if self._received_ns <= 0:
            return float("inf") if self._sent_ns > 0 else float("nan")
        return self._sent_ns / self._received_ns


class StandingQueue:
    """How long packets wait in a queue that does not go away, without a common clock.

    The delay of each packet is compared with the least that there was; a delay that grows slower than both
    clocks may drift apart is no queue. What the last packets all waited is the standing queue (as RFC 8289).

    Parameters
    ----------
    config : WtcpConfig
        The slack for the clocks, and how many packets.
    """

    def __init__(self, config: WtcpConfig) -> None:
        self._slack = 1 + config.clock_slack
        self._level_ns = 0.0
        self._recent: deque[float] = deque(maxlen=config.decision_packets)

    def add(self, sent_ns: int, received_ns: int) -> None:
        """Take the time between two arrivals, and between the departures of the same packets."""
        self._level_ns = max(0.0, self._level_ns + received_ns - sent_ns * self._slack)
        self._recent.append(self._level_ns)

    def clear(self) -> None:
        """Take the present delay for that of an empty queue."""
        self._level_ns = 0.0
        self._recent.clear()

    @property
    def standing_ns(self) -> int:
        """The least wait of the last packets."""
        return int(min(self._recent, default=0))
