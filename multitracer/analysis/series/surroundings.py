"""The series of the radio and of the road: what a phone or modem measured, and how the receiver moved.

`Radio_*` are readings of the serving cell, as the source wrote them: no value is repeated, filled in or made
smooth. Where a log holds the same quantity from several commands, the series is that of the command which
gave most values, because two commands need not mean the same by one name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.serving import is_serving
from multitracer.analysis.series.labelled import series_table
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.mobility.route import Route
    from multitracer.tables import Array, Times

_LEAST_GAP_NS = 5 * NS_PER_S  # the reason is that of `_MISSED`
_MISSED = 5
"""So many readings must be missing, and so much time without one must pass, before a line is broken.

A logger that reads each second is late by one or two now and then (UCC drive tests: 1 to 3 s); not measured
on others.
"""


class Shown(NamedTuple):
    """The column that a series is made of, its unit, and what it shows."""

    column: str
    unit: str
    doc: str


RADIO_SERIES = {
    "Radio_rssi": Shown("rssi_dbm", "dBm", "received power in the channel"),
    "Radio_rsrp": Shown("rsrp_dbm", "dBm", "power of the reference signal"),
    "Radio_rscp": Shown("rscp_dbm", "dBm", "power of the common pilot"),
    "Radio_rsrq": Shown("rsrq_db", "dB", "quality of the reference signal"),
    "Radio_sinr": Shown("sinr_db", "dB", "signal to interference and noise"),
    "Radio_ecio": Shown("ecio_db", "dB", "Ec/Io of the pilot"),
    "Radio_bler": Shown("bler_pct", "%", "block error rate"),
    "Radio_cell_busy": Shown("cell_busy_pct", "%", "share of time in which the shared channel was busy"),
    "Radio_cqi": Shown("cqi", "", "channel quality indicator"),
    "Radio_rate_down": Shown("downlink_bps", "bit/s", "throughput of the downlink that the logger saw"),
    "Radio_rate_up": Shown("uplink_bps", "bit/s", "throughput of the uplink that the logger saw"),
}
"""Label of each series of the table `radio`, and what it shows."""
RATES = ("Radio_rate_down", "Radio_rate_up")
"""Those of traffic."""

GPS_SPEED = "Gps_speed"
GPS_POSITION = "Gps_position"


def radio_series(radio: Table, *, source: str) -> dict[str, Table]:
    """Return the series of a log of the radio: of the serving cell, for each quantity that has a value.

    Parameters
    ----------
    radio : Table
        RADIO of one log.
    source : str
        What the log is called; the command that gave the values is added.

    Returns
    -------
    dict of str to Table
        SERIES by label. Its provenance names the column, and `gap_ns`: readings further apart than this
        are not joined by a line.
    """
    serving = radio.take(is_serving(radio) & (radio["time_ns"] != NOT_A_TIME))
    series = {}
    for label, shown in RADIO_SERIES.items():
        rows = most_of_one_source(serving["source"], known_values(serving[shown.column]))
        if len(rows):
            chosen = serving.take(rows)
            words = ", ".join(dict.fromkeys(chosen["source"].tolist()))
            series[label] = _series(label, shown, chosen, f"radio.{shown.column}", f"{source}, {words}")
    return series


def speed_series(position: Table, *, source: str) -> dict[str, Table]:
    """Return Gps_speed of a log of positions, empty without a speed; the parameters are as above."""
    rows = np.flatnonzero(np.isfinite(position["speed_mps"]) & (position["time_ns"] != NOT_A_TIME))
    if not len(rows):
        return {}
    shown = Shown("speed_mps", "m/s", "speed over ground")
    return {GPS_SPEED: _series(GPS_SPEED, shown, position.take(rows), "position.speed_mps", source)}


def travelled_series(route: Route, *, source: str) -> dict[str, Table]:
    """Return Gps_position, the distance along a route; empty for a route without a position."""
    if not len(route.table):
        return {}
    shown = Shown("distance_m", "m", "distance along the route from its first position")
    return {GPS_POSITION: _series(GPS_POSITION, shown, route.table, "position.lat_deg, lon_deg", source)}


def _series(label: str, shown: Shown, rows: Table, column: str, source: str) -> Table:
    series = series_table(
        label, rows["time_ns"], rows[shown.column], unit=shown.unit, doc=shown.doc, source=source
    )
    series.provenance |= {"column": column, "gap_ns": longest_joined_ns(series["time_ns"])}
    return series


def known_values(values: Array) -> Array:
    """Return which numbers of a column of RADIO are known; bool, shape (n,)."""
    return np.isfinite(values) if values.dtype.kind == "f" else values != NA


def most_of_one_source(source: Array, known: Array) -> Array:
    """Return the rows of the source with most values; of equal sources the first by name."""
    rows = np.flatnonzero(known)
    names, number, counts = np.unique(source[rows], return_inverse=True, return_counts=True)
    return rows[number == counts.argmax()] if len(names) else rows


def longest_joined_ns(time_ns: Times) -> int:
    """Return how far apart two readings may be to be joined by a line.

    Parameters
    ----------
    time_ns : ndarray of int64, ns, shape (n,)
        Ascending.
    """
    apart = np.diff(time_ns)
    apart = apart[apart > 0]
    usual = int(np.median(apart)) if len(apart) else 0
    return max(_LEAST_GAP_NS, _MISSED * usual)
