"""Rule 1 of the account: when the link delivered nothing, and why."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.ranges import merged, within
from multitracer.diagnosis.use import UseCause
from multitracer.tables import NA
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.diagnosis.join.delivery import Delivery
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.recording.hosts import LinkSide
    from multitracer.tables import Array

_AROUND_SLOTS = 2
"""Slots that a frame and its answer take themselves, beside twice the pipe."""


class Outages(NamedTuple):
    """Stretches of slots [begin, end) of the near end in which nothing was delivered; they are disjoint."""

    begin: Array
    end: Array
    cause: Array
    """UseCause.RESET or UseCause.RADIO."""
    source: Array
    """Table of the transfer that tells of the first moment."""
    row: Array
    """Row of it there."""

    @classmethod
    def none(cls) -> Outages:
        """Return no outage."""
        number, text = np.empty(0, dtype=np.int64), np.empty(0, dtype="U11")
        return cls(number, number, np.empty(0, dtype=np.uint8), text, number)


def outages(transfer: Transfer, delivery: Delivery | None) -> Outages:
    """Return the outages of the link; a fade goes until the reset that it led to begins.

    What the far end cannot take while it resets is what was sent a pipe's length before.
    """
    assert transfer.near is not None
    near = resets(transfer.near, "near.events")
    if delivery is None:
        return near
    far = resets(delivery.far, "far.events")
    pipe = delivery.pipe_slots
    reset = _united([near, far._replace(begin=far.begin - pipe, end=far.end - pipe)])
    return _sorted(reset, _without(_fades(delivery), reset))


def resets(side: LinkSide, source: str) -> Outages:
    """Return the resets that one end saw, from the first word of one to its end, in its own slots.

    Several starts before one end are one episode; a reset that never ends goes on to the end of the log.
    """
    started, done = side.rows("reset_started"), side.rows("reset_done", "call_dropped", "disconnected")
    tick = side.events["tick"]
    opens = np.searchsorted(done, started)
    _, first = np.unique(opens, return_index=True)  # the first start before each end
    started, opens = started[first], opens[first]
    ends = np.append(tick[done], max(int(tick.max(initial=0)), int(side.frames["tick"].max(initial=0))) + 1)
    begin = tick[started] + 1  # what a slot brought about holds from the next on
    return Outages(
        begin,
        np.maximum(ends[opens] + 1, begin),
        np.full(len(started), UseCause.RESET, dtype=np.uint8),
        np.full(len(started), source),
        started,
    )


def reset_episodes(side: LinkSide, *, slot_ns: int) -> list[Array]:
    """Return the resets of one end as `resets` numbers them, those together that are one episode; see Notes.

    Returns
    -------
    list of ndarray of int64, each of shape (n_resets_of_episode,)

    Notes
    -----
    Where both ends give up a frame, one asks for a reset before the other request arrives. That arrives
    when the first reset is done, or is sent again each T1 until it is answered (3GPP TS 24.022): a reset that
    the peer asked for within T1 of the last is no reset of its own.
    """
    episodes = resets(side, "")
    t1_ms = str(side.facts.get("t1_ms", ""))
    t1_slots = int(t1_ms) * NS_PER_MS // slot_ns if t1_ms.isdecimal() else 0
    by_peer = side.events["cause"][episodes.row] == "peer"
    soon = episodes.begin[1:] - episodes.end[:-1] <= t1_slots + _AROUND_SLOTS
    opens = np.flatnonzero(~(by_peer[1:] & soon)) + 1
    return [each for each in np.split(np.arange(len(episodes.row)), opens) if len(each)]


def _united(parts: list[Outages]) -> Outages:
    """Return the union of the resets of both ends; each begins with the first that tells of it."""
    every = _sorted(*parts)
    begin, end = merged(every.begin, every.end)
    first = np.searchsorted(every.begin, begin)
    return Outages(begin, end, every.cause[first], every.source[first], every.row[first])


def _fades(delivery: Delivery) -> Outages:
    """Return the stretches in which every frame to the far end was lost for a link round trip or longer."""
    frames = delivery.far.frames
    got = np.flatnonzero(~frames["sent"] & (frames["tick"] != NA))
    lost = got[~frames["fcs_ok"][got]]
    if not len(lost):
        return Outages.none()
    tick = frames["tick"][lost]
    opens = np.flatnonzero(np.diff(tick, prepend=-2) != 1)
    last = np.append(opens[1:], len(tick)) - 1
    long_enough = tick[last] - tick[opens] + 1 >= 2 * delivery.pipe_slots + _AROUND_SLOTS
    opens, last = opens[long_enough], last[long_enough]
    return Outages(
        tick[opens] - delivery.pipe_slots,
        tick[last] - delivery.pipe_slots + 1,
        np.full(len(opens), UseCause.RADIO, dtype=np.uint8),
        np.full(len(opens), "far.frames"),
        lost[opens],
    )


def _without(fades: Outages, reset: Outages) -> Outages:
    """Return the fades, each only until a reset begins and from where one ends."""
    parts = []
    for begin, end, *rest in zip(*fades, strict=True):
        edges = [begin, *reset.begin[(reset.begin > begin) & (reset.begin < end)]]
        edges += [*reset.end[(reset.end > begin) & (reset.end < end)], end]
        edges.sort()
        for left, right in pairwise(edges):
            if within(np.array([left]), reset.begin, reset.end)[0] < 0:
                parts.append((left, right, *rest))
    if not parts:
        return Outages.none()
    begins, ends, causes, sources, rows = zip(*parts, strict=True)
    return Outages(*map(np.array, (begins, ends, causes, sources, rows)))


def _sorted(*parts: Outages) -> Outages:
    together = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    order = np.argsort(together[0], kind="stable")
    return Outages(*(column[order] for column in together))
