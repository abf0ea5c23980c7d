"""What the explanation of a transfer adds to its figure: the link's rate above its own, and one-way delay."""

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
    from multitracer.tables import Array

_SHARE = 1.2
"""Of the height: as the panel of the round trips."""
_EMPTY_SHARE = 0.3
"""A line of words."""
_NO_WAY = (
    "A one-way delay needs captures at both ends with clocks that can be related, or one at the receiver of "
    "a transfer with TCP timestamps."
)


def explained_panels(panels: list[Panel], diagnosis: Diagnosis, *, origin_ns: int) -> list[Panel]:
    """Return the panels of the explained transfer, with what only its explanation knows.

    Parameters
    ----------
    panels : list of Panel
        In link time.
    diagnosis : Diagnosis
    origin_ns : int
        The time that stays what it is when recorded time becomes link time.
    """
    speed = diagnosis.transfer.speed
    delay = in_link_time([_delay_panel(diagnosis)], speed=speed, origin_ns=origin_ns)
    with_capacity = [_with_capacity(p, diagnosis) if p.key == "throughput" else p for p in panels]
    last_of_tcp = 1 + max((i for i, p in enumerate(panels) if p.key == "rtt"), default=len(panels) - 1)
    return [*with_capacity[:last_of_tcp], *delay, *with_capacity[last_of_tcp:]]


def _with_capacity(panel: Panel, diagnosis: Diagnosis) -> Panel:
    """Return the panel of the rates with a line at the link's; where none is known the title says so."""
    known = _capacity(diagnosis)
    drawn = [series for series in panel.drawn if len(series)]
    if known is None or not drawn:
        why = "" if not drawn else "; the link's rate is not known: nothing shows that the link was full"
        return replace(panel, title=panel.title + why)
    bits, words, doc = known
    first = min(int(series.time_ns[0]) for series in drawn)
    last = max(int(series.time_ns[-1]) for series in drawn)
    line = Series(
        words,
        "capacity",
        np.array([first, last]),
        np.full(2, round(bits), dtype=np.int64),
        bound=True,
        doc=doc,
    )
    return replace(panel, title=f"{panel.title}; {words}", series=[line, *panel.series])


def _capacity(diagnosis: Diagnosis) -> tuple[float, str, str] | None:
    """Return the link's rate in bit/s of link time, its name with its range, and where it comes from."""
    limited = diagnosis.limited
    logged = logged_bps(diagnosis)
    if logged is not None:
        words = f"the link can carry {rate(logged)} by its log"
        return logged, words, "payload of the link's frames that were sent, over the slots that these took"
    if diagnosis.transfer.speed != 1:
        return None
    if limited.seen is not None and limited.seen.policer is not None:
        bits = limited.seen.policer.rate_bytes_per_s * BITS_PER_BYTE
        return bits, f"a policer let {rate(bits)} through", "what passed between losses (inferred)"
    shown = None if limited.shown is None else limited.shown.link.rate
    if shown is None:
        return None
    low, middle, high = (rate(each * BITS_PER_BYTE) for each in shown)
    words = (
        f"the link carried {middle}" if low == high else f"the link carried {low} to {high}, usually {middle}"
    )
    doc = "payload delivered while the link was full, its usual range; the line is the upper end"
    return shown.high * BITS_PER_BYTE, words, doc


def logged_bps(diagnosis: Diagnosis) -> float | None:
    """Return what a link with slots carries while it sends, by its own log; None without one."""
    near, slot_ns = diagnosis.transfer.near, diagnosis.transfer.slot_ns
    if near is None or not slot_ns:
        return None
    payload = near.frames["payload_bytes"][near.frames["sent"] & (near.frames["payload_bytes"] > 0)]
    return float(payload.mean()) * BITS_PER_BYTE * NS_PER_S / slot_ns if len(payload) else None


def _delay_panel(diagnosis: Diagnosis) -> Panel:
    """Return the panel of the delay above its least, in recorded time; without delays it says why."""
    known = _ways(diagnosis)
    if known is None:
        return Panel("one_way", "One-way delay of the data", SECONDS, _EMPTY_SHARE, [], _NO_WAY)
    rows, time_ns, way_ns = known
    table = diagnosis.transfer.sender
    series = Series(
        "one-way delay", "one_way", time_ns, way_ns - way_ns.min(),
        frame=table["frame"][rows], file=table["file"][rows],
        doc="delay of each data segment on its way to the receiver, above the least of all",
    )  # fmt: skip
    return Panel("one_way", _title(diagnosis), SECONDS, _SHARE, [in_order(series)])


def _title(diagnosis: Diagnosis) -> str:
    """Return what the panel shows, and how far clocks can be trusted."""
    title = "One-way delay of the data, above its least"
    if diagnosis.limited.view is Viewpoint.RECEIVER:
        return f"{title} (its variation only, from the sender's timestamps, TSval)"
    clock = diagnosis.transfer.layers.clock
    bound_ns = np.empty(0) if clock is None else clock.bound_ns[np.isfinite(clock.bound_ns)]
    if not len(bound_ns):
        return f"{title} (the error of the clocks is not known)"
    bound = float(np.median(bound_ns))
    return f"{title} ({f'clocks ± {time_error(bound)}' if bound else 'by one clock'})"


def _ways(diagnosis: Diagnosis) -> tuple[Array, Array, Array] | None:
    """Return rows of the sender's table, when each left, and what its way took up to a constant."""
    seen = diagnosis.limited.seen
    if seen is not None and seen.one_way and len(seen.delays.time_ns):
        return seen.sends.row[seen.delays.place], seen.delays.time_ns, seen.delays.way_ns
    transfer = diagnosis.transfer
    pairs, receiver = transfer.data_pairs, transfer.receiver
    if pairs is None or receiver is None:
        return None
    both = (pairs.table["outcome"] == PacketOutcome.MATCHED) & (pairs.sent != NA) & (pairs.arrived != NA)
    sent, arrived = pairs.sent[both], pairs.arrived[both]
    own = transfer.sender["payload_bytes"][sent] > 0
    sent, arrived = sent[own], arrived[own]
    left_ns = transfer.sender["time_ns"][sent]
    way_ns = transfer.came_ns[arrived] - left_ns
    return (sent, left_ns, way_ns) if len(sent) else None
