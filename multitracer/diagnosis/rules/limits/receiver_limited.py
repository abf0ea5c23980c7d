"""What was on its way filled the window that the receiver offered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.held import held
from multitracer.diagnosis.limits.names import Limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.case import Case, Finding

KIND = "receiver-limited"
HELP = "A program that reads sooner, or a larger receive buffer (SO_RCVBUF, tcp_rmem)."


def find(case: Case) -> Iterator[Finding]:
    """Yield at most one finding."""
    limit = held(case.limited, Limit.RECEIVER_WINDOW)
    if limit is None:
        return
    offered = case.transfer.sender["window_bytes"][case.transfer.acks]
    window = int(np.median(offered)) if len(offered) else 0
    sentence = (
        f"The receiver's window ({window:,} bytes in the middle) was full for {limit.seconds:.1f} s, "
        f"{limit.share:.0%} of the time."
    )
    numbers = limit.numbers | {"window_bytes": float(window)}
    yield limit.finding(KIND, sentence, numbers)
