"""Why a second was bad: its cause if there is evidence for one, otherwise what was not recorded.

In this order: the server, if it had nothing to send; coverage, if the level is weak; interference, if the
level is not weak and the quality is poor; the technology, if an older one served, whose usual rate here is a
bad one; a change of the cell near it; load, if level and quality are good
and the link was the limit at a rate far below what this quality gives elsewhere in the drive, or the cell was
busy; TCP, if one of its own limits held.

What shows the cause of a stretch, in words with numbers; cells and networks are not named.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.handovers import bounds_ns
from multitracer.analysis.mobility.seconds import CERTAIN_S
from multitracer.units import NS_PER_S
from multitracer.words import count, rate

if TYPE_CHECKING:
    from multitracer.analysis.mobility.seconds import Seconds
    from multitracer.tables import Array, Mask, Numbers, Table

WEAK_RSRP_DBM = -110.0
"""The edge of a cell in operators' practice; TS 36.133, 9.1.4 reports -140 to -44 dBm. Not measured."""
WEAK_RSCP_DBM = -105.0
"""The same of UMTS (TS 25.133 reports -120 to -25 dBm). Not measured."""
WEAK_RSSI_DBM = -100.0
"""Of GSM and CDPD: 2 dB above the reference sensitivity of a GSM handheld, -102 dBm (TS 45.005, 6.2)."""
POOR_SINR_DB = 0.0
"""As much interference and noise as signal: a bit per second and hertz at most (Shannon)."""
FAIR_SINR_DB = 5.0
"""Below it a low rate is the quality's, if the rate is what this SINR gives elsewhere. Not measured."""
POOR_RSRQ_DB = -15.0
"""A cell that uses all its resources, without interference, has 1 / 12 or -10.8 dB, by the definition in
TS 36.214, 5.1.3; at -15 dB the others have 1.6 times its power."""
GOOD_RSRQ_DB = -12.0
"""1.2 dB below that of a full cell. Between this and the poor one a full cell and interference look alike."""
POOR_ECIO_DB, GOOD_ECIO_DB = -14.0, -10.0
"""Of UMTS, in operators' practice. Not measured."""
BUSY_PCT = 80.0
"""A shared channel this busy makes each wait four times its service time (M/M/1). Not measured."""
LOADED_SHARE = 0.3
"""Part of the rate per bit of Shannon's capacity that is typical of the drive. Not measured."""
OWN_LIMITS = (
    "recovery", "congestion-window", "slow-start", "receiver-window", "sender-buffer", "handshake",
    "application nagle",
)  # fmt: skip
"""Of TCP itself."""
SERVER_LIMITS = ("application think", "application writes")
"""With their part, while the server is the one who sends."""
_OF_LOSSES = ("recovery", "congestion-window", "slow-start", "outage")
"""Limits that follow from losses, whatever lost them: they inherit the cause of the seconds before."""


LEAST_OLDER_S = 10
"""Seconds of a technology from which on its usual rate is known; in fewer, the change to it may be what
counts. Not measured."""
_AS_MUCH = 0.5
"""Of the rate of a loaded second: the link carries as much while TCP repairs. Not measured."""


class SecondCause(IntEnum):
    """Why a second was bad."""

    NONE = 0
    UNKNOWN = 1
    COVERAGE = 2
    INTERFERENCE = 3
    HANDOVER = 4
    LOAD = 5
    SERVER = 6
    TCP = 7
    TECHNOLOGY = 8

    @property
    def label(self) -> str:
        """As in STRETCHES."""
        return "TCP" if self is SecondCause.TCP else self.name.lower()


_WEAK = (SecondCause.NONE, SecondCause.UNKNOWN, SecondCause.TCP)
"""Causes that the cause of the loss replaces in seconds of repair."""
_REPAIRS = ("recovery", "congestion-window", "slow-start")
_OF_THE_RADIO = (SecondCause.COVERAGE, SecondCause.INTERFERENCE)
_OF_THE_AIR = (SecondCause.COVERAGE, SecondCause.INTERFERENCE, SecondCause.HANDOVER)


class RadioMasks(NamedTuple):
    """What the readings say of each second; masks of shape (n_seconds,)."""

    is_weak: Mask
    level_known: Mask
    is_poor: Mask
    is_good: Mask
    """Of the quality; where it is neither good nor poor, it decides nothing."""
    quality_known: Mask


