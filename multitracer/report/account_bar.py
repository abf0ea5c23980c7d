"""The link's account as one bar, where its log measured it, and how well the channel was used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.account.uses import LOST, Use
from multitracer.diagnosis.diagnose import channel_use
from multitracer.report.markup import Markup, element
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.account.link_account import LinkAccount
    from multitracer.diagnosis.diagnosis import Diagnosis

_ORDER = (
    Use.USEFUL, Use.ARQ, Use.XOFF, Use.ACCESS, Use.OTHER, Use.IDLE_APP, Use.OUTAGE, Use.HANDSHAKE,
    Use.IDLE_RTO, Use.IDLE_CWND, Use.IDLE_RWND, Use.IDLE_SNDBUF, Use.REDUNDANT, Use.WASTED, Use.UNKNOWN,
)  # fmt: skip
"""Of the bar: what the link did, then what it could not help, then what TCP lost."""


def account_bar(diagnosis: Diagnosis) -> list[Markup]:
    """Return how the channel was used, the bar and its legend; empty without a log of the link."""
    sentence = channel_use(diagnosis)
    if not sentence:
        return []
    account = diagnosis.account
    return [
        element("h3", "How the channel was used"),
        element("p", printable(sentence)),
        _bar(account),
        element("dl", _legend(account), class_="uses"),
    ]


def _shares(account: LinkAccount) -> list[tuple[Use, float, float]]:
    """Return the classes that occur, their seconds, and their part of the whole."""
    pairs = [(use, account.seconds[use]) for use in _ORDER]
    return [(use, seconds, seconds / account.total_s) for use, seconds in pairs if seconds > 0]


def _bar(account: LinkAccount) -> Markup:
    shares = _shares(account)
    pieces = [
        element(
            "span", class_=_class(use), style=f"flex-grow:{share:.6f}", title=f"{use.label}: {seconds:.1f} s"
        )
        for use, seconds, share in shares
    ]
    label = ", ".join(f"{use.label} {share:.1%}" for use, _, share in shares)
    return element("div", pieces, class_="account", role="img", aria_label=f"Where the time went: {label}")


def _class(use: Use) -> str:
    return f"use {use.label.replace(':', '-')}{' lost' if use in LOST else ''}"


def _legend(account: LinkAccount) -> Iterator[Markup]:
    for use, seconds, share in _shares(account):
        swatch = element("span", class_=_class(use), aria_hidden="true")
        yield element(
            "div",
            element("dt", swatch, use.label),
            element("dd", f"{seconds:.1f} s · {share:.1%}", element("small", account.says(use))),
        )
