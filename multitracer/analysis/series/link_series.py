"""The labelled series of the data link: what a log of rlpdump shows of one direction (docs/figures.md).

`RlpSnd_*` comes from the log of the side that sends the data, `RlpRcv_*` from that of the other side. Values
are positions in the stream of user bytes that the link carries: PPP frames, with everything above them. An
event stands at the position that the side had reached. A series that a log has nothing of is absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.series.labelled import series_table
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.tables import Array, Table

_STOPS = ("xoff_received", "peer_busy")
_GOES = ("xon_received", "peer_ready")
_NEW = ("delivered", "stored")
"""Fates of a frame whose user bytes the receiver did not have before."""


def sender_link_series(frames: Table, events: Table) -> dict[str, Table]:
    """Return the series of the side that sends the data.

    Parameters
    ----------
    frames, events : Table
        `link_frames` and `link_events` of that side's log.

    Returns
    -------
    dict of str to Table
        SERIES by label; values in bytes of the sender's stream, of which a reset may flush a part.
    """
    data = frames["sent"] & (frames["payload_bytes"] > 0) & (frames["offset_bytes"] != NA)
    first, again = data & (frames["attempt"] == 1), data & (frames["attempt"] > 1)
    requests = ~frames["sent"] & (frames["function"] == "SREJ")
    reached = _Position(
        frames["time_ns"][first], frames["offset_bytes"][first] + frames["payload_bytes"][first]
    )
    offset, time_ns = frames["offset_bytes"], frames["time_ns"]
    series = {
        "data": (time_ns[first], offset[first], "first byte of each frame leaving for the first time"),
        "rexmt": (time_ns[again], offset[again], "first byte of each frame leaving again"),
        "srej": (
            *_requests(frames, requests, first),
            "first byte of the frame that the receiver asks for again",
        ),
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
        SERIES by label. A receiver is not told positions: its values count the user bytes that were new, in
        order of arrival, and lie below the sender's by what resets flushed.
    """
    came = ~frames["sent"] & (frames["payload_bytes"] > 0)
    new = came & np.isin(frames["fate"], _NEW)
    twice = came & (frames["fate"] == "duplicate")
    lost = ~frames["sent"] & ~frames["fcs_ok"]
    asks = frames["sent"] & (frames["function"] == "SREJ")
    time_ns = frames["time_ns"]
    total = np.cumsum(frames["payload_bytes"][new], dtype=np.int64)
    reached = _Position(time_ns[new], total)
    series = {
        "data": (time_ns[new], total - frames["payload_bytes"][new], "first byte of each new frame arriving")
    }
    for name, rows, doc in (
        ("dup", twice, "a frame that was there already"),
        ("lost", lost, "a slot in which no frame could be decoded"),
        ("srej", asks, "a frame is asked for again"),
    ):
        series[name] = (time_ns[rows], reached.at(time_ns[rows]), f"{doc}, at the bytes received")
    series |= _events(events, reached, xoff=("xoff_sent",), xon=("xon_sent",), passing="leaving")
    return _named("RlpRcv", series)


class _Position:
    """How far a side had come at any time."""

    def __init__(self, time_ns: Array, position: Array) -> None:
        order = np.argsort(time_ns, kind="stable")
        self._time_ns = time_ns[order]
        self._position = np.concatenate([[0], np.maximum.accumulate(position[order])]).astype(np.int64)

    def at(self, time_ns: Array) -> Array:
        """Return the highest position reached then or before."""
        position: Array = self._position[np.searchsorted(self._time_ns, time_ns, side="right")]
        return position


_Series = dict[str, "tuple[Array, Array, str]"]


def _requests(frames: Table, requests: Array, first: Array) -> tuple[Array, Array]:
    """Return when frames were requested, and the first byte of each: the last one sent under that number."""
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


def _events(
    events: Table, reached: _Position, *, xoff: tuple[str, ...], xon: tuple[str, ...], passing: str
) -> _Series:
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
    """Return the mask of the events that begin a reset, those left out that come while one goes on."""
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
