"""The client had received all that it had asked for, and sent no new request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.held import WORTH, client_idle_gaps_s, held, idle_gaps_s
from multitracer.diagnosis.limits.names import Limit, LimitSubtype
from multitracer.tables import NA
from multitracer.units import NS_PER_S
from multitracer.words import about, duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding

KIND = "client-think-time"
HELP = "A client that sends its requests sooner, or several at once."
_LOSSY = 0.03
"""Maximum share of lost requests; or, without a capture at the client, of the time of data retransmissions."""
_MOST = 0.5
"""Without the client's capture, its idle gaps must make at least this share of the waits: a retransmission
divides a wait into short ones. Not measured."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if the client had all data and sent no new request.

    There is none unless the responder (server) sends the data.
    """
    wait = held(diagnosis.limited, Limit.APPLICATION, LimitSubtype.PEER) if diagnosis.transfer.reverse else None
    if wait is None or diagnosis.limited.seen is None:
        return
    if _may_be_lost(diagnosis):
        return  # who was slow nobody knows
    paused_s, least_s = idle_gaps_s(diagnosis.limited), _MOST * wait.seconds
    if client_idle_gaps_s(diagnosis.transfer) is not None:
        seconds, least_s = float(paused_s.sum()), WORTH * diagnosis.limited.total_s
        wait = wait._replace(seconds=seconds, share=seconds / diagnosis.limited.total_s)
    if not len(paused_s) or paused_s.sum() < least_s:
        return
    wait = wait._replace(lengths_s=paused_s)
    numbers = wait.numbers
    typical, largest = about(numbers["median_s"]), about(numbers["largest_s"])
    each = f"{typical} each" if typical == largest else f"typically {typical} (up to {largest})"
    sentence = (
        f"The client waited {len(wait.lengths_s):,} times before it sent its next request, {each}: "
        f"{wait.seconds:.1f} s in all, {100 * wait.share:.0f} % of the time."
    )
    if len(wait.lengths_s) == 1:
        passed = duration(wait.seconds * NS_PER_S)
        sentence = f"The client waited {passed} before it sent its next request: {100 * wait.share:.0f} % of the time."
    yield wait.finding(KIND, sentence, numbers)


def _may_be_lost(diagnosis: Diagnosis) -> bool:
    """Return whether requests were lost, from both captures.

    With one capture, return whether any data were lost.
    """
    pairs, client = diagnosis.transfer.ack_pairs, diagnosis.transfer.receiver
    if pairs is None or client is None:
        return any(held(diagnosis.limited, limit, minimum=_LOSSY) for limit in (Limit.RECOVERY, Limit.OUTAGE))
    sent = pairs.sent != NA
    asks = client["payload_bytes"][pairs.sent[sent]] > 0
    return int(np.count_nonzero(asks & pairs.lost[sent])) > _LOSSY * int(np.count_nonzero(asks))