def radio_of(seconds: Seconds) -> RadioMasks:
    """Return where the level is weak and the quality poor, and where each is known.

    RSRP decides before RSCP, and that before RSSI; SINR before RSRQ, and that before Ec/Io. A modem that
    searches for a network has no level, and that is weak.
    """
    weak, level = _below(
        (seconds.rsrp_dbm, WEAK_RSRP_DBM),
        (seconds.rscp_dbm, WEAK_RSCP_DBM),
        (seconds.rssi_dbm, WEAK_RSSI_DBM),
    )
    poor, quality = _below(
        (seconds.sinr_db, POOR_SINR_DB), (seconds.rsrq_db, POOR_RSRQ_DB), (seconds.ecio_db, POOR_ECIO_DB)
    )
    not_good, _ = _below(
        (seconds.sinr_db, POOR_SINR_DB), (seconds.rsrq_db, GOOD_RSRQ_DB), (seconds.ecio_db, GOOD_ECIO_DB)
    )
    searching = seconds.no_service >= 0.5
    return RadioMasks(weak | searching, level | searching, poor, quality & ~not_good, quality)


def causes_of(seconds: Seconds, radio: RadioMasks, bad: Mask, poor_bps: float) -> Numbers:
    """Return the cause of each bad second by what that second itself shows; NONE of the others.

    Parameters
    ----------
    seconds : Seconds
    radio : RadioMasks
    bad : ndarray of bool, shape (n_seconds,)
    poor_bps : float
        Below this rate a second is bad.

    Returns
    -------
    ndarray of int64, shape (n_seconds,)
        Cause.
    """
    limit = np.char.partition(seconds.limit, " ")[:, 0] if len(bad) else seconds.limit
    nagle = seconds.limit == "application nagle"
    own = np.isin(limit, OWN_LIMITS) | nagle
    losses = np.isin(limit, _OF_LOSSES)
    silent = seconds.limit == "recovery timer"  # all that was in flight was lost, and not by TCP
    fine = radio.level_known & ~radio.is_weak & radio.is_good & seconds.is_read
    efficiency, typical = _efficiency(seconds)
    unlimited = (limit == "link") | (limit == "")
    with np.errstate(invalid="ignore"):
        expected = (seconds.sinr_db < FAIR_SINR_DB) & (efficiency >= LOADED_SHARE * typical)
        scarce = ~(efficiency >= LOADED_SHARE * typical)
        busy = seconds.cell_busy_pct >= BUSY_PCT
    by_rate = seconds.is_wanted & np.isfinite(seconds.rate_bps)
    choices = [
        (by_rate & np.isin(seconds.limit, SERVER_LIMITS), SecondCause.SERVER),
        (radio.is_weak, SecondCause.COVERAGE),
        (
            radio.level_known & (radio.is_poor | (by_rate & (limit == "link") & expected)),
            SecondCause.INTERFERENCE,
        ),
        (by_rate & unlimited & _is_older(seconds, poor_bps), SecondCause.TECHNOLOGY),
        (seconds.is_change & by_rate & ~_is_usual(seconds) & ~seconds.is_blank, SecondCause.HANDOVER),
        (by_rate & fine & (((limit == "link") & scarce) | busy), SecondCause.LOAD),
        (by_rate & own & (~losses | (fine & ~silent)), SecondCause.TCP),
    ]
    cause = np.select(
        [where for where, _ in choices], [int(each) for _, each in choices], int(SecondCause.UNKNOWN)
    )
    return np.asarray(np.where(bad, cause, int(SecondCause.NONE)))


