"""Request / reply / good-bye transactions: RTTs by transport and message size (paper 000, section IV).

Here a *transport* is a group of comparable transactions: they differ only in the size of one message. A
dropped transaction is not ignored: in medians and quantiles it counts as longer than any other (inf), and the
number of drops is reported. Only means use finished transactions alone.

Interval of a median: the percentile bootstrap (Efron 1979), computed without resamples. The k-th smallest of
n values drawn with replacement from sorted x is x[ceil(n U) - 1], where U is the k-th smallest of n uniform
numbers, with the distribution Beta(k, n - k + 1). So the median of a resample needs one or two random numbers
instead of n, exactly, and a million transactions need no more memory than a hundred.

Influence of the radio on the RTT: Spearman's rank correlation within each size of a transport. It tests only
whether longer RTTs occur with higher values, so a single peak of a minute does not decide. Ranks are computed
within each size, since the RTT differs between sizes. A dropped transaction has the highest rank.

Comparison of two transports, for each size: ratio and difference of their median RTTs, and distance of their
distributions. The interval of the ratio contains every ratio that the permutation test does not reject
(`multitracer.analysis.comparison`). A ratio below 1 is a valid result.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from multitracer.analysis.comparison.medians import MIN_VALUES, NO_ENDS, difference_interval, ratio_interval
from multitracer.schemas.transactions import TRANSACTIONS
from multitracer.tables import Column, Schema, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from multitracer.tables import Array, Row

PROTOCOLS = {"tcp": "TCP", "centauruscomm": "CentaurusComm", "wtcp": "WTCP"}
"""Names of the protocols for users."""
SEED = 20_001_113
"""Seed of the bootstrap: the same table gives the same intervals, whatever else is analysed."""
FEWEST = 6
"""Minimum number of transactions a side, or of set-ups, for a factor and an interval in a sentence. Between 4 and 5 a
side a test is possible, but one transaction more can change its result."""
_MOST_TRANSPORTS = 64  # bounds the time and the page. Not measured
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
"""The schema of a table with one row for each size of a transport."""


class Setup(NamedTuple):
    """Median duration of a TCP connection set-up, for transactions that used an existing connection."""

    seconds: float
    samples: int
    source: str
    """Name of the transport that the duration was measured in."""


class RttLine(NamedTuple):
    """The line RTT = fixed_s + size x per_byte_s."""

    fixed_s: float
    per_byte_s: float

    def at(self, size_bytes: _Sizes) -> _Sizes:
        """Return the RTT on the line for a size, s."""
        return self.fixed_s + self.per_byte_s * size_bytes


_Sizes = TypeVar("_Sizes", float, "Array")


@dataclass(frozen=True, slots=True)
class SessionContent:
    """The transactions of one session.

    Parameters
    ----------
    name : str
        Name of the session.
    table : Table
        TRANSACTIONS.
    facts : mapping of str to str
        Other facts of the session (link, TCP profile, ...), which distinguish transports.
    speed : float
        Number of link seconds in a recorded second. Durations in the table are already in link time;
        `start_ns` is not.
    """

    name: str
    table: Table
    facts: Mapping[str, str] = field(default_factory=dict)
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Transport:
    """Transactions that differ only in the size of one message; see `transports_of`."""

    name: str
    source: SessionContent
    table: Table
    setup: Setup | None = None
    """Set-up time of TCP for transactions on one connection, if it was measured."""

    @property
    def protocol(self) -> str:
        """The transport: "tcp" or "centauruscomm"."""
        return str(self.table["protocol"][0])

    @property
    def vary(self) -> str:
        """The message whose size varies: "request" or "reply"."""
        return str(self.table["vary"][0])

    @property
    def other_bytes(self) -> int:
        """Length of the message whose size does not vary, bytes."""
        return int(_other(self.table)[0])

    @property
    def sets_up_each(self) -> bool:
        """Whether each transaction set up its own connection."""
        return bool(np.all(self.table["connection"] == "per-session"))

    @property
    def sizes(self) -> list[int]:
        """Sizes of the varied message in bytes, ascending."""
        return sorted(set(self.table["size_bytes"].tolist()))

    def at(self, size_bytes: int) -> Table:
        """Return the transactions of one size, sorted by begin."""
        rows = np.flatnonzero(self.table["size_bytes"] == size_bytes)
        return self.table.take(rows[np.argsort(self.table["start_ns"][rows], kind="stable")])

    def rtt_s(self, table: Table) -> Array:
        """Return the RTT of each row of `table`: float64, s, shape (n,); inf for a dropped one, NaN if not known."""
        return np.where(dropped(table), np.inf, table["rtt_s"])

    def sorted_rtt_s(self, table: Table) -> Array:
        """Return the RTTs of `table`, ascending: float64, s, shape (n_known,); infinite for a dropped one."""
        return _known(np.sort(self.rtt_s(table)))

    def begin_s(self, table: Table) -> Array:
        """Return the begin of each row of `table`, in link time since the first: float64, s, shape (n,)."""
        starts = table["start_ns"]
        began: Array = (starts - starts.min(initial=starts[0])) / NS_PER_S * self.source.speed
        return began

    def with_setup_s(self, table: Table) -> Array | None:
        """Return RTT plus connection set-up time where both are known; None if no transaction has both.

        For transactions on one connection, the median set-up time of such connections in other transports is added, as
        in the paper. float64, s, shape (n_known,), in the order of `table`; infinite for a dropped transaction.
        """
        if self.protocol != "tcp":
            return None
        if not self.sets_up_each:
            return None if self.setup is None else _known(self.rtt_s(table)) + self.setup.seconds
        known = dropped(table) | ~np.isnan(table["connect_s"])
        both = _known(self.rtt_s(table)[known] + np.nan_to_num(table["connect_s"][known]))
        return both if len(both) else None

    def setups(self, table: Table) -> int:
        """Return the number of measured set-ups that `with_setup_s` rests on."""
        if self.protocol != "tcp":
            return 0
        if not self.sets_up_each:
            return 0 if self.setup is None else self.setup.samples
        return int(np.count_nonzero(~np.isnan(table["connect_s"])))


def _known(values: Array) -> Array:
    return values[~np.isnan(values)]


def dropped(table: Table) -> Array:
    """Return which transactions failed; one that finished may have an RTT that is not known.

    Returns
    -------
    ndarray of bool, shape (n_transactions,)
    """
    failed: Array = table["outcome"] != "ok"
    return failed


def efficiency(table: Table) -> Array:
    """Return the efficiency of each transaction (paper 000): NaN for a dropped one.

    It is computed from bytes at the receivers if these are known. Else it is the bytes of both messages divided by the
    bytes that the senders' transports sent (`efficiency_sent`), which does not include losses on the path.

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
    """Return whether `efficiency` is computed from the senders' data only."""
    return bool(np.isnan(table["efficiency"]).all())


