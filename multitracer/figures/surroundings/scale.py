"""Colour scales of values on a map: classes from bad to good, stated with their limits and unit.

The colours are those of ColorBrewer's 6-class RdYlBu (Brewer, "ColorBrewer 2.0", colorbrewer2.org), which
stay apart under the common colour blindnesses; a dark outline sets the pale ones off from a white page. A
missing value is grey. Red is bad: low power, a low rate, a high loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.tables import Array

BAD_TO_GOOD = ("#d73027", "#fc8d59", "#fee090", "#e0f3f8", "#91bfdb", "#4575b4")
MISSING = "#8a94a3"


@dataclass(frozen=True, slots=True)
class Scale:
    """Classes of a quantity.

    Attributes
    ----------
    title : str
    unit : str
    limits : sequence of float
        Five, ascending; a value that equals one belongs to the class above it.
    high_is_good : bool
    factor : float
        What a value is multiplied with for the legend, such as 3.6 from m/s to km/h.
    """

    title: str
    unit: str
    limits: Sequence[float]
    high_is_good: bool = True
    factor: float = 1.0

    @property
    def colours(self) -> tuple[str, ...]:
        """The colour of each class, from the lowest values to the highest."""
        return BAD_TO_GOOD if self.high_is_good else BAD_TO_GOOD[::-1]

    def classes(self, value: Array) -> Array:
        """Return the class of each value, 0 to 5, and -1 where it is missing.

        Parameters
        ----------
        value : ndarray of float64, shape (n,)
            NaN where missing.

        Returns
        -------
        ndarray of int64, shape (n,)
        """
        return np.where(np.isfinite(value), np.searchsorted(self.limits, value, side="right"), -1)

    def words(self) -> list[str]:
        """Return each class in words, from the lowest values to the highest."""
        texts = [f"{limit * self.factor:,.6g}" for limit in self.limits]
        between = [f"{low} to {high}" for low, high in pairwise(texts)]
        return [f"below {texts[0]}", *between, f"{texts[-1]} or more"]


SCALES = {
    "Radio_rsrp": Scale("RSRP", "dBm", (-120, -110, -100, -90, -80)),
    "Radio_rssi": Scale("RSSI", "dBm", (-105, -95, -85, -75, -65)),
    "Radio_rscp": Scale("RSCP", "dBm", (-110, -100, -90, -80, -70)),
    "Radio_rsrq": Scale("RSRQ", "dB", (-19, -16, -13, -11, -9)),
    "Radio_sinr": Scale("SINR", "dB", (-5, 0, 5, 13, 20)),
    "Radio_ecio": Scale("Ec/Io", "dB", (-18, -15, -12, -9, -6)),
    "Radio_bler": Scale("Lost blocks", "%", (1, 3, 10, 20, 40), high_is_good=False),
    "Radio_cell_busy": Scale("Cell busy", "%", (10, 25, 40, 60, 80), high_is_good=False),
    "Radio_cqi": Scale("CQI", "", (3, 5, 7, 10, 13)),
    "Radio_rate_down": Scale("Downlink rate", "Mbit/s", (1e5, 1e6, 5e6, 2e7, 1e8), factor=1e-6),
    "Radio_rate_up": Scale("Uplink rate", "Mbit/s", (1e5, 5e5, 2e6, 1e7, 5e7), factor=1e-6),
    "TcpSnd_goodput": Scale("TCP goodput", "Mbit/s", (1e5, 1e6, 5e6, 2e7, 1e8), factor=1e-6),
    "TcpSnd_rtt": Scale("Round-trip time", "ms", (3e7, 6e7, 1e8, 2e8, 1e9), high_is_good=False, factor=1e-6),
    "Gps_speed": Scale("Speed", "km/h", (5 / 3.6, 15 / 3.6, 30 / 3.6, 50 / 3.6, 90 / 3.6), factor=3.6),
}
"""By the label of a series. The limits are those that drive-test reports usually have; not measured."""
