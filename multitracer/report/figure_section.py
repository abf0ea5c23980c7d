"""The section of a page in which `points/figure.js` draws: buttons, legend, plot, and how to read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.report.markup import Markup, element

if TYPE_CHECKING:
    from collections.abc import Sequence

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
