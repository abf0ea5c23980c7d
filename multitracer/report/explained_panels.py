"""Data that a diagnosis adds to a transfer's figure: the rate of the link, and the one-way delay."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.two_points import PacketOutcome
from multitracer.diagnosis.limits.names import Viewpoint
from multitracer.figures.link_panels import in_link_time
from multitracer.figures.series import Series, in_order
from multitracer.figures.stack import SECONDS, Panel
from multitracer.tables import NA
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import rate, time_error

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnosis import Diagnosis

_SHARE = 1.2
"""Relative height of the panel of the one-way delay, equal to that of the RTT panel."""
_EMPTY_SHARE = 0.3
"""Relative height of an empty panel: one line of text."""
_NO_WAY = (
    "What was read does not show it. A one-way delay needs captures at both endpoints with clocks that can be "
    "related, or one at the receiver of a transfer with TCP timestamps."
)


def explained_panels(panels: list[Panel], diagnosis: Diagnosis, *, origin_ns: int) -> list[Panel]:
    """Return the panels of the diagnosed transfer, and the panels that need its diagnosis.

    Parameters
    ----------
    panels : list of Panel
        In link time.
    diagnosis : Diagnosis
    origin_ns : int
        Recorded time that equals the link time: both clocks agree at this time.
    """
    limited, logged = diagnosis.limited, logged_bps(diagnosis)
    of_link = limited.link_rate
    bits: float | None = None  # the link's rate in bit/s of link time, its name with its range, its source
    words = doc = ""
    if logged is not None:
        bits, words = logged, f"the link can carry {rate(logged)} by its log"
        doc = "payload of the link's frames that were sent, over the slots that these took"
    elif diagnosis.transfer.speed == 1 and limited.seen is not None and limited.seen.policer is not None:
        bits = limited.seen.policer.rate_bytes_per_s * BITS_PER_BYTE
        words, doc = f"a policer let {rate(bits)} through", "what passed between losses (inferred)"
    elif diagnosis.transfer.speed == 1 and of_link is not None:
        low, middle, high = (rate(each * BITS_PER_BYTE) for each in of_link[:3])
        words = f"the link carried {middle if low == high else f'{low} to {high}, median {middle}'}"
        bits = of_link.high * BITS_PER_BYTE
        doc = "payload delivered while the link was full, its typical range; the line is the upper end"
    delay = in_link_time([_delay_panel(diagnosis)], speed=diagnosis.transfer.speed, origin_ns=origin_ns)
    shown = []
    for panel in panels:
        if panel.key != "throughput" or not panel.drawn:
            shown.append(panel)
        elif bits is None:
            title = f"{panel.title}; the link's rate is not known: nothing shows that the link was full"
            shown.append(replace(panel, title=title))
        else:
            ends = min(int(s.time_ns[0]) for s in panel.drawn), max(int(s.time_ns[-1]) for s in panel.drawn)
            level = np.full(2, round(bits), dtype=np.int64)
            line = Series(words, "capacity", np.array(ends), level, bound=True, doc=doc)
            shown.append(replace(panel, title=f"{panel.title}; {words}", series=[line, *panel.series]))
    last_of_tcp = 1 + max((i for i, p in enumerate(panels) if p.key == "rtt"), default=len(panels) - 1)
    return [*shown[:last_of_tcp], *delay, *shown[last_of_tcp:]]


def logged_bps(diagnosis: Diagnosis) -> float | None:
    """Return the mean rate in bit/s at which the link's log shows the link sending.

    None without such a log, or if the link has no slots.
    """
    near, slot_ns = diagnosis.transfer.near, diagnosis.transfer.slot_ns
    if near is None or not slot_ns:
        return None
    payload = near.frames["payload_bytes"][near.frames["sent"] & (near.frames["payload_bytes"] > 0)]
    return float(payload.mean()) * BITS_PER_BYTE * NS_PER_S / slot_ns if len(payload) else None


def _delay_panel(diagnosis: Diagnosis) -> Panel:
    """Return the panel of the one-way delay above its minimum, in recorded time.

    Without delays it shows the reason.
    """
    transfer, seen = diagnosis.transfer, diagnosis.limited.seen
    pairs, receiver = transfer.data_pairs, transfer.receiver
    table, clock = transfer.sender, transfer.clock
    # rows of the sender's table, when these were sent, and their delays up to a constant
    rows = time_ns = way_ns = np.empty(0, np.int64)
    if seen is not None and seen.one_way and len(seen.delays.time_ns):
        rows, time_ns, way_ns = seen.sends.row[seen.delays.place], seen.delays.time_ns, seen.delays.way_ns
    elif pairs is not None and receiver is not None:
        both = (pairs.table["outcome"] == PacketOutcome.MATCHED) & (pairs.sent != NA) & (pairs.arrived != NA)
        both[both] = table["payload_bytes"][pairs.sent[both]] > 0
        rows, time_ns = pairs.sent[both], table["time_ns"][pairs.sent[both]]
        way_ns = transfer.came_ns[pairs.arrived[both]] - time_ns
    if not len(rows):
        return Panel("one_way", "One-way delay of the data", SECONDS, _EMPTY_SHARE, [], _NO_WAY)
    series = Series(
        "one-way delay", "one_way", time_ns, way_ns - way_ns.min(),
        frame=table["frame"][rows], file=table["file"][rows],
        doc="delay of each data segment on its way to the receiver, above the minimum",
    )  # fmt: skip
    bound_ns = np.empty(0) if clock is None else clock.bound_ns[np.isfinite(clock.bound_ns)]
    if diagnosis.limited.view is Viewpoint.RECEIVER:
        trust = "its variation only, from the sender's timestamps, TSval"
    elif not len(bound_ns):
        trust = "the error of the clocks is not known"
    else:
        bound = float(np.median(bound_ns))
        trust = f"clocks ± {time_error(bound)}" if bound else "by one clock"
    title = f"One-way delay of the data, above its minimum ({trust})"
    return Panel("one_way", title, SECONDS, _SHARE, [in_order(series)])
