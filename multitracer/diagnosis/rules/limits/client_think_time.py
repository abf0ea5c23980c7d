"""The peer had everything it had asked for, and asked for nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import distinct
from multitracer.diagnosis.held import WORTH, held
from multitracer.diagnosis.limits.names import Limit, Part
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.case import Case, Finding
    from multitracer.tables import Array

KIND = "client-think-time"
HELP = "A client that sends its requests sooner, or several at once."
_LOSSY = 0.03
"""Part of the requests that were lost; or share of the time that the repair of data took."""
_ROUND_TRIPS = 1.0
"""Above that of an answer's last packet and the next request: as much again is a pause of the client ..."""
_MOST = 0.5
"""... if such make this part of the wait: a repair parts one, and its pieces are short. Not measured"""
_REACTS_S = 0.01  # a program that waits for nothing asks sooner, also on a busy host. Not measured


def find(case: Case) -> Iterator[Finding]:
    """Yield at most one finding, of a responder's data."""
    wait = held(case.limited, Limit.APPLICATION, Part.PEER) if case.transfer.reverse else None
    seen = case.limited.seen
    if wait is None or seen is None:
        return
    if _may_be_lost(case):
        return  # who was slow nobody knows
    paused_s = _paused_s(case)
    if paused_s is None:
        shortest_s = max(_ROUND_TRIPS * case.link_s(0, seen.floor_ns), _REACTS_S)
        paused_s = wait.lengths_s[wait.lengths_s >= shortest_s]
        least_s = _MOST * wait.seconds
    else:
        seconds, least_s = float(paused_s.sum()), WORTH * case.limited.total_s
        wait = wait._replace(seconds=seconds, share=seconds / case.limited.total_s)
    if not len(paused_s) or paused_s.sum() < least_s:
        return
    wait = wait._replace(lengths_s=paused_s)
    numbers = wait.numbers
    sentence = (
        f"The client let usually {numbers['median_s']:.2g} s go by (up to {numbers['largest_s']:.2g} s) "
        f"before it asked, {len(wait.lengths_s):,} times: {wait.seconds:.1f} s in all, "
        f"{wait.share:.0%} of the time."
    )
    yield wait.finding(KIND, sentence, numbers)


def _paused_s(case: Case) -> Array | None:
    """Return how long the client had all that came before it asked for more; None without its capture.

    A server that waits does so for its answer to get through the link's queue, too.
    """
    data, asks, client = case.transfer.data_pairs, case.transfer.ack_pairs, case.transfer.receiver
    if data is None or asks is None or client is None:
        return None
    came = distinct(data.arrived[data.arrived != NA])
    requests = distinct(asks.sent[asks.sent != NA])
    requests = requests[client["payload_bytes"][requests] > 0]
    last = np.searchsorted(came, requests) - 1
    first = (last >= 0) & (np.diff(last, prepend=-1) > 0)
    time_ns = client["time_ns"]
    paused_ns = time_ns[requests[first]] - time_ns[came[last[first]]]
    paused_s = np.asarray(paused_ns * case.transfer.speed / NS_PER_S)
    return paused_s[paused_s >= _REACTS_S]


def _may_be_lost(case: Case) -> bool:
    """Return whether requests were lost, as both captures show; with one, whether data were."""
    pairs, client = case.transfer.ack_pairs, case.transfer.receiver
    if pairs is None or client is None:
        return any(held(case.limited, limit, least=_LOSSY) for limit in (Limit.RECOVERY, Limit.OUTAGE))
    sent = pairs.sent != NA
    asks = client["payload_bytes"][pairs.sent[sent]] > 0
    return int(np.count_nonzero(asks & pairs.lost[sent])) > _LOSSY * int(np.count_nonzero(asks))
