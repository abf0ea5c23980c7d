"""How much of a transfer's time each limit held, and between which bounds that lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.limits.names import Confidence, Limit, Part

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.partition import Cells
    from multitracer.tables import Array, Document

_DIGITS = 6  # microseconds, as in `diagnose`
_INSTEAD = {
    Limit.SLOW_START: Limit.CONGESTION_WINDOW,
    Limit.CONGESTION_WINDOW: Limit.SLOW_START,
    Limit.SENDER_BUFFER: Limit.CONGESTION_WINDOW,
    Limit.OUTAGE: Limit.RECOVERY,
    Limit.RECOVERY: Limit.OUTAGE,
}
"""What else an interval may have been whose limit is weak; one that is unknown may have been any."""


class LimitShare(NamedTuple):
    """One limit, with one part, and the time that it held."""

    limit: Limit
    part: Part
    seconds: float
    share: float
    """Of T, 1 is all of it."""
    share_low: float
    """What is not weak."""
    share_high: float
    """With what is weak elsewhere and may have been this."""
    confidence: Confidence
    """Of most of its time."""

    def document(self) -> Document:
        """Return it as `diagnose --json` writes it."""
        return {
            "limit": self.limit.label,
            "part": self.part.label if self.part else None,
            "seconds": round(self.seconds, _DIGITS),
            "share": round(self.share, _DIGITS),
            "share_low": round(self.share_low, _DIGITS),
            "share_high": round(self.share_high, _DIGITS),
            "confidence": self.confidence.label,
        }


def shares_of(cells: Cells, sure: Array, seconds: Array) -> list[LimitShare]:
    """Return a row for each limit and part, the largest first; their seconds sum to T.

    `sure` (Confidence, uint8) and `seconds` (float64, link time) have a value for each cell.
    """
    names = len(Part)
    key = cells.limit * names + cells.part
    total = max(float(seconds.sum()), 1e-12)
    weak = sure == Confidence.WEAK
    spare = np.bincount(cells.limit[weak], seconds[weak], minlength=len(Limit))
    rows = []
    for each in np.unique(key).tolist():
        limit, part, mine = Limit(each // names), Part(each % names), key == each
        own, firm = float(seconds[mine].sum()), float(seconds[mine & ~weak].sum())
        instead = sum(float(spare[other]) for other, this in _INSTEAD.items() if this is limit)
        instead += float(spare[Limit.UNKNOWN]) if limit is not Limit.UNKNOWN else 0.0
        by_sureness = np.bincount(sure[mine], seconds[mine], minlength=len(Confidence))
        high = min((own + instead) / total, 1.0)
        most = Confidence(int(by_sureness.argmax() if own else sure[mine].max()))
        rows.append(LimitShare(limit, part, own, own / total, firm / total, high, most))
    return sorted(rows, key=lambda row: -row.seconds)


def by_limit(rows: list[LimitShare]) -> dict[Limit, float]:
    """Return the share of each limit, parts together, the largest first."""
    sums: dict[Limit, float] = {}
    for row in rows:
        sums[row.limit] = sums.get(row.limit, 0.0) + row.share
    return dict(sorted(sums.items(), key=lambda item: -item[1]))
