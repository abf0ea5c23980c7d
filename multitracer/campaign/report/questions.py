"""The bad seconds of a campaign, and queries about them by DuckDB.

The rule is that of a drive (`multitracer.analysis.mobility.stretches`), with one difference: the typical rate
is the upper quartile of the complete campaign, so that a drive that was bad all the time counts as bad.

The queries return:

- the quality of a campaign: its size, distributions, share of bad time, and days,
- the causes: limits and findings by the time that they cost the users,
- the bad cells, hours, devices and labels,
- the worst segments of the routes: consecutive bad seconds, by the time that they cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import duckdb
import pyarrow as pa

from multitracer.analysis.mobility.causes import POOR_RSRQ_DB, POOR_SINR_DB, WEAK_RSCP_DBM, WEAK_RSRP_DBM, WEAK_RSSI_DBM
from multitracer.analysis.mobility.stretches import GOOD_BPS, MIN_S, OUTAGE_SHARE, POOR_SHARE
from multitracer.campaign.query import answer, connection, literal
from multitracer.campaign.schemas import LIMIT_COLUMNS
from multitracer.diagnosis.limits.names import Limit
from multitracer.errors import InputError
from multitracer.units import NS_PER_S
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.campaign.catalogue import Catalogue
    from multitracer.tables import Row

_MEMORY = "2GB"
"""Memory limit of the engine: medians of 10^7 seconds by a label, twice, take slightly more than 1 GB."""
_WANTED = (
    "coalesce(wanted, limited_by IS NOT NULL "
    "AND NOT (limited_by = 'application' AND coalesce(part, '') IN ('own', 'peer')))"
)
"""SQL condition for seconds in which the user waited for data.

The transfer did not wait for the phone's program or its next request, or the test program was loading."""
_OUT = "coalesce(limited_by = 'outage' OR (limited_by = 'recovery' AND coalesce(part, '') = 'timer'), false)"
WEAK_SIGNAL = f"coalesce(rsrp_dbm < {WEAK_RSRP_DBM}, rscp_dbm < {WEAK_RSCP_DBM}, rssi_dbm < {WEAK_RSSI_DBM})"
POOR_QUALITY = f"coalesce(sinr_db < {POOR_SINR_DB}, rsrq_db < {POOR_RSRQ_DB})"
"""SQL of whether a second's level, and its quality, are below the thresholds of docs/mobility.md; NULL if not known."""
_TYPICAL = (
    "SELECT quantile_cont(throughput_bps, 0.75) FILTER (wanted) AS typical_bps, "
    "quantile_cont(throughput_bps, 0.75) FILTER (NOT wanted) AS usual_bps "
    f"FROM (SELECT throughput_bps, {_WANTED} AS wanted FROM seconds WHERE throughput_bps IS NOT NULL)"
)
_JUDGED = """(
    SELECT *,
        CASE WHEN by_rate THEN throughput_bps < (CASE WHEN {out} THEN {out_bps} ELSE {poor_bps} END)
             WHEN radio IS NOT NULL THEN radio AND NOT coalesce(throughput_bps >= {good_bps}, false)
        END AS bad,
        CASE WHEN by_rate AND {typical_bps} > 0 THEN greatest(0.0, 1 - throughput_bps / {typical_bps})
        END AS lost_s
    FROM (
        SELECT *,
            ({wanted}) AND throughput_bps IS NOT NULL AS by_rate,
            CASE WHEN coalesce({weak}, {poor}) IS NOT NULL
                 THEN coalesce({weak}, false) OR coalesce({poor}, false) END AS radio
        FROM seconds
    )
)"""


class RateBounds(NamedTuple):
    """Rates for the classification of the seconds of a campaign, bit/s; 0 if they are unknown."""

    typical_bps: float
    """Upper quartile of the rates of the seconds in which data were wanted, bit/s."""
    good_bps: float
    """Rate above which a second is good for any radio values, if it is unknown whether data were wanted."""

    @property
    def poor_bps(self) -> float:
        """Rate below which a second is bad if data were wanted."""
        return POOR_SHARE * self.typical_bps


