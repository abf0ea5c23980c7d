"""Figure 6 of paper 004: histogram of the channel utilization of transfers, with their throughput.

The bin of a transfer is its utilization in percent, rounded up (footnote 5 of the paper): 99 < u <= 100 is
bin 100. The bar in each bin is the range of the throughput of its transfers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import InputError
from multitracer.figures.palette import LOOKS, THEMES, template

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.figures.palette import Props, ThemeName
    from multitracer.tables import Array

_HEIGHT_PX = 460
_FEWEST_BINS = 10
_ROLE, _RANGE_ROLE = "data", "retransmission"


def rounded_up(utilization: Array) -> Array:
    """Return utilizations as whole percent, rounded up.

    Rounding errors are removed first (99.0000001 becomes 99).

    Parameters
    ----------
    utilization : ndarray of float64, shape (n,)
        From 0 to 1; never NaN.

    Returns
    -------
    ndarray of int64, percent, shape of `utilization`

    Examples
    --------
    >>> rounded_up(np.array([0.99, 0.991, 1.0])).tolist()
    [99, 100, 100]
    """
    percent: Array = np.ceil(np.round(np.asarray(utilization) * 100, 7)).astype(np.int64)
    return percent


def utilization_histogram(
    utilization: Array, throughput_bytes_per_s: Array, *, excluded: int = 0, theme: ThemeName = "light"
) -> go.Figure:
    """Return the histogram of rounded-up utilization with the throughput range of each bin.

    Parameters
    ----------
    utilization : ndarray, shape (n,)
        Utilization of each transfer, 0 to 1.
    throughput_bytes_per_s : ndarray, shape (n,)
        Payload over duration, bytes/s.
    excluded : int
        Number of transfers that were excluded because their call was dropped; shown in the title.
    theme : "light" or "dark"

    Raises
    ------
    InputError
        If there are no transfers.
    """
    import plotly.graph_objects as go  # noqa: PLC0415  plotly is optional, and slow to import

    if not len(utilization):
        raise InputError("there is no transfer to draw; the utilization needs at least one complete transfer")
    percent = rounded_up(utilization)
    bins = np.arange(min(int(percent.min()), 101 - _FEWEST_BINS), 101)
    shares = np.array([100 * np.mean(percent == b) for b in bins])
    kbps = np.asarray(throughput_bytes_per_s) * 8 / 1000
    drawn = go.Figure()
    drawn.add_bar(**_bars(bins, shares, percent, theme))
    drawn.add_scatter(**_ranges(bins, percent, kbps, theme))
    left_out = f", {excluded} with a dropped call left out" if excluded else ""
    drawn.update_layout(
        **_layout(theme), title=f"Channel utilization of {len(percent)} transfers{left_out}", height=_HEIGHT_PX
    )
    return drawn


def _bars(bins: Array, shares: Array, percent: Array, theme: ThemeName) -> Props:
    return {
        "x": bins,
        "y": shares,
        "customdata": [int(np.count_nonzero(percent == b)) for b in bins],
        "name": "share of the transfers",
        "marker": {"color": LOOKS[_ROLE].colour(theme)},
        "text": [f"{share:.0f} %" if share else "" for share in shares],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertemplate": "%{x} %: %{customdata} transfers, %{y:.1f} %<extra></extra>",
    }


def _ranges(bins: Array, percent: Array, kbps: Array, theme: ThemeName) -> Props:
    """Return a bar from the minimum to the maximum throughput of each bin, on the right axis."""
    full = [int(b) for b in bins if (percent == b).any()]
    low = np.array([kbps[percent == b].min() for b in full])
    high = np.array([kbps[percent == b].max() for b in full])
    colour = LOOKS[_RANGE_ROLE].colour(theme)
    return {
        "x": full,
        "y": (low + high) / 2,
        "yaxis": "y2",
        "mode": "markers",
        "name": "throughput, minimum to maximum",
        "marker": {"color": colour, "symbol": "line-ew-open", "size": 9},
        "error_y": {"array": (high - low) / 2, "color": colour, "thickness": 2, "width": 6},
        "customdata": np.stack([low, high], axis=1),
        "hovertemplate": "%{x} %: %{customdata[0]:.1f} to %{customdata[1]:.1f} kbit/s<extra></extra>",
    }


def _layout(theme: ThemeName) -> Props:
    base = template(theme)
    muted = THEMES[theme].muted
    x_axis = base.pop("xaxis") | {"title": "utilization, % rounded up", "dtick": 1, "showgrid": False}
    y_axis = base.pop("yaxis")
    right = y_axis | {"title": "throughput, kbit/s", "overlaying": "y", "side": "right", "showgrid": False}
    return base | {
        "xaxis": x_axis,
        "yaxis": y_axis | {"title": "share of the transfers, %", "range": [0, 105]},
        "yaxis2": right | {"range": [0, 10.5], "tickfont": {"color": muted}},
        "legend": {"orientation": "h", "y": -0.2},
        "bargap": 0.25,
        "margin": {"l": 60, "r": 60, "t": 60, "b": 60},
    }