def inherited(
    cause: Numbers, limit: Array, undecided: Mask, unread: Mask, rate_bps: Array, blank: Mask | None = None
) -> Numbers:
    """Return the causes, where seconds that repair a loss have the cause of the loss.

    A second of TCP's own repair, or of an outage that nothing explains, takes the cause of the bad second
    before it. An outage at the begin of a stretch, and a repair in which nothing arrives, take that of the
    second after it if it is of the radio or a handover: the old link failed before the new cell served. A
    repair in which as much arrives as in the loaded second after it is of the load, whose begin lost data. A
    second that was not read, or whose quality is undecided, takes coverage or interference from its
    neighbours: levels swing around a threshold. One that was not read takes any other cause of them, too.

    Parameters
    ----------
    cause : ndarray of int64, shape (n_seconds,)
        Cause of each second of one stretch, as it shows itself.
    limit : ndarray of str, shape (n_seconds,)
        As in Seconds.
    undecided : ndarray of bool, shape (n_seconds,)
        Where the quality is neither good nor poor.
    unread : ndarray of bool, shape (n_seconds,)
        Where the radio was not read.
    rate_bps : ndarray of float64, shape (n_seconds,)
        What arrived.
    blank : ndarray of bool, shape (n_seconds,), optional
        Where the log told neither cell nor level: no handover explains what comes before it.
    """
    result = cause.tolist()
    names = [each.partition(" ")[0] for each in limit.tolist()]
    repairs = [
        (name in _OF_LOSSES and each in _WEAK) or (name in _REPAIRS and each == SecondCause.HANDOVER)
        for name, each in zip(names, result, strict=True)
    ]
    between = [
        each == SecondCause.UNKNOWN and mid
        for each, mid in zip(result, (undecided | unread).tolist(), strict=True)
    ]
    for row in range(1, len(result)):
        before = result[row - 1]
        if (repairs[row] and before not in _WEAK) or (between[row] and before in _OF_THE_RADIO):
            result[row] = before
    for row in range(len(result) - 2, -1, -1):
        after = result[row + 1]
        is_outage = result[row] == SecondCause.UNKNOWN and names[row] == "outage"
        is_repair = result[row] in (SecondCause.TCP, SecondCause.UNKNOWN) and names[row] in _REPAIRS
        is_begin = after in _OF_THE_AIR and (is_outage or (is_repair and rate_bps[row] == 0))
        is_begin = is_begin and not (blank is not None and blank[row] and after == SecondCause.HANDOVER)
        is_loaded = is_repair and after == SecondCause.LOAD and rate_bps[row] >= _AS_MUCH * rate_bps[row + 1]
        if is_begin or is_loaded or (between[row] and after in _OF_THE_RADIO):
            result[row] = after
    for row in (*range(1, len(result)), *range(len(result) - 2, -1, -1)):
        for near in (row - 1, row + 1):
            if unread[row] and result[row] == SecondCause.UNKNOWN and 0 <= near < len(result):
                result[row] = max(result[near], SecondCause.UNKNOWN)
    return np.array(result, dtype=np.int64)


def missing_of(seconds: Seconds, radio: RadioMasks, rows: Numbers) -> str:
    """Return in words which recordings would show the cause of some seconds."""
    if int(seconds.is_blank[rows].sum()) >= _LEAST_BLANK_S:
        return "whether a network served (the registration), as the log tells neither cell nor level"
    lacks = [
        ("a reading of the level (RSRP)", ~radio.level_known),
        ("a reading of the quality (SINR, or RSRQ)", ~radio.quality_known),
        ("SINR, as RSRQ alone does not decide", radio.quality_known & ~radio.is_good & ~radio.is_poor),
        ("the serving cell (its identity)", ~seconds.is_named & seconds.is_read),
        ("the limits of the transfer (a capture)", seconds.limit == ""),
    ]
    words = [word for word, mask in lacks if mask[rows].mean() > 0.5]
    return ", ".join(words) or _OF_A_GOOD_RADIO


_LEAST_BLANK_S = 2
"""A single second may be that of a change of the cell. Not measured."""
_OF_A_GOOD_RADIO = "what the link did (its log, or the phone's signalling), on a clock that `align` relates"
"""Where level and quality were good, the cell did not change, and TCP waited for what was lost."""


def _below(*columns: tuple[Array, float]) -> tuple[Mask, Mask]:
    """Return where the first known column is below its threshold, and where any column is known."""
    below = np.zeros(len(columns[0][0]), dtype=bool)
    known = below.copy()
    for values, threshold in columns:
        there = np.isfinite(values) & ~known
        below[there] = values[there] < threshold
        known |= there
    return below, known


def generations_in(numbers: Array) -> Array:
    """Return which generations served in a stretch for long enough to count, of those of its seconds."""
    there, counts = np.unique(numbers[np.isin(numbers, _GENERATIONS)], return_counts=True)
    return np.asarray(there[counts >= _LEAST_PART * len(numbers)])


_GENERATIONS = (2.0, 3.0, 4.0, 5.0)
"""2G to 5G, as the column of seconds has them."""
_LEAST_PART = 0.2
"""The first second of a stretch may still be of the newer technology. Not measured."""


