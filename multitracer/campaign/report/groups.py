"""Which cells, hours, devices and labels of a campaign are bad: its seconds by what they have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from multitracer.campaign.query import literal
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.campaign.report.judged import Engine
    from multitracer.tables import Row

MOST = 200
"""Rows of a table, those with most bad seconds: `campaign query` gives the others."""
_MOST_LABELS = 8
"""Names of labels that get a table: more is no page any longer. Not measured."""
_MOST_VALUES = 100
"""Of a label that is one to compare by: a number of a run has a value in each session. Not measured."""
_CELL = "rat, plmn, cell_id, physical_cell_id, channel"
_NUMBERS = (
    "count(*) AS seconds, count(bad) AS judged, count(*) FILTER (bad) AS bad, "
    "count(DISTINCT session) AS sessions, "
    "median(throughput_bps) AS throughput_bps, median(rtt_ns) AS rtt_ns, "
    "CASE WHEN sum(sent) > 0 THEN sum(lost) / sum(sent) END AS loss"
)
"""Of a group of seconds; None is not known."""


class Grouped(NamedTuple):
    """The groups of one kind."""

    title: str
    rows: list[Row]
    """With `name`, `seconds`, `judged`, `bad`, `sessions`, `throughput_bps`, `rtt_ns` and `loss`."""


def cells(engine: Engine) -> list[Row]:
    """Return the serving cells, those with most bad seconds first, with their identity and `level_dbm`."""
    return engine.rows(
        f"SELECT {_CELL}, {_NUMBERS}, median(coalesce(rsrp_dbm, rscp_dbm, rssi_dbm)) AS level_dbm "
        f"FROM {engine.judged} WHERE coalesce(cell_id, physical_cell_id, channel) IS NOT NULL "
        f"GROUP BY {_CELL} ORDER BY bad DESC, seconds DESC, {_CELL} LIMIT {MOST}"
    )


def hours(engine: Engine) -> list[Row]:
    """Return the hours of the day that hold seconds, in UTC and in order; `name` is 0 to 23."""
    return engine.rows(
        f"SELECT epoch_ns(time_ns) // {3600 * NS_PER_S} % 24 AS name, {_NUMBERS} "
        f"FROM {engine.judged} GROUP BY name ORDER BY name"
    )


def devices(engine: Engine) -> list[Grouped]:
    """Return the seconds by technology, by hosts, and by each label that several sessions share."""
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
        f"GROUP BY {name} ORDER BY bad DESC, seconds DESC, name LIMIT {MOST}"
    )


def _labels(engine: Engine) -> list[str]:
    """Return the labels that have several values, but not one for each session."""
    rows = engine.rows(
        "SELECT entry.key AS label FROM (SELECT unnest(map_entries(labels)) AS entry FROM sessions) "
        f"GROUP BY label HAVING count(DISTINCT entry.value) BETWEEN 2 AND {_MOST_VALUES} "
        f"AND count(*) > count(DISTINCT entry.value) ORDER BY count(*) DESC, label LIMIT {_MOST_LABELS}"
    )
    return [str(row["label"]) for row in rows]
