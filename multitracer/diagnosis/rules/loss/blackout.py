"""The link delivered nothing for ten seconds or more (paper 001)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.account.uses import Use
from multitracer.diagnosis.finding import Finding, episodes
from multitracer.diagnosis.idle_gaps import BLACKOUT_S, RADIO_HELP, dead_link
from multitracer.diagnosis.limits.names import Limit
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "blackout"
HELP = "Finding the part of the path that failed: the log of its router or modem shows why."
_SLACK_MS = 100
"""Maximum link time in ms between two outages of one blackout, such as a fade and the reset after it. Not measured."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each outage of ten seconds or more.

    A fade (all frames lost) and the reset that follows are one outage.
    """
    yield from (each for each in dead_link(diagnosis, KIND) if each.cost_s >= BLACKOUT_S)
    uses = diagnosis.account.uses
    out = np.flatnonzero(uses["use"] == Use.OUTAGE)
    out = out[np.argsort(uses["begin_ns"][out], kind="stable")]
    if not len(out):
        return
    begin, end = uses["begin_ns"][out], np.maximum.accumulate(uses["end_ns"][out])
    gap = np.concatenate([[0], np.maximum(begin[1:] - end[:-1], 0)])
    slack_ns = round(_SLACK_MS * NS_PER_MS / diagnosis.transfer.speed)
    for first, last in episodes(np.cumsum(gap), apart_ns=slack_ns):
        began_ns, ended_ns = int(begin[first]), int(end[last - 1])
        lasted_s = diagnosis.link_s(began_ns, ended_ns)
        if lasted_s < BLACKOUT_S:
            continue
        row = out[first]
        evidence = (f"{uses['source'][row]}:{int(uses['row'][row])}",) if uses["source"][row] else ()
        cost_s = diagnosis.limited_s(Limit.OUTAGE, begin_ns=began_ns, end_ns=ended_ns)
        sentence = f"The link was dead for {lasted_s:.0f} s, {diagnosis.at_s(began_ns):.1f} s into the transfer."
        yield Finding(KIND, began_ns, ended_ns, cost_s, None, evidence, sentence, RADIO_HELP)
