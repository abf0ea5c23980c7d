"""The truth about several connections: what limited the time in which any of them was not finished.

Connections belong together as long as no two seconds pass without an unfinished transfer. Of each it is the
larger direction that counts. An instant is parted equally among the limits of the transfers active in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.causes.spans import spans

if TYPE_CHECKING:
    from collections.abc import Sequence

_APART_NS = 2_000_000_000

Document = dict[str, Any]


def group(transfers: Sequence[Document]) -> Document:
    """Return the group that took longest: its clients' ports, wall time and the share of each limit."""
    groups = [_summed(each) for each in _groups(_connections(transfers))]
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


def _summed(connections: Sequence[Document]) -> Document:
    bounds = np.array([_span(each) for each in connections], np.int64)
    places = np.unique(bounds)
    active = np.array([((bounds[:, 0] <= at) & (at < bounds[:, 1])).sum() for at in places[:-1]])
    parts = np.diff(places) / np.maximum(active, 1) * (active > 0)
    own = np.concatenate(([0.0], np.cumsum(parts)))
    seconds: dict[str, float] = {}
    for each in connections:
        for begin, end, limit, _ in each["intervals"]:
            passed = np.diff(np.interp((begin, end), places, own))[0] / 1e9
            seconds[limit] = seconds.get(limit, 0.0) + float(passed)
    wall = spans(bounds)
    total = float((wall[:, 1] - wall[:, 0]).sum()) / 1e9
    shares = {limit: round(s / total, 5) for limit, s in seconds.items() if s > 0} if total else {}
    return {
        "client_ports": [each["client_port"] for each in connections],
        "total_s": total,
        "shares": dict(sorted(shares.items(), key=lambda item: -item[1])),
    }
