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

PHONE_STATE = Schema(
    "phone_state",
    (
        Column("time_ns", "int64", "middle of question and answer", "ns since 1970"),
        _LINE,
        Column(
            "wakefulness", "U16", "Awake, Asleep, Dreaming or Dozing; asleep, Android updates no level of the radio"
        ),
        Column("wifi", "U16", "connected, disconnected or disabled"),
        *_reals(
            ("battery_celsius", "temperature of the battery", "degrees Celsius"),
            ("wifi_rssi_dbm", "received power of the access point", "dBm"),
        ),
        *_numbers(
            ("battery_percent", "charge of the battery", "%"),
            ("charging", "1 on a charger, 0 on battery", ""),
            ("wifi_rx_bps", "rate of the link to the phone", "bit/s"),
            ("wifi_tx_bps", "rate of the link from the phone", "bit/s"),
            ("wifi_frequency_hz", "frequency of the channel", "Hz"),
        ),
    ),
)
"""What an Android phone says of itself; each answer gives values in its own columns only."""

PHONE_EVENTS = Schema(
    "phone_events",
    (
        Column("time_ns", "int64", "when this host read it: after it happened", "ns since 1970"),
        Column("phone_time_ns", "int64", "when it happened, by the phone's clock", "ns since 1970"),
        _LINE,
        Column("event", "U48", "tag of Android's event log: gsm_data_state_change, ..."),
        Column("text", "U200", "values of the event, as Android writes them"),
    ),
)
"""Changes of cell, data state and registration that an Android phone logged."""

REMOTE_LOG = Schema(
    "remote_log",
    (
        Column(
            "time_ns",
            "int64",
            "when this host read it: after it happened; NA for a line from before the connection",
            "ns since 1970",
        ),
        _LINE,
        Column("level", "U32", "facility and level: daemon.notice; empty without them"),
        Column("program", "U48", "the program that wrote it: netifd, kernel, ..."),
        Column("text", "U200", "the line, without its time and program"),
    ),
)
"""Lines that another machine, such as a router, wrote to its own log."""

APP_BYTES = Schema(
    "app_bytes",
    (
        Column("time_ns", "int64", "middle of question and answer", "ns since 1970"),
        _LINE,
        Column("app", "U128", "package with this uid; of several one; empty for a part of the system"),
        *_numbers(
            ("uid", "user id of the program on the phone", ""),
            ("rx_bytes", "received since the phone began to count", "bytes"),
            ("rx_packets", "received since the phone began to count", "packets"),
            ("tx_bytes", "sent since the phone began to count", "bytes"),
            ("tx_packets", "sent since the phone began to count", "packets"),
        ),
    ),
)
"""What each program of an Android phone received and sent, over all networks."""

DISH = Schema(
    "dish",
    (
        Column(
            "time_ns",
            "int64",
            "middle of question and answer; of a second of its history, to a second",
            "ns since 1970",
        ),
        _LINE,
        Column("state", "U16", "CONNECTED, or the cause of the outage: SEARCHING, OBSTRUCTED, NO_SATS, BOOTING, ..."),
        *_reals(
            ("loss_ratio", "share of the dish's pings to the network that were lost in the second, 0 to 1", ""),
            ("downlink_bps", "throughput to the dish in the second", "bit/s"),
            ("uplink_bps", "throughput from the dish in the second", "bit/s"),
            ("obstructed_ratio", "share of the sky or time that is obstructed, as the dish estimates it, 0 to 1", ""),
            ("azimuth_deg", "direction of the antenna, from north", "degrees"),
            ("elevation_deg", "direction of the antenna, from the horizon", "degrees"),
            ("uptime_s", "time since the dish started", "s"),
        ),
        *_numbers(("obstructed", "1 while something hides the satellite, else 0", "")),
    ),
)
"""A Starlink dish: its state at each answer, and a row for each second of its history."""

DISH_OUTAGES = Schema(
    "dish_outages",
    (
        Column("time_ns", "int64", "when it was read: after its begin", "ns since 1970"),
        Column("dish_time_ns", "int64", "its begin, as the dish gives it", "ns since the zero of the dish's clock"),
        _LINE,
        Column("cause", "U32", "OBSTRUCTED, NO_SATS, NO_DOWNLINK, BOOTING, ..."),
        Column("duration_ns", "int64", "how long it lasted", "ns"),
    ),
)
"""Outages that a Starlink dish reports."""

REMOTE_CLOCK = Schema(
    "remote_clock",
    (
        Column(
            "time_ns", "int64", "CLOCK_REALTIME of the recording host before the other clock was read", "ns since 1970"
        ),
        Column("until_ns", "int64", "CLOCK_REALTIME of the recording host after it was read", "ns since 1970"),
        Column("remote_ns", "int64", "CLOCK_REALTIME of the other machine", "ns since 1970"),
        Column("host", "U64", "the other machine: its folder in the session"),
        _LINE,
    ),
)
"""The clock of another machine, read between two readings of the recording host's."""

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