def why_absent(tables: Iterable[Table], name: str) -> str:
    """Return the most frequent reason why the transactions of tables have no value of a quantity of `CONTEXT`.

    A transaction that was never joined to the logs of its session has no reason; then the result is "not known".
    """
    reasons = Counter(reason for table in tables for reason in table[f"{name}_absent"].tolist() if reason).most_common(
        1
    )
    return reasons[0][0] if reasons else "not known"


def _other(table: Table) -> Array:
    return np.where(table["vary"] == "request", table["reply_bytes"], table["request_bytes"])


def transports_of(sources: Sequence[SessionContent], *, pool: bool = False) -> list[Transport]:
    """Return the transports of all sessions, TCP's first, with names that distinguish them.

    A name has the protocol and those facts of session, connection and labels that differ between the
    transports of this protocol; if these do not suffice, also the session.

    Parameters
    ----------
    sources : sequence of SessionContent
    pool : bool
        Merge transports that differ only in the session: an experiment in several runs. Runs without
        different labels count as the same experiment.
    """
    split = [(source, rows) for source in sources for rows in _split(source.table)]
    split = _pooled(split) if pool else split
    split.sort(key=lambda pair: list(PROTOCOLS).index(str(pair[1]["protocol"][0])))
    facts = [_facts(source, rows) for source, rows in split]
    named = zip(_names(facts), split, strict=True)
    transports = [Transport(name, source, rows) for name, (source, rows) in named]
    return [replace(transport, setup=_setup(transport, transports)) for transport in transports]


