"""Correlations that stand beside mutual information: of ranks, and of distances."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

from multitracer.analysis.statistics.compiled import distance_correlation

if TYPE_CHECKING:
    from multitracer.tables import Array

if find_spec("dcor") is None:  # it is imported when it is called: that takes longer than all the rest
    raise ModuleNotFoundError("dcor is not installed", name="dcor")


def rank_correlation(x: Array, y: Array) -> float:
    """Return Spearman's correlation of the points that both series have, NaN if one does not vary."""
    pair = _varying_pair(x, y)
    return float("nan") if pair is None else float(spearmanr(*pair).statistic)


def correlation_of_distances(x: Array, y: Array) -> float:
    """Return the distance correlation of the points that both series have, NaN if one does not vary.

    Szekely, Rizzo and Bakirov (2007), Annals of Statistics 35: 0 only for independent series, however they
    depend. In time n log n (Huo and Szekely 2016).
    """
    pair = _varying_pair(x, y)
    return float("nan") if pair is None else float(distance_correlation()(*pair))


def _varying_pair(x: Array, y: Array) -> tuple[Array, Array] | None:
    both = np.isfinite(x) & np.isfinite(y)
    x, y = x[both], y[both]
    return (x, y) if len(x) and np.ptp(x) > 0 and np.ptp(y) > 0 else None
