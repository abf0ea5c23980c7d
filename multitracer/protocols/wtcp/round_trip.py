"""Round-trip times and lost acknowledgments: by them the sender tunes acknowledgments and patience."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.protocols.wtcp.config import WtcpConfig

_RTT_GAIN, _DEVIATION_GAIN = 1 / 8, 1 / 4  # RFC 6298, section 2.3
_DEVIATIONS = 4  # RFC 6298, section 2.2: K
_ACK_LOSS_GAIN = 1 / 8  # not measured: as the RTT's
_MOST_ACK_LOSS = 0.75
"""Beyond, more acknowledgments would only fill the slow direction (not measured)."""


class RoundTrip:
    """What acknowledgments show of the round trip.

    Parameters
    ----------
    config : WtcpConfig
        Bounds of the times that follow.
    """

    def __init__(self, config: WtcpConfig) -> None:
        self._config = config
        self.srtt_ns: int | None = None
        """Smoothed round-trip time without the receiver's wait, None before the first."""
        self._deviation_ns = 0
        self._ack_loss = 0.0

    def add(self, rtt_ns: int) -> None:
        """Take a round-trip time (RFC 6298, section 2)."""
        if self.srtt_ns is None:
            self.srtt_ns, self._deviation_ns = rtt_ns, rtt_ns // 2
            return
        error_ns = rtt_ns - self.srtt_ns
        self._deviation_ns += round(_DEVIATION_GAIN * (abs(error_ns) - self._deviation_ns))
        self.srtt_ns += round(_RTT_GAIN * error_ns)

    def note_acks(self, lost: int) -> None:
        """Take an acknowledgment before which so many are missing."""
        self._ack_loss += _ACK_LOSS_GAIN * (lost / (lost + 1) - self._ack_loss)

    @property
    def ack_interval_ns(self) -> int:
        """How often the receiver shall acknowledge: in parts of a round trip, more often if ACKs get lost."""
        config = self._config
        if self.srtt_ns is None:
            return config.min_ack_interval_ns
        arriving = 1 - min(self._ack_loss, _MOST_ACK_LOSS)
        wanted_ns = round(self.srtt_ns / config.acks_per_rtt * arriving)
        interval_ns = min(max(wanted_ns, config.min_ack_interval_ns), config.max_ack_interval_ns)
        return interval_ns // NS_PER_MS * NS_PER_MS

    @property
    def threshold_ns(self) -> int:
        """How long no acknowledgment may come before it is a blackout."""
        if self.srtt_ns is None:
            return max(self._config.min_silence_ns, self._config.handshake_ns)
        patience_ns = self.srtt_ns + _DEVIATIONS * self._deviation_ns + 2 * self.ack_interval_ns
        return max(self._config.min_silence_ns, patience_ns)