class Engine:
    """The tables of a catalogue, ready for queries; use as a context manager.

    Parameters
    ----------
    catalogue : Catalogue

    Attributes
    ----------
    bounds : RateBounds
    judged : str
        SQL source for FROM: `seconds` with `by_rate` (classified by its rate), `bad` (NULL if unknown) and
        `lost_s` (the part of the second that a typical rate would have saved; NULL if classified by the
        radio).

    Raises
    ------
    InputError
        If a part is missing or is not a Parquet file, or there is not enough memory.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._connection = connection(catalogue, memory=_MEMORY)
        at = self.row(_TYPICAL)
        self.bounds = RateBounds(at["typical_bps"] or 0.0, max(OUTAGE_SHARE * (at["usual_bps"] or 0.0), GOOD_BPS))
        self.judged = _judged(self.bounds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def table(self, sql: str) -> pa.Table:
        """Return the result of a query as a table."""
        try:
            return answer(self._connection, sql)
        except (duckdb.Error, OSError, pa.ArrowInvalid) as error:
            raise InputError(
                f"report: cannot write the campaign report: {printable(' '.join(str(error).split()))}"
            ) from error

    def rows(self, sql: str) -> list[Row]:
        """Return the result of a query as a list with a dict for each row."""
        rows: list[Row] = self.table(sql).to_pylist()
        return rows

    def row(self, sql: str) -> Row:
        """Return the only row of a query's result as a dict."""
        return self.rows(sql)[0]


def _judged(bounds: RateBounds) -> str:
    return _JUDGED.format(
        out=_OUT, wanted=_WANTED, weak=WEAK_SIGNAL, poor=POOR_QUALITY, poor_bps=repr(bounds.poor_bps),
        out_bps=repr(OUTAGE_SHARE * bounds.typical_bps), good_bps=repr(bounds.good_bps),
        typical_bps=repr(bounds.typical_bps),
    )  # fmt: skip


class Cost(NamedTuple):
    """The time that one limit took in all explained transfers."""

    limit: Limit
    seconds: float
    """Total duration in link time."""
    share: float
    """Share of the time of all limits, 0 to 1."""
    sessions: int
    """Number of sessions with a transfer for which this was the longest limit."""


def limits(engine: Engine) -> list[Cost]:
    """Return the limits by descending time; limits that took no time are left out."""
    sums = ", ".join(f"coalesce(sum({name}), 0) AS {name}" for name in LIMIT_COLUMNS.values())
    seconds = engine.row(f"SELECT {sums} FROM transfers")
    sessions = {
        row["limited_by"]: row["sessions"]
        for row in engine.rows(
            "SELECT limited_by, count(DISTINCT session) AS sessions FROM transfers GROUP BY limited_by"
        )
    }
    total = sum(seconds.values())
    costs = [
        Cost(limit, seconds[name], seconds[name] / total, sessions.get(limit.label, 0))
        for limit, name in LIMIT_COLUMNS.items()
        if seconds[name] > 0
    ]
    return sorted(costs, key=lambda each: -each.seconds)


def findings(engine: Engine) -> list[Row]:
    """Return the kinds of findings, by descending cost.

    Returns
    -------
    list of dict
        `kind`, `rows`, `sessions`, `cost_s` (None if unknown), and `worst`: the `sentence` and `name` of the
        finding with the highest cost, and the number of its `session`.
    """
    return engine.rows(
        "SELECT kind, count(*) AS rows, count(DISTINCT f.session) AS sessions, sum(cost_s) AS cost_s, "
        "arg_max({'sentence': sentence, 'session': f.session, 'name': s.name}, coalesce(cost_s, -1)) "
        "AS worst "
        "FROM findings f LEFT JOIN sessions s ON s.session = f.session "
        "GROUP BY kind ORDER BY cost_s DESC NULLS LAST, rows DESC, kind"
    )


