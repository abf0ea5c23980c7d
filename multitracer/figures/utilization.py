"""Figure 6 of paper 004: histogram of the channel utilization of transfers, with their throughput.

The bin of a transfer is its utilization in percent, rounded up (footnote 5 of the paper): 99 < u <= 100 is
bin 100. Below it stands the range of the throughput of the transfers of each bin. Utilization needs a log of the
link; transfers without one have a histogram of their own, of the share of the time in which the link was the limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.errors import InputError
from multitracer.figures.palette import LOOKS
from multitracer.figures.rtt_size import on_cell
from multitracer.figures.sheet import Sheet, SheetPanel, axis_name
from multitracer.figures.stack import plain
from multitracer.units import BITS_PER_BYTE
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from multitracer.figures.palette import Props, ThemeName
    from multitracer.tables import Array, Table

_SHARE_PX, _RATE_PX = 250, 130
_FEWEST_BINS = 10
_STEP_PERCENT = 5
"""Width of a bin of the share of time: it is known to some percent at best (docs/limits.md)."""
_MOST_NAMED = 6
"""Maximum number of transfers that a bin names where it is pointed at."""
_MOST_TICKS = 12
_RANGE_ROLE = "retransmission"
_UNITS = ((1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))


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


class _Histogram(NamedTuple):
    """The values of some transfers by bin, with their throughput and names."""

    title: str
    more: str
    axis: str
    role: str
    bins: Array
    """Upper edges of all bins in percent, ascending."""
    percent: Array
    """Upper edge of the bin of each transfer."""
    bits_per_s: Array
    names: Sequence[str]
    is_centred: bool = True
    """Whether a bin is drawn at its upper edge, as the paper does; else its bar fills the bin."""

    @property
    def places(self) -> Array:
        """Where the bins are on the axis, in percent: float64, shape of `bins`."""
        return np.asarray(self.bins - (0.0 if self.is_centred else 0.5 * (self.bins[1] - self.bins[0])))


def utilization_figure(sessions: Sequence[tuple[str, Table]], *, theme: ThemeName = "light") -> go.Figure:
    """Return the histogram of utilization, and of the share limited by the link where no link was logged.

    Parameters
    ----------
    sessions : sequence of (str, Table)
        Name and UTILIZATION of each session.
    theme : "light" or "dark"

    Raises
    ------
    InputError
        If there is no transfer whose use of the link is known.
    """
    transfers = [(f"{name}, connection {row['connection']}", row) for name, table in sessions for row in table.rows()]
    logged = [(name, row) for name, row in transfers if row["utilization"] is not None]
    complete = [(name, row) for name, row in logged if row["outcome"] == "complete"]
    others = [
        (name, row) for name, row in transfers if row["utilization"] is None and row["link_limited_share"] is not None
    ]
    histograms, excluded = [], len(logged) - len(complete)
    if complete:
        histograms.append(_of_utilization(*_columns(complete, "utilization"), excluded=excluded))
    if others:
        histograms.append(_of_shares(*_columns(others, "link_limited_share"), excluded=0 if complete else excluded))
    if not histograms:
        raise InputError(_nothing([name for name, _ in sessions], dropped=len(logged)))
    return _sheet(histograms, theme).figure()


def _nothing(names: list[str], *, dropped: int) -> str:
    which = ", ".join(names)
    if dropped:
        return (
            f"{which}: each of {count(dropped, 'transfer')} ended with a dropped call; utilization needs a complete one"
        )
    return f"{which}: no transfer of TCP whose use of the link is known; name a session with a capture of one"


def _columns(rows: list[tuple[str, dict[str, object]]], column: str) -> tuple[Array, Array, list[str]]:
    """Return value, throughput in bit/s, and name of each transfer."""
    values, rates = (np.array([row[name] for _, row in rows], float) for name in (column, "throughput_bytes_per_s"))
    return values, rates * BITS_PER_BYTE, [name for name, _ in rows]


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
        Number of transfers that were excluded because their call was dropped; shown below the title.
    theme : "light" or "dark"

    Raises
    ------
    InputError
        If there are no transfers.
    """
    if not len(utilization):
        raise InputError("there is no transfer to draw; the utilization needs at least one complete transfer")
    rates = np.asarray(throughput_bytes_per_s) * BITS_PER_BYTE
    return _sheet([_of_utilization(np.asarray(utilization), rates, (), excluded=excluded)], theme).figure()


def _of_utilization(values: Array, bits_per_s: Array, names: Sequence[str], *, excluded: int) -> _Histogram:
    percent = rounded_up(values)
    high = int(np.count_nonzero(percent >= 98))
    more = f"98 % or more in {high} of {len(percent)}; rounded up, as in figure 6 of paper 004{_left_out(excluded)}."
    return _Histogram(
        f"Channel utilization of {count(len(percent), 'transfer')}", more, "utilization, % rounded up", "data",
        np.arange(min(int(percent.min()), 101 - _FEWEST_BINS), 101), percent, bits_per_s, names,
    )  # fmt: skip


def _left_out(excluded: int) -> str:
    return f"; {excluded} with a dropped call left out" if excluded else ""


