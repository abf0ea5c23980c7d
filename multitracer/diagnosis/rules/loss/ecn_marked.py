"""A router marked packets instead of dropping them, and the sender slowed down (RFC 3168)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.captured import Flag
from multitracer.diagnosis.finding import Finding, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.tables import Array

KIND = "ecn-marked"
HELP = "A faster link, or a router that marks later where its queue was short: marks cost less than losses."


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, of the whole transfer: the receiver's echoes of marks."""
    transfer, table = diagnosis.transfer, diagnosis.transfer.sender
    is_syn = has(table["flags"], Flag.SYN)
    echoes = transfer.acks[has(table["flags"][transfer.acks], Flag.ECE) & ~is_syn[transfer.acks]]
    slowed = transfer.sent[has(table["flags"][transfer.sent], Flag.CWR) & ~is_syn[transfer.sent]]
    if not len(echoes) or not (_is_agreed(diagnosis) or len(slowed)):
        return
    began_ns, ended_ns = (int(table["time_ns"][echoes[i]]) for i in (0, -1))
    sentence = (
        f"A router on the way marked packets instead of dropping them: {len(echoes):,} ACKs reported it, and "
        f"the sender slowed down {len(slowed):,} times."
    )
    numbers = {"marked_acks": len(echoes), "slowed_down": len(slowed)}
    evidence = rows("sender", echoes)
    yield Finding(KIND, began_ns, ended_ns, 0.0, None, evidence, sentence, numbers=numbers)


def _is_agreed(diagnosis: Diagnosis) -> bool:
    """Return whether both ends agreed to use ECN in the handshake (RFC 3168, section 6.1.1)."""
    flags: Array = diagnosis.transfer.sender["flags"]
    syn, ack = has(flags, Flag.SYN), has(flags, Flag.ACK)
    proposed = syn & ~ack & has(flags, Flag.ECE) & has(flags, Flag.CWR)
    agreed = syn & ack & has(flags, Flag.ECE) & ~has(flags, Flag.CWR)
    return bool(np.any(proposed) and np.any(agreed))
