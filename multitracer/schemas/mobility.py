"""Tables of the analysis of a drive: the route, the serving cells, handovers, and the bad segments.

The readings themselves are in `multitracer.schemas.radio`; docs/mobility.md explains how each number is
computed. A missing value is NA, never 0.
"""

from __future__ import annotations

from multitracer.schemas.schema import Column, Schema
from multitracer.schemas.signalling import HANDOVERS


def _reals(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "float64", doc, unit) for name, doc, unit in rows)


def _counts(*rows: tuple[str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "int64", doc, na=True) for name, doc in rows)


_PLACE = _reals(
    ("lat_deg", "latitude, WGS 84, north positive", "degrees"),
    ("lon_deg", "longitude, WGS 84, east positive", "degrees"),
    ("distance_m", "along the route from its first position", "m"),
)

ROUTE = Schema(
    "route",
    (
        Column("time_ns", "int64", "when the position was true", "ns since 1970"),
        Column("row", "int64", "row in position, from 0"),
        *_PLACE,
        *_reals(
            ("speed_mps", "over ground, as logged", "m/s"),
            ("heading_deg", "course over ground, from true north; NA while it stands", "degrees"),
        ),
        Column("moved", "bool", "the position counts for the distance: it is no noise of a parked receiver"),
        Column("gap", "U7", "what lies between the row before and this one: silence, leap, or empty"),
    ),
)
"""Trustworthy positions, in order of time."""

ROUTE_GAPS = Schema(
    "route_gaps",
    (
        Column("begin_ns", "int64", "last position before", "ns since 1970"),
        Column("end_ns", "int64", "first position after", "ns since 1970"),
        *_reals(("length_m", "great circle between the two; a leap or a clock adds nothing to the distance", "m")),
        Column(
            "kind", "U7", "silence (no position in time), leap (faster than anything that drives) or clock (set back)"
        ),
        Column("reason", "U64", "the gap in words: leap of 300 km in 1 s"),
    ),
)
"""Parts of the route in which no position is interpolated."""

JUDGED_HANDOVERS = HANDOVERS.extended(
    "judged_handovers",
    Column(
        "ping_pong",
        "int8",
        "1: back to the cell before within the minimum stay, 0: not; NA: cannot be decided",
        na=True,
    ),
    *_reals(
        ("stay_least_s", "time in the old cell since it was entered, at least", "s"),
        ("stay_most_s", "the same, at most", "s"),
    ),
    Column("verdict", "U10", "too early, too late, wrong cell (TS 36.300, 22.4.2.2), none; empty if unknown"),
    Column("verdict_reason", "U64", "what the verdict rests on, or why there is none"),
)
"""Changes of the serving cell with their classification by the standards; without secondary cells."""

CELL_VISITS = Schema(
    "stays",
    (
        Column("begin_ns", "int64", "first reading of the cell, or the handover to it", "ns since 1970"),
        Column("end_ns", "int64", "last reading of the cell, or the handover from it", "ns since 1970"),
        Column("rat", "U8", "technology, as in radio; empty if unknown"),
        Column("plmn", "U6", "network; empty if unknown"),
        *(
            Column(name, "int64", doc, na=True)
            for name, doc in (
                ("cell_id", "cell identity within the network"),
                ("physical_cell_id", "PCI, primary scrambling code, or BSIC"),
                ("channel", "ARFCN, UARFCN, EARFCN or NR-ARFCN of the downlink"),
            )
        ),
        Column("cell", "int64", "number of the cell, from 0, in the order in which they are entered"),
        *_reals(("seconds", "time in which it was read, without gaps", "s")),
    ),
)
"""Cell visits: times between two changes of the serving cell, in order."""

_LEVELS = (
    ("rsrp", "dBm", "RSRP"), ("rsrq", "dB", "RSRQ"), ("sinr", "dB", "SINR"), ("rscp", "dBm", "RSCP"),
    ("rssi", "dBm", "RSSI"),
)  # fmt: skip
_QUARTILES = (("q1", "a quarter is at or below"), ("median", "median"), ("q3", "a quarter is at or above"))
"""Quartiles by numpy.quantile, method linear."""

