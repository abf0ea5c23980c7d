"""A drive, judged: where it was bad and why, and what passed around each handover.

The limits are those of all connections of the piece of work that the diagnosis explains. A direction whose
data the responder sends is a download: there, a sender without data is the server. Without a diagnosis nobody
knows whether data were wanted, and the radio alone is judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility import around as windows
from multitracer.analysis.mobility.epochs import epochs
from multitracer.analysis.mobility.seconds import Drive, Limits
from multitracer.analysis.mobility.stretches import stretches
from multitracer.diagnosis.limits.names import Limit, Part
from multitracer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.analysis.mobility.series import Samples, Steps
    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.diagnosis.road import Road
    from multitracer.recording.phones import Phone
    from multitracer.tables import Table

_LIMIT_WORDS = np.array([limit.label for limit in Limit])
_PART_WORDS = np.array([part.label if part else "" for part in Part])
SEED = 1
"""Of the intervals of epochs, unless another is given: the same drive gives the same numbers."""


def stretches_of(road: Road, phone: Phone, *, poor_bps: float | None = None) -> Table:
    """Return STRETCHES of a drive: where it was bad, how bad, and why.

    Parameters
    ----------
    road : Road
    phone : Phone
        Whose radio it is.
    poor_bps : float, optional
        As in `analysis.mobility.stretches`.
    """
    limits = None if road.diagnosis is None else limits_of(road.diagnosis)
    drive = Drive(phone.stays, phone.handovers, road.route, road.throughput, limits)
    return stretches(drive, poor_bps=poor_bps)


def around_handovers(road: Road, phone: Phone) -> tuple[Table, Table]:
    """Return AROUND and AROUND_LIMITS of a drive; what was not recorded is NA."""
    limits = None if road.diagnosis is None else limits_of(road.diagnosis)
    shares = None if limits is None else windows.Limits(limits.begin_ns, limits.end_ns, limits.limit)
    return windows.around(phone.handovers, windows.Traffic(road.throughput, road.rtt, None, shares))


def epochs_of(road: Road, phone: Phone, quantity: str, *, seed: int = SEED) -> Table:
    """Return EPOCHS of a quantity over all handovers of a drive.

    Parameters
    ----------
    road : Road
    phone : Phone
    quantity : str
        throughput (bit/s) or rtt (ns).
    seed : int
        Of the bootstrap.

    Raises
    ------
    InputError
        If there is no such quantity, or it was not recorded.
    """
    known: dict[str, Callable[[], Steps | Samples | None]] = {
        "throughput": lambda: road.throughput,
        "rtt": lambda: road.rtt,
    }
    series = known.get(quantity, lambda: None)()
    if series is None:
        name = road.surroundings.recording.name
        raise InputError(f"{name}: no {quantity} was recorded; epochs are of {', '.join(known)}")
    return epochs(phone.handovers, series, seed=seed)


def limits_of(diagnosis: Diagnosis) -> Limits:
    """Return what limited all connections of the piece of work that a diagnosis explains."""
    members = diagnosis.group.members
    cells = [member.limited.cells for member in members]
    downloads = [np.full(len(m.begin), m.limited.transfer.layers.reverse) for m in members]
    if not members:
        nothing = np.empty(0, dtype=np.int64)
        return Limits(nothing, nothing, _LIMIT_WORDS[nothing], _PART_WORDS[nothing], nothing > 0)
    return Limits(
        np.concatenate([member.begin for member in members]),
        np.concatenate([member.end for member in members]),
        _LIMIT_WORDS[np.concatenate([each.limit for each in cells])],
        _PART_WORDS[np.concatenate([each.part for each in cells])],
        np.concatenate(downloads),
    )