MOST_GROUPS = 200
"""Maximum rows of a table, those with most bad seconds: `campaign query` returns the others."""
_MOST_LABELS = 8
"""Maximum number of labels with their own table. Not measured."""
_MOST_VALUES = 100
"""Maximum number of values of a label for a comparison. Not measured.

A label such as a run number has a different value in each session."""
_CELL = "rat, plmn, cell_id, physical_cell_id, channel"
_NUMBERS = (
    "count(*) AS seconds, count(bad) AS judged, count(*) FILTER (bad) AS bad, "
    "count(DISTINCT session) AS sessions, "
    "median(throughput_bps) AS throughput_bps, median(rtt_ns) AS rtt_ns, "
    "CASE WHEN sum(sent) > 0 THEN sum(lost) / sum(sent) END AS loss"
)
"""Columns of a group of seconds in SQL; None if unknown."""


class Grouped(NamedTuple):
    """The groups of seconds by one criterion, such as the technology or a label."""

    title: str
    rows: list[Row]
    """Rows with `name`, `seconds`, `judged`, `bad`, `sessions`, `throughput_bps`, `rtt_ns` and `loss`."""


def cells(engine: Engine) -> list[Row]:
    """Return the serving cells by descending number of bad seconds: identity, counts and `level_dbm`."""
    return engine.rows(
        f"SELECT {_CELL}, {_NUMBERS}, median(coalesce(rsrp_dbm, rscp_dbm, rssi_dbm)) AS level_dbm "
        f"FROM {engine.judged} WHERE coalesce(cell_id, physical_cell_id, channel) IS NOT NULL "
        f"GROUP BY {_CELL} ORDER BY bad DESC, seconds DESC, {_CELL} LIMIT {MOST_GROUPS}"
    )


def hours(engine: Engine) -> list[Row]:
    """Return the hours of the day that have seconds, in order; `name` is the hour in UTC, 0 to 23."""
    return engine.rows(
        f"SELECT epoch_ns(time_ns) // {3600 * NS_PER_S} % 24 AS name, {_NUMBERS} "
        f"FROM {engine.judged} GROUP BY name ORDER BY name"
    )


def devices(engine: Engine) -> list[Grouped]:
    """Return the seconds grouped by technology, by host, and by each label that several sessions share."""
    groups = [
        Grouped("Technology", _by(engine, "rat", "FROM {judged}")),
        Grouped("Hosts", _by(engine, "hosts", "FROM {judged} JOIN sessions USING (session)")),
    ]
    for label in _labels(engine):
        own = f"(SELECT session, labels[{literal(label)}] AS value FROM sessions)"
        groups.append(Grouped(label, _by(engine, "value", f"FROM {{judged}} JOIN {own} USING (session)")))
    return [each for each in groups if len(each.rows) > 1]


def _by(engine: Engine, name: str, source: str) -> list[Row]:
    return engine.rows(
        f"SELECT {name} AS name, {_NUMBERS} {source.format(judged=engine.judged)} WHERE {name} IS NOT NULL "
        f"GROUP BY {name} ORDER BY bad DESC, seconds DESC, name LIMIT {MOST_GROUPS}"
    )


def _labels(engine: Engine) -> list[str]:
    """Return the labels with several values, except those whose value differs in every session."""
    rows = engine.rows(
        "SELECT entry.key AS label FROM (SELECT unnest(map_entries(labels)) AS entry FROM sessions) "
        f"GROUP BY label HAVING count(DISTINCT entry.value) BETWEEN 2 AND {_MOST_VALUES} "
        f"AND count(*) > count(DISTINCT entry.value) ORDER BY count(*) DESC, label LIMIT {_MOST_LABELS}"
    )
    return [str(row["label"]) for row in rows]


