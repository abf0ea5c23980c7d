"""The columns of each second of a session: throughput, RTT, loss, limit and its cause, radio, and place.

`Session.seconds` and the table `seconds` of a campaign are made of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.cells import cell_visits_of
from multitracer.analysis.mobility.seconds import DriveSeries, mean_of, overlap_s, seconds_of
from multitracer.analysis.mobility.series import medians
from multitracer.diagnosis.limits.names import FORWARD, REVERSE, Limit, RadioCause
from multitracer.schemas.mobility import JUDGED_HANDOVERS, SECONDS
from multitracer.tables import NA, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.analysis.mobility.cells import CellVisits
    from multitracer.analysis.mobility.seconds import Seconds
    from multitracer.diagnosis.drive import Drive
    from multitracer.recording.phones import Phone
    from multitracer.tables import Array, Mask, Times

    Cells = Array | list[object]

_LEVELS = ("rsrp_dbm", "rsrq_db", "sinr_db", "rscp_dbm", "rssi_dbm")
_CELL = ("cell_id", "physical_cell_id", "channel")
_RADIO = (*_CELL, *_LEVELS, "rat", "plmn", "handover")
_PLACE = ("lat_deg", "lon_deg", "heading_deg", "distance_m")
_DIRECTED = (f"throughput_{FORWARD}_bps", f"throughput_{REVERSE}_bps")


def seconds_columns(drive: Drive) -> dict[str, Cells]:
    """Return the columns of each second of a session.

    Parameters
    ----------
    drive : Drive
        The session as a drive; without a phone, radio columns are NaN, NA or None.

    Returns
    -------
    dict of str to ndarray or list, each of length n_seconds
        The columns of SECONDS, in order of time; times are int64 ns; missing values are None, NaN, or NA in
        integer columns.

    Raises
    ------
    InputError
        If the times of the session span more than eleven days.
    """
    phone = drive.phones[0] if drive.phones else None
    cell_visits = cell_visits_of(None, Table.empty(JUDGED_HANDOVERS)) if phone is None else phone.cell_visits
    handovers = Table.empty(JUDGED_HANDOVERS) if phone is None else phone.handovers
    states = None if phone is None else drive.wanted(phone)
    seconds = seconds_of(
        DriveSeries(cell_visits, handovers, drive.route, drive.throughput, drive.limits, wanted=states)
    )
    begin = seconds.begin_ns
    limit, part = _limit_and_part(seconds)
    columns: dict[str, Cells] = {
        "time_ns": begin, "throughput_bps": seconds.rate_bps, "limited_by": limit, "part": part,
        "handover": _handovers(seconds, phone), "wanted": [None] * len(begin) if states is None else seconds.is_wanted,
    }  # fmt: skip
    levels = seconds._asdict()
    columns |= {name: levels[name] for name in _LEVELS}
    columns |= _seconds_cells(cell_visits, begin) | _places(drive, begin) | _round_trips(drive, begin)
    columns |= _losses(drive, begin) | _directions(drive, begin) | {"cause": _causes(drive, begin, limit)}
    return {name: columns[name] for name in SECONDS.names}


def _handovers(seconds: Seconds, phone: Phone | None) -> list[object]:
    """Return for each second whether the cell changed near it; None before and after the radio log."""
    span_ns = None if phone is None else phone.span_ns
    if span_ns is None:
        return [None] * len(seconds.begin_ns)
    first, last = span_ns
    known = seconds.is_change | ((seconds.begin_ns + NS_PER_S > first) & (seconds.begin_ns <= last))
    return [each if there else None for each, there in zip(seconds.is_change.tolist(), known.tolist(), strict=True)]


def _directions(drive: Drive, begin: Times) -> dict[str, Cells]:
    """Return the columns of the throughput of initiators and of responders; NaN without a capture."""
    columns: dict[str, Cells] = {}
    for name, reverse in zip(_DIRECTED, (False, True), strict=True):
        rate = drive.throughput_of(reverse=reverse)
        columns[name] = np.full(len(begin), np.nan) if rate is None else mean_of(rate, begin)
    return columns


def _causes(drive: Drive, begin: Times, limited_by: list[object]) -> list[object]:
    """Return for each second which cause its limit had for the longest time; None where it is unknown."""
    diagnosis = drive.diagnosis
    if diagnosis is None or not diagnosis.causes:  # there is no radio log in its time
        return [None] * len(begin)
    shifts = [each.begin_ns - each.limited.begin_ns for each in diagnosis.group.members]
    of_each = list(zip(diagnosis.causes, shifts, strict=True))
    begins = np.concatenate([each.begin + shift_ns for each, shift_ns in of_each])
    ends = np.concatenate([each.end + shift_ns for each, shift_ns in of_each])
    limits = np.concatenate([each.limit for each in diagnosis.causes])
    causes = np.concatenate([each.cause for each in diagnosis.causes])
    names = np.array([each or "" for each in limited_by])
    longest, cause = np.zeros(len(begin)), np.zeros(len(begin), dtype=np.int64)
    for limit in Limit:  # signalling is a cause of any
        of_limit = names == limit.label
        for each in RadioCause:
            rows = np.flatnonzero((limits == limit) & (causes == each))
            duration_s = overlap_s(begins[rows], ends[rows], int(begin[0]), len(begin))
            better = of_limit & (duration_s > longest)
            longest[better], cause[better] = duration_s[better], each
    return [RadioCause(each).label for each in cause.tolist()]


def _limit_and_part(seconds: Seconds) -> tuple[list[object], list[object]]:
    """Return two lists with an entry for each second: the limit, and its subtype. None where unknown."""
    words = [text.partition(" ") for text in seconds.limit.tolist()]
    return [limit or None for limit, _, _ in words], [part or None for _, _, part in words]


def _seconds_cells(cell_visits: CellVisits, begin: Times) -> dict[str, Cells]:
    """Return the columns of the serving cell in the middle of each second, by name."""
    row = cell_visits.at(begin + NS_PER_S // 2)
    known = row != NA
    held = np.maximum(row, 0)
    columns: dict[str, Cells] = {}
    for name in ("rat", "plmn"):
        texts = cell_visits.table[name][held].tolist() if known.any() else [None] * len(row)
        columns[name] = [text if there else None for text, there in zip(texts, known.tolist(), strict=True)]
    for name in _CELL:
        columns[name] = np.where(known, cell_visits.table[name][held] if known.any() else NA, NA)
    return columns


def _places(drive: Drive, begin: Times) -> dict[str, Cells]:
    """Return the columns of the position in the middle of each second, by name."""
    if drive.route is None:
        return dict.fromkeys(_PLACE, np.full(len(begin), np.nan))
    places = drive.route.at(begin + NS_PER_S // 2)
    return {
        "lat_deg": places.lat_deg, "lon_deg": places.lon_deg,
        "heading_deg": places.heading_deg, "distance_m": places.distance_m,
    }  # fmt: skip


def _round_trips(drive: Drive, begin: Times) -> dict[str, Cells]:
    """Return the median RTT of the samples that ended in each second, and their number, as two columns."""
    if drive.rtt is None:
        return {"rtt_ns": np.full(len(begin), np.nan), "rtt_samples": np.full(len(begin), NA)}
    median, count = medians(drive.rtt.known(), begin, begin + NS_PER_S)
    return {"rtt_ns": median, "rtt_samples": count}


def _losses(drive: Drive, begin: Times) -> dict[str, Cells]:
    """Return two columns by name: the segments sent in each second, and how many of them were lost.

    NA if unknown.
    """
    segments = drive.segments
    if segments is None or not len(begin):
        return dict.fromkeys(("sent", "lost"), np.full(len(begin), NA))
    second = (segments.time_ns - begin[0]) // NS_PER_S
    inside = (second >= 0) & (second < len(begin))
    sent, lost = (
        np.bincount(second[inside & chosen], minlength=len(begin)).astype(np.int64)
        for chosen in (np.True_, segments.lost)
    )
    return {"sent": sent, "lost": lost}


def absent_of(drive: Drive, columns: Mapping[str, Cells]) -> dict[str, str]:
    """Return the columns of `seconds_columns` that lack values, each with the reason."""
    diagnosis, captures = drive.diagnosis, drive.radio_context.recording.captures
    no_transfer = "no TCP connection was explained: none has data and times"
    reasons = {
        **dict.fromkeys(_RADIO, "the radio log has no such reading"),
        **dict.fromkeys(_PLACE, "the device did not move"),
        "throughput_bps": "neither a capture with data nor a log of a phone's rate",
        **dict.fromkeys(_DIRECTED, "the captures have no data" if captures else "no capture"),
        "part": "no limit has a subtype",
        "cause": "no limit has a cause that the radio log shows",
        "wanted": "no log of a phone's test program",
    }
    if diagnosis is None:
        reasons |= dict.fromkeys(("rtt_ns", "rtt_samples", "sent", "lost", "limited_by", "part", "cause"), no_transfer)
    else:
        view = f"not known where the view of the limits is {diagnosis.limited.view.label}"
        reasons |= dict.fromkeys(("sent", "lost", "limited_by"), view)
        reasons |= dict.fromkeys(("rtt_ns", "rtt_samples"), "the transfer has no RTT sample")
    if not drive.phones:
        reasons |= dict.fromkeys((*_RADIO, "cause"), "no radio log of a phone")
    elif diagnosis is not None and not diagnosis.causes:
        reasons |= {"cause": "no radio log in the time of the transfer"}
    if drive.route is None:
        reasons |= dict.fromkeys(_PLACE, "no position was logged")
    missing = {name: _is_missing(cells) for name, cells in columns.items() if name in reasons}
    return {name: reasons[name] if at.all() else _IN_PART[name] for name, at in missing.items() if at.any()}


_IN_PART = {
    **dict.fromkeys(_RADIO, "no reading of it within reach of the second"),
    **dict.fromkeys(_PLACE, "no position within reach of the second, or the device stood still"),
    **dict.fromkeys(("throughput_bps", *_DIRECTED), "the second lies before or after the capture"),
    **dict.fromkeys(("sent", "lost"), "the second lies before or after the transfer"),
    **dict.fromkeys(("rtt_ns", "rtt_samples"), "no RTT sample ended in the second"),
    "limited_by": "no transfer ran in the second",
    "part": "the limit of the second has no subtype",
    "cause": "the radio log shows no cause of the limit of the second",
    "wanted": "the phone's test program did not log it",
}
"""The reason where some seconds have a value, by column."""


def _is_missing(cells: Cells) -> Mask:
    if isinstance(cells, list):
        return np.array([each is None for each in cells], dtype=bool)
    missing: Mask = np.isnan(cells) if cells.dtype.kind == "f" else cells == NA
    return missing
