"""Rule 4 of the account, in slots: stretches in which nothing was sent and nothing waited."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.account.idle_reasons import idle
from multitracer.diagnosis.account.lost_copies import lost_by
from multitracer.diagnosis.packets.sender_view import SenderView
from multitracer.diagnosis.use import Use, UseCause
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.account.silent_slots import Silence
    from multitracer.diagnosis.account.use_rows import Uses
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.tables import Array


def gaps(transfer: Transfer, silence: Silence) -> Uses:
    """Return the uses of the idle stretches of a transfer.

    A wait for a retransmission began with what lost the copy before, if the link tells; others began with the
    last frame that was sent. Where TCP could have sent but the far end had stopped the link, or still read
    what it had got, the transfer waited for the far end; where a repeated frame ends the stretch, it waited
    for the link's recovery.
    """
    chosen = silence.idle
    began = _begins(silence, chosen)
    ender = silence.entries.after(began)
    why = idle(transfer.once(SenderView), silence.time.stamps(began), ender)
    use, cause = why.use.copy(), why.cause.copy()
    waits = (use != Use.HANDSHAKE) & (use != Use.IDLE_APP)
    stopped = waits & (silence.stop[chosen] != NA)
    for where, instead, its_cause in (
        (waits & silence.read[chosen], Use.XOFF, UseCause.FAR_BUFFER),
        (stopped, Use.XOFF, UseCause.NONE),
        (waits & silence.repeats[chosen], Use.ARQ, UseCause.NONE),
    ):
        use[where], cause[where] = instead, its_cause
    lost = np.where(use == Use.XOFF, NA, lost_by(silence.joined, transfer.verdicts, ender))
    event = np.where(stopped, silence.stop[chosen], lost)
    return silence.uses(
        chosen,
        use,
        cause=cause,
        back_off=np.where(use == Use.IDLE_RTO, why.back_off, NA),
        source=np.where(event == NA, "near.frames", "near.events"),
        row=np.where(event == NA, silence.frame[chosen], event),
        ended_row=ender,
    )


def _begins(silence: Silence, chosen: Array) -> Array:
    """Return where the gap began that each stretch is part of.

    A gap ends where a frame is sent, a packet waits, or a segment is dropped at the queue's door.
    """
    begin, end = silence.begin[chosen], silence.end[chosen]
    if not len(begin):
        return begin
    opens = np.ones(len(begin), dtype=bool)
    opens[1:] = (begin[1:] > end[:-1]) | np.isin(begin[1:], silence.entries.refused)
    return begin[np.maximum.accumulate(np.where(opens, np.arange(len(begin)), 0))]
