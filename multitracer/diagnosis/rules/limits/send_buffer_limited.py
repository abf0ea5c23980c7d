"""The send buffer was full though no window was: the program could not hand over more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.limits.held import held
from multitracer.diagnosis.limits.names import Limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.case import Case, Finding

KIND = "send-buffer-limited"
HELP = "A larger send buffer (SO_SNDBUF), or none set, so that the kernel tunes it."


def find(case: Case) -> Iterator[Finding]:
    """Yield at most one finding; from packets alone it says what else it may be."""
    found = held(case.limited, Limit.SENDER_BUFFER)
    if found is None:
        return
    seen = case.limited.seen
    instead = "" if seen is None or seen.state is not None else ", or the congestion window stood still"
    sentence = (
        f"The send buffer was full for {found.seconds:.1f} s, {found.share:.0%} of the time{instead}: "
        "ACKs alone set new data free, and never more than they covered."
    )
    yield found.finding(KIND, sentence)
