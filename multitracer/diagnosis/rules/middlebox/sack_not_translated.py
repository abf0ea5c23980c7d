"""A middlebox changes sequence numbers, but not SACK blocks, so that the sender cannot use these."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis import SegmentKind
from multitracer.analysis.group import has
from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.names import Limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "sack-not-translated"
HELP = "Switch off the random sequence numbers of the firewall, or update it; until then, no SACK on these hosts."
WHEN = "has_untranslated_sacks"


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding if SACK blocks name bytes that were never sent; it costs the repair of losses meanwhile."""
    transfer, table = diagnosis.transfer, diagnosis.transfer.sender
    bad = transfer.untranslated
    repeated = int(np.count_nonzero(has(table["kind"][bad], SegmentKind.DUPLICATE_ACK)))
    begin_ns, end_ns = (int(transfer.time_ns[bad[i]]) for i in (0, -1))
    after = transfer.acks[transfer.acks > bad[-1]]
    until_ns = int(transfer.time_ns[after[0]]) if len(after) else end_ns
    cost_s = diagnosis.limited_s(Limit.RECOVERY, begin_ns=begin_ns, end_ns=until_ns)
    sentence = (
        f"A middlebox changes sequence numbers but not SACK blocks: those of {len(bad):,} ACKs ({repeated:,} of them "
        "duplicate ACKs) name bytes that were never sent, so the sender could not learn from them which data were lost."
    )
    numbers = {"acks": len(bad), "duplicate_acks": repeated}
    yield Finding(KIND, begin_ns, until_ns, cost_s, None, rows("sender", bad), sentence, numbers=numbers)
