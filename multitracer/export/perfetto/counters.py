"""Counters: windows, round trips, rates, the radio and the road; and what the link reported, as instants."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.series.labelled import in_link_time, series_table
from multitracer.analysis.series.throughput import delivered, goodput
from multitracer.tcp import Vantage
from multitracer.units import BITS_PER_BYTE, NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.export.perfetto.track_event import Trace
    from multitracer.recording.window import Bounds
    from multitracer.tables import Table

_PLACES = re.compile(r".*_(data|ack)|(Rlp|Cdpd)\w*")
"""Labels of series whose values are places in the stream of bytes; packets are slices."""
_AT_ONCE = 1 << 16
"""Points that are Python numbers at a time."""
_EVENTS = re.compile(r"Rlp(Snd|Rcv)_(xoff|xon|rst)")


def write_counters(trace: Trace, transfer: Transfer, bounds_ns: Bounds) -> None:
    """Write a track for each series of values over time, within bounds of link time."""
    series = transfer.layers.series
    for label, table in (_rates(transfer) | series).items():
        if _PLACES.fullmatch(label) is None:
            _write_counter(trace, label, table.within(*bounds_ns))
    for label, table in series.items():
        if _EVENTS.fullmatch(label) and len(table):
            track = trace.track(label, doc=str(table.provenance["doc"]))
            for time_ns in table.within(*bounds_ns)["time_ns"].tolist():
                trace.instant(track, time_ns, label.rpartition("_")[2], {})


def _write_counter(trace: Trace, label: str, table: Table) -> None:
    facts = table.provenance
    unit = str(facts["unit"])
    known = ~np.isnan(table["value"]) & (table["time_ns"] >= 0)
    if not known.any():
        return
    track = trace.track(label, unit=unit, doc=f"{facts['doc']}; source: {facts['source']}")
    for begin in range(0, len(table), _AT_ONCE):
        cut = slice(begin, begin + _AT_ONCE)
        chosen = known[cut]
        for time_ns, value in zip(
            table["time_ns"][cut][chosen].tolist(), table["value"][cut][chosen].tolist(), strict=True
        ):
            trace.count(track, time_ns, value)


def _rates(transfer: Transfer) -> dict[str, Table]:
    """Return the rate at which new bytes got through, in link time."""
    is_arrival = transfer.layers.vantage is Vantage.NEAR_RECEIVER
    rates = (goodput if is_arrival else delivered)(transfer.sender, reverse=transfer.reverse)
    window_s = rates.provenance["window_ns"] * transfer.speed / NS_PER_S
    seen = "arrival" if is_arrival else "ACKs and SACKs"
    series = series_table(
        "goodput",
        rates["time_ns"],
        rates["bytes_per_s"] * BITS_PER_BYTE / transfer.speed,
        unit="bit/s",
        doc=f"new payload per second over {window_s:.3g} s, by {seen}",
    )
    origin_ns = transfer.layers.part.capture.first_ns or 0
    return {"goodput": in_link_time(series, speed=transfer.speed, origin_ns=origin_ns)} if len(series) else {}