CELLS = Schema(
    "cells",
    (
        Column("rat", "U8", "technology, as in radio; empty if unknown"),
        Column("plmn", "U6", "network; empty if unknown"),
        *(
            Column(name, "int64", doc, na=True)
            for name, doc in (
                ("cell_id", "cell identity within the network"),
                ("physical_cell_id", "PCI, primary scrambling code, or BSIC"),
                ("channel", "ARFCN, UARFCN, EARFCN or NR-ARFCN of the downlink"),
            )
        ),
        Column("visits", "int64", "times that it became the serving cell, the first included"),
        *_reals(
            ("seconds", "time in which it served: between readings that are near enough", "s"),
            ("distance_m", "way that was driven in this time; NA without positions", "m"),
        ),
        Column("readings", "int64", "rows of radio with a level"),
        *_reals(
            *(
                (f"{name}_{part}_{unit.lower()}", f"{words} of the readings: {doc}", unit)
                for name, unit, words in _LEVELS
                for part, doc in _QUARTILES
            ),
            *((f"throughput_{part}_bps", f"throughput of its seconds: {doc}", "bit/s") for part, doc in _QUARTILES),
        ),
        *(Column(f"rtt_{part}_ns", "int64", f"round-trip times: {doc}", "ns") for part, doc in _QUARTILES),
        Column("outages", "int64", "outages that began in it; NA if none were looked for", na=True),
        *_reals(("outage_s", "their time in it; NA if none were looked for", "s")),
        Column("handovers_in", "int64", "changes to it"),
        Column("handovers_out", "int64", "changes from it"),
    ),
)
"""Cells that served, by descending total time."""

AROUND = Schema(
    "around",
    (
        Column("handover", "int64", "row in judged_handovers"),
        Column("window", "U8", "baseline (the same car a minute before), before, during, after"),
        Column("begin_ns", "int64", "its begin", "ns since 1970"),
        Column("end_ns", "int64", "its end", "ns since 1970"),
        *_reals(
            ("throughput_bps", "mean; NA where less than half of the window is known", "bit/s"),
            ("throughput_ratio", "against the baseline; NA without one, or if it is 0", ""),
            ("rtt_median_ms", "median of the round-trip times that ended in it", "ms"),
        ),
        Column("rtt_samples", "int64", "their number; NA if no round-trip times were given", na=True),
        Column("sent", "int64", "segments sent in it; NA if none were given", na=True),
        Column("lost", "int64", "those of them that were lost", na=True),
        *_reals(("loss_ratio", "lost over sent; NA if nothing was sent", "")),
        Column("reason", "U64", "of a baseline: why there is no throughput_ratio to it; empty if there is one"),
    ),
)
"""Traffic in windows around each handover; the limits in these windows are in `around_limits`."""

AROUND_LIMITS = Schema(
    "around_limits",
    (
        Column("handover", "int64", "row in judged_handovers"),
        Column("window", "U8", "as in around"),
        Column("limit", "U17", "what held the transfer back (docs/limits.md); idle: none was running"),
        *_reals(("share", "part of the window", "")),
    ),
)
"""Limits of the transfers around each handover; the shares of one window sum to 1."""

EPOCHS = Schema(
    "epochs",
    (
        *_reals(("begin_s", "begin of the bin, after the handover", "s"), ("end_s", "end of the bin", "s")),
        Column("n", "int64", "handovers with a value in the bin"),
        *_reals(
            ("mean", "over handovers, each counts once", ""),
            ("mean_low", "95 % interval: percentile bootstrap over handovers", ""),
            ("mean_high", "its upper end", ""),
            ("median", "over handovers", ""),
            ("median_low", "95 % interval of order statistics; NA below six handovers", ""),
            ("median_high", "its upper end", ""),
        ),
    ),
)
"""One quantity aligned at all handovers, by time since the handover."""