PERCENTS = range(101)
"""Points of a distribution: each percent of the seconds."""
_SHARES = f"[{', '.join(str(percent / 100) for percent in PERCENTS)}]"
_DAY_NS = 86_400 * NS_PER_S  # of UTC
MOST_DAYS = 1_000
"""Maximum number of days in the trend: the last three years. Not measured."""

MOST_FAILURES = 20
"""Maximum number of inputs that could not be read and are listed: a screen of them. Not measured."""


@dataclass(frozen=True)
class Quality:
    """A campaign in numbers; None means not known.

    Attributes
    ----------
    sessions, failures : int
        Number of sessions, and of inputs that could not be read.
    first, last : int or None
        Start times of the first and last session, ns since 1970.
    speeds : int
        Number of sessions whose link ran faster or slower than real time.
    seconds, judged, bad, by_rate : int
        Number of all seconds, of classified ones, of bad ones, and of those classified by their rate.
    sent, lost : int or None
        Number of segments of the explained transfers that were sent, and that were lost.
    throughput_bps, rtt_ns : sequence of float
        At PERCENTS, linear between two seconds; empty if no second has a value.
    """

    sessions: int
    failures: int
    first: int | None
    last: int | None
    speeds: int
    seconds: int
    judged: int
    bad: int
    by_rate: int
    sent: int | None
    lost: int | None
    throughput_bps: Sequence[float]
    rtt_ns: Sequence[float]

    @property
    def bad_share(self) -> float | None:
        """Share of bad seconds among the classified ones, 0 to 1; None without any."""
        return self.bad / self.judged if self.judged else None


def quality(engine: Engine) -> Quality:
    """Return the numbers that describe a campaign."""
    sessions = engine.row(
        "SELECT count(*) AS sessions, epoch_ns(min(begin_ns)) AS first, "
        "epoch_ns(max(begin_ns)) AS last, count(*) FILTER (speed <> 1) AS speeds, "
        "(SELECT count(*) FROM failures) AS failures FROM sessions"
    )
    seconds = engine.row(
        "SELECT count(*) AS seconds, count(bad) AS judged, count(*) FILTER (bad) AS bad, "
        "count(*) FILTER (by_rate) AS by_rate, "
        f"sum(sent)::BIGINT AS sent, sum(lost)::BIGINT AS lost FROM {engine.judged}"
    )
    spread = {name: _spread(engine, name) for name in ("throughput_bps", "rtt_ns")}
    return Quality(**{**sessions, **seconds, **spread})


def _spread(engine: Engine, column: str) -> Sequence[float]:
    """Return the quantiles PERCENTS of a column of `seconds`; empty if no second has a value."""
    row = engine.row(f"SELECT quantile_cont({column}, {_SHARES}) AS spread FROM seconds")
    return row["spread"] or ()


def days(engine: Engine) -> list[Row]:
    """Return the last days (UTC) in order: numbers of all, classified and bad seconds, and medians.

    `day` is the number of the day since 1970.
    """
    rows = engine.rows(
        f"SELECT epoch_ns(time_ns) // {_DAY_NS} AS day, count(DISTINCT session) AS sessions, "
        "count(*) AS seconds, count(bad) AS judged, count(*) FILTER (bad) AS bad, "
        "median(throughput_bps) AS throughput_bps, median(rtt_ns) AS rtt_ns "
        f"FROM {engine.judged} GROUP BY day ORDER BY day DESC LIMIT {MOST_DAYS}"
    )
    return rows[::-1]


def failures(engine: Engine) -> list[str]:
    """Return a sentence for each of the first inputs, by path, that could not be read."""
    rows = engine.rows(f"SELECT sentence FROM failures ORDER BY path LIMIT {MOST_FAILURES}")
    return [str(row["sentence"]) for row in rows]


class BadSecondReason(NamedTuple):
    """A cause of bad seconds: a limit, or the radio alone."""

    name: str
    seconds: int


RADIO = "radio"
"""Cause of a second that is bad only by its radio values."""


