"""Several claims at once: which of them stand if one false claim in twenty comparisons is too much.

Holm (1979), Scandinavian Journal of Statistics 6, section 4: with weights, which say before the data are
seen which claim matters most. The chance of any false claim is at most the level, whatever depends on what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask


def stands(p_values: Array, weights: Array, level: float) -> Mask:
    """Return which claims stand, together at a level.

    Parameters
    ----------
    p_values : ndarray of float64, shape (n_claims,)
        NaN where there is none: that claim takes no part.
    weights : ndarray of float64, shape (n_claims,)
        Above 0; only their proportions count.
    level : float
        The chance of one false claim or more.

    Returns
    -------
    ndarray of bool, shape (n_claims,)
    """
    held = np.isfinite(p_values)
    standing = np.zeros(len(p_values), dtype=bool)
    for place in np.argsort(np.where(held, p_values / weights, np.inf), kind="stable").tolist():
        rest = float(weights[held & ~standing].sum())
        if not held[place] or p_values[place] > level * weights[place] / rest:
            break
        standing[place] = True
    return standing
