"""The account by the link's log: every slot, by the first rule that applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.account.data_slots import carried
from multitracer.diagnosis.account.idle_slots import gaps
from multitracer.diagnosis.account.link_time import LinkTime
from multitracer.diagnosis.account.outages import outages
from multitracer.diagnosis.account.silent_slots import Silence
from multitracer.diagnosis.account.use_rows import Uses

if TYPE_CHECKING:
    from multitracer.diagnosis.join.segments_and_frames import Join
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.tables import Table


def measured(transfer: Transfer, joined: Join) -> Table:
    """Return LINK_USE of a transfer whose link was logged at its sender."""
    time = LinkTime.of(transfer)
    begin, end = time.ticks(np.array([transfer.begin_ns, transfer.end_ns])).tolist()
    out = outages(transfer, joined.delivery)
    silence = Silence(joined, time, begin, end, out)
    carries = carried(joined, time, begin, end, out)
    rules = (silence.outages(), carries, silence.queued(), gaps(transfer, silence), silence.unlogged())
    return Uses.together([part.runs() for part in rules]).table(time.stamps)
