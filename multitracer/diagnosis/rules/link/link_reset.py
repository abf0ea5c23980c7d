"""The link was reset: TCP must send its flushed data again (paper 004, 5.3; 3GPP TS 24.022)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.account.by_slots import reset_episodes, resets
from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.names import Limit
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "link-reset"
HELP = "A better place or cell, or a link that repeats a frame more often (N2) before it gives up."
_WHY = {
    "n2": "after a frame had been sent {attempts} times without success",
    "peer": "because the other end asked for it",
    "forced": "as the script of the run said",
}


_SHOWN_S = 0.05
"""Minimum time in s that is printed: a shorter one is printed as 0.0 s."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each reset that the data's sender saw, from its first message to its end."""
    near = diagnosis.transfer.near
    if near is None:
        return
    events, slot_ns = near.events, diagnosis.transfer.slot_ns
    episodes = resets(near, "near.events")
    for episode in reset_episodes(near, slot_ns=slot_ns):
        row, begin, end = episodes.row[episode[0]], episodes.begin[episode[0]], episodes.end[episode[-1]]
        begin_ns = int(events["time_ns"][row])
        end_ns = begin_ns + round(max(int(end - begin), 0) * slot_ns / diagnosis.transfer.speed)
        if begin_ns > diagnosis.transfer.end_ns or end_ns < diagnosis.transfer.begin_ns:
            continue
        inside = (events["time_ns"] >= begin_ns) & (events["time_ns"] <= end_ns)
        flushed = (events["event"] == "flushed") & inside
        held = (events[name][flushed] for name in ("unacked_bytes", "unsent_bytes"))
        octets = sum(int(each[each > 0].sum()) for each in held)
        cost_s = diagnosis.limited_s(Limit.OUTAGE, begin_ns=begin_ns, end_ns=end_ns)
        cause = str(events["cause"][row])
        attempts = int(events["attempts"][row])
        why = _WHY.get(cause, "").format(attempts=attempts if attempts >= 0 else "too many")
        why += ", and the other end asked for one, too" if len(episode) > 1 and cause == "n2" else ""
        down_s = (end - begin) * slot_ns / NS_PER_S
        down = f"it was down for {down_s:.1f} s" if down_s >= _SHOWN_S else "it went on at once"
        sentence = (
            f"The radio link was reset {diagnosis.at_s(begin_ns):.1f} s into the "
            f"transfer{' ' + why if why else ''}; "
            f"{octets:,} bytes that it held were lost, and {down}."
        )
        evidence = rows("near.events", episodes.row[episode].tolist())
        yield Finding(KIND, begin_ns, end_ns, cost_s, octets, evidence, sentence)
