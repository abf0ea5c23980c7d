"""Request / reply / good-bye transactions: what one transport took for each size (paper 000, section IV).

An *arm* is what is set beside another: transactions that differ in nothing but the size of one message. A
dropped transaction is not averaged away: it counts as one that took longer than any, in medians and
quantiles (inf), and is counted beside them. Only means are of the finished ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from multitracer.analysis.transactions.bootstrap import median, median_interval, quantile
from multitracer.tables import Column, Schema, Table
from multitracer.transactions import TRANSACTIONS
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from multitracer.tables import Array, Row

PROTOCOLS = {"tcp": "TCP", "centauruscomm": "CentaurusComm", "wtcp": "WTCP"}
"""How a protocol is written for people."""
SEED = 20_001_113
"""Of the bootstrap: the same table gives the same intervals, whatever else is analysed beside it."""
_MOST_ARMS = 64  # bounds the time and the page. Not measured
_KEYS = ("protocol", "vary", "connection", "labels")


def _seconds(*rows: tuple[str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "float64", doc, "s") for name, doc in rows)


SIZES = Schema(
    "transaction_sizes",
    (
        Column("size_bytes", "int64", "of the message that is varied", "bytes"),
        Column("count", "int64", "transactions that were done"),
        Column("dropped", "int64", "of them without a reply in time, or without a connection"),
        *_seconds(
            ("median_s", "RTT; a dropped transaction counts as longer than any: inf if they are half"),
            ("median_low_s", "95 % interval of the median, percentile bootstrap"),
            ("median_high_s", "95 % interval of the median; inf if too many were dropped for a bound"),
            ("p5_s", "RTT that 5 % do not exceed"),
            ("p95_s", "RTT that 95 % do not exceed; inf if more than 5 % were dropped"),
            ("mean_s", "RTT of the finished ones alone"),
            ("least_s", "RTT of the finished ones"),
            ("most_s", "RTT of the finished ones"),
            ("with_setup_s", "median of RTT with the set-up of a TCP connection; NA where none is known"),
        ),
        Column("efficiency", "float64", "mean; bytes at the receivers where known, else at the senders"),
        Column("retransmitted", "float64", "mean number of segments sent again, both ways"),
        Column("why", "U256", "where they were dropped, and how many there"),
    ),
)
"""One row is one size of an arm."""


class Setup(NamedTuple):
    """What setting up a TCP connection takes where the transactions themselves had none."""

    seconds: float
    samples: int
    source: str
    """Name of the arm in which it was measured."""


class Line(NamedTuple):
    """RTT = fixed_s + size x per_byte_s."""

    fixed_s: float
    per_byte_s: float

    def at(self, size_bytes: _Sizes) -> _Sizes:
        """Return the line's RTT, s."""
        return self.fixed_s + self.per_byte_s * size_bytes


_Sizes = TypeVar("_Sizes", float, "Array")


@dataclass(frozen=True, slots=True)
class Source:
    """What one session holds.

    Parameters
    ----------
    name : str
        Of the session.
    table : Table
        TRANSACTIONS.
    facts : mapping of str to str
        What else is known of the session (link, TCP profile, ...); tells arms apart.
    speed : float
        Link seconds in a recorded one: durations in the table are the link's already, `start_ns` is not.
    """

    name: str
    table: Table
    facts: Mapping[str, str] = field(default_factory=dict)
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Arm:
    """Transactions that differ only in the size of one message; see `arms_of`."""

    name: str
    source: Source
    table: Table
    setup: Setup | None = None
    """Of TCP on one connection, where it was measured."""

    @property
    def protocol(self) -> str:
        """Which transport: tcp or centauruscomm."""
        return str(self.table["protocol"][0])

    @property
    def vary(self) -> str:
        """Which message is varied: request or reply."""
        return str(self.table["vary"][0])

    @property
    def other_bytes(self) -> int:
        """Length of the message that is not varied."""
        return int(_other(self.table)[0])

    @property
    def sets_up_each(self) -> bool:
        """Whether each transaction set up a connection of its own."""
        return bool(np.all(self.table["connection"] == "per-session"))

    @property
    def sizes(self) -> list[int]:
        """Sizes of the varied message, smallest first."""
        return sorted(set(self.table["size_bytes"].tolist()))

    def at(self, size_bytes: int) -> Table:
        """Return the transactions of one size, in the order in which they began."""
        rows = np.flatnonzero(self.table["size_bytes"] == size_bytes)
        return self.table.take(rows[np.argsort(self.table["start_ns"][rows], kind="stable")])

    def rtt_s(self, table: Table) -> Array:
        """Return the RTT of each row of `table`: float64, s, shape (n,); infinite for a dropped one."""
        return np.where(dropped(table), np.inf, table["rtt_s"])

    def begin_s(self, table: Table) -> Array:
        """Return when each row of `table` began, in link time since the first: float64, s, shape (n,)."""
        starts = table["start_ns"]
        began: Array = (starts - starts.min(initial=starts[0])) / NS_PER_S * self.source.speed
        return began

    def with_setup_s(self, table: Table) -> Array | None:
        """Return the sum of RTT and connection set-up where both are known; None if no transaction has both.

        On one connection for all, the median set-up of such connections elsewhere is added, as the paper
        does. Float64, s, shape (n_known,), in the order of `table`; infinite for a dropped transaction.
        """
        if self.protocol != "tcp":
            return None
        if not self.sets_up_each:
            return None if self.setup is None else self.rtt_s(table) + self.setup.seconds
        known = dropped(table) | ~np.isnan(table["connect_s"])
        both = self.rtt_s(table)[known] + np.nan_to_num(table["connect_s"][known])
        return both if len(both) else None


