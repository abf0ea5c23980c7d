"""Why it was slow: the limits and the findings of a campaign, ranked by the time that they cost its users."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from multitracer.campaign.schemas import LIMIT_COLUMNS

if TYPE_CHECKING:
    from multitracer.campaign.report.judged import Engine
    from multitracer.diagnosis.limits.names import Limit
    from multitracer.tables import Row


class Cost(NamedTuple):
    """The time of a limit, of all explained transfers."""

    limit: Limit
    seconds: float
    """In link time."""
    share: float
    """Of the time of all limits."""
    sessions: int
    """With a transfer that it limited longest."""


def limits(engine: Engine) -> list[Cost]:
    """Return the limits that took time, the longest first."""
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
    """Return the kinds of findings, the one that cost most first.

    Returns
    -------
    list of dict
        `kind`, `rows`, `sessions`, `cost_s` (None if none is known), and `worst`: of the one that cost most
        its `sentence`, `name` and number of the `session`.
    """
    return engine.rows(
        "SELECT kind, count(*) AS rows, count(DISTINCT f.session) AS sessions, sum(cost_s) AS cost_s, "
        "arg_max({'sentence': sentence, 'session': f.session, 'name': s.name}, coalesce(cost_s, -1)) "
        "AS worst "
        "FROM findings f LEFT JOIN sessions s ON s.session = f.session "
        "GROUP BY kind ORDER BY cost_s DESC NULLS LAST, rows DESC, kind"
    )
