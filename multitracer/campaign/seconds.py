"""The seconds of a session: what came through, what limited it, the radio and the place, a row each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.cells import stays_of
from multitracer.analysis.mobility.seconds import Drive, seconds_of
from multitracer.analysis.mobility.series import medians
from multitracer.mobility import JUDGED_HANDOVERS
from multitracer.tables import NA, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.mobility.cells import Stays
    from multitracer.analysis.mobility.seconds import Seconds
    from multitracer.diagnosis.road import Road
    from multitracer.tables import Array, Times

    Cells = Array | list[object]

_LEVELS = ("rsrp_dbm", "rsrq_db", "sinr_db", "rscp_dbm", "rssi_dbm")
_CELL = ("cell_id", "physical_cell_id", "channel")


def seconds_columns(road: Road) -> dict[str, Cells]:
    """Return the columns of the table `seconds` of a session, but its first one.

    Parameters
    ----------
    road : Road
        The session as a drive; without a phone, what is of the radio is NaN, NA or None.

    Returns
    -------
    dict of str to ndarray or list, each of length n_seconds
        In order of time; times are int64 ns, what is missing is None, NaN or NA of an integer column.

    Raises
    ------
    InputError
        If its times span more than eleven days.
    """
    phone = road.phones[0] if road.phones else None
    stays = stays_of(None, Table.empty(JUDGED_HANDOVERS)) if phone is None else phone.stays
    handovers = Table.empty(JUDGED_HANDOVERS) if phone is None else phone.handovers
    states = None if phone is None else road.wanted(phone)
    seconds = seconds_of(Drive(stays, handovers, road.route, road.throughput, road.limits, wanted=states))
    begin = seconds.begin_ns
    limit, part = _limit_and_part(seconds)
    columns: dict[str, Cells] = {
        "time_ns": begin, "throughput_bps": seconds.rate_bps, "limited_by": limit, "part": part,
        "handover": seconds.is_change, "wanted": [None] * len(begin) if states is None else seconds.is_wanted,
    }  # fmt: skip
    levels = seconds._asdict()
    columns |= {name: levels[name] for name in _LEVELS}
    columns |= _cells(stays, begin) | _places(road, begin) | _round_trips(road, begin) | _losses(road, begin)
    return columns


def _limit_and_part(seconds: Seconds) -> tuple[list[object], list[object]]:
    """Return the limit of each second and its part, which `seconds_of` gives as two words."""
    words = [text.partition(" ") for text in seconds.limit.tolist()]
    return [limit or None for limit, _, _ in words], [part or None for _, _, part in words]


def _cells(stays: Stays, begin: Times) -> dict[str, Cells]:
    """Return which cell served in the middle of each second."""
    row = stays.at(begin + NS_PER_S // 2)
    known = row != NA
    held = np.maximum(row, 0)
    columns: dict[str, Cells] = {}
    for name in ("rat", "plmn"):
        texts = stays.table[name][held].tolist() if known.any() else [None] * len(row)
        columns[name] = [text if there else None for text, there in zip(texts, known.tolist(), strict=True)]
    for name in _CELL:
        columns[name] = np.where(known, stays.table[name][held] if known.any() else NA, NA)
    return columns


def _places(road: Road, begin: Times) -> dict[str, Cells]:
    """Return where the session was in the middle of each second."""
    if road.route is None:
        return dict.fromkeys(("lat_deg", "lon_deg", "heading_deg", "distance_m"), np.full(len(begin), np.nan))
    places = road.route.at(begin + NS_PER_S // 2)
    return {
        "lat_deg": places.lat_deg, "lon_deg": places.lon_deg,
        "heading_deg": places.heading_deg, "distance_m": places.distance_m,
    }  # fmt: skip


def _round_trips(road: Road, begin: Times) -> dict[str, Cells]:
    """Return the median of the round-trip times that ended in each second, and their number."""
    if road.rtt is None:
        return {"rtt_ns": np.full(len(begin), np.nan), "rtt_samples": np.full(len(begin), NA)}
    median, count = medians(road.rtt.known(), begin, begin + NS_PER_S)
    return {"rtt_ns": median, "rtt_samples": count}


def _losses(road: Road, begin: Times) -> dict[str, Cells]:
    """Return how many segments were sent in each second, and how many of them were lost; NA if not known."""
    segments = road.segments
    if segments is None or not len(begin):
        return dict.fromkeys(("sent", "lost"), np.full(len(begin), NA))
    second = (segments.time_ns - begin[0]) // NS_PER_S
    inside = (second >= 0) & (second < len(begin))
    sent, lost = (
        np.bincount(second[inside & chosen], minlength=len(begin)).astype(np.int64)
        for chosen in (np.True_, segments.lost)
    )
    return {"sent": sent, "lost": lost}