def dropped(table: Table) -> Array:
    """Return which transactions failed, or have no RTT.

    Returns
    -------
    ndarray of bool, shape (n_transactions,)
    """
    failed: Array = (table["outcome"] != "ok") | np.isnan(table["rtt_s"])
    return failed


def efficiency(table: Table) -> Array:
    """Return the efficiency of each (paper 000): NaN for a dropped one.

    Bytes at the receivers where they are known; else, as from a sender's trace, bytes of both messages over
    those that the senders' transports sent (`efficiency_sent`, which cannot see what was lost on the way).

    Returns
    -------
    ndarray of float64, shape (n_transactions,)
    """
    known = table["efficiency"].copy()
    if bool(np.isnan(known).all()):
        sent = table["bytes_up"] + table["bytes_down"]
        is_known = (table["bytes_up"] > 0) & (table["bytes_down"] > 0)
        application = table["request_bytes"] + table["reply_bytes"]
        known[is_known] = application[is_known] / sent[is_known]
    return np.where(dropped(table), np.nan, known)


def is_sent_efficiency(table: Table) -> bool:
    """Return whether `efficiency` is computed from what the senders know."""
    return bool(np.isnan(table["efficiency"]).all())


def _other(table: Table) -> Array:
    return np.where(table["vary"] == "request", table["reply_bytes"], table["request_bytes"])


def arms_of(sources: Sequence[Source], *, pool: bool = False) -> list[Arm]:
    """Return the arms of all sessions, TCP's first, named by what distinguishes them.

    A name begins with the protocol and holds, of facts of the session, connection and labels, what differs
    between arms of that protocol; if that is not enough, also the session.

    Parameters
    ----------
    sources : sequence of Source
    pool : bool
        Take for one arm what nothing but the session tells apart: an experiment that was done in several
        runs. What nobody distinguished by a label is taken for the same.
    """
    split = [(source, rows) for source in sources for rows in _split(source.table)]
    split = _pooled(split) if pool else split
    split.sort(key=lambda pair: list(PROTOCOLS).index(str(pair[1]["protocol"][0])))
    facts = [_facts(source, rows) for source, rows in split]
    named = zip(_names(facts), split, strict=True)
    arms = [Arm(name, source, rows) for name, (source, rows) in named]
    return [replace(arm, setup=_setup(arm, arms)) for arm in arms]


def _split(table: Table) -> Iterator[Table]:
    known = np.isin(table["protocol"], list(PROTOCOLS))
    keys = [*(table[name] for name in _KEYS), _other(table)]
    groups: dict[tuple[object, ...], list[int]] = {}
    for row in np.flatnonzero(known).tolist():
        groups.setdefault(tuple(column[row] for column in keys), []).append(row)
        if len(groups) > _MOST_ARMS:
            return
    for rows in groups.values():
        yield table.take(np.array(rows))


def _pooled(split: list[tuple[Source, Table]]) -> list[tuple[Source, Table]]:
    groups: dict[tuple[tuple[str, str], ...], list[tuple[Source, Table]]] = {}
    for source, rows in split:
        setting = _facts(source, rows) | {"session": f"{source.speed:g}"}
        groups.setdefault(tuple(sorted(setting.items())), []).append((source, rows))
    return [
        (members[0][0], Table.concatenate(TRANSACTIONS, [rows for _, rows in members]))
        for members in groups.values()
    ]


def _facts(source: Source, rows: Table) -> dict[str, str]:
    """Return the facts that may distinguish an arm, in the order in which they are printed."""
    labels = dict(pair.split("=", 1) for pair in str(rows["labels"][0]).split(";") if "=" in pair)
    own = _OF_PROTOCOL.items()
    facts = {
        k: v for k, v in source.facts.items() if all(k != key or rows["protocol"][0] == p for key, p in own)
    }
    connection = {"per-session": "a connection each", "one": "one connection"}
    return {
        "protocol": PROTOCOLS[str(rows["protocol"][0])],
        **facts,
        "connection": connection.get(str(rows["connection"][0]), str(rows["connection"][0])),
        **labels,
        "session": source.name,
        "vary": f"{rows['vary'][0]} varied",
        "other": f"other message {_other(rows)[0]} bytes",
    }


