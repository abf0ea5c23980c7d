"""Tables of radio, position and clock logs.

One row is one reading of a source: an answer of a modem gives a row for each cell in it, with values only in
the columns of the answer. Two consecutive commands give two rows, each with its own time stamps; they are
never merged. A missing value is NA, never 0, and a value that was not read is never repeated: a time without
readings is a row of `gaps`.
"""

from __future__ import annotations

from multitracer.schemas.schema import Column, Schema

_LINE = Column("line", "uint32", "line of the log, from 1")


def _reals(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "float64", doc, unit) for name, doc, unit in rows)


def _numbers(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "int64", doc, unit, na=True) for name, doc, unit in rows)


SEARCHES = ("SEARCH", "NOSERVICE", "NO SERVICE")
"""Values of `state` without a network, as Quectel (+QENG) and SIMCom (+CPSI) write them.

LIMSRV has a cell."""
OUT_OF_SERVICE = "OUT_OF_SERVICE"
"""Value of `state` without a network, of Android's ServiceState; packets may then use another network."""

RADIO = Schema(
    "radio",
    (
        Column("time_ns", "int64", "best estimate of the time of reading", "ns since 1970"),
        Column(
            "asked_ns",
            "int64",
            "the value was measured later than this, unless it waited in the modem",
            "ns since 1970",
        ),
        Column("answered_ns", "int64", "the value was measured earlier than this", "ns since 1970"),
        _LINE,
        Column("source", "U16", "the command or tool: +CSQ, +QENG, !GSTATUS, mmcli, csv, ..."),
        Column("role", "U9", "serving, secondary (carrier aggregation, EN-DC) or neighbour"),
        Column("rat", "U8", "CDPD, GSM, EDGE, UMTS, HSPA, CDMA, EVDO, LTE, NB-IoT, NR, BT; empty if unknown"),
        Column("state", "U16", "state of the connection as the modem writes it: NOCONN, CONNECT, LIMSRV, ..."),
        Column("plmn", "U6", "network, MCC and MNC as digits"),
        Column("operator", "U32", "name of the network as the modem writes it"),
        Column("band", "U16", "frequency band as the modem writes it"),
        *_reals(
            ("rssi_dbm", "received power in the channel (RXLEV of GSM); -113 stands for that or less", "dBm"),
            ("rsrp_dbm", "power of a reference signal (TS 36.214 5.1.1, TS 38.215 5.1.1)", "dBm"),
            ("rsrq_db", "quality of a reference signal (TS 36.214 5.1.3, TS 38.215 5.1.3)", "dB"),
            ("sinr_db", "signal to interference and noise", "dB"),
            ("rscp_dbm", "power of the common pilot (TS 25.215 5.1.1)", "dBm"),
            ("ecio_db", "Ec/Io or Ec/No of the pilot (TS 25.215 5.1.5)", "dB"),
            ("ber_pct", "bit error rate; of an RXQUAL class the assumed mean (TS 45.008 8.2.4)", "%"),
            ("bler_pct", "block error rate", "%"),
            ("cell_busy_pct", "share of time in which the shared channel was busy", "%"),
            ("tx_power_dbm", "power of the transmitter", "dBm"),
            ("downlink_bps", "throughput that the logger measured", "bit/s"),
            ("uplink_bps", "throughput that the logger measured", "bit/s"),
            ("assigned_down_bps", "rate of the channel that the network assigned, to the mobile", "bit/s"),
            ("assigned_up_bps", "rate of the channel that the network assigned, from the mobile", "bit/s"),
            ("modem_clock_s", "the modem's own clock; its zero is unknown", "s"),
        ),
        *_numbers(
            ("rxqual", "RXQUAL class, 0 to 7 (TS 45.008 8.2.4)", ""),
            ("registration", "<stat> of TS 27.007 7.2: 0 not, 1 home, 5 roaming, ...", ""),
            ("area_code", "LAC or TAC", ""),
            ("cell_id", "cell identity within the network", ""),
            ("physical_cell_id", "PCI, primary scrambling code, BSIC / colour code, or PN offset of a pilot", ""),
            ("channel", "ARFCN, UARFCN, EARFCN, NR-ARFCN or CDPD channel of the downlink", ""),
            ("cqi", "channel quality indicator", ""),
            ("rlp_resent_bytes", "octets that RLP sent again to the mobile since the reading before", "bytes"),
            ("timing_advance", "timing advance that the network sent to the mobile", ""),
            ("sinr_raw", "SINR as the modem wrote it, where the unit depends on the firmware", ""),
            ("modem", "which radio of a phone with several cards, from 0; missing if it has one", ""),
        ),
    ),
)
"""Readings of the radio, one cell per row."""

