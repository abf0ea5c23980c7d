"""The first sections of a report: how far the capture can be trusted, and what happened, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.analysis.series.rtt import Provenance
from multitracer.report.markup import Markup, element, fold
from multitracer.report.sentence import NOTHING, goodput, sentence
from multitracer.tcp import GoodputBy, RoundTrips
from multitracer.words import count, duration, printable, rate, share, size

if TYPE_CHECKING:
    from multitracer.recording.recording import Recording
    from multitracer.report.drawn import Drawn
    from multitracer.tables import Row

_SAYS = {
    "good": "✓ Trust: good. Nothing important contradicts these numbers.",
    "caution": "! Trust: caution. Read the numbers with this in mind.",
    "poor": "✗ Trust: poor. The capture does not support firm conclusions.",
}
_SIGNS = {"good": "✓", "caution": "!", "poor": "✗"}
_NOTES = 50


_FAST = (
    "The link ran {:g} times as fast as a real one. These numbers, and those of the table below, are as they "
    "were recorded; the figure is drawn in the link's own seconds."
)


def trust_line(recording: Recording, *, answer: str = "", is_sure: bool = True) -> Markup:
    """Return how far the captures can be trusted, with every reason; the worst one needs no unfolding.

    Parameters
    ----------
    recording : Recording
    answer : str
        How sure the answer below it is, in words; empty where the page has no answer.
    is_sure : bool
        Whether that answer is more than weak: the sign and the colour of the line are those of the worse one.
    """
    trusts = [(part, part.analysis.trust) for part in recording.parts]
    several, verdict = len(trusts) > 1, recording.trust
    worst_first = sorted(trusts, key=lambda each: each[1].verdict != verdict)
    notes = [
        [f"{printable(part.point.name)}: " if several else "", printable(note.sentence)]
        for part, trust in worst_first
        for note in trust.notes
    ]
    shown = "caution" if verdict == "good" and not is_sure else verdict
    verdicts = f"{_SIGNS[shown]} Trust: numbers {verdict}, {answer}." if answer else _SAYS[verdict]
    says, class_ = element("span", verdicts), f"trust {shown}"
    first = [" ", notes.pop(0)] if verdict != "good" and notes else []
    if not notes:
        return element("p", says, first, class_=class_)
    many = f" {count(len(notes), 'more note' if first else 'note')}"
    return element(
        "details",
        element("summary", says, first, element("span", many, class_="muted")),
        element("ul", [element("li", each) for each in notes[:_NOTES]], more(len(notes) - _NOTES)),
        class_=class_,
        open=verdict == "poor",
    )


def more(number: int) -> Markup | None:
    """Return the list item with the number of entries that are not shown."""
    return element("li", f"and {number:,} more") if number > 0 else None


def summary_section(drawn: Drawn | None, *, connections: int, clock: str = "", speed: float = 1) -> Markup:
    """Return the summary: one sentence, the numbers behind it, how sure the clock is, and its speed."""
    if drawn is None:
        return element("section", element("h2", "Summary"), element("p", NOTHING, class_="lead"))
    which = f"This is connection {drawn.number} of {connections:,}; the table below has all of them."
    return fold(
        "Summary",
        element("p", sentence(drawn), class_="lead"),
        element("dl", _facts(drawn), class_="facts") if drawn.direction["unique_bytes"] else None,
        element("p", _FAST.format(speed), class_="muted clock") if speed != 1 else None,
        element("p", f"Clock: {printable(clock)}.", class_="muted clock") if clock else None,
        element("p", which, class_="muted") if connections > 1 else None,
        note="one connection in numbers",
        id="summary",
    )


def _facts(drawn: Drawn) -> list[Markup]:
    row, speed, again = drawn.direction, goodput(drawn.direction), drawn.direction["retransmitted_segments"]
    window = drawn.opposite["max_window_bytes"]
    return [
        _fact("Delivered once", size(row["unique_bytes"]), _segments(drawn)),
        _fact("Goodput", "unknown" if speed is None else rate(speed), _over(row)),
        *(_at_receiver(row) if drawn.is_at_receiver else [_retransmitted(again, row["data_segments"])]),
        _rtt_fact(drawn),
        _in_flight(drawn, window),
    ]


def _segments(drawn: Drawn) -> str:
    """Return how many data segments there were, every copy counted."""
    verb = "arrived" if drawn.is_at_receiver else "sent"
    copies = ", copies among them" if drawn.direction["retransmitted_segments"] else ""
    return f"{count(drawn.direction['data_segments'], 'data segment')} {verb}{copies}"


def _retransmitted(again: int, segments: int) -> Markup:
    more = f"{share(again, segments)} of them all" if again else "nothing was sent twice"
    return _fact("Retransmitted", count(again, "segment"), more)


def _at_receiver(row: Row) -> list[Markup]:
    """Return what arrived again and what filled holes: a receiver does not see what was lost."""
    twice, filled = row["retransmitted_segments"], row["out_of_order"]
    return [
        _fact("Arrived twice", count(twice, "segment"), f"{share(twice, row['data_segments'])} of them all"),
        _fact("Filled holes", count(filled, "segment"), "resent after a loss, or overtaken on the way"),
    ]


def _in_flight(drawn: Drawn, window: int) -> Markup:
    offered = f"largest window offered {size(window)}"
    if drawn.is_at_receiver:
        return _fact("Most in flight", "not here", f"only its sender knows; {offered}")
    return _fact("Most in flight", size(drawn.direction["max_flight_bytes"]), offered)


def _over(row: Row) -> str:
    by = GoodputBy(row["goodput_by"])
    return f"{by.words}, over {duration(row['goodput_ns'])}" if by.is_known else by.words


def _rtt_fact(drawn: Drawn) -> Markup:
    row, worst = drawn.direction, drawn.worst_rtt
    absent = RoundTrips(row["rtt_absent"])
    if absent or worst is None:
        return _fact("Median RTT", "not here" if absent is RoundTrips.NEAR_RECEIVER else "none", absent.words)
    how = {Provenance.EXACT_ACK: "", Provenance.TIMESTAMP: " (by timestamp)", Provenance.SACK: " (by SACK)"}
    spread = (
        f"95 % below {duration(row['rtt_p95_ns'])}, worst {duration(worst.rtt_ns)}{how[worst.provenance]}"
    )
    return _fact("Median RTT", duration(row["rtt_p50_ns"]), spread)


def _fact(name: str, value: str, more: str) -> Markup:
    return element("div", element("dt", name), element("dd", value, element("small", more)))
