"""The labelled series of a multi-layer trace (paper 004, section 4.5), each one a table.

The labels are those of docs/figures.md. `TcpSnd_*` are data of the TCP sender's host, `TcpRcv_*` of the
receiver's. Sequence numbers are bytes of the sender's direction, unwrapped; the SYN has number 0 in both
groups. A series is absent, not empty, if the recording has no source for it.

Series of the data link come from a log of rlpdump, for one direction. `RlpSnd_*` is computed from the log of the side
that sends the data, `RlpRcv_*` from the log of the other side. Values are positions in the stream of user bytes on the
link (PPP frames with all their contents). The value of an event is the position that the side had reached at that time.
`Link_*` is what a scheduler assigned to the data's direction of a channel with a variable rate (cdma2000).

Series of the radio and the route: `Radio_*` are readings of the serving cell, as the source wrote them; no
value is repeated, interpolated or smoothed. If several commands of a log report the same quantity, the series
has the values of the command with most values, because two commands may give one name different meanings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from multitracer.analysis.group import SegmentKind
from multitracer.analysis.mobility.serving import is_serving
from multitracer.analysis.sender_state import applied
from multitracer.analysis.series.rtt import Provenance, reconstruct_rto
from multitracer.analysis.series.throughput import delivered, throughput
from multitracer.analysis.series.throughput import goodput as new_payload
from multitracer.protocols.link_events import STREAM_BITS
from multitracer.protocols.sock_diag import ReadBy
from multitracer.schemas.link import LINK_FRAMES
from multitracer.schemas.sender import JOINED_STATE, SERIES
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import BITS_PER_BYTE, NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.mobility.route import Route
    from multitracer.tables import Array, Times

_STATE = {
    "TcpSnd_cwnd": ("cwnd_bytes", "bytes", "congestion window"),
    "TcpSnd_ssthresh": ("ssthresh_bytes", "bytes", "slow-start threshold; absent while it is infinite"),
    "TcpSnd_srtt": ("srtt_ns", "ns", "smoothed round-trip time"),
    "TcpSnd_rto": ("rto_ns", "ns", "retransmission timeout, back-off included"),
}
_FARTHEST_NS = 2.0**61
"""Maximum distance of a time from its origin, ns: 73 years, so that the result stays within the range of times (until
2262)."""
_RECONSTRUCTED = {
    "TcpSnd_srtt_rfc6298": ("srtt_ns", "smoothed round-trip time"),
    "TcpSnd_rto_rfc6298": ("rto_ns", "retransmission timeout without back-off"),
}


def packet_series(segments: Table, *, reverse: bool, at: Literal["Snd", "Rcv"]) -> dict[str, Table]:
    """Return the series of one capture point: data and ACKs; at the sender also outstanding data and window.

    Parameters
    ----------
    segments : Table
        TCP_SEGMENTS of one connection.
    reverse : bool
        False: the initiator's data; True: the responder's.
    at : "Snd" or "Rcv"
        Whether this is the capture of the sender or of the receiver.

    Returns
    -------
    dict of str to Table
        SERIES by label.
    """
    copies = (segments["kind"] & np.uint32(SegmentKind.CAPTURE_DUPLICATE)) != 0
    own = (segments["reverse"] == reverse) & ~copies
    back = (segments["reverse"] != reverse) & ~copies & (segments["ack_bytes"] != NA)
    data = own & (segments["payload_bytes"] > 0)
    passing = ("leaving", "arriving") if at == "Snd" else ("arriving", "leaving")
    chosen = {
        "data": (data, "seq_bytes", f"first byte of each data segment {passing[0]}"),
        "ack": (back, "ack_bytes", f"next expected byte of each ACK {passing[1]}"),
    }
    if at == "Snd":
        occupies = own & (segments["end_bytes"] > segments["seq_bytes"])
        chosen["flight"] = (occupies | back, "flight_bytes", "bytes outstanding: highest sent - highest ACK")
        chosen["rwnd"] = (back, "window_bytes", "window that the receiver advertises")
    return {
        f"Tcp{at}_{name}": series_table(f"Tcp{at}_{name}", segments["time_ns"][rows], segments[column][rows], doc=doc)
        for name, (rows, column, doc) in chosen.items()
    }


def receiver_series(receiver: Table, *, sender: Table | None, reverse: bool) -> dict[str, Table]:
    """Return the series at the receiver, with sequence numbers relative to the sender's capture.

    Parameters
    ----------
    receiver, sender : Table
        TCP_SEGMENTS of the same connection in both captures; without that of the sender, numbers are relative
        to the receiver's capture.
    reverse : bool
        False: the initiator's data; True: the responder's (in both captures).
    """
    series = packet_series(receiver, reverse=reverse, at="Rcv")
    distance = 0 if sender is None else sequence_shift(receiver, sender, reverse=reverse)
    return {
        label: Table(SERIES, {"time_ns": s["time_ns"], "value": s["value"] + distance}, s.provenance)
        for label, s in series.items()
    }


def sequence_shift(segments: Table, reference: Table, *, reverse: bool) -> int:
    """Return what must be added to the relative sequence numbers of a capture, to be relative to another capture.

    Parameters
    ----------
    segments, reference : Table
        TCP_SEGMENTS of the same connection in both captures.
    reverse : bool
        Whose data: False the initiator's, True the responder's.
    """
    shift = _origin(segments, reverse=reverse) - _origin(reference, reverse=reverse)
    return (shift + (1 << 31)) % (1 << 32) - (1 << 31)


def _origin(segments: Table, *, reverse: bool) -> int:
    """Return the 32-bit sequence number that has the relative number 0 in a direction."""
    own = np.flatnonzero(segments["reverse"] == reverse)
    if len(own):
        return int(segments["seq"][own[0]]) - int(segments["seq_bytes"][own[0]])
    back = np.flatnonzero(segments["ack_bytes"] != NA)
    return int(segments["ack"][back[0]]) - int(segments["ack_bytes"][back[0]]) if len(back) else 0


def rate_series(segments: Table, *, reverse: bool, at: Literal["Snd", "Rcv"], speed: float = 1.0) -> dict[str, Table]:
    """Return goodput and throughput at one capture point: moving averages, each value from its time on.

    Parameters
    ----------
    segments : Table
        TCP_SEGMENTS of one connection.
    reverse : bool
        False: the initiator's data; True: the responder's.
    at : "Snd" or "Rcv"
        Whether this is the capture of the sender, where ACKs and SACK blocks report what got through, or of the
        receiver.
    speed : float
        Number of link seconds in a recorded second; rates are per link second.

    Returns
    -------
    dict of str to Table
        SERIES by label, in bit/s and recorded time; empty without data.
    """
    timed = segments["time_ns"] != NOT_A_TIME
    segments = segments if timed.all() else segments.take(timed)
    got_through = (delivered, "by ACKs and SACKs") if at == "Snd" else (new_payload, "by arrival")
    series = {}
    for name, (rate_of, seen) in (("goodput", got_through), ("throughput", (throughput, "each copy counts"))):
        rates = rate_of(segments, reverse=reverse)
        window_s = rates.provenance["window_ns"] * speed / NS_PER_S
        payload = "new payload" if name == "goodput" else "captured payload"
        table = series_table(
            f"Tcp{at}_{name}",
            rates["time_ns"],
            rates["bytes_per_s"] * (BITS_PER_BYTE / speed),
            unit="bit/s",
            doc=f"{payload} per second over {window_s:.3g} s, {seen}",
        )
        if len(table):
            series[f"Tcp{at}_{name}"] = table
    return series


def rtt_series(samples: Table, *, reverse: bool) -> dict[str, Table]:
    """Return TcpSnd_rtt, and SRTT and RTO computed by RFC 6298, which are labelled as reconstructed.

    Parameters
    ----------
    samples : Table
        RTT_SAMPLES of one connection, captured at its sender; exact ACKs are used, else timestamp echoes.
    reverse : bool
        False: the initiator's data; True: the responder's.
    """
    own = samples["reverse"] == reverse
    for provenance in (Provenance.EXACT_ACK, Provenance.TIMESTAMP):
        rows = np.flatnonzero(own & (samples["provenance"] == provenance))
        if len(rows):
            break
    else:
        return {}
    chosen = samples.take(rows)
    series = {
        "TcpSnd_rtt": series_table(
            "TcpSnd_rtt", chosen["time_ns"], chosen["rtt_ns"], unit="ns", doc=f"samples: {provenance.name}"
        )
    }
    states = reconstruct_rto(chosen)
    for label, (column, doc) in _RECONSTRUCTED.items():
        series[label] = series_table(
            label, states["time_ns"], states[column], unit="ns", doc=f"{doc}, reconstructed by RFC 6298"
        )
    return series


def state_series(state: Table, *, events: Table | None = None) -> dict[str, Table]:
    """Return cwnd, ssthresh, SRTT and RTO of one sender as its kernel reported them.

    Parameters
    ----------
    state : Table
        JOINED_STATE of one sender, windows in bytes (`in_bytes`). Values of tcp_probe have the time of the
        segment that caused them, polled values the middle of their interval. The ssthresh of tcp_probe is
        tcp_current_ssthresh of the kernel, which is at least three quarters of the window.
    events : Table, optional
        JOINED_EVENTS of the same recording; with them the effects of a timeout have the time of the timeout.
    """
    polled = state.take((state["method"] != ReadBy.TCP_PROBE) & (state["time_ns"] != NOT_A_TIME))
    both = Table.concatenate(JOINED_STATE, [polled, applied(state, events=events)])
    series = {}
    for label, (column, unit, doc) in _STATE.items():
        values = both[column]
        known = values != (NOT_A_TIME if unit == "ns" else NA)
        if label == "TcpSnd_ssthresh" and bool((polled[column] != NA).any()):
            known &= both["method"] != ReadBy.TCP_PROBE
        if known.any():
            methods = sorted({ReadBy(method).name.lower() for method in both["method"][known]})
            series[label] = series_table(
                label, both["time_ns"][known], values[known], unit=unit, doc=doc, source=", ".join(methods)
            )
    return series


def series_table(
    label: str, time_ns: Array, value: Array, *, unit: str = "bytes", doc: str, source: str = "packets"
) -> Table:
    """Return SERIES sorted by time, described in its provenance; points without a time are dropped.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n,)
        NOT_A_TIME where missing.
    value : ndarray of any number type, shape of `time_ns`
        In `unit`; NaN where missing.
    """
    timed = np.flatnonzero(time_ns != NOT_A_TIME)
    order = timed[np.argsort(time_ns[timed], kind="stable")]
    columns = {"time_ns": time_ns[order], "value": value[order].astype(np.float64)}
    return Table(SERIES, columns, {"label": label, "unit": unit, "doc": doc, "source": source})


def in_link_time(series: Table, *, speed: float, origin_ns: int) -> Table:
    """Return SERIES with times converted to link time; the link ran `speed` times as fast as real time.

    Parameters
    ----------
    series : Table
        SERIES in recorded time.
    speed : float
        Number of link seconds in a recorded second.
    origin_ns : int
        The time that does not change, ns since 1970.
    """
    if speed == 1:
        return series
    columns = {"time_ns": stretched(series["time_ns"], speed=speed, origin_ns=origin_ns)}
    is_duration = series.provenance["unit"] == "ns"
    columns["value"] = series["value"] * (speed if is_duration else 1)
    return Table(SERIES, columns, series.provenance | {"speed": speed})


def stretched(time_ns: Array, *, speed: float, origin_ns: int) -> Array:
    """Return the times after their distance from `origin_ns` is multiplied by `speed`.

    The result is exact to 1 ns over days. It is limited to the range of int64, also for invalid times of a
    log that are centuries away.

    Parameters
    ----------
    time_ns : ndarray of int64, ns, shape (n,)

    Returns
    -------
    ndarray of int64, ns, shape of `time_ns`
    """
    since = np.clip((time_ns - origin_ns) * float(speed), -_FARTHEST_NS, _FARTHEST_NS)
    return np.rint(since).astype(np.int64) + origin_ns


class SeriesLabel(NamedTuple):
    """The column that a series is computed from, its unit, and its description."""

    column: str
    unit: str
    doc: str


LINK_RATE = "Link_rate_assigned"
LINK_QUEUE = "Link_queue"
ASSIGNED_SERIES = {
    LINK_RATE: SeriesLabel("rate_bps", "bit/s", "rate of the channel, from its assignment to the next one"),
    LINK_QUEUE: SeriesLabel("queue_bytes", "bytes", "bytes that waited for the channel when its rate was assigned"),
}
"""Label of each series of the event `rate_assigned`, with column, unit and description."""
_ASSIGNED = "rate_assigned"


def assigns_rates(events: Table) -> bool:
    """Return whether a log (`link_events`) is of a channel with RLP type 3, whose rate a scheduler assigns."""
    return bool((events["event"] == _ASSIGNED).any())


def assigned_series(events: Table, *, stream: int) -> dict[str, Table]:
    """Return the rates that were assigned to one mobile for the data, and what waited for them.

    Parameters
    ----------
    events : Table
        `link_events` of the side that sends the data.
    stream : int
        Number of the mobile's stream in that log, from 0.

    Returns
    -------
    dict of str to Table
        SERIES by label. The last row of the rate repeats it at the end of the log, until which it holds. What
        waits is known at the assignments alone.
    """
    rows = _of_stream(events, [_ASSIGNED], stream)
    series = {}
    for label, shown in ASSIGNED_SERIES.items():
        known = known_values(rows[shown.column])
        time_ns, value = rows["time_ns"][known], rows[shown.column][known]
        if label == LINK_RATE and len(value):
            time_ns, value = np.append(time_ns, events["time_ns"].max()), np.append(value, value[-1])
        if len(value):
            series[label] = series_table(label, time_ns, value, unit=shown.unit, doc=shown.doc, source="rlpdump")
    return series


_FATES = {"piece_sent": "", "piece_received": "delivered", "piece_lost": "lost"}
"""Events of a block of RLP type 3, which is a frame or a part of one, and their `fate` in `link_frames`."""
_MAX_INT16 = (1 << 15) - 1  # a frame has at most 328 octets, and is sent some times at most


def rlp3_frames(events: Table, *, stream: int) -> Table:
    """Return the blocks of octets of one mobile, as RLP type 3 sent and received them.

    Parameters
    ----------
    events : Table
        `link_events` of one side.
    stream : int
        Number of the mobile's stream in that log, from 0.

    Returns
    -------
    Table
        LINK_FRAMES, for the functions below. Positions begin at 0; frames of RLP type 3 have no kind and no N(S).
    """
    rows = _of_stream(events, list(_FATES), stream)
    rows = rows.take(rows["wire_bytes"] != NA)
    fate = np.array([_FATES[event] for event in rows["event"].tolist()], dtype="U12")
    columns = {name: rows[name] for name in ("time_ns", "tick", "frame", "cause")} | {
        "sent": rows["event"] == "piece_sent",
        "fcs_ok": rows["event"] != "piece_lost",
        "n_s": np.full(len(rows), NA),
        "n_r": np.full(len(rows), NA),
        "payload_bytes": np.clip(rows["wire_bytes"], 0, _MAX_INT16),
        "offset_bytes": rows["offset_bytes"] - (stream << STREAM_BITS),
        "attempt": np.clip(rows["attempts"], NA, _MAX_INT16),
        "fate": np.where(rows["cause"] == "duplicate", rows["cause"], fate),
    }
    blank = {column.name: np.zeros(len(rows), column.dtype) for column in LINK_FRAMES}
    return Table(LINK_FRAMES, {name: columns.get(name, blank[name]).astype(blank[name].dtype) for name in blank})


def _of_stream(events: Table, names: list[str], stream: int) -> Table:
    """Return the rows of `link_events` with one of these names that are of one mobile."""
    offset = events["offset_bytes"]
    return events.take(np.isin(events["event"], names) & (offset != NA) & (offset >> STREAM_BITS == stream))


_STOPS = ("xoff_received", "peer_busy")
_GOES = ("xon_received", "peer_ready")
_NEW = ("delivered", "stored")
"""Fates of a frame whose user bytes were new to the receiver."""


def sender_link_series(frames: Table, events: Table) -> dict[str, Table]:
    """Return the series of the side that sends the data.

    Parameters
    ----------
    frames, events : Table
        `link_frames` and `link_events` of that side's log.

    Returns
    -------
    dict of str to Table
        SERIES by label; values are positions in the sender's stream, bytes. A reset may flush a part of the stream.
    """
    data = frames["sent"] & (frames["payload_bytes"] > 0) & (frames["offset_bytes"] != NA)
    first, again = data & (frames["attempt"] == 1), data & (frames["attempt"] > 1)
    requests = ~frames["sent"] & (frames["function"] == "SREJ")
    reached = _Position(frames["time_ns"][first], frames["offset_bytes"][first] + frames["payload_bytes"][first])
    offset, time_ns = frames["offset_bytes"], frames["time_ns"]
    series = {
        "data": (time_ns[first], offset[first], "first byte of each frame leaving for the first time"),
        "rexmt": (time_ns[again], offset[again], "first byte of each frame leaving again"),
        "srej": (*_requests(frames, requests, first), "first byte of the frame that the receiver asks for again"),
    }
    series |= _events(events, reached, xoff=_STOPS, xon=_GOES, passing="arriving")
    return _named("RlpSnd", series)


def receiver_link_series(frames: Table, events: Table) -> dict[str, Table]:
    """Return the series of the side that receives the data.

    Parameters
    ----------
    frames, events : Table
        `link_frames` and `link_events` of that side's log.

    Returns
    -------
    dict of str to Table
        SERIES by label. The receiver does not know stream positions. So its values count new user bytes in
        order of arrival; they are smaller than the sender's by the bytes that resets flushed.
    """
    came = ~frames["sent"] & (frames["payload_bytes"] > 0)
    new = came & np.isin(frames["fate"], _NEW)
    twice = came & (frames["fate"] == "duplicate")
    lost = ~frames["sent"] & ~frames["fcs_ok"]
    asks = frames["sent"] & (frames["function"] == "SREJ")
    time_ns = frames["time_ns"]
    total = np.cumsum(frames["payload_bytes"][new], dtype=np.int64)
    reached = _Position(time_ns[new], total)
    series = {"data": (time_ns[new], total - frames["payload_bytes"][new], "first byte of each new frame arriving")}
    for name, rows, doc in (
        ("dup", twice, "a frame that was there already"),
        ("lost", lost, "a slot in which no frame could be decoded"),
        ("srej", asks, "a frame is asked for again"),
    ):
        series[name] = (time_ns[rows], reached.at(time_ns[rows]), f"{doc}, at the bytes received")
    series |= _events(events, reached, xoff=("xoff_sent",), xon=("xon_sent",), passing="leaving")
    return _named("RlpRcv", series)


class _Position:
    """The position in the byte stream that one side of the link had reached, as a function of time."""

    def __init__(self, time_ns: Array, position: Array) -> None:
        order = np.argsort(time_ns, kind="stable")
        self._time_ns = time_ns[order]
        self._position = np.concatenate([[0], np.maximum.accumulate(position[order])]).astype(np.int64)

    def at(self, time_ns: Array) -> Array:
        """Return the highest position in the byte stream that was reached at or before each time."""
        position: Array = self._position[np.searchsorted(self._time_ns, time_ns, side="right")]
        return position


_Series = dict[str, "tuple[Array, Array, str]"]


def _requests(frames: Table, requests: Array, first: Array) -> tuple[Array, Array]:
    """Return the times at which frames were requested again, and the first byte of each requested frame.

    The requested frame is the last one before that was sent with the requested frame number.
    """
    rows = np.flatnonzero(requests)
    value = np.full(len(rows), NA, dtype=np.int64)
    for number in np.unique(frames["n_r"][rows]):
        sent = np.flatnonzero(first & (frames["n_s"] == number))
        mine = np.flatnonzero(frames["n_r"][rows] == number)
        before = np.searchsorted(sent, rows[mine]) - 1
        known = before >= 0
        value[mine[known]] = frames["offset_bytes"][sent[before[known]]]
    known = value != NA
    return frames["time_ns"][rows[known]], value[known]


def _events(events: Table, reached: _Position, *, xoff: tuple[str, ...], xon: tuple[str, ...], passing: str) -> _Series:
    stops, goes = np.isin(events["event"], xoff), np.isin(events["event"], xon)
    resets = _episodes(events["event"])
    chosen = {
        "xoff": (stops, f"stop {passing}: the receiver's buffer is nearly full"),
        "xon": (goes, f"go-ahead {passing}"),
        "rst": (resets, "link reset: both sides flush their buffers"),
    }
    return {
        name: (events["time_ns"][rows], reached.at(events["time_ns"][rows]), f"{doc}; at the bytes so far")
        for name, (rows, doc) in chosen.items()
    }


def _episodes(names: Array) -> Array:
    """Return which events begin a reset of the link; further events of the same reset are not included."""
    rows = np.flatnonzero((names == "reset_started") | (names == "reset_done"))
    starts = names[rows] == "reset_started"
    begins = starts & ~np.concatenate([[False], starts[:-1]])
    mask = np.zeros(len(names), dtype=bool)
    mask[rows[begins]] = True
    return mask


def _named(prefix: str, series: _Series) -> dict[str, Table]:
    tables = (
        series_table(f"{prefix}_{name}", time_ns, value, doc=doc, source="rlpdump")
        for name, (time_ns, value, doc) in series.items()
    )
    return {table.provenance["label"]: table for table in tables if len(table)}


_MIN_GAP_NS = 5 * NS_PER_S  # the reason is that of `_MISSED`
_MISSED = 5
"""Number of missing readings after which a line is broken; a minimum time without readings must pass too.

