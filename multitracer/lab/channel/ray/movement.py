"""Where a node is at each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from random import Random

    from multitracer.lab.channel.ray.config import NodeConfig
    from multitracer.tables import Array


def positions(node: NodeConfig, times_s: Array, *, luck: Random) -> Array:
    """Return the places of a node's antenna.

    Parameters
    ----------
    node : NodeConfig
    times_s : (n,) float64
        Seconds since the begin, evenly spaced from 0 on.
    luck : Random
        For a speed that is drawn.

    Returns
    -------
    (n, 3) float64, or (1, 3) of a node that stands still
        x, y and height, m.
    """
    gone_m = _gone(node, times_s, luck)
    if not gone_m.any():
        gone_m = gone_m[:1]
    heading = np.deg2rad(node.heading_deg)
    if node.radius_m > 0:
        angle = heading + gone_m / node.radius_m
        x_m, y_m = node.radius_m * np.cos(angle), node.radius_m * np.sin(angle)
    else:
        x_m, y_m = gone_m * np.cos(heading), gone_m * np.sin(heading)
    return np.column_stack([node.x_m + x_m, node.y_m + y_m, np.full(len(gone_m), node.height_m)])


def _gone(node: NodeConfig, times_s: Array, luck: Random) -> Array:
    """Return the metres that a node has gone at each time, (n,)."""
    if node.fastest_m_per_s == 0:
        return np.asarray(node.speed_m_per_s * times_s)
    count = int(times_s[-1] // node.speed_every_s) + 1
    drawn = [luck.uniform(node.slowest_m_per_s, node.fastest_m_per_s) for _ in range(count)]
    edges_s = node.speed_every_s * np.arange(count + 1)
    edges_m = np.concatenate([[0.0], np.cumsum(drawn) * node.speed_every_s])
    return np.asarray(np.interp(times_s, edges_s, edges_m))
