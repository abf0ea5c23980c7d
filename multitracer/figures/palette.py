"""Colours, marks and lines of each kind of series, in the two themes of a figure.

The hues are those of Okabe and Ito ("Color Universal Design", 2008). They are darkened for the light theme,
so that the contrast with the background is at least 3 : 1 (WCAG 2.2, 1.4.11), and adjusted so that readers
with each of the three kinds of colour blindness can distinguish them (`tests/figures/test_palette.py`). Sent
data are blue, ACKs are green, link and windows are orange, losses and retransmissions are vermillion, reports
of the receiver are purple. No two series of a panel differ by hue alone: mark, line and dash differ as well.

The module also has the colour scales of maps: classes from bad to good, with limits and unit. The colours are
those of ColorBrewer's 6-class RdYlBu (Brewer, "ColorBrewer 2.0", colorbrewer2.org), which are safe for the
common kinds of colour blindness; pale colours get a dark outline on a white page. A missing value is grey.
Red is bad: low power, a low rate, a high loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from multitracer.diagnosis.limits.names import Limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.tables import Array

ThemeName = Literal["light", "dark"]
Mark = Literal["points", "line", "step", "bars"]
Props = dict[str, Any]
"""Properties of a plotly object, with the names and nesting of plotly's JSON."""

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Helvetica Neue", Arial, sans-serif'


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of a figure other than those of series, for one theme."""

    paper: str
    ink: str
    muted: str
    grid: str
    axis: str
    label: str
    """Background of the hover text."""


THEMES: dict[ThemeName, Theme] = {
    "light": Theme("#ffffff", "#1c2430", "#566173", "#e8ebf0", "#9aa4b2", "#ffffff"),
    "dark": Theme("#151a21", "#e6eaf0", "#9fabbb", "#28303b", "#5d6878", "#1f2630"),
}


@dataclass(frozen=True, slots=True)
class SeriesStyle:
    """The appearance of one role of series.

    `size_px` is the diameter of a marker or the width of a line; `symbol` applies to points, `dash` to lines.
    """

    light: str
    dark: str
    mark: Mark
    size_px: float = 4.0
    symbol: str = "circle"
    dash: str = "solid"

    def colour(self, theme: ThemeName) -> str:
        """Return the colour for the background of that theme."""
        return self.light if theme == "light" else self.dark


_BLUE = ("#0072b2", "#56b4e9")
_GREEN = ("#007d5c", "#2bc79b")
_ORANGE = ("#b98600", "#e6a800")
_VERMILLION = ("#c43c00", "#ff7f45")
_PURPLE = ("#a02c90", "#e37bd6")
_GREY = ("#77818f", "#8f9aa8")
_SKY = ("#2f7fb5", "#8fc9ef")
_FAINT = ("#b9c1cc", "#4a5462")
_INK = ("#1c2430", "#f2f5f9")

LOOKS: dict[str, SeriesStyle] = {
    "data": SeriesStyle(*_BLUE, "points", 4.5),
    "ack": SeriesStyle(*_GREEN, "step", 1.5),
    "window_edge": SeriesStyle(*_ORANGE, "step", 1.2, dash="dot"),
    "retransmission": SeriesStyle(*_VERMILLION, "points", 9, "x-thin"),
    "out_of_order": SeriesStyle(*_ORANGE, "points", 8, "triangle-up-open"),
    "capture_duplicate": SeriesStyle(*_GREY, "points", 7, "circle-open"),
    "duplicate_ack": SeriesStyle(*_GREEN, "points", 6, "line-ew"),
    "sack": SeriesStyle(*_PURPLE, "bars", 1.6),
    "dsack": SeriesStyle(*_PURPLE, "points", 9, "diamond-open"),
    "zero_window": SeriesStyle(*_INK, "points", 9, "square-open"),
    "probe": SeriesStyle(*_INK, "points", 8, "cross-thin"),
    "handshake": SeriesStyle(*_INK, "points", 8, "diamond"),
    "reset": SeriesStyle(*_VERMILLION, "points", 11, "hash-open"),
    "flight": SeriesStyle(*_BLUE, "step", 1.4),
    "flight_sack": SeriesStyle(*_PURPLE, "step", 1.2, dash="dash"),
    "window": SeriesStyle(*_ORANGE, "step", 1.2, dash="dot"),
    "rtt": SeriesStyle(*_BLUE, "points", 4.5),
    "rtt_timestamp": SeriesStyle(*_GREEN, "points", 4.5, "cross-thin"),
    "rtt_sack": SeriesStyle(*_PURPLE, "points", 5, "diamond-open"),
    "srtt": SeriesStyle(*_INK, "step", 1.4),
    "rto": SeriesStyle(*_VERMILLION, "step", 1.2, dash="dot"),
    "goodput": SeriesStyle(*_BLUE, "step", 1.5),
    "throughput": SeriesStyle(*_GREY, "step", 1.2, dash="dot"),
    "capacity": SeriesStyle(*_ORANGE, "step", 1.8, dash="dash"),
    "one_way": SeriesStyle(*_BLUE, "points", 4),
    "cwnd": SeriesStyle(*_VERMILLION, "step", 1.8),
    "ssthresh": SeriesStyle(*_INK, "step", 1.3, dash="dash"),
    "received": SeriesStyle(*_SKY, "points", 4, "circle-open"),
    "received_band": SeriesStyle(*_FAINT, "bars", 1.2),
    "receiver_ack": SeriesStyle(*_PURPLE, "step", 1.2),
    "link_data": SeriesStyle(*_ORANGE, "points", 2.6),
    "link_received": SeriesStyle(*_GREY, "points", 2.2),
    "link_again": SeriesStyle(*_VERMILLION, "points", 6, "x-thin"),
    "link_lost": SeriesStyle(*_GREY, "points", 5, "x-thin"),
    "link_request": SeriesStyle(*_PURPLE, "points", 8, "line-ns"),
    "link_stop": SeriesStyle(*_INK, "points", 7, "triangle-left-open"),
    "link_go": SeriesStyle(*_INK, "points", 7, "triangle-right-open"),
    "assigned_rate": SeriesStyle(*_ORANGE, "step", 1.6),
    "link_reset": SeriesStyle(*_VERMILLION, "points", 13, "asterisk"),
    "slow_start": SeriesStyle(*_GREEN, "step", 0),
    "congestion_avoidance": SeriesStyle(*_FAINT, "step", 0),
    "reduction": SeriesStyle(*_ORANGE, "step", 0),
    "recovery": SeriesStyle(*_BLUE, "step", 0),
    "loss": SeriesStyle(*_VERMILLION, "step", 0),
    "trend": SeriesStyle(*_INK, "line", 1.2, dash="dash"),
    "trend_2": SeriesStyle(*_INK, "line", 1.2, dash="dot"),
    "trend_3": SeriesStyle(*_INK, "line", 1.2, dash="dashdot"),
    "trend_4": SeriesStyle(*_INK, "line", 1.2, dash="longdash"),
    "transaction_rtt": SeriesStyle(*_BLUE, "line", 1.4),
    "transaction_efficiency": SeriesStyle(*_GREEN, "line", 1.4, "triangle-up"),
    "radio_rssi": SeriesStyle(*_ORANGE, "line", 1.4, "square"),
    "radio_bler": SeriesStyle(*_VERMILLION, "line", 1.4, "x"),
    "radio_busy": SeriesStyle(*_PURPLE, "line", 1.4, "cross"),
    "radio_rsrp": SeriesStyle(*_BLUE, "line", 1.6),
    "radio_rscp": SeriesStyle(*_BLUE, "line", 1.4, dash="dash"),
    "radio_rsrq": SeriesStyle(*_PURPLE, "line", 1.4, dash="dash"),
    "radio_sinr": SeriesStyle(*_GREEN, "line", 1.6),
    "radio_ecio": SeriesStyle(*_PURPLE, "line", 1.4, dash="dot"),
    "radio_cqi": SeriesStyle(*_GREEN, "step", 1.4),
    "rate_down": SeriesStyle(*_BLUE, "step", 1.6),
    "rate_up": SeriesStyle(*_VERMILLION, "step", 1.4, dash="dash"),
    "zero_level": SeriesStyle(*_ORANGE, "line", 1.2, dash="dash"),
    "speed": SeriesStyle(*_INK, "line", 1.4),
    "travelled": SeriesStyle(*_SKY, "line", 1.6),
    "cell_1": SeriesStyle(*_BLUE, "step", 0),
    "cell_2": SeriesStyle(*_ORANGE, "step", 0),
    "cell_3": SeriesStyle(*_GREEN, "step", 0),
    "cell_4": SeriesStyle(*_PURPLE, "step", 0),
    "cell_5": SeriesStyle(*_VERMILLION, "step", 0),
    "cell_6": SeriesStyle(*_SKY, "step", 0),
    "cell_7": SeriesStyle(*_GREY, "step", 0),
    "transaction_dropped": SeriesStyle(*_INK, "points", 9, "diamond-open"),
    "clock_out": SeriesStyle(*_BLUE, "points", 3.5),
    "clock_back": SeriesStyle(*_GREEN, "points", 3.5, "circle-open"),
    "clock_together": SeriesStyle(*_BLUE, "points", 4),
    "clock_out_envelope": SeriesStyle(*_BLUE, "line", 1.4),
    "clock_back_envelope": SeriesStyle(*_GREEN, "line", 1.4, dash="dashdot"),
    "clock_bound": SeriesStyle(*_ORANGE, "bars", 1),
    "reading": SeriesStyle(*_BLUE, "line", 1.4),
    "event": SeriesStyle(*_INK, "points", 7, "diamond-open"),
}
"""Style of each role; `Series.role` is a key of this dict."""

LIMITS = {
    Limit.HANDSHAKE: _SKY[1],
    Limit.OUTAGE: _INK[0],
    Limit.LINK: _ORANGE[0],
    Limit.RECOVERY: _VERMILLION[0],
    Limit.RECEIVER_WINDOW: _PURPLE[0],
    Limit.SENDER_BUFFER: "#f0e442",
    Limit.APPLICATION: _GREEN[1],
    Limit.SLOW_START: _BLUE[1],
    Limit.CONGESTION_WINDOW: _BLUE[0],
    Limit.UNKNOWN: _FAINT[0],
}
"""Colours of limits on a route, in both themes; the hue shows the layer of the limit."""

TRANSPORTS = (
    SeriesStyle(*_BLUE, "line", 2, "circle"),
    SeriesStyle(*_VERMILLION, "line", 2, "square"),
    SeriesStyle(*_GREEN, "line", 2, "triangle-up"),
    SeriesStyle(*_PURPLE, "line", 2, "cross"),
    SeriesStyle(*_ORANGE, "line", 2, "star"),
    SeriesStyle(*_GREY, "line", 2, "hexagon"),
)
"""Styles of the variants of an experiment, in their order."""


def template(theme: ThemeName) -> Props:
    """Return the layout properties that depend on the theme: fonts, colours and axis lines."""
    colours = THEMES[theme]
    axis = {
        "gridcolor": colours.grid,
        "linecolor": colours.axis,
        "tickcolor": colours.axis,
        "zeroline": False,
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
    }
    return {
        "paper_bgcolor": colours.paper,
        "plot_bgcolor": colours.paper,
        "font": {"family": FONT, "size": 12, "color": colours.ink},
        "hoverlabel": {"bgcolor": colours.label, "font": {"family": FONT, "size": 12, "color": colours.ink}},
        "xaxis": axis,
        "yaxis": axis,
    }


BAD_TO_GOOD = ("#d73027", "#fc8d59", "#fee090", "#e0f3f8", "#91bfdb", "#4575b4")
MISSING = "#8a94a3"


@dataclass(frozen=True, slots=True)
class Scale:
    """A colour scale: six classes of a quantity.

    Attributes
    ----------
    title : str
    unit : str
    limits : sequence of float
        Five class limits, ascending; a value equal to a limit belongs to the class above the limit.
    high_is_good : bool
    factor : float
        Factor from the value to the unit of the legend, such as 3.6 from m/s to km/h.
    """

    title: str
    unit: str
    limits: Sequence[float]
    high_is_good: bool = True
    factor: float = 1.0

    @property
    def colours(self) -> tuple[str, ...]:
        """Return the colour of each class, from the lowest values to the highest."""
        return BAD_TO_GOOD if self.high_is_good else BAD_TO_GOOD[::-1]

    def classes(self, value: Array) -> Array:
        """Return the class of each value, 0 to 5, and -1 where it is missing.

        Parameters
        ----------
        value : ndarray of float64, shape (n,)
            NaN where missing.

        Returns
        -------
        ndarray of int64, shape (n,)
        """
        return np.where(np.isfinite(value), np.searchsorted(self.limits, value, side="right"), -1)

    def words(self) -> list[str]:
        """Return the range of each class as text, from the lowest values to the highest."""
        texts = [f"{limit * self.factor:,.6g}" for limit in self.limits]
        between = [f"{low} to {high}" for low, high in pairwise(texts)]
        return [f"below {texts[0]}", *between, f"{texts[-1]} or more"]


SCALES = {
    "Radio_rsrp": Scale("RSRP", "dBm", (-120, -110, -100, -90, -80)),
    "Radio_rssi": Scale("RSSI", "dBm", (-105, -95, -85, -75, -65)),
    "Radio_rscp": Scale("RSCP", "dBm", (-110, -100, -90, -80, -70)),
    "Radio_rsrq": Scale("RSRQ", "dB", (-19, -16, -13, -11, -9)),
    "Radio_sinr": Scale("SINR", "dB", (-5, 0, 5, 13, 20)),
    "Radio_ecio": Scale("Ec/Io", "dB", (-18, -15, -12, -9, -6)),
    "Radio_bler": Scale("Lost blocks", "%", (1, 3, 10, 20, 40), high_is_good=False),
    "Radio_cell_busy": Scale("Cell busy", "%", (10, 25, 40, 60, 80), high_is_good=False),
    "Radio_cqi": Scale("CQI", "", (3, 5, 7, 10, 13)),
    "Radio_rate_down": Scale("Downlink rate", "Mbit/s", (1e5, 1e6, 5e6, 2e7, 1e8), factor=1e-6),
    "Radio_rate_up": Scale("Uplink rate", "Mbit/s", (1e5, 5e5, 2e6, 1e7, 5e7), factor=1e-6),
    "TcpSnd_goodput": Scale("TCP goodput", "Mbit/s", (1e5, 1e6, 5e6, 2e7, 1e8), factor=1e-6),
    "TcpSnd_rtt": Scale("Round-trip time", "ms", (3e7, 6e7, 1e8, 2e8, 1e9), high_is_good=False, factor=1e-6),
    "Gps_speed": Scale("Speed", "km/h", (5 / 3.6, 15 / 3.6, 30 / 3.6, 50 / 3.6, 90 / 3.6), factor=3.6),
}
"""Colour scales by the label of a series. The class limits are typical of drive-test reports; not measured."""
