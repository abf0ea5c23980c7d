"""The cause of each bad second, if there is evidence for one; otherwise, which recording is missing.

The causes are tested in this order:

- server: it had no data to send;
- coverage: the level is weak;
- interference: the level is not weak and the quality is poor;
- technology: an older one served, and its typical rate in this drive is a bad one;
- handover: the cell changed near this second;
- load: level and quality are good, and either the cell was busy, or the link was the limit at a rate far
  below the rate at this quality elsewhere in the drive;
- TCP: one of its own limits held.

`evidence_of` describes the evidence for a segment of the route in words with numbers; it does not name cells
and networks.
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
"""Weak RSRP, dBm: the edge of a cell in operators' practice. TS 36.133, 9.1.4 reports -140 to -44 dBm. Not measured."""
WEAK_RSCP_DBM = -105.0
"""Weak RSCP of UMTS, dBm (TS 25.133 reports -120 to -25 dBm). Not measured."""
WEAK_RSSI_DBM = -100.0
"""Weak RSSI of GSM and CDPD, dBm: 2 dB above the reference sensitivity of a GSM handheld, -102 dBm (TS 45.005, 6.2)."""
POOR_SINR_DB = 0.0
"""Poor SINR, dB: interference and noise equal the signal, so at most 1 bit/s/Hz is possible (Shannon)."""
FAIR_SINR_DB = 5.0
"""SINR below which a low rate is attributed to quality, if this SINR gives the same rate elsewhere. Not measured."""
POOR_RSRQ_DB = -15.0
"""Poor RSRQ, dB. A cell that uses all its resources, without interference, has 1 / 12 or -10.8 dB by the definition in
TS 36.214, 5.1.3; at -15 dB the other cells have 1.6 times its power."""
GOOD_RSRQ_DB = -12.0
"""Good RSRQ, dB: 1.2 dB below that of a fully loaded cell. Between poor and good RSRQ, full load and interference
cannot be distinguished."""
POOR_ECIO_DB, GOOD_ECIO_DB = -14.0, -10.0
"""Poor and good Ec/Io of UMTS, dB, in operators' practice. Not measured."""
BUSY_PCT = 80.0
"""Load of a busy cell, percent: at this load the mean waiting time in a shared channel is four service times (M/M/1).
Not measured."""
LOADED_SHARE = 0.3
"""A cell counts as loaded if its rate per bit of Shannon capacity is less than this share of the drive's typical value.
Not measured."""
OWN_LIMITS = (
    "recovery", "congestion-window", "slow-start", "receiver-window", "sender-buffer", "handshake",
    "application nagle",
)  # fmt: skip
"""Limits that belong to TCP itself."""
SERVER_LIMITS = ("application think", "application writes")
"""Limits, with their subtypes, that belong to the server while it is the sender."""
_OF_LOSSES = ("recovery", "congestion-window", "slow-start", "outage")
"""Limits that follow from losses of any cause: such a second inherits the cause of the seconds before."""


MIN_OLDER_S = 10
"""Minimum time of a technology, in seconds, for a known typical rate; in a shorter time the change to the technology
may have reduced the rate. Not measured."""
_AS_MUCH = 0.5
"""In recovery, a rate of at least this share of the rate in a loaded second counts as equal to it. Not measured."""


class SecondCause(IntEnum):
    """Cause of a bad second."""

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
        """The name of the cause in STRETCHES."""
        return "TCP" if self is SecondCause.TCP else self.name.lower()


_WEAK = (SecondCause.NONE, SecondCause.UNKNOWN, SecondCause.TCP)
"""Causes that the cause of the loss replaces in seconds of recovery."""
_REPAIRS = ("recovery", "congestion-window", "slow-start")
_OF_THE_RADIO = (SecondCause.COVERAGE, SecondCause.INTERFERENCE)
_OF_THE_AIR = (SecondCause.COVERAGE, SecondCause.INTERFERENCE, SecondCause.HANDOVER)


class RadioMasks(NamedTuple):
    """Conditions of the radio in each second; masks of shape (n_seconds,)."""

    is_weak: Mask
    level_known: Mask
    is_poor: Mask
    is_good: Mask
    """Whether the quality is good; a quality that is neither good nor poor decides nothing."""
    quality_known: Mask


