"""How good a campaign is: its size, distributions, how much of its time was bad, and its days."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from multitracer.diagnosis.limits.names import Limit
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.campaign.report.judged import Engine
    from multitracer.tables import Row

PERCENTS = range(101)
"""Points of a distribution: each percent of the seconds."""
_SHARES = f"[{', '.join(str(percent / 100) for percent in PERCENTS)}]"
_DAY_NS = 86_400 * NS_PER_S  # of UTC
MOST_DAYS = 1_000
"""Days of the trend: the last three years. Not measured."""

MOST_FAILURES = 20
"""Sentences of inputs that could not be read: a screen of them. Not measured."""


@dataclass(frozen=True)
class Quality:
    """A campaign in numbers; None is not known.

    Attributes
    ----------
    sessions, failures : int
        Failures are inputs that could not be read.
    first, last : int or None
        Begins of the first and the last session, ns since 1970.
    speeds : int
        Sessions whose link ran faster or slower than real time.
    seconds, judged, bad, by_rate : int
        All of them, those that can be judged, the bad ones, and those that are judged by their rate.
    sent, lost : int or None
        Segments of the explained transfers.
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
        """Bad seconds among those that can be judged."""
        return self.bad / self.judged if self.judged else None


def quality(engine: Engine) -> Quality:
    """Return a campaign in numbers."""
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
    """Return the distribution of a column of `seconds`."""
    row = engine.row(f"SELECT quantile_cont({column}, {_SHARES}) AS spread FROM seconds")
    return row["spread"] or ()


def days(engine: Engine) -> list[Row]:
    """Return the last days of UTC with their seconds, bad and judged ones, and medians, in order.

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
    """Return why inputs could not be read, a sentence each, of the first ones by path."""
    rows = engine.rows(f"SELECT sentence FROM failures ORDER BY path LIMIT {MOST_FAILURES}")
    return [str(row["sentence"]) for row in rows]


class Reason(NamedTuple):
    """Why seconds were bad: a limit, or the radio alone."""

    name: str
    seconds: int


RADIO = "radio"
"""The reason of a second that is bad by its radio alone."""


def reasons(engine: Engine) -> list[Reason]:
    """Return what limited the bad seconds, the most frequent first."""
    rows = engine.rows(
        f"SELECT CASE WHEN by_rate THEN coalesce(limited_by, '{Limit.UNKNOWN.label}') ELSE '{RADIO}' END "
        "AS name, count(*) AS seconds "
        f"FROM {engine.judged} WHERE bad GROUP BY name ORDER BY seconds DESC, name"
    )
    return [Reason(**row) for row in rows]