STRETCHES = Schema(
    "stretches",
    (
        Column("begin_ns", "int64", "when the rate fell, or the radio became bad", "ns since 1970"),
        Column("end_ns", "int64", "when the rate rose again, or the radio was good again", "ns since 1970"),
        *_reals(
            ("seconds", "its length", "s"),
            ("lost_s", "time that it cost against the typical rate; NA if no rate was judged", "s"),
            ("throughput_bps", "mean; NA if not known", "bit/s"),
            ("typical_bps", "upper quartile of the drive while data were wanted; NA if not known", "bit/s"),
            ("lat_deg", "latitude of its middle, WGS 84, north positive", "degrees"),
            ("lon_deg", "longitude of its middle, WGS 84, east positive", "degrees"),
            ("begin_m", "along the route, where it begins", "m"),
            ("end_m", "along the route, where it ends", "m"),
        ),
        Column("cell", "int64", "row in cells that served longest in it", na=True),
        *_reals(("rsrp_dbm", "median of its seconds", "dBm"), ("sinr_db", "median of its seconds", "dB")),
        Column("cause", "U12", "coverage, interference, technology, handover, load, server, TCP, or unknown"),
        *_reals(("share", "part of its seconds that shows the cause itself, not only its consequence", "")),
        Column("cause_begin_ns", "int64", "when the cause began; NA if nothing shows it", "ns since 1970"),
        Column("cause_end_ns", "int64", "when the cause ended; NA if nothing shows it", "ns since 1970"),
        *_reals(
            ("cause_within_s", "error of these two, at most; NA without them", "s"),
            ("cause_begin_m", "along the route, where the cause began", "m"),
            ("cause_end_m", "along the route, where the cause ended", "m"),
        ),
        Column("evidence", "U200", "what shows the cause, in words"),
        Column("missing", "U120", "of an unknown cause: what would have to be recorded to tell"),
    ),
)
"""Bad segments of a drive with cost and cause, by descending cost."""

SECONDS = Schema(
    "seconds",
    (
        Column("time_ns", "int64", "begin of the second, a full second of UTC", "ns since 1970"),
        *_reals(
            (
                "throughput_bps",
                "TCP payload of all connections in both directions, or throughput that the phone logged",
                "bit/s",
            ),
            ("throughput_forward_bps", "its part from the initiators of connections; null without a capture", "bit/s"),
            ("throughput_reverse_bps", "its part from the responders; null without a capture", "bit/s"),
            ("rtt_ns", "median of the RTT samples of the explained transfer that ended in this second", "ns"),
        ),
        *_counts(
            ("rtt_samples", "number of these RTT samples; null if not analysed"),
            ("sent", "segments of the explained transfer sent in this second; null if their loss is unknown"),
            ("lost", "number of these segments that were lost"),
        ),
        Column("limited_by", "U", "limit with the longest time (docs/limits.md); null if unknown"),
        Column("part", "U", "subtype of the limit"),
        Column(
            "cause",
            "U",
            "what the radio log shows as the cause of the limit: coverage, interference, handover, technology, load, "
            "or radio-normal; what signalling shows: promotion, rejected, radio-link-failure, release, secondary-leg; "
            "null if unknown",
        ),
        Column("rat", "U", "technology: LTE, NR, ..."),
        Column("plmn", "U", "network, MCC and MNC"),
        *_counts(
            ("cell_id", "cell identity of the serving cell"),
            ("physical_cell_id", "PCI, primary scrambling code, or BSIC"),
            ("channel", "ARFCN, UARFCN, EARFCN or NR-ARFCN"),
        ),
        *_reals(
            ("rsrp_dbm", "mean of the readings in this second, else the last reading if at most 5 s old", "dBm"),
            ("rsrq_db", "as rsrp_dbm", "dB"),
            ("sinr_db", "as rsrp_dbm", "dB"),
            ("rscp_dbm", "as rsrp_dbm", "dBm"),
            ("rssi_dbm", "as rsrp_dbm", "dBm"),
            ("lat_deg", "latitude at the middle of the second, WGS 84", "degrees"),
            ("lon_deg", "longitude at the middle of the second, WGS 84", "degrees"),
            ("heading_deg", "course over ground; null while the device does not move", "degrees"),
            ("distance_m", "distance along the route", "m"),
        ),
        Column(
            "handover",
            "bool",
            "whether the cell changed within the next second or the last three seconds; null where no radio was logged",
        ),
        Column("wanted", "bool", "whether the phone's test program transferred data; null if not logged"),
    ),
)
"""A second of a session, in order of time: throughput, limit, radio and place."""