def _split(table: Table) -> Iterator[Table]:
    known = np.isin(table["protocol"], list(PROTOCOLS))
    keys = [*(table[name] for name in _KEYS), _other(table)]
    groups: dict[tuple[object, ...], list[int]] = {}
    for row in np.flatnonzero(known).tolist():
        groups.setdefault(tuple(column[row] for column in keys), []).append(row)
        if len(groups) > _MOST_TRANSPORTS:
            return
    for rows in groups.values():
        yield table.take(np.array(rows))


def _pooled(split: list[tuple[SessionContent, Table]]) -> list[tuple[SessionContent, Table]]:
    groups: dict[tuple[tuple[str, str], ...], list[tuple[SessionContent, Table]]] = {}
    for source, rows in split:
        setting = _facts(source, rows) | {"session": f"{source.speed:g}"}
        groups.setdefault(tuple(sorted(setting.items())), []).append((source, rows))
    return [
        (members[0][0], Table.concatenate(TRANSACTIONS, [rows for _, rows in members])) for members in groups.values()
    ]


def _facts(source: SessionContent, rows: Table) -> dict[str, str]:
    """Return the facts that may distinguish a transport, in the order in which they are printed."""
    labels = dict(pair.split("=", 1) for pair in str(rows["labels"][0]).split(";") if "=" in pair)
    own = _OF_PROTOCOL.items()
    facts = {k: v for k, v in source.facts.items() if all(k != key or rows["protocol"][0] == p for key, p in own)}
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
"""Facts of a session that apply to one protocol only."""
_IMPLIED = ("protocol", "vary", "other")
"""Facts that are shown with the transports, not in their names."""


def _setup(transport: Transport, transports: Sequence[Transport]) -> Setup | None:
    """Return the set-up time of a connection; None if it is unknown.

    It comes from a transport with one connection per transaction, else from the known facts.
    """
    if transport.protocol != "tcp" or transport.sets_up_each:
        return None
    peers = [each for each in transports if each.protocol == "tcp" and each.source.facts == transport.source.facts]
    peers.sort(key=lambda each: (not each.sets_up_each, each is not transport))
    for peer in peers:
        known = np.sort(peer.table["connect_s"][~np.isnan(peer.table["connect_s"])])
        if len(known):
            return Setup(median(known), len(known), peer.name)
    return None


def size_statistics(transport: Transport) -> Table:
    """Return a row for each size of a transport, in ascending order; the schema is `SIZES`."""
    rows = [_statistics(transport, size) for size in transport.sizes]
    columns = {c.name: np.array([row[c.name] for row in rows], dtype=c.dtype) for c in SIZES}
    return Table(SIZES, columns, {"arm": transport.name})


def _statistics(transport: Transport, size: int) -> Row:
    table = transport.at(size)
    ordered = transport.sorted_rtt_s(table)
    finished = ordered[np.isfinite(ordered)]
    middle = median_interval(ordered, np.random.default_rng([SEED, size]))
    with_setup = transport.with_setup_s(table)
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
    """Return the retransmitted segments of each transaction, of both endpoints together.

    Transactions for which an endpoint reports no number are left out.
    """
    ends = table["retransmitted_client"], table["retransmitted_server"]
    known = (ends[0] >= 0) & (ends[1] >= 0)
    again: Array = ends[0][known] + ends[1][known]
    return again


def _why(table: Table) -> str:
    """Return a text with the phases in which transactions failed, and how often: `reply 12, connect 3`."""
    places = Counter(str(why).partition(":")[0] or "unknown" for why in table["why"][dropped(table)])
    return ", ".join(f"{place} {number}" for place, number in places.most_common(5))


