"""The peer had everything it had asked for, and asked for nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.held import held
from multitracer.diagnosis.limits.names import Limit, Part
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.case import Case, Finding

KIND = "client-think-time"
HELP = "A client that sends its requests sooner, or several at once."
_LOSSY = 0.03
"""Part of the requests that were lost; or share of the time that the repair of data took."""
_ROUND_TRIPS = 2.0
"""An answer's last packet and the next request take one; twice that is a pause of the client ..."""
_MOST = 0.5
"""... if such make this part of the wait: a repair parts one, and its pieces are short. Not measured"""


def find(case: Case) -> Iterator[Finding]:
    """Yield at most one finding, of a responder's data."""
    wait = held(case.limited, Limit.APPLICATION, Part.PEER) if case.transfer.reverse else None
    seen = case.limited.seen
    if wait is None or seen is None:
        return
    if _may_be_lost(case):
        return  # who was slow nobody knows
    long = wait.lengths_s >= _ROUND_TRIPS * case.link_s(0, seen.floor_ns)
    if wait.lengths_s[long].sum() < _MOST * wait.seconds:
        return
    wait = wait._replace(lengths_s=wait.lengths_s[long])
    numbers = wait.numbers
    sentence = (
        f"The client let usually {numbers['median_s']:.2g} s go by (up to {numbers['largest_s']:.2g} s) "
        f"before it asked, {len(wait.lengths_s):,} times: {wait.seconds:.1f} s in all, "
        f"{wait.share:.0%} of the time."
    )
    yield wait.finding(KIND, sentence, numbers)


def _may_be_lost(case: Case) -> bool:
    """Return whether requests were lost, as both captures show; with one, whether data were."""
    pairs, client = case.transfer.ack_pairs, case.transfer.receiver
    if pairs is None or client is None:
        return any(held(case.limited, limit, least=_LOSSY) for limit in (Limit.RECOVERY, Limit.OUTAGE))
    sent = pairs.sent != NA
    asks = client["payload_bytes"][pairs.sent[sent]] > 0
    return int(np.count_nonzero(asks & pairs.lost[sent])) > _LOSSY * int(np.count_nonzero(asks))
