"""The section of a page in which `points/figure.js` draws: buttons, legend, plot, and how to read it.

For printing, and for a browser without scripts or canvas, the section has the complete figure as a static picture. The
picture has the points of the overview: the lowest and highest value of each pixel, and all rare events.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from multitracer.figures.palette import LOOKS
from multitracer.figures.series import names, thin
from multitracer.report.embed import OVERVIEW_BINS
from multitracer.report.markup import Markup, element
from multitracer.report.primary_cause import static, swatch
from multitracer.report.time_axis import TimeAxis, times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.figures.stack import Panel

_BUTTONS = (
    ("left", "◀", "Earlier"),
    ("right", "▶", "Later"),
    ("in", "+", "Zoom in"),
    ("out", "−", "Zoom out"),
    ("whole", "Fit all", "Fit all: show the whole connection"),
    ("undo", "Back", "Back to the previous view"),
)
_KEYS = (
    "Drag to zoom in, double-click for the whole. Keys: arrows move, + and − zoom, u shows the previous "
    "view, 0 the whole, n and p the next and the previous finding, ? this help."
)
_READ = (
    "Each dot is a data segment at its first byte; the line below is the next byte the receiver expects. "
    "The vertical distance between them is the outstanding data, the horizontal one the round-trip time. "
    "Where the dots stop, the sender paused; where the line is level, nothing was acknowledged. The dotted "
    "line above is the end of the receive window. Point at a mark, or tap it, for its frame number; press it "
    "to copy a display filter for Wireshark and the tshark command that prints the packet."
)
_HINT = f"Time/sequence figure with flight, round-trip time and throughput. {_KEYS}"


_ARRIVALS = (
    "Captured near the receiver, the dots are arrivals and the line of ACKs follows them closely: "
    "outstanding data, unneeded retransmissions, sending times and round-trip times cannot be read there."
)


_DRIVE_HINT = (
    "Radio and route. Drag to zoom in, double-click for the whole. Keys: arrows move, plus and "
    "minus zoom, 0 shows the whole."
)
_DRIVE_WORDS = (
    "Each line joins readings of the serving cell as they were logged. Where readings are missing, the line "
    "is interrupted; over distance also where the place is not known. The dashed line is what a modem states "
    "where there is no signal."
)


def figure_section(titles: Sequence[str], *, at_receiver: bool = False, picture: Markup | None = None) -> Markup:
    """Return the section for the figures of captures.

    The order of `titles` is that of the figures in the page.

    Parameters
    ----------
    titles : sequence of str
    at_receiver : bool
        Whether a figure shows a capture made near the receiver; the section then states the limitations.
    picture : Markup, optional
        The first figure as a static picture, for printing and for a browser without scripts or canvas.
    """
    says = "Subtract the mean rate from the bytes: stalls and changes of the rate stand out"
    trend = element("button", "Subtract trend", type="button", data_action="trend", aria_pressed="false", title=says)
    says = "Go to a frame, a time, a finding, a port or a cell, and press Enter"
    words = "frame 12, 3.5 s, port …"
    search = element("input", type="search", class_="seek", placeholder=words, aria_label=says, title=says)
    bar = [*_controls(titles, "Connection to draw"), trend, search]
    how = [_READ, _KEYS, *([_ARRIVALS] if at_receiver else [])]
    return _section("Time / sequence", bar, _HINT, how, picture, class_="figure")


def drive_figure_section(figures: int = 1, *, picture: Markup | None = None) -> Markup:
    """Return the section for the figure of a recording without packets, over time and distance.

    Parameters
    ----------
    figures : int
        Number of figures.
    picture : Markup, optional
        The figure over time as a static picture, for printing and for a browser without scripts or canvas.
    """
    axes = ["Over time", "Over the distance along the route"][:figures]
    bar = _controls(axes, "Axis of the figure")
    return _section("Radio and route", bar, _DRIVE_HINT, [_DRIVE_WORDS], picture, class_="figure drive")


def _controls(titles: Sequence[str], label: str) -> list[Markup]:
    """Return the controls of the figures: the menu, and the buttons that zoom and move."""
    options = (element("option", title, value=number) for number, title in enumerate(titles))
    choice = [element("select", options, aria_label=label)] if len(titles) > 1 else []
    moves = (
        element("button", sign, type="button", data_action=action, title=says, aria_label=says)
        for action, sign, says in _BUTTONS
    )
    link = element("button", "Copy link to this view", type="button", data_action="link")
    save = element("button", "Save picture", type="button", data_action="save")
    return [*choice, element("div", moves, link, save, class_="group")]


def _section(
    title: str, bar: list[Markup], hint: str, how: list[str], picture: Markup | None, *, class_: str
) -> Markup:
    """Return a section with the empty elements that `points/figure.js` fills.

    `how` are the sentences on how to read the figure; the description of each series comes from the figure
    itself.
    """
    series = element("div", class_="legend", role="group", aria_label="Series; press to hide or show")
    legend = element("details", element("summary", "Legend"), series, class_="series", open=True)
    plot = element("div", class_="plot", tabindex="0", role="group", aria_label=hint)
    evidence = element("p", class_="evidence", role="status", hidden=True)
    summary = element("summary", "How to read this")
    return element(
        "section",
        element("h2", title),
        element("div", bar, class_="bar"),
        element("div", class_="places bar", role="group", aria_label="Places worth a look"),
        element("div", evidence, legend, plot, element("p", class_="status", role="status"), class_="drawing"),
        picture,
        element("details", summary, [element("p", each) for each in how], element("dl", class_="docs"), class_="how"),
        class_=class_,
    )


_WHY = (
    "This picture shows the complete figure. A browser that runs JavaScript and draws on a canvas "
    "zooms to single points here."
)


def static_figure(panels: Sequence[Panel], *, title: str, origin_ns: int) -> Markup | None:
    """Return a static picture of the panels, stacked over one time axis; None if no panel has data.

    Parameters
    ----------
    panels : sequence of Panel
        In link time.
    title : str
        Name of the connection.
    origin_ns : int
        Time at 0 s of the time axis.
    """
    drawn = [replace(panel, series=[s for s in panel.drawn if s.is_drawn.any()]) for panel in panels]
    stamps = [int(s.time_ns[at]) for panel in drawn for s in panel.series for at in (0, -1)]
    if not stamps:
        return None
    axis = TimeAxis(min(stamps), max(*stamps, min(stamps) + 1), origin_ns)
    return element(
        "figure",
        element("figcaption", element("b", title), element("p", _WHY, class_="muted")),
        [_panel(panel, axis) for panel in drawn],
        times(axis),
        class_="still",
    )


def _panel(panel: Panel, axis: TimeAxis) -> Markup:
    """Return a panel with title and legend; for an empty panel, the reason why it is empty."""
    title = element("b", panel.title)
    series = [thin(each, bins=OVERVIEW_BINS) for each in panel.series]
    if not series:
        return element("div", title, element("p", panel.empty, class_="muted"), class_="panel")
    if not panel.shades:
        roles = tuple(dict.fromkeys(each.role for each in series))
        levels, picture = static(replace(panel, series=series), axis, roles, label=panel.title)
        named = zip(series, names(series), strict=True)
        legend = [element("li", swatch(each.role), name, title=each.label) for each, name in named]
        drawn = element("div", levels, picture, style=f"--share:{panel.share}")
        return element("div", title, element("ul", legend, class_="words"), drawn, class_="culprit panel")
    squares, bars = [], []
    for each in series:  # 1 while something holds, else 0
        colour = f"background:{LOOKS[each.role].light}"
        begins = (each.value[:-1] == 1).nonzero()[0]
        ends = zip(each.time_ns[begins].tolist(), each.time_ns[begins + 1].tolist(), strict=True)
        squares.append(element("li", element("i", style=colour), each.label))
        for begin, end, _ in axis.spread((begin, end, each.label) for begin, end in ends):
            bars.append(element("i", style=f"{colour};{axis.style(begin, end)}"))
    strip = element("div", bars, class_="bars", role="img", aria_label=panel.title)
    return element("div", title, element("ul", squares, class_="words"), strip, class_="panel")