def reasons(engine: Engine) -> list[BadSecondReason]:
    """Return the causes of bad seconds, the most frequent first."""
    rows = engine.rows(
        f"SELECT CASE WHEN by_rate THEN coalesce(limited_by, '{Limit.UNKNOWN.label}') ELSE '{RADIO}' END "
        "AS name, count(*) AS seconds "
        f"FROM {engine.judged} WHERE bad GROUP BY name ORDER BY seconds DESC, name"
    )
    return [BadSecondReason(**row) for row in rows]


MOST_STRETCHES = 100
"""Maximum number of route segments that a report lists, as in a session's own report."""
BRIDGE_S = 2
"""Maximum number of consecutive other seconds within a bad route segment, as in a session's own report."""
_STRETCHES = """
WITH bad AS (
    SELECT session, epoch_ns(time_ns) AS t_ns, lost_s FROM {judged} WHERE bad
), numbered AS (
    SELECT *, sum(opens) OVER (PARTITION BY session ORDER BY t_ns) AS number FROM (
        SELECT *,
            (t_ns - lag(t_ns, 1, 0) OVER (PARTITION BY session ORDER BY t_ns) > {apart_ns})::INTEGER AS opens
        FROM bad
    )
)
SELECT session, min(t_ns) AS begin_ns, max(t_ns) + {second_ns} AS end_ns, sum(lost_s) AS lost_s
FROM numbered GROUP BY session, number HAVING count(*) >= {least}
ORDER BY coalesce(sum(lost_s), 0) DESC, end_ns - begin_ns DESC, session, begin_ns LIMIT {most}
"""
_FACTS = """
SELECT w.session, w.begin_ns, s.name, s.path, mode(j.limited_by) FILTER (j.bad AND j.by_rate) AS limited_by,
    avg(j.throughput_bps) AS throughput_bps,
    median(coalesce(j.rsrp_dbm, j.rscp_dbm, j.rssi_dbm)) AS level_dbm,
    median(j.lat_deg) AS lat_deg, median(j.lon_deg) AS lon_deg,
    mode({{'rat': j.rat, 'plmn': j.plmn, 'cell_id': j.cell_id, 'physical_cell_id': j.physical_cell_id,
           'channel': j.channel}}) AS cell
FROM {judged} j
JOIN (VALUES {values}) AS w(session, begin_ns, end_ns)
    ON j.session = w.session AND epoch_ns(j.time_ns) >= w.begin_ns AND epoch_ns(j.time_ns) < w.end_ns
LEFT JOIN sessions s ON s.session = w.session
WHERE j.session IN ({sessions}) GROUP BY ALL
"""


def stretches(engine: Engine) -> list[Row]:
    """Return the worst segments of the routes by descending cost; those bad only by their radio come last.

    Returns
    -------
    list of dict
        `session`, `name`, `path`, `begin_ns` and `end_ns` (ns since 1970), `lost_s` (compared with
        the typical rate; None if bad only by the radio), `throughput_bps` (mean), `limited_by`, `cell` (a dict), and
        the medians `level_dbm`, `lat_deg` and `lon_deg`.
    """
    rows = engine.rows(
        _STRETCHES.format(
            judged=engine.judged,
            apart_ns=(BRIDGE_S + 1) * NS_PER_S,
            second_ns=NS_PER_S,
            least=MIN_S,
            most=MOST_STRETCHES,
        )
    )
    if not rows:
        return []
    values = ", ".join(f"({literal(row['session'])}, {row['begin_ns']}, {row['end_ns']})" for row in rows)
    sessions = ", ".join(sorted({literal(row["session"]) for row in rows}))
    facts = engine.rows(_FACTS.format(values=values, sessions=sessions, judged=engine.judged))
    by_place = {(row["session"], row["begin_ns"]): row for row in facts}
    return [{**by_place[row["session"], row["begin_ns"]], **row} for row in rows]
