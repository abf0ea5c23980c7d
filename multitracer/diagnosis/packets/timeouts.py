"""Which retransmissions the retransmission timer sent, and the how-many-th in a row each was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.verdicts import Cause

if TYPE_CHECKING:
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.tables import Array


def timeouts(transfer: Transfer) -> tuple[Array, Array]:
    """Return the rows of `sender` that the timer sent again, in order, and which timeout in a row each is.

    The first timeout of a segment is 1, the next without anything new acknowledged 2: its timer was doubled.
    """
    verdicts, begin = transfer.verdicts, transfer.sender["seq_bytes"]
    rows = verdicts["row"][verdicts["cause"] == Cause.TIMEOUT]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = begin[rows][1:] != begin[rows][:-1]
    starts = np.flatnonzero(first)
    since = np.repeat(starts, np.diff(np.append(starts, len(rows))))
    return rows, np.arange(len(rows)) - since + 1
