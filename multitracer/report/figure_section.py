"""The section of a page in which `points/figure.js` draws: buttons, legend, plot, and how to read it.

For paper, and for a browser that runs no script or has no canvas, the whole figure is a picture, too. It is
drawn from as many points as the overview of the page: the lowest and the highest value of each pixel, and
every rare event.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from multitracer.figures.palette import LOOKS
from multitracer.figures.series import thin
from multitracer.report.culprit import still, swatch
from multitracer.report.embed import OVERVIEW_BINS, names
from multitracer.report.markup import Markup, element
from multitracer.report.time_axis import TimeAxis, times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.figures.series import Series
    from multitracer.figures.stack import Panel

_BUTTONS = (
    ("left", "◀", "Earlier"),
    ("right", "▶", "Later"),
    ("in", "+", "Zoom in"),
    ("out", "−", "Zoom out"),
    ("whole", "Whole", "Show the whole connection"),
    ("undo", "Back", "Back to the window before"),
)
_KEYS = (
    "Drag to zoom in, double-click for the whole. Keys: arrows move, + and − zoom, u shows the window "
    "before, 0 the whole, n and p the next finding and the one before, ? this help."
)
_HINT = f"Time/sequence figure with flight, round-trip time and throughput. {_KEYS}"


_ARRIVALS = (
    "Captured near the receiver, the dots are arrivals and the line of ACKs follows them closely: what was "
    "outstanding, what was sent in vain, when it was sent and the round trips cannot be read there."
)


def figure_section(
    titles: Sequence[str], *, at_receiver: bool = False, picture: Markup | None = None
) -> Markup:
    """Return the section for the figures with these titles, in the order of the page's figures.

    Parameters
    ----------
    titles : sequence of str
    at_receiver : bool
        Whether some of them were captured there; it is said what these cannot show.
    picture : Markup, optional
        The first figure for paper, and for a browser that cannot draw the others.
    """
    return element(
        "section",
        element("h2", "Time / sequence"),
        element("div", _choice(titles), _buttons(), _trend(), _search(), class_="bar"),
        element("div", class_="places bar", role="group", aria_label="Places worth a look"),
        _legend(),
        element("div", class_="plot", tabindex="0", role="group", aria_label=_HINT),
        element("p", class_="status", role="status"),
        picture,
        _how(at_receiver=at_receiver),
        class_="figure",
    )


def drive_figure_section(figures: int = 1, *, picture: Markup | None = None) -> Markup:
    """Return the section for the figure of a recording without packets, over time and distance.

    Parameters
    ----------
    figures : int
    picture : Markup, optional
        The figure over time for paper, and for a browser that cannot draw.
    """
    axes = ["Over time", "Over the distance along the route"][:figures]
    return element(
        "section",
        element("h2", "Radio and road"),
        element("div", _choice(axes, "Axis of the figure"), _buttons(), class_="bar"),
        element("div", class_="places bar", role="group", aria_label="Places worth a look"),
        _legend(),
        element("div", class_="plot", tabindex="0", role="group", aria_label=_DRIVE_HINT),
        element("p", class_="status", role="status"),
        picture,
        element(
            "details",
            element("summary", "How to read this"),
            element("p", _DRIVE_WORDS),
            element("dl", class_="docs"),
            class_="how",
        ),
        class_="figure drive",
    )


_DRIVE_HINT = (
    "Radio and road. Drag to zoom in, double-click for the whole. Keys: arrows move, plus and "
    "minus zoom, 0 shows the whole."
)
_DRIVE_WORDS = (
    "Each line joins readings of the serving cell as they were logged. Where readings are missing, the line "
    "is interrupted; over distance also where the place is not known. The dashed line is what a modem states "
    "where there is no signal."
)


def _legend() -> Markup:
    series = element("div", class_="legend", role="group", aria_label="Series; press to hide or show")
    return element("details", element("summary", "Series"), series, class_="series", open=True)


def _how(*, at_receiver: bool) -> Markup:
    """Return how to read the figure; the words of each series come from the figure itself."""
    words = (
        "Each dot is a data segment at its first byte; the line below is the next byte the receiver expects. "
        "How far they are apart upwards is what is outstanding, and sideways the round-trip time. Where the "
        "dots stop, the sender paused; where the line is level, nothing was acknowledged. The dotted line "
        "above is how far the receiver lets the sender go. Point at a mark, or tap it, for its frame number; "
        "press it to copy a display filter for Wireshark and the tshark command that prints the packet."
    )
    return element(
        "details",
        element("summary", "How to read this"),
        element("p", words),
        element("p", _KEYS),
        element("p", _ARRIVALS) if at_receiver else None,
        element("dl", class_="docs"),
        class_="how",
    )


def _choice(titles: Sequence[str], label: str = "Connection to draw") -> Markup | None:
    if len(titles) < 2:
        return None
    options = (element("option", title, value=number) for number, title in enumerate(titles))
    return element("select", options, aria_label=label)


def _buttons() -> Markup:
    moves = (
        element("button", sign, type="button", data_action=action, title=says, aria_label=says)
        for action, sign, says in _BUTTONS
    )
    link = element("button", "Copy link to this view", type="button", data_action="link")
    save = element("button", "Save picture", type="button", data_action="save")
    return element("div", moves, link, save, class_="group")


def _trend() -> Markup:
    says = "Draw the bytes less their mean rate: stalls and changes of the rate stand out"
    return element(
        "button", "Less the trend", type="button", data_action="trend", aria_pressed="false", title=says
    )


def _search() -> Markup:
    says = "Go to a frame, a time, a finding, a port or a cell, and press Enter"
    return element(
        "input",
        type="search",
        class_="seek",
        placeholder="frame 12, 3.5 s, port …",
        aria_label=says,
        title=says,
    )


_WHY = (
    "This picture holds the whole of it. A browser that runs JavaScript and draws on a canvas "
    "zooms to single points here."
)


def still_figure(panels: Sequence[Panel], *, title: str, origin_ns: int) -> Markup | None:
    """Return the panels above each other over one time axis; None where nothing is drawn.

    Parameters
    ----------
    panels : sequence of Panel
        In link time.
    title : str
        Which connection it is.
    origin_ns : int
        What the time axis calls 0.
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
    """Return a panel with its title and its legend; of an empty one the reason."""
    title = element("b", panel.title)
    if not panel.series:
        return element("div", title, element("p", panel.empty, class_="muted"), class_="panel")
    thinned = replace(panel, series=[thin(series, bins=OVERVIEW_BINS) for series in panel.series])
    if panel.shades:
        return element("div", title, _key(thinned.series), _strip(thinned, axis), class_="panel")
    roles = tuple(dict.fromkeys(series.role for series in thinned.series))
    levels, picture = still(thinned, axis, roles, label=panel.title)
    drawn = element("div", levels, picture, style=f"--share:{panel.share}")
    return element("div", title, _still_legend(thinned.series), drawn, class_="culprit panel")


