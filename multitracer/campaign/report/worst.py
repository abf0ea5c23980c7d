"""The worst stretches of a campaign: bad seconds that follow each other, by the time that they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.analysis.mobility.stretches import LEAST_S
from multitracer.campaign.query import literal
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.campaign.report.judged import Engine
    from multitracer.tables import Row

MOST = 100
"""Stretches that a report lists, as the session's own report does."""
BRIDGE_S = 2
"""Up to this many seconds that are not bad do not end a stretch, as in the session's own report."""
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
    """Return the worst stretches, the one that cost most first; those judged by the radio alone come last.

    Returns
    -------
    list of dict
        `session`, `name`, `path`, `begin_ns` and `end_ns` (ns since 1970), `lost_s` (against the typical
        rate; None by the radio alone), `throughput_bps` (mean), `limited_by`, `cell` (a dict), and the
        medians `level_dbm`, `lat_deg` and `lon_deg`.
    """
    rows = engine.rows(
        _STRETCHES.format(
            judged=engine.judged,
            apart_ns=(BRIDGE_S + 1) * NS_PER_S,
            second_ns=NS_PER_S,
            least=LEAST_S,
            most=MOST,
        )
    )
    if not rows:
        return []
    values = ", ".join(f"({literal(row['session'])}, {row['begin_ns']}, {row['end_ns']})" for row in rows)
    sessions = ", ".join(sorted({literal(row["session"]) for row in rows}))
    facts = engine.rows(_FACTS.format(values=values, sessions=sessions, judged=engine.judged))
    by_place = {(row["session"], row["begin_ns"]): row for row in facts}
    return [{**by_place[row["session"], row["begin_ns"]], **row} for row in rows]
