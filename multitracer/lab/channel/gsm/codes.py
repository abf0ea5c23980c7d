"""The codes of a GSM data call: how many wrong paths a decoder may take, and how far from the sent one.

All are made from GSM's convolutional code of half rate, G0 = 1 + D3 + D4 and G1 = 1 + D + D3 + D4 (TS 45.003,
from memory), by leaving bits out. tests/lab/channel/test_bit_errors.py computes them from the trellis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

CodeName = Literal["9.6", "14.4", "3/4", "none"]
Weights = tuple[tuple[int, float], ...]
"""(places in which a wrong path differs, such paths that begin at a bit, in the mean), nearest first."""

WEIGHTS: Mapping[CodeName, Weights] = {
    "9.6": ((6, 17 / 15), (7, 10 / 3), (8, 19 / 3), (9, 236 / 15)),
    "14.4": ((5, 2.0), (6, 46 / 7), (7, 135 / 7), (8, 430 / 7)),
    "3/4": ((3, 2 / 3), (4, 2.0), (5, 12.0), (6, 175 / 3)),
    "none": ((1, 1.0),),
}
"""9.6: one bit in 15 is left out, as TCH/F9.6 does. 14.4: 3 in 14, nearly the share of TCH/F14.4, by the best
pattern of this period. 3/4: 2 in 6, likewise. The four nearest distances; further ones count where a frame
fails nearly always."""
