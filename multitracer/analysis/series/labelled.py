"""The labelled series of a multi-layer trace (paper 004, section 4.5), each a table of its own.

The labels are those of docs/figures.md: `TcpSnd_*` is what the TCP sender's host saw or knew, `TcpRcv_*`
what the receiver's saw. Sequence numbers are bytes of the sender's direction, unwrapped; its first unit (the
SYN) is 0 in both groups. A series that a recording has no source for is absent, not empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from multitracer.analysis.kind import Kind
from multitracer.analysis.sender.sender_state import applied
from multitracer.analysis.series.rto import reconstruct_rto
from multitracer.analysis.series.rtt import Provenance
from multitracer.protocols.sock_diag import ReadBy
from multitracer.sender import JOINED_STATE, SERIES
from multitracer.tables import NA, NOT_A_TIME, Table

if TYPE_CHECKING:
    from multitracer.tables import Array

_STATE = {
    "TcpSnd_cwnd": ("cwnd_bytes", "bytes", "congestion window"),
    "TcpSnd_ssthresh": ("ssthresh_bytes", "bytes", "slow-start threshold; absent while it is infinite"),
    "TcpSnd_srtt": ("srtt_ns", "ns", "smoothed round-trip time"),
    "TcpSnd_rto": ("rto_ns", "ns", "retransmission timeout, back-off included"),
}
_FARTHEST_NS = 2.0**61
"""73 years: so far from any time of this century there still is a time (they end in 2262)."""
_RECONSTRUCTED = {
    "TcpSnd_srtt_rfc6298": ("srtt_ns", "smoothed round-trip time"),
    "TcpSnd_rto_rfc6298": ("rto_ns", "retransmission timeout without back-off"),
}


def packet_series(segments: Table, *, reverse: bool, at: Literal["Snd", "Rcv"]) -> dict[str, Table]:
    """Return the series of one capture point: data, ack, and at the sender also flight and rwnd.

    Parameters
    ----------
    segments : Table
        TCP_SEGMENTS of one connection.
    reverse : bool
        Whose data: False the initiator's, True the responder's.
    at : "Snd" or "Rcv"
        Which end's capture this is.

    Returns
    -------
    dict of str to Table
        SERIES by label.
    """
    copies = (segments["kind"] & np.uint32(Kind.CAPTURE_DUPLICATE)) != 0
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
        f"Tcp{at}_{name}": series_table(
            f"Tcp{at}_{name}", segments["time_ns"][rows], segments[column][rows], doc=doc
        )
        for name, (rows, column, doc) in chosen.items()
    }


def receiver_series(receiver: Table, *, sender: Table | None, reverse: bool) -> dict[str, Table]:
    """Return the series at the receiver, its numbers on the sender's scale.

    Parameters
    ----------
    receiver, sender : Table
        TCP_SEGMENTS of the same connection in both captures; without a sender's, the receiver's own scale.
    reverse : bool
        Whose data, in both captures.
    """
    series = packet_series(receiver, reverse=reverse, at="Rcv")
    shift = 0 if sender is None else _origin(receiver, reverse=reverse) - _origin(sender, reverse=reverse)
    distance = (shift + (1 << 31)) % (1 << 32) - (1 << 31)
    return {
        label: Table(SERIES, {"time_ns": s["time_ns"], "value": s["value"] + distance}, s.provenance)
        for label, s in series.items()
    }


def _origin(segments: Table, *, reverse: bool) -> int:
    """Return the number on the wire that is 0 on a direction's scale."""
    own = np.flatnonzero(segments["reverse"] == reverse)
    if len(own):
        return int(segments["seq"][own[0]]) - int(segments["seq_bytes"][own[0]])
    back = np.flatnonzero(segments["ack_bytes"] != NA)
    return int(segments["ack"][back[0]]) - int(segments["ack_bytes"][back[0]]) if len(back) else 0


def rtt_series(samples: Table, *, reverse: bool) -> dict[str, Table]:
    """Return TcpSnd_rtt, and SRTT and RTO as RFC 6298 gives them: reconstructed, and labelled so.

    Parameters
    ----------
    samples : Table
        RTT_SAMPLES of one connection at its sender; exact ACKs are used, else timestamp echoes.
    reverse : bool
        Whose data.
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
    """Return cwnd, ssthresh, SRTT and RTO of one sender as its kernel had them.

    Parameters
    ----------
    state : Table
        JOINED_STATE of one sender, windows in bytes (`in_bytes`). tcp_probe's values stand at the segments
        that brought them about; polled ones at the middle of their interval. tcp_probe's threshold is the
        one the kernel would go back to now (tcp_current_ssthresh), never below three quarters of the window.
    events : Table, optional
        JOINED_EVENTS of the same recording; with them what a timeout did stands at the timeout.
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
    """Return SERIES in order of time; its provenance says what it shows. Points without time are dropped.

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
    """Return SERIES of a link that ran `speed` times as fast as a real one, as if it had not.

    Parameters
    ----------
    series : Table
        SERIES in recorded time.
    speed : float
        Link seconds in a recorded second.
    origin_ns : int
        The time that stays what it is, ns since 1970.
    """
    if speed == 1:
        return series
    columns = {"time_ns": stretched(series["time_ns"], speed=speed, origin_ns=origin_ns)}
    is_duration = series.provenance["unit"] == "ns"
    columns["value"] = series["value"] * (speed if is_duration else 1)
    return Table(SERIES, columns, series.provenance | {"speed": speed})


def stretched(time_ns: Array, *, speed: float, origin_ns: int) -> Array:
    """Return times `speed` times as far from `origin_ns`, to the ns for days.

    What a hostile log places centuries away stays within what a time can be.

    Parameters
    ----------
    time_ns : ndarray of int64, ns, shape (n,)

    Returns
    -------
    ndarray of int64, ns, shape of `time_ns`
    """
    since = np.clip((time_ns - origin_ns) * float(speed), -_FARTHEST_NS, _FARTHEST_NS)
    return np.rint(since).astype(np.int64) + origin_ns
