"""How sure each limit is, by the measured precision of its rule from each view (docs/limits.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.limits.names import Confidence, Limit, View

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.diagnosis.limits.partition import Cells
    from multitracer.tables import Array

_M, _I, _W = Confidence.MEASURED, Confidence.INFERRED, Confidence.WEAK
_LOOSE = dict.fromkeys((Limit.RECOVERY, Limit.SLOW_START, Limit.CONGESTION_WINDOW), _W)
"""Of their seconds 75 to 90 % were right on 467 recordings of known cause, of all others 93 % and more."""
_BY_VIEW: dict[View, dict[Limit, Confidence]] = {
    View.LINK_LOG: dict.fromkeys(Limit, _M),
    View.BOTH_ENDS: dict.fromkeys(Limit, _M) | _LOOSE,
    View.SENDER_STATE: dict.fromkeys(Limit, _I) | _LOOSE | {Limit.HANDSHAKE: _M, Limit.SENDER_BUFFER: _M},
    View.SENDER: dict.fromkeys(Limit, _I) | _LOOSE | {Limit.HANDSHAKE: _M, Limit.SENDER_BUFFER: _W},
    View.RECEIVER: dict.fromkeys(Limit, _I) | _LOOSE | {Limit.SENDER_BUFFER: _W},
    View.NOWHERE: dict.fromkeys(Limit, _W),
}


def confidence(view: View, cells: Cells, seen: Observed | None = None) -> Array:
    """Return the Confidence of each cell: uint8, shape (n_cells,).

    From how often the rule was right in that view, if the capture holds enough for it (doubts.py).
    """
    table = np.array([int(_BY_VIEW[view][limit]) for limit in Limit], dtype=np.uint8)
    weak = frozenset() if seen is None else seen.weak
    table[[Limit.UNKNOWN, *weak]] = int(_W)
    sure = table[cells.limit]
    sure[cells.possible] = int(_W)
    return np.asarray(sure)