def radio_of(seconds: Seconds) -> RadioMasks:
    """Return for each second whether the level is weak, the quality poor or good, and each of them known.

    Of several levels the first known one decides: RSRP, RSCP, RSSI; of several qualities: SINR, RSRQ, Ec/Io.
    A second in which the modem searches for a network has no level, and counts as weak.
    """
    weak, level = _below(
        (seconds.rsrp_dbm, WEAK_RSRP_DBM), (seconds.rscp_dbm, WEAK_RSCP_DBM), (seconds.rssi_dbm, WEAK_RSSI_DBM)
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
    """Return the cause of each bad second from the data of that second alone; NONE for other seconds.

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
    idle = seconds.limit == "recovery timer"  # all that was in flight was lost, and not by TCP
    fine = radio.level_known & ~radio.is_weak & radio.is_good & seconds.is_read
    efficiency, typical = efficiency_of(seconds)
    unlimited = (limit == "link") | (limit == "")
    with np.errstate(invalid="ignore"):
        expected = (seconds.sinr_db < FAIR_SINR_DB) & (efficiency >= LOADED_SHARE * typical)
        scarce = ~(efficiency >= LOADED_SHARE * typical)
        busy = seconds.cell_busy_pct >= BUSY_PCT
    by_rate = seconds.is_wanted & np.isfinite(seconds.rate_bps)
    choices = [
        (by_rate & np.isin(seconds.limit, SERVER_LIMITS), SecondCause.SERVER),
        (radio.is_weak, SecondCause.COVERAGE),
        (radio.level_known & (radio.is_poor | (by_rate & (limit == "link") & expected)), SecondCause.INTERFERENCE),
        (by_rate & unlimited & is_older(seconds, poor_bps), SecondCause.TECHNOLOGY),
        (seconds.is_change & by_rate & ~_is_typical(seconds) & ~seconds.is_blank, SecondCause.HANDOVER),
        (by_rate & fine & (((limit == "link") & scarce) | busy), SecondCause.LOAD),
        (by_rate & own & (~losses | (fine & ~idle)), SecondCause.TCP),
    ]
    cause = np.select([where for where, _ in choices], [int(each) for _, each in choices], int(SecondCause.UNKNOWN))
    return np.asarray(np.where(bad, cause, int(SecondCause.NONE)))


def inherited(
    cause: Numbers, limit: Array, undecided: Mask, unread: Mask, rate_bps: Array, blank: Mask | None = None
) -> Numbers:
    """Return the causes after some seconds took over the cause of a neighbouring second, by these rules.

    - A second in which TCP recovers, or an outage without a known cause, takes the cause of the bad second
      before it.
    - An outage at the begin of a route segment, and a recovery in which no data arrive, take the cause of the
      second after it, if that is a radio cause or a handover: the old link failed before the new cell served.
    - A recovery at about the rate of a loaded second after it has the cause load: the data were lost when the
      load began.
    - A second without radio readings, or with undecided quality, takes coverage or interference from its
      neighbours, because levels vary around a threshold. One without readings also takes any other cause.

    Parameters
    ----------
    cause : ndarray of int64, shape (n_seconds,)
        Cause of each second of one route segment, from `causes_of`.
    limit : ndarray of str, shape (n_seconds,)
        As in Seconds.
    undecided : ndarray of bool, shape (n_seconds,)
        Where the quality is neither good nor poor.
    unread : ndarray of bool, shape (n_seconds,)
        Where the radio was not read.
    rate_bps : ndarray of float64, shape (n_seconds,)
        Rate of the data that arrived, bit/s.
    blank : ndarray of bool, shape (n_seconds,), optional
        Where the log has neither cell nor level: no handover explains the seconds before them.
    """
    result = cause.tolist()
    names = [each.partition(" ")[0] for each in limit.tolist()]
    repairs = [
        (name in _OF_LOSSES and each in _WEAK) or (name in _REPAIRS and each == SecondCause.HANDOVER)
        for name, each in zip(names, result, strict=True)
    ]
    between = [
        each == SecondCause.UNKNOWN and mid for each, mid in zip(result, (undecided | unread).tolist(), strict=True)
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
    """Return a text for users: which recordings would show the cause of the seconds in `rows`."""
    if int(seconds.is_blank[rows].sum()) >= _MIN_BLANK_S:
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


_MIN_BLANK_S = 2
"""Minimum number of seconds without cell and level that count; a single one may be part of a cell change. Not measured.
"""
_OF_A_GOOD_RADIO = "what the link did (its log, or the phone's signalling), on a clock that `align` relates"
"""The missing recording if level and quality were good, the cell did not change, and TCP waited for lost data."""


def depth_of(seconds: Seconds) -> tuple[Array, Array]:
    """Return how far level and quality of each second lie above their thresholds, in dB.

    Below a threshold it is negative; NaN if unknown.

    Of several levels or qualities the first known one decides, as in `radio_of`.
    """
    level = _above(
        (seconds.rsrp_dbm, WEAK_RSRP_DBM), (seconds.rscp_dbm, WEAK_RSCP_DBM), (seconds.rssi_dbm, WEAK_RSSI_DBM)
    )
    return level, _above(
        (seconds.sinr_db, POOR_SINR_DB), (seconds.rsrq_db, POOR_RSRQ_DB), (seconds.ecio_db, POOR_ECIO_DB)
    )


def _above(*columns: tuple[Array, float]) -> Array:
    above = np.full(len(columns[0][0]), np.nan)
    for values, threshold in columns:
        above = np.where(np.isnan(above), values - threshold, above)
    return above


def _below(*columns: tuple[Array, float]) -> tuple[Mask, Mask]:
    """Return two masks over the seconds; each of `columns` is an array with its threshold.

    The first mask is True where the first known column is below its threshold, the second one where any
    column is known.
    """
    below = np.zeros(len(columns[0][0]), dtype=bool)
    known = below.copy()
    for values, threshold in columns:
        there = np.isfinite(values) & ~known
        below[there] = values[there] < threshold
        known |= there
    return below, known


def generations_in(numbers: Array) -> Array:
    """Return the distinct network generations (2 to 5) that served for long enough to count.

    `numbers` is the generation in each second.
    """
    there, counts = np.unique(numbers[np.isin(numbers, _GENERATIONS)], return_counts=True)
    return np.asarray(there[counts >= _MIN_PART * len(numbers)])


_GENERATIONS = (2.0, 3.0, 4.0, 5.0)
"""Generations 2G to 5G, as numbers in the column of `Seconds`."""
_MIN_PART = 0.2
"""Minimum share of a segment's seconds for a generation to count: the first second may still be of the newer
technology. Not measured."""


def is_older(seconds: Seconds, poor_bps: float) -> Mask:
    """Return in which seconds an older technology served, at a typical rate that is below `poor_bps`."""
    typical_rates = _typical_of(seconds, seconds.rate_bps)
    newest = max((each for each, rate in typical_rates.items() if rate >= poor_bps), default=0.0)
    poor = {each: rate for each, rate in typical_rates.items() if rate < poor_bps and each < newest}
    own = np.select([seconds.generation == each for each in poor], list(poor.values()), np.nan) if poor else np.nan
    with np.errstate(invalid="ignore"):
        return np.asarray((seconds.rate_bps > 0) & (seconds.rate_bps >= LOADED_SHARE * own))


def _is_typical(seconds: Seconds) -> Mask:
    """Return in which seconds the rate reaches the typical rate of the serving technology."""
    typical_rates = _typical_of(seconds, seconds.rate_bps)
    own = (
        np.select([seconds.generation == each for each in typical_rates], list(typical_rates.values()), np.nan)
        if typical_rates
        else np.nan
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(seconds.rate_bps >= _AS_TYPICAL * own)


_AS_TYPICAL = 0.5
"""Minimum share of the upper quartile of the rate that counts as typical; in a drive with one technology, a bad second
has a fifth. Not measured."""


def _typical_of(seconds: Seconds, value: Array) -> dict[float, float]:
    """Return the upper quartile of `value` for each generation that served for long enough."""
    some = np.isfinite(value) & seconds.is_wanted
    each = {number: value[some & (seconds.generation == number)] for number in _GENERATIONS}
    return {number: float(np.quantile(values, 0.75)) for number, values in each.items() if len(values) >= MIN_OLDER_S}


def efficiency_of(seconds: Seconds) -> tuple[Array, Array]:
    """Return two arrays: the efficiency of each second, and the upper quartile of it in the drive.

    The efficiency is the rate divided by the Shannon capacity per Hz at the SINR. A technology that served
    for long enough has its own quartile, since carriers of NR are wider than those of LTE.
    """
    capacity = np.log2(1 + 10 ** (np.clip(seconds.sinr_db, -20.0, 40.0) / 10))
    efficiency = np.asarray(seconds.rate_bps / capacity)
    some = np.isfinite(efficiency) & seconds.is_wanted
    typical = np.full(len(efficiency), np.quantile(efficiency[some], 0.75) if some.any() else np.nan)
    for number, typical_rates in _typical_of(seconds, efficiency).items():
        typical[seconds.generation == number] = typical_rates
    return efficiency, typical


_AROUND_NS = 3 * NS_PER_S
"""A cell change this close (ns) to a route segment is part of its evidence, as in `seconds.py`."""


def evidence_of(cause: SecondCause, seconds: Seconds, radio: RadioMasks, rows: Numbers, handovers: Table) -> str:
    """Return a description of the evidence for the cause of a segment of the route.

    Parameters
    ----------
    cause : SecondCause
    seconds : Seconds
    radio : RadioMasks
    rows : ndarray of int64, shape (n_rows,)
        The seconds of the route segment.
    handovers : Table
        JUDGED_HANDOVERS.
    """
    words = {
        SecondCause.COVERAGE: lambda: _coverage(seconds, radio, rows),
        SecondCause.INTERFERENCE: lambda: [level_in_words(seconds, rows), f"but {quality_in_words(seconds, rows)}"],
        SecondCause.HANDOVER: lambda: [_changes(seconds, rows, handovers), level_in_words(seconds, rows)],
        SecondCause.LOAD: lambda: _load(seconds, rows),
        SecondCause.TECHNOLOGY: lambda: [
            _technology(seconds, rows),
            _rate(seconds, rows),
            level_in_words(seconds, rows),
        ],
        SecondCause.SERVER: lambda: [_limit(seconds, rows), _rate(seconds, rows)],
        SecondCause.TCP: lambda: [_limit(seconds, rows), _rate(seconds, rows)],
        SecondCause.UNKNOWN: lambda: [
            _limit(seconds, rows),
            _rate(seconds, rows),
            level_in_words(seconds, rows),
            _blank(seconds, rows),
        ],
    }.get(cause, list)()
    if cause in _OF_READINGS:
        words = [*words, _read(seconds, rows)]
    return "; ".join(word for word in words if word)


def of_rows(seconds: Seconds, rows: Numbers) -> Seconds:
    """Return the seconds with the radio of some rows only, those of one cell; unchanged if none is known."""
    others = np.ones(len(seconds.begin_ns), dtype=bool)
    others[rows] = False
    columns = seconds._asdict()
    readings = {name: np.where(others, np.nan, columns[name]) for name in (*_LEVEL_COLUMNS, *_QUALITY_COLUMNS)}
    is_known = any(np.isfinite(readings[name]).any() for name in _LEVEL_COLUMNS)
    return seconds._replace(**readings) if is_known else seconds


_LEVEL_COLUMNS = ("rsrp_dbm", "rscp_dbm", "rssi_dbm")
_QUALITY_COLUMNS = ("sinr_db", "rsrq_db", "ecio_db")
_OF_READINGS = (SecondCause.COVERAGE, SecondCause.INTERFERENCE, SecondCause.LOAD)


def _read(seconds: Seconds, rows: Numbers) -> str:
    """Return a text with the number of seconds that have radio readings; empty if at least half have."""
    read = int(seconds.is_read[rows].sum())
    return f"the radio was read in {read} of {len(rows)} s" if 2 * read < len(rows) else ""


def _blank(seconds: Seconds, rows: Numbers) -> str:
    blank = int(seconds.is_blank[rows].sum())
    return f"the log tells no cell and no level for {blank} of {len(rows)} s" if blank else ""


def median(values: Array) -> float:
    """Return the median of the known values; NaN if there are none."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _coverage(seconds: Seconds, radio: RadioMasks, rows: Numbers) -> list[str]:
    """Return texts with the evidence of weak coverage: seconds without a network, and a weak level."""
    no_service = seconds.no_service[rows] >= 0.5
    searched, weak = int(no_service.sum()), int((radio.is_weak[rows] & ~no_service).sum())
    limit = f" (below {WEAK_RSRP_DBM:.0f} dBm)" if np.isfinite(seconds.rsrp_dbm[rows]).any() else ""
    words = [level_in_words(seconds, rows), f"weak{limit} for {weak} of {len(rows)} s"] if weak else []
    return [f"no service for {searched} of {len(rows)} s" if searched else "", *words]


def _load(seconds: Seconds, rows: Numbers) -> list[str]:
    busy = median(seconds.cell_busy_pct[rows])
    return [
        f"{level_in_words(seconds, rows)} and {quality_in_words(seconds, rows)} are good",
        _limit(seconds, rows),
        _rate(seconds, rows),
        f"cell busy {busy:.0f} %" if np.isfinite(busy) else "",
    ]


def _technology(seconds: Seconds, rows: Numbers) -> str:
    """Return a text that names the network generations that served, and for how long each one did."""
    numbers = seconds.generation[rows]
    words = [f"{each:.0f}G for {int((numbers == each).sum())}" for each in generations_in(numbers).tolist()]
    return f"{' and '.join(words)} of {len(rows)} s, at its usual rate in this drive" if words else ""


def level_in_words(seconds: Seconds, rows: Numbers) -> str:
    """Return the median of the level in some seconds with its name, for example "RSRP -123 dBm"."""
    return _first(rows, ("RSRP", seconds.rsrp_dbm), ("RSCP", seconds.rscp_dbm), ("RSSI", seconds.rssi_dbm), "dBm")


def quality_in_words(seconds: Seconds, rows: Numbers) -> str:
    """Return the median of the quality in some seconds with its name, for example "SINR -2.5 dB"."""
    return _first(rows, ("SINR", seconds.sinr_db), ("RSRQ", seconds.rsrq_db), ("Ec/Io", seconds.ecio_db), "dB")


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
