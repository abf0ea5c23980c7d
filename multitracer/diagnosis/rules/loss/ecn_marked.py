"""A router marked packets instead of dropping them, and the sender slowed down (RFC 3168)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.analysis.group import has
from multitracer.captured import Flag
from multitracer.diagnosis.finding import Finding, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "ecn-marked"
HELP = "A faster link, or a router that marks later where its queue was short: marks cost less than losses."
WHEN = "has_ecn_echoes"


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if the receiver's ECN echoes show that a router marked packets."""
    transfer, table = diagnosis.transfer, diagnosis.transfer.sender
    flags = table["flags"]
    is_syn = has(flags, Flag.SYN)
    echoes = diagnosis.ecn_echoes
    slowed = transfer.sent[has(flags[transfer.sent], Flag.CWR) & ~is_syn[transfer.sent]]
    # both ends agree to use ECN in the handshake (RFC 3168, section 6.1.1)
    proposed = is_syn & ~has(flags, Flag.ACK) & has(flags, Flag.ECE) & has(flags, Flag.CWR)
    agreed = is_syn & has(flags, Flag.ACK) & has(flags, Flag.ECE) & ~has(flags, Flag.CWR)
    if not (proposed.any() and agreed.any()) and not len(slowed):
        return
    began_ns, ended_ns = (int(table["time_ns"][echoes[i]]) for i in (0, -1))
    sentence = (
        f"A router on the way marked packets instead of dropping them: {len(echoes):,} ACKs reported it, and "
        f"the sender slowed down {len(slowed):,} times."
    )
    numbers = {"marked_acks": len(echoes), "slowed_down": len(slowed)}
    evidence = rows("sender", echoes)
    yield Finding(KIND, began_ns, ended_ns, 0.0, None, evidence, sentence, numbers=numbers)
