"""One transfer as a trace: all lanes, packets and counters, in the order in which they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.analysis.series.labelled import stretched
from multitracer.export.explained import answer, name
from multitracer.export.perfetto.counters import write_counters
from multitracer.export.perfetto.lanes import write_conclusions
from multitracer.export.perfetto.packets import MOST_IN_FLIGHT, write_packets
from multitracer.export.perfetto.track_event import Trace
from multitracer.words import count

if TYPE_CHECKING:
    from typing import BinaryIO

    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds
    from multitracer.tables import Array


def write_trace(stream: BinaryIO, recording: Recording, diagnosis: Diagnosis) -> None:
    """Write a trace of the explained transfer, in link time.

    Parameters
    ----------
    stream : binary file
    recording : Recording
    diagnosis : Diagnosis
    """
    transfer = diagnosis.transfer
    origin_ns = transfer.layers.part.capture.first_ns or 0

    def placed(time_ns: Array) -> list[int]:
        link_ns: list[int] = stretched(time_ns, speed=transfer.speed, origin_ns=origin_ns).clip(0).tolist()
        return link_ns

    lines = "\n".join(answer(diagnosis))
    trace = Trace(stream, name(recording.name), max(origin_ns, 0), lines)
    unplaced = write_conclusions(trace, diagnosis, placed)
    without = write_packets(trace, transfer, placed)
    write_counters(trace, transfer, _link_bounds(recording.bounds_ns, transfer.speed, origin_ns))
    if unplaced:
        recording.warn_once(f"{recording.name}: {count(unplaced, 'finding')} left out: too many at one time")
    if without:
        why = f"more than {MOST_IN_FLIGHT} were in flight"
        recording.warn_once(f"{recording.name}: {count(without, 'segment')} drawn without a length: {why}")


def _link_bounds(bounds_ns: Bounds, speed: float, origin_ns: int) -> Bounds:
    """Return bounds of recorded time as those of link time."""
    begin, end = (
        None if side is None else origin_ns + round((side - origin_ns) * speed) for side in bounds_ns
    )
    return begin, end