Loggers with one reading a second are sometimes late by one or two seconds (UCC drive tests: 1 to 3 s); other
logs were not measured."""


RADIO_SERIES = {
    "Radio_rssi": SeriesLabel("rssi_dbm", "dBm", "received power in the channel"),
    "Radio_rsrp": SeriesLabel("rsrp_dbm", "dBm", "power of the reference signal"),
    "Radio_rscp": SeriesLabel("rscp_dbm", "dBm", "power of the common pilot"),
    "Radio_rsrq": SeriesLabel("rsrq_db", "dB", "quality of the reference signal"),
    "Radio_sinr": SeriesLabel("sinr_db", "dB", "signal to interference and noise"),
    "Radio_ecio": SeriesLabel("ecio_db", "dB", "Ec/Io of the pilot"),
    "Radio_bler": SeriesLabel("bler_pct", "%", "block error rate"),
    "Radio_cell_busy": SeriesLabel("cell_busy_pct", "%", "share of time in which the shared channel was busy"),
    "Radio_cqi": SeriesLabel("cqi", "", "channel quality indicator"),
    "Radio_rate_down": SeriesLabel("downlink_bps", "bit/s", "throughput of the downlink that the logger saw"),
    "Radio_rate_up": SeriesLabel("uplink_bps", "bit/s", "throughput of the uplink that the logger saw"),
}
"""Label of each series of the table `radio`, with column, unit and description."""
RATES = ("Radio_rate_down", "Radio_rate_up")
"""The labels of traffic rates."""

GPS_SPEED = "Gps_speed"
GPS_POSITION = "Gps_position"


def radio_series(radio: Table, *, source: str) -> dict[str, Table]:
    """Return the series of the serving cell in a radio log, one for each quantity that has a value.

    Parameters
    ----------
    radio : Table
        RADIO of one log.
    source : str
        Name of the log; the name of the command that reported the values is added.

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
    """Return Gps_speed of a position log; empty without a speed. Parameters are those of `radio_series`."""
    rows = np.flatnonzero(np.isfinite(position["speed_mps"]) & (position["time_ns"] != NOT_A_TIME))
    if not len(rows):
        return {}
    shown = SeriesLabel("speed_mps", "m/s", "speed over ground")
    return {GPS_SPEED: _series(GPS_SPEED, shown, position.take(rows), "position.speed_mps", source)}