def _is_older(seconds: Seconds, poor_bps: float) -> Mask:
    """Return where an older technology served whose usual rate in this drive is a bad one, and gave it."""
    usual = _usual_of(seconds, seconds.rate_bps)
    newest = max((each for each, rate in usual.items() if rate >= poor_bps), default=0.0)
    poor = {each: rate for each, rate in usual.items() if rate < poor_bps and each < newest}
    own = (
        np.select([seconds.generation == each for each in poor], list(poor.values()), np.nan)
        if poor
        else np.nan
    )
    with np.errstate(invalid="ignore"):
        return np.asarray((seconds.rate_bps > 0) & (seconds.rate_bps >= LOADED_SHARE * own))


def _is_usual(seconds: Seconds) -> Mask:
    """Return where the rate is what the technology that serves gives without a change of the cell, too."""
    usual = _usual_of(seconds, seconds.rate_bps)
    own = (
        np.select([seconds.generation == each for each in usual], list(usual.values()), np.nan)
        if usual
        else np.nan
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(seconds.rate_bps >= _AS_USUAL * own)


_AS_USUAL = 0.5
"""Of the upper quartile; in a drive of one technology a bad second has a fifth. Not measured."""


def _usual_of(seconds: Seconds, value: Array) -> dict[float, float]:
    """Return the upper quartile of a quantity while each generation served, if it did for long enough."""
    some = np.isfinite(value) & seconds.is_wanted
    each = {number: value[some & (seconds.generation == number)] for number in _GENERATIONS}
    return {
        number: float(np.quantile(values, 0.75))
        for number, values in each.items()
        if len(values) >= LEAST_OLDER_S
    }


def _efficiency(seconds: Seconds) -> tuple[Array, Array]:
    """Return the rate per bit of capacity that Shannon gives the SINR, and the upper quartile of a drive.

    Where a technology served for long enough, its own quartile: carriers of NR are wider than those of LTE.
    """
    capacity = np.log2(1 + 10 ** (np.clip(seconds.sinr_db, -20.0, 40.0) / 10))
    efficiency = np.asarray(seconds.rate_bps / capacity)
    some = np.isfinite(efficiency) & seconds.is_wanted
    typical = np.full(len(efficiency), np.quantile(efficiency[some], 0.75) if some.any() else np.nan)
    for number, usual in _usual_of(seconds, efficiency).items():
        typical[seconds.generation == number] = usual
    return efficiency, typical


_AROUND_NS = 3 * NS_PER_S
"""A change of the cell so near a stretch is part of its evidence, as in `seconds`."""


def evidence_of(
    cause: SecondCause, seconds: Seconds, radio: RadioMasks, rows: Numbers, handovers: Table
) -> str:
    """Return the evidence of a stretch.

    Parameters
    ----------
    cause : SecondCause
    seconds : Seconds
    radio : RadioMasks
    rows : ndarray of int64, shape (n_rows,)
        The seconds of the stretch.
    handovers : Table
        JUDGED_HANDOVERS.
    """
    words = {
        SecondCause.COVERAGE: lambda: _coverage(seconds, radio, rows),
        SecondCause.INTERFERENCE: lambda: [_level(seconds, rows), f"but {_quality(seconds, rows)}"],
        SecondCause.HANDOVER: lambda: [_changes(seconds, rows, handovers), _level(seconds, rows)],
        SecondCause.LOAD: lambda: _load(seconds, rows),
        SecondCause.TECHNOLOGY: lambda: [
            _technology(seconds, rows),
            _rate(seconds, rows),
            _level(seconds, rows),
        ],
        SecondCause.SERVER: lambda: [_limit(seconds, rows), _rate(seconds, rows)],
        SecondCause.TCP: lambda: [_limit(seconds, rows), _rate(seconds, rows)],
        SecondCause.UNKNOWN: lambda: [
            _limit(seconds, rows),
            _rate(seconds, rows),
            _level(seconds, rows),
            _blank(seconds, rows),
        ],
    }.get(cause, list)()
    if cause in _OF_READINGS:
        words = [*words, _read(seconds, rows)]
    return "; ".join(word for word in words if word)


_OF_READINGS = (SecondCause.COVERAGE, SecondCause.INTERFERENCE, SecondCause.LOAD)


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


def _coverage(seconds: Seconds, radio: RadioMasks, rows: Numbers) -> list[str]:
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