def _still_legend(series: Sequence[Series]) -> Markup:
    """Return the name of each series behind its sign."""
    named = zip(series, names(series), strict=True)
    entries = [element("li", swatch(each.role), name, title=each.label) for each, name in named]
    return element("ul", entries, class_="words")


def _key(series: Sequence[Series]) -> Markup:
    """Return the name of each shade behind its colour."""
    squares = [
        element("li", element("i", style=f"background:{LOOKS[each.role].light}"), each.label)
        for each in series
    ]
    return element("ul", squares, class_="words")


def _strip(panel: Panel, axis: TimeAxis) -> Markup:
    """Return the times in which each series of a panel of shades is 1, as one row of bars."""
    bars = [
        element("i", style=f"background:{LOOKS[series.role].light};{axis.style(begin, end)}")
        for series in panel.series
        for begin, end, _ in axis.spread(_times(series))
    ]
    return element("div", bars, class_="bars", role="img", aria_label=panel.title)


def _times(series: Series) -> list[tuple[int, int, str]]:
    """Return when a series of shades is 1: begin, end, its name."""
    begins = (series.value[:-1] == 1).nonzero()[0]
    ends = series.time_ns[begins + 1].tolist()
    return [
        (begin, end, series.label) for begin, end in zip(series.time_ns[begins].tolist(), ends, strict=True)
    ]