def _names(facts: list[dict[str, str]]) -> list[str]:
    names = [each["protocol"] for each in facts]
    known = dict.fromkeys(key for each in facts for key in each)
    keys = sorted((key for key in known if key not in _IMPLIED), key=lambda key: key == "session")
    for key in keys:
        for protocol in PROTOCOLS.values():
            here = [i for i, each in enumerate(facts) if each["protocol"] == protocol]
            apart = len({(facts[i]["vary"], facts[i]["other"], names[i]) for i in here}) == len(here)
            if not apart and len({facts[i].get(key) for i in here}) > 1:
                for i in here:
                    names[i] += f", {facts[i][key]}" if facts[i].get(key) else ""
    return names


_OF_PROTOCOL = {"tcp_profile": "tcp", "extensions": "centauruscomm"}
"""Facts of a session that tell something of one protocol only."""
_IMPLIED = ("protocol", "vary", "other")
"""Said where the arms are shown, not in their names."""


def _setup(arm: Arm, arms: Sequence[Arm]) -> Setup | None:
    """Return what a connection's set-up takes: of an arm that sets up one each, else of what is known."""
    if arm.protocol != "tcp" or arm.sets_up_each:
        return None
    peers = [each for each in arms if each.protocol == "tcp" and each.source.facts == arm.source.facts]
    peers.sort(key=lambda each: (not each.sets_up_each, each is not arm))
    for peer in peers:
        known = np.sort(peer.table["connect_s"][~np.isnan(peer.table["connect_s"])])
        if len(known):
            return Setup(median(known), len(known), peer.name)
    return None


def size_statistics(arm: Arm) -> Table:
    """Return a row for each size of an arm, smallest first; see `SIZES`."""
    rows = [_statistics(arm, size) for size in arm.sizes]
    columns = {c.name: np.array([row[c.name] for row in rows], dtype=c.dtype) for c in SIZES}
    return Table(SIZES, columns, {"arm": arm.name})


def _statistics(arm: Arm, size: int) -> Row:
    table = arm.at(size)
    ordered = np.sort(arm.rtt_s(table))
    finished = ordered[np.isfinite(ordered)]
    middle = median_interval(ordered, np.random.default_rng([SEED, size]))
    with_setup = arm.with_setup_s(table)
    ratios = efficiency(table)
    return {
        "size_bytes": size,
        "count": len(table),
        "dropped": len(ordered) - len(finished),
        "median_s": middle.value,
        "median_low_s": middle.low,
        "median_high_s": middle.high,
        "p5_s": quantile(ordered, 0.05),
        "p95_s": quantile(ordered, 0.95),
        "mean_s": _mean(finished),
        "least_s": finished[0] if len(finished) else np.nan,
        "most_s": finished[-1] if len(finished) else np.nan,
        "with_setup_s": np.nan if with_setup is None else median(np.sort(with_setup)),
        "efficiency": _mean(ratios[~np.isnan(ratios)]),
        "retransmitted": _mean(_retransmitted(table)),
        "why": _why(table),
    }


def _mean(values: Array) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _retransmitted(table: Table) -> Array:
    """Return the retransmitted segments of the transactions for which both ends reported them."""
    ends = table["retransmitted_client"], table["retransmitted_server"]
    known = (ends[0] >= 0) & (ends[1] >= 0)
    again: Array = ends[0][known] + ends[1][known]
    return again


def _why(table: Table) -> str:
    """Return where transactions were dropped: `reply 12, connect 3`."""
    places = Counter(str(why).partition(":")[0] or "unknown" for why in table["why"][dropped(table)])
    return ", ".join(f"{place} {number}" for place, number in places.most_common(5))


def straight_line(statistics: Table) -> Line | None:
    """Return the line through the medians of an arm (Theil 1950, Sen 1968); None of fewer than two sizes.

    The slope is the median of the slopes between all pairs of sizes, so that a size at which a transport
    breaks down does not hide that by bending its own expectation.
    """
    known = np.isfinite(statistics["median_s"])
    sizes, medians = statistics["size_bytes"][known], statistics["median_s"][known]
    if len(sizes) < 2:
        return None
    first, second = np.triu_indices(len(sizes), 1)
    slope = float(np.median((medians[second] - medians[first]) / (sizes[second] - sizes[first])))
    return Line(float(np.median(medians - slope * sizes)), slope)