def straight_line(statistics: Table) -> RttLine | None:
    """Return the line through the median RTTs of all sizes of a transport (Theil 1950, Sen 1968).

    It is None for fewer than two sizes.

    The slope is the median of the slopes between all pairs of sizes. So a size at which a transport breaks
    down does not bend the line, and its deviation stays visible.
    """
    known = np.isfinite(statistics["median_s"])
    sizes, medians = statistics["size_bytes"][known], statistics["median_s"][known]
    if len(sizes) < 2:
        return None
    first, second = np.triu_indices(len(sizes), 1)
    slope = float(np.median((medians[second] - medians[first]) / (sizes[second] - sizes[first])))
    return RttLine(float(np.median(medians - slope * sizes)), slope)


DRAWS = 10_000
"""Number of resamples for each interval."""
CONFIDENCE = 0.95  # the usual level of an interval; a convention


class EstimateInterval(NamedTuple):
    """An estimate and its 95 % interval; `high` is inf where the data give no upper bound."""

    value: float
    low: float
    high: float


def quantile(ordered: Array, share: float) -> float:
    """Return the smallest of the sorted values that is not below a share of them; NaN without values.

    Parameters
    ----------
    ordered : ndarray of float64, shape (n,)
        Ascending; inf sorts last, NaN must not occur.
    share : float
        From 0 to 1.
    """
    if not len(ordered):
        return float("nan")
    return float(ordered[max(0, int(np.ceil(share * len(ordered) - 1e-9)) - 1)])


