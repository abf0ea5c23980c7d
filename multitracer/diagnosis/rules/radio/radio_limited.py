"""The radio was the limit: no signal, failed blocks, or a busy cell.

The readings of the radio decide: RSSI at its minimum of -113 dBm, BLER and cell busy, as papers 000 and 001
plot them. Without readings, the share of RLP frames that were sent again decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.names import Limit, LimitSubtype

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.tables import Array, Table

KIND = "radio-limited"
HELP = "A better place, antenna or cell, or another time of the day."
_RADIO = ((Limit.LINK, LimitSubtype.ARQ), (Limit.LINK, LimitSubtype.ACCESS))
_ZERO_LEVEL_DBM = -113.0  # TS 27.007, 8.5: +CSQ 0 stands for this or less
_HIGH_BLER_PCT = 10.0  # the target of LTE's link adaptation (TS 36.213, section 7.2.3): more is a poor radio
_BUSY_PCT = 50.0  # others use half of the cell and more. Not measured
_SHARE = 0.2
"""Minimum share of bad readings within the transfer."""
_MIN_READINGS = 5  # a share of fewer says nothing. Not measured
_FRAME_ERRORS = 0.05
"""Minimum share of information frames that were sent again; the link is designed for at most 1 in 100."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each reason (no signal, failed blocks, busy cell) why the radio was the limit."""
    transfer, is_found = diagnosis.transfer, False
    for host, radio in transfer.radio:
        times = radio["time_ns"]
        inside = (times >= transfer.begin_ns) & (times <= transfer.end_ns)
        for is_bad, is_known, words in _complaints(radio):
            known, bad = np.flatnonzero(inside & is_known), np.flatnonzero(inside & is_known & is_bad)
            if len(known) < _MIN_READINGS or len(bad) / len(known) < _SHARE:
                continue
            began_ns, ended_ns = (int(times[bad[i]]) for i in (0, -1))
            cost_s = diagnosis.limited_s(*_RADIO, Limit.OUTAGE, begin_ns=began_ns, end_ns=ended_ns)
            share, is_found = len(bad) / len(known), True
            sentence = f"The radio was the limit: in {100 * share:.0f} % of the readings {words} ({host})."
            yield Finding(KIND, began_ns, ended_ns, cost_s, None, rows("radio", bad), sentence)
    if is_found or transfer.near is None:
        return

    # else by the frames that had to be sent again
    frames, times = transfer.near.frames, transfer.near.frames["time_ns"]
    inside = (times >= transfer.begin_ns) & (times <= transfer.end_ns)
    carried = frames["sent"] & (frames["payload_bytes"] > 0) & inside
    again = np.flatnonzero(carried & (frames["attempt"] > 1))
    share = len(again) / max(int(np.count_nonzero(carried)), 1)
    if share < _FRAME_ERRORS:
        return
    began_ns, ended_ns = int(times[again[0]]), int(times[again[-1]])
    cost_s = diagnosis.limited_s((Limit.LINK, LimitSubtype.ARQ), begin_ns=began_ns, end_ns=ended_ns)
    sentence = (
        f"The radio was the limit: {100 * share:.0f} % of the link's frames were repetitions, spread over "
        f"{diagnosis.link_s(began_ns, ended_ns):.0f} s."
    )
    yield Finding(KIND, began_ns, ended_ns, cost_s, None, rows("near.frames", again), sentence)


def _complaints(radio: Table) -> Iterator[tuple[Array, Array, str]]:
    """Yield (bad, known, description) for each reason: two masks over the readings, and a text.

    The first mask is True for readings that show the problem, the second one for readings that are known.
    """
    serving = radio["role"] != "neighbour"
    rssi, bler, busy = (radio[name] for name in ("rssi_dbm", "bler_pct", "cell_busy_pct"))
    yield rssi <= _ZERO_LEVEL_DBM, serving & ~np.isnan(rssi), "there was almost no signal"
    yield (bler >= _HIGH_BLER_PCT, serving & ~np.isnan(bler), "too many blocks failed")
    yield busy >= _BUSY_PCT, serving & ~np.isnan(busy), "others kept the cell busy"
