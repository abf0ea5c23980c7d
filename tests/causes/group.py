"""The truth about several connections: what limited the time in which any of them was not finished.

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

Document = dict[str, Any]


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
