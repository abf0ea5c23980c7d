"""What passed around each handover of a drive, and a quantity laid over all of them.

Limits and round trips are those of the work that the diagnosis explains, throughput that of the drive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.analysis.mobility import around as windows
from multitracer.analysis.mobility.epochs import epochs
from multitracer.errors import InputError

if TYPE_CHECKING:
    from multitracer.diagnosis.road import Road
    from multitracer.recording.phones import Phone
    from multitracer.tables import Table

QUANTITIES = ("throughput", "rtt")
SEED = 1
"""Of the intervals of epochs, unless another is given: the same drive gives the same numbers."""


def around_handovers(road: Road, phone: Phone) -> tuple[Table, Table]:
    """Return AROUND and AROUND_LIMITS of a drive; what was not recorded is NA.

    Parameters
    ----------
    road : Road
    phone : Phone
        Whose handovers they are.
    """
    limits = road.limits
    shares = None if limits is None else windows.Limits(limits.begin_ns, limits.end_ns, limits.limit)
    return windows.around(phone.handovers, windows.Traffic(road.throughput, road.rtt, None, shares))


def epochs_of(road: Road, phone: Phone, quantity: str, *, seed: int = SEED) -> Table:
    """Return EPOCHS of a quantity over all handovers of a drive.

    Parameters
    ----------
    road : Road
    phone : Phone
        Whose handovers they are.
    quantity : str
        throughput (bit/s) or rtt (ns).
    seed : int
        Of the bootstrap.

    Raises
    ------
    InputError
        If there is no such quantity, or it was not recorded.
    """
    series = {"throughput": road.throughput, "rtt": road.rtt}.get(quantity)
    if series is None:
        name = road.surroundings.recording.name
        raise InputError(f"{name}: no {quantity} was recorded; epochs are of {' or '.join(QUANTITIES)}")
    return epochs(phone.handovers, series, seed=seed)