def travelled_series(route: Route, *, source: str) -> dict[str, Table]:
    """Return Gps_position, the distance along a route; empty for a route without a position."""
    if not len(route.table):
        return {}
    shown = SeriesLabel("distance_m", "m", "distance along the route from its first position")
    return {GPS_POSITION: _series(GPS_POSITION, shown, route.table, "position.lat_deg, lon_deg", source)}


def _series(label: str, shown: SeriesLabel, rows: Table, column: str, source: str) -> Table:
    series = series_table(label, rows["time_ns"], rows[shown.column], unit=shown.unit, doc=shown.doc, source=source)
    series.provenance |= {"column": column, "gap_ns": longest_joined_ns(series["time_ns"])}
    return series


def known_values(values: Array) -> Array:
    """Return which values of a column of RADIO are known; bool, shape (n,)."""
    return np.isfinite(values) if values.dtype.kind == "f" else values != NA


def most_of_one_source(source: Array, known: Array) -> Array:
    """Return the rows that have a known value and come from the source with the most known values.

    If two sources have equally many, the first one in the order of names is used.
    """
    rows = np.flatnonzero(known)
    names, number, counts = np.unique(source[rows], return_inverse=True, return_counts=True)
    return rows[number == counts.argmax()] if len(names) else rows


def longest_joined_ns(time_ns: Times) -> int:
    """Return the maximum time between two readings for which a figure joins them by a line, ns.

    Parameters
    ----------
    time_ns : ndarray of int64, ns, shape (n,)
        Ascending.
    """
    apart = np.diff(time_ns)
    apart = apart[apart > 0]
    typical = int(np.median(apart)) if len(apart) else 0
    return max(_MIN_GAP_NS, _MISSED * typical)
