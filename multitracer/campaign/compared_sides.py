"""Selects the sessions of each side: those of two places, or those of one place by the value of a label.

It also queries the sums for the comparison, by session, place and hour, and the distributions.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.comparison.sides import ComparedQuantity, Sides, Sums
from multitracer.campaign.bucket import store_at
from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.discovery import temporary_folder
from multitracer.campaign.query import query
from multitracer.campaign.report.questions import POOR_QUALITY, WEAK_SIGNAL
from multitracer.campaign.run import run
from multitracer.campaign.upkeep import failures
from multitracer.diagnosis.limits.names import Limit
from multitracer.errors import InputError
from multitracer.schemas.tcp import Close
from multitracer.tables import NA
from multitracer.words import count, portable, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

    import pyarrow as pa

    from multitracer.campaign.run import CampaignProgress
    from multitracer.tables import Array, Numbers, Row

_MOST_SHOWN = 20
"""Maximum number of labels, values or sessions that a sentence lists. Not measured."""
_SESSIONS = "SELECT session, name, version, labels FROM sessions ORDER BY session"


class SessionGroup(NamedTuple):
    """One side of a comparison: a catalogue, and the numbers of the sessions in it."""

    name: str
    catalogue: Catalogue
    sessions: list[str]
    versions: frozenset[str]
    """Versions of the programs that made the rows."""
    failed: list[str]
    """Inputs that could not be read, one sentence each."""


@contextlib.contextmanager
def two_groups(
    first: str | Catalogue, second: str | Catalogue, shown: Callable[[CampaignProgress], None]
) -> Iterator[tuple[SessionGroup, SessionGroup]]:
    """Yield the two sides of a comparison of two places; inputs other than campaigns are analysed first.

    Parameters
    ----------
    first, second : str or Catalogue
        A campaign, a folder that is searched for sessions, a session, or a capture.
    shown : callable
        Called with the progress of the analysis.

    Raises
    ------
    InputError
        If both sides are the same, share a session, or one contains no session.
    """
    paths = [each if isinstance(each, str) else each.store.address for each in (first, second)]
    if os.path.realpath(paths[0]) == os.path.realpath(paths[1]):
        raise InputError(f"{portable(paths[0])}: both inputs are the same; name two different inputs, or use --by")
    with _catalogue(first, shown) as one, _catalogue(second, shown) as other:
        names = _short(*paths)
        groups = tuple(
            _group(name, catalogue, _rows(catalogue)) for name, catalogue in zip(names, (one, other), strict=True)
        )
        _check(*groups)
        yield groups[0], groups[1]


@contextlib.contextmanager
def one_group(place: str | Catalogue, shown: Callable[[CampaignProgress], None]) -> Iterator[SessionGroup]:
    """Yield the sessions of one place as a side; see `two_groups`."""
    with _catalogue(place, shown) as catalogue:
        path = place if isinstance(place, str) else place.store.address
        yield _group(os.path.basename(os.path.realpath(path)), catalogue, _rows(catalogue))  # noqa: PTH119


@contextlib.contextmanager
def by_label(
    place: str | Catalogue, label: str, values: tuple[str, ...], shown: Callable[[CampaignProgress], None]
) -> Iterator[tuple[SessionGroup, SessionGroup]]:
    """Yield two sides from one place: the sessions with the first value of a label, those with the second.

    Parameters
    ----------
    place : str or Catalogue
        See `two_groups`.
    label : str
        Label of the sessions.
    values : tuple of str
        Values of the first and of the second side; may be empty if the label has only two values.
    shown : callable

    Raises
    ------
    InputError
        If no session has the label, or its two values are not clear.
    """
    with _catalogue(place, shown) as catalogue:
        rows = _rows(catalogue)
        labels = [dict(row["labels"] or ()) for row in rows]
        chosen = _values(labels, label, values, catalogue.store.name)
        groups = tuple(
            _group(
                f"{label} {value}",
                catalogue,
                [row for row, each in zip(rows, labels, strict=True) if each.get(label) == value],
            )
            for value in chosen
        )
        _check(*groups)
        yield groups[0], groups[1]


def _values(labels: list[dict[str, str]], label: str, values: tuple[str, ...], place: str) -> list[str]:
    known = sorted({each[label] for each in labels if label in each})
    if not known:
        names = sorted({name for each in labels for name in each})
        there = f"the labels are {_listed(names)}" if names else "the sessions have no labels"
        raise InputError(f"{place}: no session has a label {printable(label)!r}; {there}")
    if unknown := [value for value in values if value not in known]:
        missing = f"no session has {printable(label)} {printable(unknown[0])!r}"
        raise InputError(f"{place}: {missing}; the values are {_listed(known)}")
    chosen = list(values) or known
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        has = f"{printable(label)} has {count(len(known), 'value')}: {_listed(known)}"
        raise InputError(f"{place}: {has}; choose two with --by {printable(label)}=A,B")
    return chosen


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_SHOWN:,} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(printable(name) for name in names[:_MOST_SHOWN]) + more


def _short(first: str, second: str) -> tuple[str, str]:
    """Return a short name for each path: its last part, or the complete path if both last parts are equal."""
    paths = portable(first), portable(second)
    names = [os.path.basename(os.path.realpath(path)) for path in paths]  # noqa: PTH119
    return (names[0], names[1]) if names[0] != names[1] else paths


@contextlib.contextmanager
def _catalogue(place: str | Catalogue, shown: Callable[[CampaignProgress], None]) -> Iterator[Catalogue]:
    """Yield the catalogue of a campaign, or a temporary one of the sessions below a path."""
    if isinstance(place, Catalogue):
        yield place
        return
    if store_at(place).is_campaign:
        yield Catalogue(place)
        return
    with temporary_folder() as temporary:
        folder = f"{temporary}/campaign"
        if not run([place], folder, shown=shown).done:
            raise InputError(f"{portable(place)}: no session found; name a folder with captures or logs")
        catalogue = Catalogue(folder)
        catalogue.store.name = portable(place)
        yield catalogue


def _rows(catalogue: Catalogue) -> list[Row]:
    rows: list[Row] = query(catalogue, _SESSIONS).to_pylist()
    return rows


def _group(name: str, catalogue: Catalogue, rows: list[Row]) -> SessionGroup:
    sessions = [str(row["session"]) for row in rows]
    failed = failures(catalogue.store)
    if not sessions:
        why = f": {failed[0]}" if failed else ""
        raise InputError(f"{catalogue.store.name}: there is no session that can be compared{why}")
    return SessionGroup(name, catalogue, sessions, frozenset(str(row["version"]) for row in rows), failed)


def _check(first: SessionGroup, second: SessionGroup) -> None:
    """Raise an error if a session is on both sides."""
    if both := sorted(set(first.sessions) & set(second.sessions)):
        raise InputError(
            f"{printable(first.name)} and {printable(second.name)}: both sides contain "
            f"{count(len(both), 'session')} (the first is {both[0]}); each session must be on one "
            "side only"
        )


CELL_M = 200
"""Side length of a place in m. Not measured.

