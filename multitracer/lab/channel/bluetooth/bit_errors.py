"""Bit errors of a Bluetooth radio over time, and their effect on packets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.units import BITS_PER_BYTE, NS_PER_S

if TYPE_CHECKING:
    from random import Random

    from multitracer.lab.channel.bluetooth.config import BitErrorConfig, PacketType

_HEADER_TRIPLES = 18
"""A packet header has 18 bits, each sent three times."""
_CODE_BITS, _CODED_BITS = 15, 10
_PAYLOAD_OVERHEAD_OCTETS = {1: 3, 3: 4, 5: 4}
"""Payload header (1 octet, 2 in long packets) and CRC, by slots."""
_QUALITY_STEP, _QUALITY_STEP_BAD, _QUALITY_KNEE = 2.5e-5, 8e-4, 215


class BitErrors:
    """Two states, good and bad, with exponential times.

    Parameters
    ----------
    config : BitErrorConfig
    luck : Random
        For the times.
    """

    def __init__(self, config: BitErrorConfig, *, luck: Random) -> None:
        self._config = config
        self._luck = luck
        self._is_bad = True
        self._until_ns = 0

    def ber(self, now_ns: int) -> float:
        """Return the bit error rate at a time not before that of the last call."""
        while now_ns >= self._until_ns:
            self._is_bad = not self._is_bad
            mean_s = self._config.bad_s if self._is_bad else self._config.good_s
            self._until_ns += 1 + round(self._luck.expovariate(1 / mean_s) * NS_PER_S)
        return self._config.bad_ber if self._is_bad else self._config.good_ber


def header_error(ber: float) -> float:
    """Return the probability that a packet's header is not decoded (code 1/3, majority of three)."""
    return 1 - (1 - 3 * ber**2 + 2 * ber**3) ** _HEADER_TRIPLES


def payload_error(ber: float, kind: PacketType, octets: int) -> float:
    """Return the probability that a payload of user octets fails its CRC."""
    bits = (octets + _PAYLOAD_OVERHEAD_OCTETS[kind.slots]) * BITS_PER_BYTE
    if not kind.coded:
        return 1 - (1 - ber) ** bits
    word_ok = (1 - ber) ** _CODE_BITS + _CODE_BITS * ber * (1 - ber) ** (_CODE_BITS - 1)
    return 1 - word_ok ** -(-bits // _CODED_BITS)


def link_quality(ber: float) -> int:
    """Return the bit error rate on the scale 0 to 255 that controllers of CSR use (memory)."""
    quality = 255 - ber / _QUALITY_STEP
    if quality < _QUALITY_KNEE:
        quality = _QUALITY_KNEE - (ber - (255 - _QUALITY_KNEE) * _QUALITY_STEP) / _QUALITY_STEP_BAD
    return max(0, round(quality))
