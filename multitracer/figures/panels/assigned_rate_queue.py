"""The bytes that waited for a cdma2000 channel at each assignment of its rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.analysis.series.labelled import LINK_QUEUE
from multitracer.figures.link_panels import recorded_series
from multitracer.figures.stack import BYTES, Panel

if TYPE_CHECKING:
    from multitracer.recording.transfer import Transfer


def panel(transfer: Transfer) -> Panel | None:
    """Return a point for each assignment; None for a link without assignments."""
    series = recorded_series(transfer.link, {LINK_QUEUE: "event"}, " (rlpdump)", rare=[LINK_QUEUE])
    return Panel("assigned_rate_queue", "Bytes that waited when the rate was assigned", BYTES, 0.6, series)
