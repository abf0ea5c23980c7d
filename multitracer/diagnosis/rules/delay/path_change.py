"""The path's own delay changed permanently: another route through the network, or another cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.finding import Finding, rows
from multitracer.units import NS_PER_S
from multitracer.words import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.packets.packet_delays import PacketDelays

KIND = "path-change"
_SHORT, _TAKEN_BACK = 4, 0.25
"""A change that the next one takes back, but for this share, before it lasted this many of its own delays, was a queue
or a stop: its packets waited together, as for a handover. Not measured; satellites change for 300 delays or more."""
HELP = "The routing, or the handover, of that moment; nothing at the two ends."


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each permanent change of the path's minimum delay."""
    delays = None if diagnosis.is_link_logged else diagnosis.typical_delays
    if delays is None:
        return
    for at, step_ns in _lasting(delays):
        time_ns = int(delays.time_ns[at])
        step_s = diagnosis.link_s(0, step_ns)
        way = "a packet" if delays.is_one_way else "a round trip"
        sentence = (
            f"The path changed {diagnosis.at_s(time_ns):.1f} s into the transfer: from then on {way} took "
            f"{duration(abs(step_s) * NS_PER_S)} {'longer' if step_s > 0 else 'less'}, without any queue."
        )
        evidence = rows("sender", delays.row[at - 1 : at + 1])
        yield Finding(KIND, time_ns, time_ns, 0.0, None, evidence, sentence, numbers={"step_s": step_s})


def _lasting(delays: PacketDelays) -> list[tuple[int, int]]:
    """Return the changes, each with its size in ns, without pairs of which the later takes the earlier back."""
    lasting: list[tuple[int, int]] = []
    for at, step_ns in zip(delays.changes.tolist(), delays.steps_ns.tolist(), strict=True):
        if lasting:
            before, size_ns = lasting[-1]
            is_soon = delays.time_ns[at] - delays.time_ns[before] < _SHORT * abs(size_ns)
            if is_soon and abs(size_ns + step_ns) < _TAKEN_BACK * abs(size_ns):
                lasting.pop()
                continue
        lasting.append((at, step_ns))
    return lasting
