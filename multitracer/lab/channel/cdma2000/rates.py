"""Rates of cdma2000's traffic channels (spreading rate 1, radio configuration 3), and what a frame holds."""

from __future__ import annotations

from typing import NamedTuple

from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S

FRAME_NS = 20 * NS_PER_MS
"""A frame of the fundamental and of the supplemental channel (C.S0002; 5, 40 and 80 ms are left out)."""


class Rate(NamedTuple):
    """A rate of a traffic channel."""

    bits_per_s: int
    info_bits: int
    """Of a frame, before check sequence (12 or 16 bits) and tail (8 bits) (C.S0002)."""
    octets: int
    """Of RLP's octet stream in a frame: of 172 bits 20, of each 360 bits 41; the rest is headers of the
    multiplex sublayer and of RLP (C.S0003 and C.S0017, of memory)."""

    @property
    def walsh(self) -> float:
        """Share of the forward link's codes: Walsh length 64 at 9.6 kbit/s, 4 at 153.6 (C.S0002)."""
        return self.bits_per_s / _CODE_SPACE_BITS_PER_S


_CODE_SPACE_BITS_PER_S = 614_400
"""Four codes of length 4, each of 153.6 kbit/s (C.S0002, radio configuration 3)."""
FUNDAMENTAL = Rate(9_600, 172, 20)
SUPPLEMENTAL = (
    Rate(19_200, 360, 41),
    Rate(38_400, 744, 82),
    Rate(76_800, 1_512, 164),
    Rate(153_600, 3_048, 328),
)
"""Ascending (C.S0002; 9.6 kbit/s of it and rates of other configurations are left out)."""
FASTEST = SUPPLEMENTAL[-1]
RATES = {rate.bits_per_s: rate for rate in (FUNDAMENTAL, *SUPPLEMENTAL)}


def octets_at(bits_per_s: float) -> float:
    """Return how many octets of RLP a frame of a steady rate has: as many to a bit as at 153.6 kbit/s."""
    frame_octets = bits_per_s * FRAME_NS / NS_PER_S / BITS_PER_BYTE
    return frame_octets * FASTEST.octets / (FASTEST.bits_per_s * FRAME_NS / NS_PER_S / BITS_PER_BYTE)
