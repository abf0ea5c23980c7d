"""After a loss the header decompressor was out of step: segments arrived and none was good (paper 004, 5.3).

RFC 1144 sends differences of headers. Once one is lost, every later header comes out wrong, TCP discards the
segments by their checksum and acknowledges nothing; only an uncompressed retransmission ends it, and that
comes with a timeout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.case import Case, Finding, rows
from multitracer.diagnosis.join import Fate
from multitracer.diagnosis.use import Use
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.join import Join
    from multitracer.tables import Array

KIND = "header-decompressor-failure"


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each run of packets with wrong headers."""
    joined = case.transfer.joined
    if joined is None or joined.delivery is None:
        return
    fate = joined.carriages["fate"]
    for run in _runs(fate):
        yield _finding(case, joined, run)


def _runs(fate: Array) -> Iterator[Array]:
    """Yield the carriages of each run of wrong headers; what was broken between them belongs to it."""
    wrong = np.flatnonzero(np.isin(fate, (Fate.DAMAGED, Fate.TOSSED)))
    good = np.flatnonzero(fate == Fate.DELIVERED)
    episode = np.searchsorted(good, wrong)  # the good packets before it
    if len(wrong):
        yield from np.split(wrong, np.flatnonzero(np.diff(episode)) + 1)


def _finding(case: Case, joined: Join, run: Array) -> Finding:
    transfer, carriages = case.transfer, joined.carriages
    mine = carriages["segment_row"][run]
    segments = mine[mine != NA]
    near = transfer.near
    assert near is not None
    begin_ns = int(near.events["time_ns"][carriages["event_row"][run[0]]])
    end_ns = _ended_ns(case, joined, int(run[-1]))
    idle_s = case.seconds(Use.IDLE_RTO, begin_ns=begin_ns, end_ns=end_ns)
    cost_s = idle_s + case.seconds(Use.WASTED, begin_ns=begin_ns, end_ns=end_ns)
    payload = int(transfer.sender["payload_bytes"][segments].sum())
    reset = near.rows("reset_started")
    before = reset[near.events["time_ns"][reset] <= begin_ns]
    evidence = rows("near.events", before[-1:]) + rows("sender", segments)
    sentence = (
        f"After a loss on the link the header decompressor was out of step: {len(run)} segments "
        f"arrived with wrong "
        f"headers and were discarded, until a timeout {cost_s:.1f} s later sent a whole header again."
    )
    return Finding(KIND, begin_ns, end_ns, cost_s, payload, evidence, sentence)


def _ended_ns(case: Case, joined: Join, last: int) -> int:
    """Return when the next packet that arrived intact was sent; the transfer's end if none was."""
    assert case.transfer.near is not None
    after = np.flatnonzero(joined.carriages["fate"][last + 1 :] == Fate.DELIVERED)
    if not len(after):
        return case.transfer.end_ns
    event = joined.carriages["event_row"][last + 1 + after[0]]
    return int(case.transfer.near.events["time_ns"][event])
