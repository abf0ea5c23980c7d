"""The section of a report on load programs (iperf3, speed tests): what each stream carried and lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.recording.application import counted_streams, pings_of, shown_loss
from multitracer.report.markup import element
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, printable, rate

if TYPE_CHECKING:
    from multitracer.recording.application import Counted
    from multitracer.recording.recording import Recording
    from multitracer.report.markup import Markup

_MOST = 100
_HEADS = ("Stream", "Path", "At the sender", "At the receiver", "Rate", "Retransmitted", "Lost", "Jitter")
_TEXTS = 2
"""Number of columns that hold text."""


def load_section(recording: Recording) -> Markup | None:
    """Return the table of the streams of load programs; None if no log counts any."""
    streams = list(dict.fromkeys(each._replace(connection=None, point="", captured_bytes=None)
                                 for each in counted_streams(recording)))  # fmt: skip
    pings = pings_of(recording)
    if not streams and not pings:
        return None
    heads = [element("th", head, scope="col", class_=_class(n)) for n, head in enumerate(_HEADS)]
    rows = [
        element("tr", [element("td", printable(cell), class_=_class(n)) for n, cell in enumerate(_cells(each))])
        for each in streams[:_MOST]
    ]
    left = len(streams) - len(rows)
    return element(
        "section",
        element("h2", "What the load programs counted"),
        element("table", element("thead", element("tr", heads)), element("tbody", rows)) if rows else None,
        element("p", f"and {left:,} more") if left else None,
        [element("p", printable(sentence)) for sentence in pings],
        class_="long",
    )


def _class(column: int) -> str | None:
    return None if column < _TEXTS else "number"


def _cells(each: Counted) -> tuple[str, ...]:
    rate_bps = each.receiver_rate_bps if each.receiver_rate_bps is not None else each.sender_rate_bps
    numbers = (each.sender_bytes, each.receiver_bytes)
    return (
        each.title,
        f"{each.sender} -> {each.receiver}" if each.sender and each.receiver else each.direction,
        *("-" if number is None else f"{number:,} bytes" for number in numbers),
        "-" if rate_bps is None else rate(rate_bps),
        "-" if each.retransmitted is None else count(each.retransmitted, "segment"),
        shown_loss(each) or "-",
        "-" if each.jitter_s is None else duration(round(each.jitter_s * NS_PER_S)),
    )
