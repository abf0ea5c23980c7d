"""The utilization as the link's rate gives it, to which the account is held within 2.5 points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.account.by_slots import backlog
from multitracer.diagnosis.account.uses import REPEATED, Use
from tests.narrowed import known

if TYPE_CHECKING:
    from multitracer.diagnosis.account.link_account import LinkAccount

FRAME_OCTETS = 24
"""Characters that a slot carries."""
OFTEN_DEAD = 0.07
"""Share of the time in which the radio delivers nothing. With 0.06 (fade-n2-20) the rate still agrees; with
more (fig10-exhaustion) no backlog shows the link's rate, and docs/lost_time.md says what is different."""
_LONG_ENOUGH_S = 30


def by_rate(found: LinkAccount) -> float:
    """Return useful octets / (end-to-end rate x the time that there was for them).

    What was carried in vain takes the far end's time too, which the account calls `xoff`: it is no loss.
    """
    carriages = known(found.joined).carriages
    mine = carriages["payload_bytes"] > 0
    share = np.where(mine, carriages["new_bytes"] / np.maximum(carriages["payload_bytes"], 1), 0)
    useful_bytes = float((carriages["wire_bytes"] * share).sum())
    available_s = found.total_s - found.seconds[Use.IDLE_APP] - found.seconds[Use.OTHER]
    rate = end_to_end_rate(found)
    in_vain_s = sum(found.seconds[use] for use in REPEATED)
    stopped_s = in_vain_s * (_link_rate(found) / rate - 1)
    return useful_bytes / (rate * available_s) + stopped_s / available_s


def _link_rate(found: LinkAccount) -> float:
    return FRAME_OCTETS / (found.transfer.slot_ns / 1e9)


def end_to_end_rate(found: LinkAccount) -> float:
    """Octets per second that the link carries while it has enough: what came out of the longest backlog.

    Where the application was silent for most of the time and the far end never had to stop the link, the
    link's own: what a burst brings waits in the far end's buffer, and is read in the silence. A backlog too
    short to show it (a window below the pipe's capacity): the rate of the far terminal.
    """
    stops = len(known(found.transfer.near).rows("xoff_received"))
    if not stops and found.seconds[Use.IDLE_APP] > found.total_s / 2:
        return _link_rate(found)
    begin, end = backlog(known(found.joined))
    longest = int(np.argmax(end - begin))
    slot_s = found.transfer.slot_ns / 1e9
    if (end - begin)[longest] * slot_s < _LONG_ENOUGH_S:
        return float(found.transfer.variables.parameters["link"]["drain_bytes_per_s"])
    carriages = known(found.joined).carriages
    inside = (carriages["queued_tick"] >= begin[longest]) & (carriages["sent_tick"] < end[longest])
    inside &= carriages["arrived_tick"] != -1
    arrived = carriages["arrived_tick"][inside]
    octets = carriages["wire_bytes"][inside][1:].sum()
    return float(octets / ((arrived[-1] - arrived[0]) * slot_s))
