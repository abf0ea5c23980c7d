"""What shows the cause of a stretch, in words with numbers; cells and networks are not named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.causes import WEAK_RSRP_DBM, Cause, generations_in
from multitracer.analysis.mobility.handovers import bounds_ns
from multitracer.analysis.mobility.seconds import CERTAIN_S
from multitracer.units import NS_PER_S
from multitracer.words import count, rate

if TYPE_CHECKING:
    from multitracer.analysis.mobility.causes import Radio
    from multitracer.analysis.mobility.seconds import Seconds
    from multitracer.tables import Array, Numbers, Table

_AROUND_NS = 3 * NS_PER_S
"""A change of the cell so near a stretch is part of its evidence, as in `seconds`."""


def evidence_of(cause: Cause, seconds: Seconds, radio: Radio, rows: Numbers, handovers: Table) -> str:
    """Return the evidence of a stretch.

    Parameters
    ----------
    cause : Cause
    seconds : Seconds
    radio : Radio
    rows : ndarray of int64, shape (n_rows,)
        The seconds of the stretch.
    handovers : Table
        JUDGED_HANDOVERS.
    """
    words = {
        Cause.COVERAGE: lambda: _coverage(seconds, radio, rows),
        Cause.INTERFERENCE: lambda: [_level(seconds, rows), f"but {_quality(seconds, rows)}"],
        Cause.HANDOVER: lambda: [_changes(seconds, rows, handovers), _level(seconds, rows)],
        Cause.LOAD: lambda: _load(seconds, rows),
        Cause.TECHNOLOGY: lambda: [_technology(seconds, rows), _rate(seconds, rows), _level(seconds, rows)],
        Cause.SERVER: lambda: [_limit(seconds, rows), _rate(seconds, rows)],
        Cause.TCP: lambda: [_limit(seconds, rows), _rate(seconds, rows)],
        Cause.UNKNOWN: lambda: [
            _limit(seconds, rows),
            _rate(seconds, rows),
            _level(seconds, rows),
            _blank(seconds, rows),
        ],
    }.get(cause, list)()
    if cause in _OF_READINGS:
        words = [*words, _read(seconds, rows)]
    return "; ".join(word for word in words if word)


_OF_READINGS = (Cause.COVERAGE, Cause.INTERFERENCE, Cause.LOAD)


def _read(seconds: Seconds, rows: Numbers) -> str:
    """Return how often the radio was read, where that is in less than half of the seconds."""
    read = int(seconds.is_read[rows].sum())
    return f"the radio was read in {read} of {len(rows)} s" if 2 * read < len(rows) else ""


def _blank(seconds: Seconds, rows: Numbers) -> str:
    blank = int(seconds.is_blank[rows].sum())
    return f"the log tells no cell and no level for {blank} of {len(rows)} s" if blank else ""


def median(values: Array) -> float:
    """Return the median of the values that are known; NaN for none."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _coverage(seconds: Seconds, radio: Radio, rows: Numbers) -> list[str]:
    """Return both ways in which a level is weak; the level itself only where it was read and weak."""
    no_service = seconds.no_service[rows] >= 0.5
    searched, weak = int(no_service.sum()), int((radio.is_weak[rows] & ~no_service).sum())
    limit = f" (below {WEAK_RSRP_DBM:.0f} dBm)" if np.isfinite(seconds.rsrp_dbm[rows]).any() else ""
    words = [_level(seconds, rows), f"weak{limit} for {weak} of {len(rows)} s"] if weak else []
    return [f"no service for {searched} of {len(rows)} s" if searched else "", *words]


def _load(seconds: Seconds, rows: Numbers) -> list[str]:
    busy = median(seconds.cell_busy_pct[rows])
    return [
        f"{_level(seconds, rows)} and {_quality(seconds, rows)} are good",
        _limit(seconds, rows),
        _rate(seconds, rows),
        f"cell busy {busy:.0f} %" if np.isfinite(busy) else "",
    ]


def _technology(seconds: Seconds, rows: Numbers) -> str:
    """Return which generations served, and for how long."""
    numbers = seconds.generation[rows]
    words = [f"{each:.0f}G for {int((numbers == each).sum())}" for each in generations_in(numbers).tolist()]
    return f"{' and '.join(words)} of {len(rows)} s, at its usual rate in this drive" if words else ""


def _level(seconds: Seconds, rows: Numbers) -> str:
    return _first(
        rows, ("RSRP", seconds.rsrp_dbm), ("RSCP", seconds.rscp_dbm), ("RSSI", seconds.rssi_dbm), "dBm"
    )


def _quality(seconds: Seconds, rows: Numbers) -> str:
    return _first(
        rows, ("SINR", seconds.sinr_db), ("RSRQ", seconds.rsrq_db), ("Ec/Io", seconds.ecio_db), "dB"
    )


def _first(rows: Numbers, a: tuple[str, Array], b: tuple[str, Array], c: tuple[str, Array], unit: str) -> str:
    for name, values in (a, b, c):
        value = median(values[rows])
        if np.isfinite(value):
            return f"{name} {value:.0f} {unit}" if unit == "dBm" else f"{name} {value:.1f} {unit}"
    return ""


def _limit(seconds: Seconds, rows: Numbers) -> str:
    names, counts = np.unique(seconds.limit[rows], return_counts=True)
    name, count = max(zip(names.tolist(), counts.tolist(), strict=True), key=lambda each: each[1])
    return f"limit {name.replace(' ', ': ')} for {count} of {len(rows)} s" if name else ""


def _rate(seconds: Seconds, rows: Numbers) -> str:
    known = seconds.rate_bps[rows]
    known = known[np.isfinite(known)]
    return rate(float(known.mean())) if len(known) else ""


def _changes(seconds: Seconds, rows: Numbers, handovers: Table) -> str:
    begin, end = seconds.begin_ns[rows[0]] - _AROUND_NS, seconds.begin_ns[rows[-1]] + NS_PER_S + _AROUND_NS
    long_ns = round(CERTAIN_S * NS_PER_S)
    near = slice(*np.searchsorted(handovers["time_ns"], [begin - long_ns, end + long_ns]).tolist())
    some = handovers.take(near)
    low, high = bounds_ns(some)
    inside = (low < end) & (high > begin) & (high - low <= long_ns)
    failed = int((some["result"][inside] != "complete").sum())
    words = count(int(inside.sum()), "change")
    return f"{words} of the cell" + (f", {failed} not complete" if failed else "")
