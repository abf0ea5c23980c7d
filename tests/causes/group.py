"""The truth about several transfers: both directions of a connection, or connections that are one piece of work.

What limited several connections is what limited the time in which any of them was not finished.

Connections belong together as long as no two seconds pass without an unfinished transfer. Of each it is the
larger direction that counts. An instant is parted equally among the limits of the transfers active in it; but
while the link had bytes of any of them, no window and no repair of one holds back their work: the link does.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.causes.spans import NONE, spans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.causes.spans import Spans

_APART_NS = 2_000_000_000
_OF_ONE = ("slow-start", "congestion-window", "recovery")
"""What holds one transfer back while others go on."""

_THEIRS = ("application", "handshake", "unknown")
"""What the other direction is limited by when it explains nothing."""

Document = dict[str, Any]


def joint(transfers: Sequence[Document]) -> Document:
    """Return what limited the larger direction of a connection (the first), or the other where that waits for it.

    While the larger direction waits for its program, and that for the other end to go on, the limit of the other
    direction takes the place. So does all of it after the larger one ended.
    """
    intervals = [(*each, transfers[0]["way"]) for each in transfers[0]["intervals"]]
    for other in transfers[1:2]:
        end = intervals[-1][1]
        theirs = [(*each, other["way"]) for each in other["intervals"]]
        own = [cut for each in intervals for cut in _cut(each, theirs)]
        intervals = own + [(max(each[0], end), *each[1:]) for each in theirs if each[1] > end]
    total = sum(each[1] - each[0] for each in intervals)
    shares: dict[str, float] = {}
    for begin, until, limit, *_ in intervals:
        shares[limit] = shares.get(limit, 0.0) + (until - begin) / total
    largest = sorted(shares.items(), key=lambda item: -item[1])
    return {"total_s": total / 1e9, "shares": {k: round(v, 5) for k, v in largest}, "intervals": intervals}


def _cut(interval: Sequence[Any], theirs: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return an interval in which those of the other direction took their place."""
    begin, end, limit, part = interval[:4]
    waits = limit == "application" and part in ("peer", "writes")
    found: list[tuple[Any, ...]] = []
    for each in theirs if waits else ():
        since, until = max(begin, each[0]), min(end, each[1])
        if since < until and (each[2] not in _THEIRS or each[3] == "nagle"):
            found += [(begin, since, *interval[2:]), (since, until, *each[2:])]
            begin = until
    return [each for each in [*found, (begin, end, *interval[2:])] if each[0] < each[1]]


def group(transfers: Sequence[Document], busy: Mapping[str, Spans] = MappingProxyType({})) -> Document:
    """Return the group that took longest: its clients' ports, wall time and the share of each limit.

    `busy` says for each way ("up", "down") when the link had bytes of any of the transfers.
    """
    groups = [_summed(each, busy) for each in _groups(_connections(transfers))]
    return max(groups, key=lambda each: float(each["total_s"]))


def _connections(transfers: Sequence[Document]) -> list[Document]:
    """Return the larger transfer of each connection, in order of beginning."""
    largest: dict[int, Document] = {}
    for each in transfers:
        known = largest.get(each["client_port"])
        if known is None or each["bytes"] > known["bytes"]:
            largest[each["client_port"]] = each
    lasting = [each for each in largest.values() if each["intervals"]]
    return sorted(lasting, key=lambda each: int(each["intervals"][0][0]))


def _span(transfer: Document) -> tuple[int, int]:
    return transfer["intervals"][0][0], transfer["intervals"][-1][1]


def _groups(connections: Sequence[Document]) -> list[list[Document]]:
    groups: list[list[Document]] = []
    reach = 0
    for each in connections:
        begin, end = _span(each)
        if not groups or begin - reach > _APART_NS:
            groups.append([])
        groups[-1].append(each)
        reach = max(reach, end)
    return groups


def _summed(connections: Sequence[Document], busy: Mapping[str, Spans]) -> Document:
    bounds = np.array([_span(each) for each in connections], np.int64)
    places = np.unique(bounds)
    active = np.array([((bounds[:, 0] <= at) & (at < bounds[:, 1])).sum() for at in places[:-1]])
    parts = np.diff(places) / np.maximum(active, 1) * (active > 0)
    own = np.concatenate(([0.0], np.cumsum(parts)))
    seconds: dict[str, float] = {}
    for each in connections:
        for begin, end, limit, _ in each["intervals"]:
            passed = float(np.diff(np.interp((begin, end), places, own))[0]) / 1e9
            filled = np.clip(busy.get(each.get("way", ""), NONE), begin, end) if limit in _OF_ONE else NONE
            by_link = float(np.diff(np.interp(filled, places, own), axis=1).sum()) / 1e9
            for what, lasted in ((limit, passed - by_link), ("link", by_link)):
                seconds[what] = seconds.get(what, 0.0) + lasted
    wall = spans(bounds)
    total = float((wall[:, 1] - wall[:, 0]).sum()) / 1e9
    shares = {limit: round(s / total, 5) for limit, s in seconds.items() if s > 0} if total else {}
    return {
        "client_ports": [each["client_port"] for each in connections],
        "total_s": total,
        "shares": dict(sorted(shares.items(), key=lambda item: -item[1])),
    }
