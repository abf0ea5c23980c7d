"""The rate that the scheduler of a cdma2000 channel assigned to the direction of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.analysis.series.labelled import LINK_RATE
from multitracer.figures.link_panels import recorded_series
from multitracer.figures.stack import LINK_BIT_RATE, Panel

if TYPE_CHECKING:
    from multitracer.recording.transfer import Transfer


def panel(transfer: Transfer) -> Panel | None:
    """Return the assigned rate as steps; None for a link without assignments."""
    series = recorded_series(transfer.link, {LINK_RATE: "assigned_rate"}, " (rlpdump)")
    return Panel("assigned_rate", "Rate of the channel, as it was assigned", LINK_BIT_RATE, 0.8, series)
