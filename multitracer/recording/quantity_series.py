"""Quantities that are computed from the segments of one capture, or from labelled series."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.common_grid import QuantityKind, SessionQuantity
from multitracer.analysis.deliveries import tcp_deliveries
from multitracer.analysis.kind import SegmentKind
from multitracer.analysis.series.throughput import reported
from multitracer.recording.quantity_names import CLIMBING, OF_SERIES, SEGMENT_SERIES
from multitracer.units import BITS_PER_BYTE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Table


def counted(segments: Table, *, prefix: str, reverse: bool, host: str = "") -> Iterator[SessionQuantity]:
    """Yield goodput, throughput and retransmissions of one direction at one capture point."""
    data = segments.take((segments["reverse"] == reverse) & (segments["payload_bytes"] > 0))
    got = tcp_deliveries if prefix == "TcpRcv" else reported
    through = got(segments, reverse=reverse)
    again = (data["kind"] & np.uint32(SegmentKind.RETRANSMISSION)) != 0
    rows = {
        "goodput": (through["time_ns"], through["new_bytes"] * BITS_PER_BYTE),
        "throughput": (data["time_ns"], data["payload_bytes"].astype(np.int64) * BITS_PER_BYTE),
        "rexmt": (data["time_ns"], again),
    }
    for end, (time_ns, value) in rows.items():
        if len(time_ns):
            kind, unit, doc = SEGMENT_SERIES[end]
            yield SessionQuantity(
                f"{prefix}_{end}", kind, time_ns, value.astype(np.float64), unit, source=doc, host=host
            )


def of_series(label: str, table: Table, *, kind: QuantityKind | None = None, host: str = "") -> SessionQuantity:
    """Return a labelled series as a quantity.

    For positions in a byte stream, the values are the increases from row to row.
    """
    end = label.partition("_")[2]
    value, unit = table["value"], str(table.provenance["unit"])
    if end in CLIMBING:
        highest = np.maximum.accumulate(np.where(np.isfinite(value), value, -np.inf))
        value = np.diff(highest, prepend=highest[:1]) if len(highest) else highest
    source = str(table.provenance["source"])
    return SessionQuantity(label, kind or OF_SERIES[end], table["time_ns"], value, unit, source=source, host=host)
