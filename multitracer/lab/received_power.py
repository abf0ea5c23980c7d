"""The received power of a ray-traced radio, for analysts: `received_power("ray-1")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from multitracer.figures.power_figure import power_figure
from multitracer.lab.scenario.radio import power_of
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.figures.palette import ThemeName
    from multitracer.lab.channel.ray import Fades
    from multitracer.lab.scenario.radio import ReceivedPower


class ChannelPower:
    """The received power of a scenario's radio; `received_power` makes it."""

    def __init__(self, received: ReceivedPower) -> None:
        self._received = received

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self._received.name

    @property
    def threshold_dbm(self) -> float | None:
        """Power below which the link is down; None if the link has no threshold."""
        return self._received.threshold_dbm

    @property
    def power(self) -> pd.DataFrame:
        """The received power of each step: columns time_s (seconds since the start) and power_dbm."""
        channel = self._received.channel
        return pd.DataFrame({"time_s": channel.time_ns / NS_PER_S, "power_dbm": channel.power_dbm})

    @property
    def fades(self) -> Fades | None:
        """Statistics of the intervals below the threshold: share of time, number, mean duration in s.

        None without a threshold.

        Examples
        --------
        >>> from multitracer.lab.received_power import received_power
        >>> received_power("ray-1").fades.number
        3
        """
        return self._received.fades

    def figure(self, *, theme: ThemeName = "light") -> go.Figure:
        """Return the figure of the power and the threshold."""
        channel = self._received.channel
        return power_figure(
            self.name, channel.time_ns, channel.power_dbm, threshold_dbm=self.threshold_dbm, theme=theme
        )

    def __repr__(self) -> str:
        """Return the name, the length, and the lowest and highest power as text."""
        power_dbm = self._received.channel.power_dbm
        return f"<{self.name}: {len(power_dbm)} steps, {power_dbm.min():.1f} to {power_dbm.max():.1f} dBm>"


def received_power(scenario: str, *, seed: int | None = None, threshold_dbm: float | None = None) -> ChannelPower:
    """Compute the received power of a scenario's ray-traced radio (docs/ray_channel.md).

    Parameters
    ----------
    scenario : str
        Name of a bundled scenario, such as "ray-1", or the path of a TOML file.
    seed : int, optional
        Random seed; by default that of the scenario.
    threshold_dbm : float, optional
        Threshold in dBm; by default that of the scenario's link.

    Raises
    ------
    InputError
        If there is no such scenario, or its radio is impossible.

    Examples
    --------
    >>> from multitracer.lab.received_power import received_power
    >>> float(received_power("ray-1").power["power_dbm"].max().round(1))
    -47.0
    """
    return ChannelPower(power_of(scenario, seed=seed, threshold_dbm=threshold_dbm))
