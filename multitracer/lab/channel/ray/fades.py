"""When received power is below a threshold: the fades of a channel, and paper 002's numbers of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Array, Numbers


class Fades(NamedTuple):
    """Stretches of a channel below a threshold (Table I of paper 002)."""

    down_share: float
    """T_d: part of the time that the link is down, 0 to 1."""
    number: int
    """N_f: stretches, those at the begin and at the end too."""
    mean_s: float | None
    """T_f: mean length of a stretch; None without any."""


def switches(power_dbm: Array, threshold_dbm: float) -> tuple[bool, Numbers]:
    """Return whether the link begins up, and the steps at which it changes.

    Parameters
    ----------
    power_dbm : (n,) float64
    threshold_dbm : float
        Below it the link is down (paper 002, section II).

    Returns
    -------
    tuple of bool and (m,) int64
    """
    is_up = power_dbm >= threshold_dbm
    return bool(is_up[0]), np.flatnonzero(is_up[1:] != is_up[:-1]) + 1


def fades_of(power_dbm: Array, threshold_dbm: float, *, step_s: float) -> Fades:
    """Return the fades of a channel whose samples hold for `step_s` each.

    Examples
    --------
    >>> fades_of(np.array([-70.0, -80.0, -80.0, -70.0]), -75.0, step_s=0.5)
    Fades(down_share=0.5, number=1, mean_s=1.0)
    """
    down = power_dbm < threshold_dbm
    begins = int(down[0]) + int(np.count_nonzero(down[1:] & ~down[:-1]))
    steps = int(np.count_nonzero(down))
    return Fades(steps / len(down), begins, steps * step_s / begins if begins else None)