Shadowing by buildings changes within tens of metres, so conditions within a place are similar; two drives of
one route share most places."""
_DEGREE_M = 111_195
"""Length of a degree of latitude in m, on a sphere of 6,371 km."""
_MIN_SHARE = 0.01
"""Minimum share of both sides with (and without) a limit or finding for comparing it. Not measured.

Each further comparison makes the others less significant."""
_BINS = 100
"""Number of bins of a distribution per factor of e: values are exact to 1 %."""

THROUGHPUT = "throughput"
RTT = "RTT"
LOSS = "loss"
GOODPUT = "goodput of transfers"
COMPLETION = "completion time"
"""Both of complete transfers alone: others end with the capture, and do not say how long they would have taken."""
TRANSACTION = "transaction time"
SET_UP = "connection set-up time"
"""Of RRC: set-up or resume."""
FAILED = "failed procedures"
"""Share of the procedures between phone and network that were rejected, failed or not answered."""
WEAK = "weak signal"
POOR = "poor signal quality"
LIMITED, FINDING = "limited by ", "finding "
LEVELS = {"RSRP": "dBm", "RSCP": "dBm", "RSSI": "dBm", "RSRQ": "dB", "SINR": "dB"}
"""Units of radio quantities, whose differences are in dB."""
UNITS = {THROUGHPUT: "bit/s", RTT: "ns", GOODPUT: "bit/s", COMPLETION: "s", TRANSACTION: "s", SET_UP: "s", **LEVELS}
"""Units of means and medians; all other quantities are shares."""
MAIN = (GOODPUT, COMPLETION, THROUGHPUT, TRANSACTION, RTT, "RSRP", "RSCP", "RSSI", WEAK)
"""Quantities for the headline, by priority."""
_MAIN_WEIGHT = 0.96
"""Share of the error probability for the quantity of the headline.