POSITION = Schema(
    "position",
    (
        Column("time_ns", "int64", "when it was read; the time of the fix if that is all", "ns since 1970"),
        Column("fix_time_ns", "int64", "when the position was valid, by the receiver's clock", "ns since 1970"),
        _LINE,
        Column("source", "U8", "gpsd, nmea, csv, gpx"),
        *_reals(
            ("lat_deg", "latitude, WGS 84, north positive", "degrees"),
            ("lon_deg", "longitude, WGS 84, east positive", "degrees"),
            ("altitude_m", "altitude above mean sea level", "m"),
            ("speed_mps", "speed over ground", "m/s"),
            ("heading_deg", "course over ground, from true north", "degrees"),
            ("error_m", "horizontal error as the receiver estimates it", "m"),
            ("hdop", "horizontal dilution of precision", ""),
        ),
        *_numbers(
            ("fix", "0 none, 1 a fix of unknown kind, 2 two- and 3 three-dimensional", ""),
            ("satellites", "number of satellites used for the fix", ""),
        ),
    ),
)
"""Position of a receiver at one time; without a fix the coordinates are NA."""

GAPS = Schema(
    "gaps",
    (
        Column("time_ns", "int64", "begin of the time in which nothing was read", "ns since 1970"),
        Column("until_ns", "int64", "end of the time in which nothing was read", "ns since 1970"),
        Column("count", "int64", "readings that were due in it"),
        Column("reason", "U64", "silent, port busy, unplugged, unintelligible, late, ..."),
    ),
)
"""Intervals in which a collector could not read its source, with the reason."""

MARKERS = Schema(
    "markers",
    (
        Column("time_ns", "int64", "CLOCK_REALTIME when the engineer marked it", "ns since 1970"),
        _LINE,
        Column("note", "U256", "what the engineer wrote; empty if only the key was pressed"),
    ),
)
"""Times that the engineer marked during the recording."""

CLOCK_READINGS = Schema(
    "clock_readings",
    (
        Column("time_ns", "int64", "CLOCK_REALTIME", "ns since 1970"),
        _LINE,
        Column("host", "U64", "whose clocks; empty if the log does not say"),
        Column("event", "U8", "reading, step (realtime was set) or suspend (the machine slept)"),
        Column("monotonic_before_ns", "int64", "CLOCK_MONOTONIC just before", "ns"),
        Column("monotonic_after_ns", "int64", "CLOCK_MONOTONIC just after", "ns"),
        Column("boottime_ns", "int64", "CLOCK_BOOTTIME, within the same bracket", "ns"),
        Column("step_ns", "int64", "step: by how much; suspend: for how long", "ns"),
        Column("offset_ns", "int64", "what is left to correct, adjtimex(2)", "ns"),
        Column("max_error_ns", "int64", "bound of the error, adjtimex(2)", "ns"),
        Column("est_error_ns", "int64", "estimate of the error, adjtimex(2)", "ns"),
        *_reals(("frequency_ppm", "correction of the rate, adjtimex(2)", "ppm")),
        *_numbers(
            ("synchronized", "1 if the kernel takes its clock for synchronized, 0 if not", ""),
            ("tai_offset_s", "TAI - UTC, 0 until somebody told the kernel", "s"),
        ),
    ),
)
"""Clocks of one host that were read together, and events of these clocks."""