def median(ordered: Array) -> float:
    """Return the median of sorted values; inf if a middle value is inf, NaN without values.

    Parameters
    ----------
    ordered : ndarray of float64, shape (n,)
        Ascending; NaN must not occur.
    """
    if not len(ordered):
        return float("nan")
    return float((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)


def median_draws(ordered: Array, random: np.random.Generator, draws: int = DRAWS) -> Array:
    """Return the medians of `draws` resamples of sorted values.

    Parameters
    ----------
    ordered : ndarray of float64, shape (n,)
        Sorted, n > 0; inf for a dropped transaction.
    random : numpy.random.Generator
    draws : int

    Returns
    -------
    ndarray of float64, shape (draws,)
    """
    number = len(ordered)
    lower = (number + 1) // 2
    uniform = random.beta(lower, number - lower + 1, draws)
    low = _picked(ordered, uniform)
    if number % 2:
        return low
    next_one = uniform + (1 - uniform) * random.beta(1, number - lower, draws)
    middle: Array = (low + _picked(ordered, next_one)) / 2
    return middle


def _picked(ordered: Array, uniform: Array) -> Array:
    places = np.ceil(uniform * len(ordered)).astype(np.int64) - 1
    return np.asarray(ordered[np.clip(places, 0, len(ordered) - 1)], dtype=np.float64)


def interval(value: float, draws: Array) -> EstimateInterval:
    """Return an estimate with the middle 95 % of its draws; a NaN draw widens the interval on both sides.

    Parameters
    ----------
    value : float
    draws : ndarray of float64, shape (n_draws,)
        In any order, in the unit of `value`.
    """
    tail = (1 - CONFIDENCE) / 2
    low = quantile(np.sort(np.where(np.isnan(draws), -np.inf, draws)), tail)
    high = quantile(np.sort(np.where(np.isnan(draws), np.inf, draws)), 1 - tail)
    return EstimateInterval(value, low, high)


def median_interval(ordered: Array, random: np.random.Generator) -> EstimateInterval:
    """Return the median of sorted values and its interval; NaN without values.

    Parameters
    ----------
    ordered : ndarray of float64, shape (n,)
        Ascending; NaN must not occur.
    random : numpy.random.Generator
    """
    if not len(ordered):
        return EstimateInterval(*[float("nan")] * 3)
    return interval(median(ordered), median_draws(ordered, random))


RADIO = ("rssi_dbm", "bler_percent", "cell_busy_percent")
_FEWEST = 10
"""Minimum number of transactions of one size with a known value: fewer have no meaningful ranks."""


class Influence(NamedTuple):
    """A rank correlation and its number of transactions."""

    correlation: float
    """-1 to 1; NaN with too few known values, or for a constant value."""
    transactions: int


def influence(transport: Transport, name: str) -> Influence:
    """Return the rank correlation of the RTT of a transport with a column of the radio."""
    ranks: list[tuple[Array, Array]] = []
    for size in transport.sizes:
        table = transport.at(size)
        rtt = transport.rtt_s(table)
        known = np.isfinite(table[name]) & ~np.isnan(rtt)
        if np.count_nonzero(known) >= _FEWEST:
            ranks.append((_ranks(rtt[known]), _ranks(table[name][known])))
    if not ranks:
        return Influence(float("nan"), 0)
    rtt, value = (np.concatenate(column) for column in zip(*ranks, strict=True))
    if not rtt.any() or not value.any():
        return Influence(float("nan"), len(rtt))
    both = np.sqrt(np.sum(rtt**2) * np.sum(value**2))
    return Influence(float(np.sum(rtt * value) / both), len(rtt))


def _ranks(values: Array) -> Array:
    """Return the ranks scaled to -0.5 to 0.5 for any number of values; equal values share their mean rank."""
    ordered = np.sort(values)
    middle = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") - 1) / 2
    ranks: Array = (middle - (len(values) - 1) / 2) / len(values)
    return ranks


def _interval(name: str, doc: str, unit: str = "") -> tuple[Column, ...]:
    return (
        Column(name, "float64", doc, unit),
        Column(f"{name}_low", "float64", f"95 % interval: {doc}; NA with fewer than four a side", unit),
        Column(f"{name}_high", "float64", f"95 % interval: {doc}; NA as the other end; inf: no bound", unit),
    )


COMPARISON = Schema(
    "transport_comparison",
    (
        Column("size_bytes", "int64", "of the message that is varied", "bytes"),
        Column("count", "int64", "transactions of the first"),
        Column("dropped", "int64", "of them"),
        Column("other_count", "int64", "transactions of the second"),
        Column("other_dropped", "int64", "of them"),
        *_interval("ratio", "median RTT of the first over that of the second"),
        *_interval("difference", "median RTT of the first less that of the second", "s"),
        *_interval("setup_ratio", "the ratio where the first also sets up its connection"),
        Column("setups", "int64", "set-ups of a connection that were measured; fewer than six have no interval"),
        Column("cdf_gap", "float64", "farthest distance of the CDFs; below 0 where the first is faster"),
        Column("cdf_gap_at_s", "float64", "RTT at which they are so far apart", "s"),
        Column("why", "U128", "why there is no ratio, or no interval"),
    ),
)
"""The schema of a table with one row for each size that both transports have."""


def pairs(transports: Sequence[Transport]) -> list[tuple[Transport, Transport]]:
    """Return the pairs of transports to compare: TCP and each other protocol, for the same task.

    If there is only one protocol, its other transports are compared with the first one.
    """
    compared = []
    for number, transport in enumerate(transports):
        for other in transports[number + 1 :]:
            alike = (transport.vary, transport.other_bytes) == (other.vary, other.other_bytes)
            if alike and set(transport.sizes) & set(other.sizes) and _worth(transport, other, transports):
                compared.append((transport, other))
    return compared


def _worth(transport: Transport, other: Transport, transports: Sequence[Transport]) -> bool:
    if transport.protocol != other.protocol:
        same = [each for each in transports if each.protocol == other.protocol and each.vary == transport.vary]
        twins = [each for each in same if _labels(each) == _labels(transport)]
        return _labels(transport) == _labels(other) or not twins
    alike = [each for each in transports if (each.vary, each.other_bytes) == (transport.vary, transport.other_bytes)]
    return {each.protocol for each in alike} == {transport.protocol} and alike[0] is transport


def _labels(transport: Transport) -> tuple[str, ...]:
    """Return place and link of a transport, which should be equal for compared transports."""
    facts = transport.source.facts
    return str(transport.table["labels"][0]), facts.get("link", ""), facts.get("time", "")


def compare(first: Transport, second: Transport) -> Table:
    """Return a row for each size that both transports have; the schema is `COMPARISON`.

    Parameters
    ----------
    first, second : Transport
        The ratio is first over second, so above 1 where the second is faster.
    """
    rows = [_row(first, second, size) for size in sorted(set(first.sizes) & set(second.sizes))]
    columns = {c.name: np.array([row[c.name] for row in rows], dtype=c.dtype) for c in COMPARISON}
    return Table(COMPARISON, columns, {"first": first.name, "second": second.name})


def _row(first: Transport, second: Transport, size: int) -> dict[str, object]:
    tables = first.at(size), second.at(size)
    ours, theirs = first.sorted_rtt_s(tables[0]), second.sorted_rtt_s(tables[1])
    with_setup, setups = first.with_setup_s(tables[0]), first.setups(tables[0])
    gap, at_s = cdf_gap(ours, theirs)
    setup = EstimateInterval(*[float("nan")] * 3) if with_setup is None else _ratio(np.sort(with_setup), theirs)
    if setups < FEWEST:  # the interval would be that of the RTT alone, as if their median were exact
        setup = EstimateInterval(setup.value, *NO_ENDS)
    values = (("ratio", _ratio(ours, theirs)), ("difference", _difference(ours, theirs)), ("setup_ratio", setup))
    numbers = {f"{name}{end}": n for name, estimate in values for end, n in zip(_ENDS, estimate, strict=True)}
    return numbers | {
        "size_bytes": size,
        "count": len(tables[0]),
        "dropped": int(np.isinf(ours).sum()),
        "other_count": len(tables[1]),
        "other_dropped": int(np.isinf(theirs).sum()),
        "setups": setups,
        "cdf_gap": gap,
        "cdf_gap_at_s": at_s,
        "why": _transports_why(first, second, ours, theirs),
    }


_ENDS = ("", "_low", "_high")


def _ratio(ours: Array, theirs: Array) -> EstimateInterval:
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(np.divide(median(ours), median(theirs)))
    return EstimateInterval(value, *ratio_interval(ours, theirs))


def _difference(ours: Array, theirs: Array) -> EstimateInterval:
    return EstimateInterval(median(ours) - median(theirs), *difference_interval(ours, theirs))


def _transports_why(first: Transport, second: Transport, ours: Array, theirs: Array) -> str:
    lost = [transport.name for transport, rtts in ((first, ours), (second, theirs)) if np.isinf(median(rtts))]
    if lost:
        return f"half or more were dropped: {' and '.join(lost)}"[:128]
    if min(len(ours), len(theirs)) < MIN_VALUES:
        return f"no interval: {len(ours)} and {len(theirs)} transactions, {MIN_VALUES} each are the fewest"
    return ""


def cdf_gap(ours: Array, theirs: Array) -> tuple[float, float]:
    """Return the maximum distance of two CDFs, and where it is (signed D of Kolmogorov and Smirnov).

    Parameters
    ----------
    ours, theirs : ndarray of float64, s, shapes (n_ours,), (n_theirs,)
        Sorted; inf for a dropped transaction.

    Returns
    -------
    float
        Share of theirs minus share of ours finished until that RTT: below 0 if ours are faster.
    float
        The RTT of the maximum distance, s; NaN if neither side has a finite value.
    """
    at = np.union1d(ours[np.isfinite(ours)], theirs[np.isfinite(theirs)])
    if not len(at) or not min(len(ours), len(theirs)):
        return 0.0, float("nan")
    shares = [np.searchsorted(values, at, "right") / len(values) for values in (ours, theirs)]
    gap = shares[1] - shares[0]
    place = int(np.argmax(np.abs(gap)))
    return float(gap[place]), float(at[place])