It has most, because users notice it; once it is significant, its share passes to the others (Holm).
docs/compare.md explains the choice."""
_WEIGHTS = {RTT: 0.015, LOSS: 0.015, GOODPUT: 0.002, COMPLETION: 0.002, THROUGHPUT: 0.002, TRANSACTION: 0.001}
_RADIO_WEIGHT = 0.005
"""Of each radio quantity: a sentence of its own, beside the headline."""
_REST = 0.005
"""Share of all limits and findings together, and of the signalling."""
_OF_SIGNALLING = {SET_UP: 0.001, FAILED: 0.001}
"""Of that share, where a side has procedures."""

_PLACE = f"floor(lat_deg * {_DEGREE_M} / {CELL_M})"


def _column(level: str) -> str:
    """Return the column of `seconds` that has a radio quantity."""
    return f"{level}_{LEVELS[level]}".lower()


_SECONDS = f"""
SELECT session,
  coalesce(CAST(({_PLACE} + 1e5) * 1e6 + floor(
    lon_deg * {_DEGREE_M} * cos(radians({_PLACE} * {CELL_M} / {_DEGREE_M})) / {CELL_M}) + 5e5 AS BIGINT), -1)
    AS place,
  CAST(epoch_us(CAST(time_ns AS TIMESTAMP WITH TIME ZONE)) // 3600000000 % 24 AS BIGINT) AS hour,
  count(*) AS seconds,
  count(throughput_bps) AS of_throughput, sum(throughput_bps / speed) AS throughput,
  count(rtt_ns) AS of_rtt, sum(rtt_ns * speed) AS rtt,
  sum(sent) AS of_loss, sum(lost) AS loss,
  {", ".join(f"count({_column(each)}) AS of_{each}, median({_column(each)}) AS {each}" for each in LEVELS)},
  count({WEAK_SIGNAL}) AS of_weak, count(*) FILTER ({WEAK_SIGNAL}) AS weak,
  count({POOR_QUALITY}) AS of_poor, count(*) FILTER ({POOR_QUALITY}) AS poor,
  count(limited_by) AS of_limits,
  {", ".join(f"count(*) FILTER (limited_by = '{each.label}') AS limit_{int(each)}" for each in Limit)}
FROM seconds JOIN (SELECT session, coalesce(speed, 1) AS speed FROM sessions) USING (session)
GROUP BY ALL ORDER BY ALL
"""  # noqa: S608  # our own names
TRANSFERS = "transfers JOIN connections USING (session, host, connection)"
_IS_BULK = "reverse = (bulk_direction = 1)"
IS_COMPLETE: str = f"handshake_seen AND close = {Close.FIN_BOTH_WAYS.value} AND {_IS_BULK}"
"""SQL of whether a row of `TRANSFERS` is complete: captured from handshake to both FINs; of the direction with more
bytes, as the other one may be a request."""
COMPLETION_S = "(epoch_ns(transfers.end_ns) - epoch_ns(transfers.begin_ns)) * speed / 1e9"
_OF_COMPLETE = f"""
SELECT session, avg({{}}) AS value
FROM {TRANSFERS} JOIN (SELECT session, coalesce(speed, 1) AS speed FROM sessions) USING (session)
WHERE {IS_COMPLETE} GROUP BY session ORDER BY session
"""  # noqa: S608  # our own names
_TRANSFER_COUNTS = f"""
SELECT session, count(*) AS transfers, count(*) FILTER ({IS_COMPLETE}) AS complete,
  avg(transfers.unique_bytes) FILTER ({IS_COMPLETE}) AS bytes
FROM {TRANSFERS} WHERE {_IS_BULK} GROUP BY session
"""  # noqa: S608  # our own names
_OF_SESSIONS = {
    GOODPUT: _OF_COMPLETE.format("goodput_bps / speed"),
    COMPLETION: _OF_COMPLETE.format(COMPLETION_S),
    TRANSACTION: "SELECT session, avg(rtt_s) AS value FROM transactions WHERE outcome = 'ok' "
    "AND NOT isnan(rtt_s) GROUP BY session ORDER BY session",
    SET_UP: "SELECT session, avg(duration_ns) / 1e9 AS value FROM procedures WHERE kind IN ('RRC set-up', 'resume') "
    "AND result = 'complete' AND duration_ns IS NOT NULL GROUP BY session ORDER BY session",
    FAILED: "SELECT session, avg(CASE WHEN result IN ('rejected', 'failed', 're-established', 'unanswered') THEN 1.0 "
    "ELSE 0.0 END) AS value FROM procedures WHERE result <> 'cut' GROUP BY session ORDER BY session",
}
_FINDINGS = """
SELECT session, kind FROM (SELECT DISTINCT session FROM transfers WHERE limits_total_s IS NOT NULL)
LEFT JOIN findings USING (session) GROUP BY ALL ORDER BY ALL
"""


class _Part(NamedTuple):
    """The sums of one side, by session, place and hour."""

    session: Numbers
    place: Numbers
    hour: Numbers
    seconds: Array
    sums: dict[str, Sums]


def sums_of(
    groups: tuple[SessionGroup, SessionGroup], further: Mapping[str, str] | None = None
) -> tuple[Sides, list[ComparedQuantity]]:
    """Return the sums of both sides, and the quantities that can be compared.

    Parameters
    ----------
    groups : (SessionGroup, SessionGroup)
    further : mapping of str to str, optional
        Queries of further quantities by name, as for `session_values`; only the sums have them. One whose name a
        quantity of the comparison has is that quantity.

    Raises
    ------
    InputError
        If a part of a campaign is missing or damaged.
    """
    present = [_findings(group) for group in groups]
    kinds = sorted({kind for each in present for held in each.values() for kind in held})
    own = {
        *_WEIGHTS,
        *_OF_SIGNALLING,
        *LEVELS,
        WEAK,
        POOR,
        *(LIMITED + each.label for each in Limit),
        *(FINDING + kind for kind in kinds),
    }
    further = {name: sql for name, sql in (further or {}).items() if name not in own}
    queries = {**_OF_SESSIONS, **further}
    parts = [_part(group, of, kinds, queries) for group, of in zip(groups, present, strict=True)]
    first = len(groups[0].sessions)
    side = np.arange(first + len(groups[1].sessions)) >= first
    session = np.concatenate([parts[0].session, parts[1].session + first])
    place, hour, seconds = (np.concatenate(pair) for pair in zip(*(each[1:4] for each in parts), strict=True))
    sums = {
        name: Sums(*(np.concatenate(pair) for pair in zip(*(each.sums[name] for each in parts), strict=True)))
        for name in parts[0].sums
    }
    made = Sides(side, session, place, hour, seconds, sums)
    return made, quantities_of(made, without=further)


def quantities_of(sides: Sides, *, without: Container[str] = ()) -> list[ComparedQuantity]:
    """Return the quantities to compare: those that users notice, and common limits and findings.

    The first one is that of the headline; radio quantities are compared if neither side has a rate or transfers.

    Parameters
    ----------
    sides : Sides
    without : container of str
        Names of quantities that are not compared.
    """
    sums = {name: each for name, each in sides.sums.items() if name not in without}
    main = _main_of(sides)
    radio = dict.fromkeys((*LEVELS, WEAK, POOR), _RADIO_WEIGHT)
    weights = _WEIGHTS | (radio if main not in (GOODPUT, COMPLETION, THROUGHPUT, TRANSACTION) else {})
    weights = {main: _MAIN_WEIGHT} | {name: weight for name, weight in weights.items() if name != main}
    rest = [
        name
        for name, (weight, total) in sums.items()
        if name not in (*_WEIGHTS, *radio, *_OF_SIGNALLING)
        and _MIN_SHARE <= total.sum() / max(weight.sum(), 1e-12) <= 1 - _MIN_SHARE
    ]
    first = [ComparedQuantity(name, name in _RELATIVE, weight) for name, weight in weights.items() if name in sums]
    known = {name: weight for name, weight in _OF_SIGNALLING.items() if name in sums and sums[name].weight.sum() > 0}
    first += [ComparedQuantity(name, name in _RELATIVE, weight) for name, weight in known.items()]
    left = _REST - sum(known.values())
    return first + [ComparedQuantity(name, relative=False, weight=left / len(rest)) for name in rest]


_RELATIVE = (THROUGHPUT, GOODPUT, COMPLETION, TRANSACTION, RTT, SET_UP)


def _main_of(sides: Sides) -> str:
    """Return the quantity of the headline: the first that half of each side's sessions have, else that any have."""
    everyone = np.bincount(sides.side, minlength=2)
    held = {}
    for name in MAIN:
        if name in sides.sums:
            sessions = np.unique(sides.session[sides.sums[name].weight > 0])
            held[name] = np.bincount(sides.side[sessions], minlength=2)
    half, any_of_each = (
        [name for name, sessions in held.items() if (sessions >= minimum).all()] for minimum in (everyone / 2, 1)
    )
    return next(iter((*half, *any_of_each)), THROUGHPUT)


def _part(group: SessionGroup, present: dict[str, set[str]], kinds: list[str], queries: Mapping[str, str]) -> _Part:
    number = {session: place for place, session in enumerate(group.sessions)}
    rows = _columns(query(group.catalogue, _SECONDS), number)
    without = np.array(sorted(set(number.values()) - set(rows["session"].tolist())), dtype=np.int64)
    rows = {name: np.concatenate([held, _without(name, len(without))]) for name, held in rows.items()}
    rows["session"][len(rows["session"]) - len(without) :] = without
    known = rows["of_limits"]
    sums = {
        name: Sums(rows[f"of_{column}"], rows[column])
        for name, column in ((THROUGHPUT, "throughput"), (RTT, "rtt"), (LOSS, "loss"))
    } | {name: Sums(rows[f"of_{column}"], rows[column]) for name, column in ((WEAK, "weak"), (POOR, "poor"))}
    # a level of a place and hour is its median
    sums |= {name: Sums(rows[f"of_{name}"], rows[f"of_{name}"] * rows[name]) for name in LEVELS}
    sums |= {LIMITED + each.label: Sums(known, rows[f"limit_{int(each)}"]) for each in Limit}
    session, seconds = rows["session"].astype(np.int64), rows["seconds"]
    share = seconds / np.bincount(session, seconds)[session]
    values = {name: _by_number(session_values(group, sql), number) for name, sql in queries.items()}
    for kind in kinds:
        of = {number[each]: float(kind in held) for each, held in present.items() if each in number}
        values[FINDING + kind] = of
    for name, of in values.items():
        value = np.array([of.get(each, np.nan) for each in range(len(number))])[session]
        sums[name] = Sums(share * ~np.isnan(value), share * np.nan_to_num(value))
    return _Part(session, rows["place"].astype(np.int64), rows["hour"].astype(np.int64), seconds, sums)


def _without(name: str, count: int) -> Array:
    """Return the value that a column has for a session without seconds, `count` times, as an array."""
    return np.full(count, {"place": NA, "hour": NA, "seconds": 1}.get(name, 0), dtype=np.float64)


def _columns(table: pa.Table, number: dict[str, int]) -> dict[str, Array]:
    """Return the rows of a side as columns, float64, shape (n_sessions,); a sum that is missing is 0.

    `number` is the index of each session.
    """
    session = np.array([number.get(each, NA) for each in table["session"].to_pylist()], dtype=np.float64)
    kept = session != NA
    columns = {"session": session[kept]}
    for name in table.column_names[1:]:
        held = table[name].cast("float64").fill_null(0).to_numpy()
        columns[name] = np.asarray(held, dtype=np.float64)[kept]
    return columns


def session_values(group: SessionGroup, sql: str) -> dict[str, float]:
    """Return a value for each session of a side that has one.

    Parameters
    ----------
    group : SessionGroup
    sql : str
        Query with the columns `session` and `value`; a null is no value.
    """
    table, chosen = query(group.catalogue, sql), set(group.sessions)
    pairs = zip(table["session"].to_pylist(), table["value"].to_pylist(), strict=True)
    return {session: float(value) for session, value in pairs if session in chosen and value is not None}


def _by_number(values: dict[str, float], number: dict[str, int]) -> dict[int, float]:
    return {number[session]: value for session, value in values.items()}


def _findings(group: SessionGroup) -> dict[str, set[str]]:
    """Return, by session, the kinds of its findings.

    Only sessions with an explained transfer are included.
    """
    held: dict[str, set[str]] = {}
    for row in query(group.catalogue, _FINDINGS).to_pylist():
        kinds = held.setdefault(row["session"], set())
        if row["kind"] is not None:
            kinds.add(row["kind"])
    chosen = set(group.sessions)
    return {session: kinds for session, kinds in held.items() if session in chosen}


class TransferCounts(NamedTuple):
    """The transfers of a side, and how many of them are complete."""

    transfers: int
    complete: int
    bytes: float
    """Mean size of the complete ones, of each session the mean; NaN without any."""


def transfer_counts(group: SessionGroup) -> TransferCounts:
    """Return the number of transfers of a side."""
    chosen = set(group.sessions)
    rows = [row for row in query(group.catalogue, _TRANSFER_COUNTS).to_pylist() if row["session"] in chosen]
    sizes = [float(row["bytes"]) for row in rows if row["bytes"] is not None]
    transfers, complete = (sum(int(row[name]) for row in rows) for name in ("transfers", "complete"))
    return TransferCounts(transfers, complete, float(np.mean(sizes)) if sizes else float("nan"))


# --- distributions ---


class Distribution(NamedTuple):
    """Cumulative distribution over time; each session has the same weight.

    Attributes
    ----------
    values, shares : ndarray of float64, shape (n_steps,)
        Both ascending; the last share is 1.
    """

    values: Array
    shares: Array


def distribution(group: SessionGroup, column: str) -> Distribution | None:
    """Return the distribution of `throughput_bps` or `rtt_ns` over the seconds of a side; None without any.

    Parameters
    ----------
    group : SessionGroup
    column : str
        Column of the table `seconds`.
    """
    sql = (
        f"SELECT session, CASE WHEN {column} > 0 THEN floor(ln({column}) * {_BINS}) END AS bin, "  # noqa: S608
        f"count(*) AS seconds FROM seconds WHERE {column} IS NOT NULL GROUP BY ALL ORDER BY ALL"
    )
    table = query(group.catalogue, sql)
    number = {session: place for place, session in enumerate(group.sessions)}
    session = np.array([number.get(each, NA) for each in table["session"].to_pylist()], dtype=np.int64)
    kept = session != NA
    if not kept.any():
        return None
    middle = np.exp((table["bin"].cast("float64").to_numpy(zero_copy_only=False)[kept] + 0.5) / _BINS)
    seconds = table["seconds"].cast("float64").to_numpy()[kept]
    weight = seconds / np.bincount(session[kept], seconds)[session[kept]]
    values, place = np.unique(np.nan_to_num(middle), return_inverse=True)
    shares = np.cumsum(np.bincount(place, weight))
    return Distribution(values, shares / shares[-1])
