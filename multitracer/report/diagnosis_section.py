"""What a report says below its first screen: what happened, and how the time was split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.limits.names import Limit, Viewpoint
from multitracer.diagnosis.sentence import numbers_of
from multitracer.report.account_bar import account_bar
from multitracer.report.incident_list import FigureTimeAxis, incident_list
from multitracer.report.lanes import lanes
from multitracer.report.limit_words import COARSE, RECEIVER_ONLY, SEEN_FROM
from multitracer.report.limits_bar import limits_bar, rows_of_group
from multitracer.report.markup import Markup, element, fold
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, printable

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.limits.limited import Limited


def happened_section(diagnosis: Diagnosis, *, origin_ns: int, speed: float, figure: bool) -> Markup | None:
    """Return the list of incidents; None where nothing can be shown.

    Parameters
    ----------
    diagnosis : Diagnosis
    origin_ns : int
        What the figure calls 0.
    speed : float
        Seconds of the figure in a second of the recording.
    figure : bool
        Whether the first figure of the page shows the transfer, so that incidents can lead there.
    """
    if diagnosis.limited.view is Viewpoint.NOWHERE:
        return None
    many = len(diagnosis.listed)
    return fold(
        "What happened",
        incident_list(diagnosis, FigureTimeAxis(origin_ns, speed, figure)),
        note=count(many, "incident") if many else "no known fault",
        id="happened",
        class_="diagnosis long",
    )


def limits_section(diagnosis: Diagnosis) -> Markup:
    """Return how the time was split: of the work, of the transfer, and of the link's channel."""
    return fold(
        "What limited it, in detail",
        _work(diagnosis),
        _transfer(diagnosis),
        account_bar(diagnosis),
        note="every limit with its meaning and its certainty",
        id="limits",
        class_="diagnosis long",
    )


def _work(diagnosis: Diagnosis) -> list[Markup]:
    """Return the piece of work as a whole; empty for a transfer alone."""
    group = diagnosis.group
    if len(group.members) < 2:
        return []
    took = duration(group.total_s * NS_PER_S)
    left = len(group.numbers) - len(group.members)
    longest = f" (the {len(group.members):,} longest of them are explained)" if left else ""
    return [
        element("h3", f"{count(len(group.numbers), 'connection')} as one piece of work: {took}{longest}"),
        *limits_bar(rows_of_group(group), label="What limited the connections together"),
        *lanes(group),
    ]


def _transfer(diagnosis: Diagnosis) -> list[Markup]:
    """Return what limited the transfer, and from where that was seen."""
    limited = diagnosis.limited
    layers = diagnosis.transfer.layers
    sender, receiver = layers.at_sender.ends
    which = "the longest transfer" if len(diagnosis.group.members) > 1 else "the transfer"
    title = f"What limited {which}: connection {_number(diagnosis)}, {sender} → {receiver}"
    seen = f"{duration(limited.total_s * NS_PER_S)}, seen from {SEEN_FROM[limited.view]}."
    return [
        element("h3", printable(title)),
        element("p", " ".join([seen, *_cannot_show(limited)]), class_="muted"),
        *limits_bar(limited.shares, numbers_of(limited, Limit.LINK), label="What limited the transfer"),
    ]


def _number(diagnosis: Diagnosis) -> str:
    """Return the number of the connection; at its sender's capture it may have another one."""
    number, at_sender = diagnosis.group.members[0].number, diagnosis.transfer.layers.at_sender.number
    return f"{number}" if number == at_sender else f"{number} ({at_sender} where it was sent)"


def _cannot_show(limited: Limited) -> list[str]:
    """Return what the view cannot show."""
    only = [RECEIVER_ONLY] if limited.view is Viewpoint.RECEIVER else []
    coarse = limited.seen is not None and limited.seen.coarse
    return [*only, *([COARSE] if coarse else [])]
