"""After a loss the header decompressor was out of step: all segments arrived damaged (paper 004, 5.3).

RFC 1144 sends differences of headers. After one is lost, all later headers are wrong. TCP discards the segments by
their checksum and acknowledges nothing. Only an uncompressed retransmission, after a timeout, ends this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.account.uses import Use, UseCause
from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.names import Limit
from multitracer.recording.join import Fate
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.recording.join import Join
    from multitracer.tables import Array, Table

KIND = "header-decompressor-failure"
HELP = "Header compression that recovers by itself (ROHC instead of VJ), or none on a link that is reset."


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each reset after which packets had wrong headers.

    Without a reset before it, each run of such packets is one finding.
    """
    joined, near = diagnosis.transfer.joined, diagnosis.transfer.near
    if joined is None or joined.delivery is None or near is None:
        return
    fate = joined.carriages["fate"]
    wrong = np.flatnonzero(np.isin(fate, (Fate.DAMAGED, Fate.TOSSED)))
    resets = near.rows("reset_started")
    number = np.searchsorted(resets, joined.carriages["event_row"][wrong])  # the resets before each
    episode = np.searchsorted(np.flatnonzero(fate == Fate.DELIVERED), wrong)  # the good packets before it
    other = (np.diff(number) != 0) | ((number[1:] == 0) & (np.diff(episode) != 0))
    for run in np.split(np.arange(len(wrong)), np.flatnonzero(other) + 1):
        if len(run):
            before = int(number[run[0]])
            yield _finding(diagnosis, joined, wrong[run], int(resets[before - 1]) if before else NA)


def _finding(diagnosis: Diagnosis, joined: Join, run: Array, reset: int) -> Finding:
    transfer, near = diagnosis.transfer, diagnosis.transfer.near
    assert near is not None
    mine = joined.carriages["segment_row"][run]
    segments = mine[mine != NA]
    begin_ns = int(near.events["time_ns"][joined.carriages["event_row"][run[0]]])
    end_ns = _ended_ns(diagnosis, joined, int(run[-1]))
    uses = diagnosis.account.uses
    waits = _waits(uses, reset, begin_ns, end_ns)
    since_ns = min([begin_ns, *uses["begin_ns"][waits].tolist()])
    end_ns = max([end_ns, *uses["end_ns"][waits].tolist()])
    cost_s = diagnosis.limited_s(Limit.RECOVERY, begin_ns=since_ns, end_ns=end_ns)
    payload = int(transfer.sender["payload_bytes"][segments].sum())
    evidence = rows("near.events", [] if reset == NA else [reset]) + rows("sender", segments)
    sentence = (
        f"After a loss on the link the header decompressor was out of step: {len(run)} segments arrived with "
        f"wrong headers and were discarded. It took {diagnosis.link_s(begin_ns, end_ns):.1f} s until TCP had "
        "sent again, with whole headers."
    )
    return Finding(KIND, begin_ns, end_ns, cost_s, payload, evidence, sentence)


def _waits(uses: Table, reset: int, begin_ns: int, end_ns: int) -> Array:
    """Return the rows of LINK_USE in which TCP waited for the retransmission.

    They lie within the run of wrong headers, or are the wait for the timer that began with the reset.
    """
    timer = uses["use"] == Use.IDLE_RTO
    repair = (uses["use"] == Use.IDLE_CWND) & (uses["cause"] == UseCause.RECOVERY)
    within = (uses["begin_ns"] >= begin_ns) & (uses["end_ns"] <= end_ns)
    by_reset = (reset != NA) & (uses["source"] == "near.events") & (uses["row"] == reset)
    return np.flatnonzero((timer | repair) & within | timer & by_reset)


def _ended_ns(diagnosis: Diagnosis, joined: Join, last: int) -> int:
    """Return when the next intact packet was sent, in ns; the transfer's end if there was none."""
    assert diagnosis.transfer.near is not None
    after = np.flatnonzero(joined.carriages["fate"][last + 1 :] == Fate.DELIVERED)
    if not len(after):
        return diagnosis.transfer.end_ns
    event = joined.carriages["event_row"][last + 1 + after[0]]
    return int(diagnosis.transfer.near.events["time_ns"][event])