def _of_shares(values: Array, bits_per_s: Array, names: Sequence[str], *, excluded: int) -> _Histogram:
    percent = np.maximum(_STEP_PERCENT * -(-rounded_up(values) // _STEP_PERCENT), _STEP_PERCENT)
    return _Histogram(
        f"Time in which the link was the limit, of {count(len(percent), 'transfer')}",
        f"No log of their link: this share is no utilization, which is not known{_left_out(excluded)}.",
        f"share of the time, %, in steps of {_STEP_PERCENT}", "link_data",
        np.arange(_STEP_PERCENT, 101, _STEP_PERCENT), percent, bits_per_s, names, is_centred=False,
    )  # fmt: skip


def _sheet(histograms: list[_Histogram], theme: ThemeName) -> Sheet:
    cells: list[SheetPanel] = []
    traces: list[Props] = []
    for histogram in histograms:
        number = len(cells) + 1
        cells += _panels(histogram, number)
        traces += [_bars(histogram, theme) | on_cell(number), _ranges(histogram, theme) | on_cell(number + 1)]
    return Sheet(cells, traces, theme)


def _panels(of: _Histogram, number: int) -> list[SheetPanel]:
    width = int(of.bins[1] - of.bins[0])
    ticks: Props = {"tickmode": "linear", "tick0": 0, "dtick": _tick_percent(of.bins), "showgrid": False}
    room = max(0.7 * width, 0.02 * (100 - float(of.bins[0]))) if of.is_centred else 0.1 * width
    axis = ticks | {"range": [float(of.places[0]) - room, 100 + room] if of.is_centred else [-room, 100 + room]}
    below = {"title": {"text": of.axis, "standoff": 6}}
    share = {"rangemode": "tozero", "ticksuffix": " %", "nticks": 6, "range": [0, 1.18 * max(_shares(of)[1])]}
    _, unit = _scale(of)
    return [
        SheetPanel(of.title, _SHARE_PX, axis, share, own_x=False, more=of.more),
        SheetPanel(
            f"Their throughput, {unit}: smallest to largest", _RATE_PX,
            axis | below | {"matches": axis_name("x", number)}, {"rangemode": "tozero", "nticks": 5},
        ),
    ]  # fmt: skip


def _tick_percent(bins: Array) -> int:
    """Return the distance of ticks in percent, so that there are at most twelve."""
    span = int(bins[-1] - bins[0])
    return next(step for step in (1, 2, 5, 10, 20) if span <= step * _MOST_TICKS)


def _shares(of: _Histogram) -> tuple[Array, Array]:
    """Return the number of transfers in each bin, and their share of all in percent."""
    counts = np.array([int(np.count_nonzero(of.percent == each)) for each in of.bins])
    return counts, 100 * counts / len(of.percent)


def _scale(of: _Histogram) -> tuple[float, str]:
    """Return the bit/s of the unit in which throughput is shown, and its name."""
    known = of.bits_per_s[np.isfinite(of.bits_per_s)]
    most = float(known.max(initial=0.0))
    return next(((bits, name) for bits, name in _UNITS if most >= bits), _UNITS[-1])


def _bars(of: _Histogram, theme: ThemeName) -> Props:
    counts, shares = _shares(of)
    return {
        "type": "bar",
        "x": of.places,
        "y": shares,
        "width": 0.8 * float(of.bins[1] - of.bins[0]),
        "name": "transfers",
        "showlegend": False,
        "marker": {"color": LOOKS[of.role].colour(theme)},
        "text": [f"{each:,}" if each else "" for each in counts.tolist()],
        "textposition": "outside",
        "constraintext": "none",
        "textfont": {"size": 11},
        "cliponaxis": False,
        "customdata": [f"<b>{_bin(of, int(each))}</b>{_listed(of, int(each))}" for each in of.bins],
        "hovertemplate": "%{customdata}<br>%{y:.1f} % of the transfers<extra></extra>",
    }


def _bin(of: _Histogram, percent: int) -> str:
    """Return the range of a bin as text."""
    return f"{percent} %" if of.is_centred else f"{percent - _STEP_PERCENT} to {percent} %"


def _listed(of: _Histogram, percent: int) -> str:
    """Return the names of the transfers of a bin, each on a line."""
    names = [name for name, own in zip(of.names, of.percent.tolist(), strict=bool(of.names)) if own == percent]
    more = [f"and {len(names) - _MOST_NAMED:,} more"] if len(names) > _MOST_NAMED else []
    return "".join(f"<br>{plain(name)}" for name in [*names[:_MOST_NAMED], *more])


def _ranges(of: _Histogram, theme: ThemeName) -> Props:
    """Return a bar from the minimum to the maximum throughput of each bin."""
    bits, unit = _scale(of)
    rates = [of.bits_per_s[(of.percent == each) & np.isfinite(of.bits_per_s)] / bits for each in of.bins]
    full = [(place, own.min(), own.max()) for place, own in zip(of.places, rates, strict=True) if len(own)]
    x, low, high = (np.array(column, float) for column in zip(*full, strict=True)) if full else (np.empty(0),) * 3
    colour = LOOKS[_RANGE_ROLE].colour(theme)
    return {
        "type": "scatter",
        "mode": "markers",
        "cliponaxis": False,
        "x": x,
        "y": (low + high) / 2,
        "name": "throughput, minimum to maximum",
        "showlegend": False,
        "marker": {"color": colour, "symbol": "line-ew-open", "size": 9},
        "error_y": {"type": "data", "array": (high - low) / 2, "color": colour, "thickness": 2, "width": 5},
        "customdata": [f"{a:.3g} to {b:.3g} {unit}" for a, b in zip(low, high, strict=True)],
        "hovertemplate": "%{customdata}<extra></extra>",
    }
