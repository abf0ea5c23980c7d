"""The sentence at the top: what limited a transfer, for how long, how sure that is, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.held import stretches
from multitracer.diagnosis.limits.names import Confidence, Limit, Part, View
from multitracer.diagnosis.limits.shares import by_limit
from multitracer.units import NS_PER_S
from multitracer.words import count

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.group import Group
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.shares import Share
    from multitracer.tables import Array

WORTH_SAYING = 0.1
"""Share of T from which on a limit that is not the largest is named (limits.md)."""
MOSTLY = 0.5
"""Share from which on a sentence begins so: half (limits.md)."""
_BITS = 8  # in a byte
_AS_ONE = 1.02
"""Highest by lowest rate of a link below which it reads as one number. Not measured."""

HELP = {
    Limit.HANDSHAKE: "a server that answers sooner, a shorter path, or fewer new connections",
    Limit.OUTAGE: "finding the part of the path that failed: the log of its router or modem shows why",
    Limit.LINK: "a faster link, or less other traffic on it",
    Limit.RECOVERY: "less loss: see the finding that names its cause",
    Limit.RECEIVER_WINDOW: "a receiving program that reads sooner, or a larger receive buffer (SO_RCVBUF)",
    Limit.SENDER_BUFFER: "a larger send buffer (SO_SNDBUF), or none set, so that the kernel tunes it",
    Limit.APPLICATION: "a change of the program: it did not send what TCP could have carried",
    Limit.SLOW_START: "fewer new connections, a larger initial window, or a shorter path",
    Limit.CONGESTION_WINDOW: "less loss, or another congestion control",
    Limit.UNKNOWN: "a capture at the other end too, and the sender's TCP state (collectors.tcp_info)",
}
_RADIO_HELP = {
    Limit.OUTAGE: "better coverage, or other handover parameters of the network",
    Limit.LINK: "a faster link, a better cell or fewer users",
}
"""Where a log of the radio or of its link shows that there is one."""
_PART_HELP = {
    Part.THINK: "a program that begins its answers sooner",
    Part.ZERO: "a receiving program that reads what has arrived",
    Part.PEER: "a peer that sends its requests sooner, or several at once",
    Part.NAGLE: "TCP_NODELAY, or writing the whole message at once",
}
_POLICED_HELP = "the contract's rate, shaping instead of policing, or a sender that paces"
_NOUNS = {
    Limit.HANDSHAKE: "opening the connection",
    Limit.OUTAGE: "an outage",
    Limit.LINK: "the link",
    Limit.RECOVERY: "the repair of lost data",
    Limit.RECEIVER_WINDOW: "the receiver's window",
    Limit.SENDER_BUFFER: "the send buffer",
    Limit.APPLICATION: "the application",
    Limit.SLOW_START: "slow start",
    Limit.CONGESTION_WINDOW: "the congestion window",
    Limit.UNKNOWN: "what nobody can tell from this recording",
}


class Headline(NamedTuple):
    """The first sentence."""

    limit: Limit
    part: Part
    share: float
    confidence: Confidence
    sentence: str
    help: str

    def document(self) -> dict[str, object]:
        """Return it as `diagnose --json` writes it."""
        return {
            "limit": self.limit.label,
            "part": self.part.label if self.part else None,
            "share": round(self.share, 6),
            "confidence": self.confidence.label,
            "sentence": self.sentence,
            "help": self.help,
        }


def headline_of(limited: Limited) -> Headline:
    """Return the first sentence of one transfer."""
    sums = by_limit(limited.shares)
    limit = next(iter(sums))
    main = next(row for row in limited.shares if row.limit is limit)
    part = main.part if main.share > MOSTLY * sums[limit] else Part.NONE
    share = main.share if part else sums[limit]
    first = _first(limited, limit, part, share, main.confidence)
    rest = [_also(limited, each, share) for each, share in list(sums.items())[1:] if share >= WORTH_SAYING]
    sentence = " ".join([first, *rest])
    helps = _POLICED_HELP if limit is Limit.LINK and is_policed(limited) else _help(limited, limit)
    return Headline(limit, part, share, main.confidence, sentence, _PART_HELP.get(part, helps))


def headline_of_group(group: Group) -> Headline:
    """Return the first sentence of several connections that were one piece of work."""
    total = max(group.total_s, 1e-12)
    sums: dict[Limit, float] = {}
    for (limit, _), (seconds, _) in group.seconds.items():
        sums[limit] = sums.get(limit, 0.0) + seconds / total
    ordered = sorted(sums.items(), key=lambda item: -item[1])
    limit, share = ordered[0]
    part, sure = next((part, sure) for (each, part), (_, sure) in group.seconds.items() if each is limit)
    own = group.seconds[limit, part][0] / total
    part = part if own > MOSTLY * share else Part.NONE
    many = f"{len(group.numbers):,} connections took {group.total_s:.1f} s."
    mostly = "Mostly" if share >= MOSTLY else "The largest part was"
    first = f"{many} {mostly} {_noun(group.longest, limit, part)} ({share:.0%}, {sure.label})."
    rest = [f"{_noun(group.longest, each).capitalize()} was the limit for {other:.0%}."
            for each, other in ordered[1:] if other >= WORTH_SAYING]  # fmt: skip
    helps = _PART_HELP.get(part, _help(group.longest, limit))
    return Headline(limit, part, share, sure, " ".join([first, *rest]), helps)


def _help(limited: Limited, limit: Limit) -> str:
    """Return what would help against a limit; words of a radio only where a log shows one."""
    return _RADIO_HELP.get(limit, HELP[limit]) if limited.transfer.has_radio else HELP[limit]


def _first(limited: Limited, limit: Limit, part: Part, share: float, sure: Confidence) -> str:
    basis = f"{share:.0%} of {limited.total_s:.1f} s, {sure.label}"
    if limit is Limit.UNKNOWN:
        return (
            f"What limited it is not known ({basis}): {limited.reason or 'nothing in the packets shows it'}."
        )
    if limit is Limit.LINK and share > 1 - WORTH_SAYING:
        others = max((row.share for row in limited.shares if row.limit is not limit), default=0.0)
        rest = f"nothing else cost more than {_ceiling(others)}"
        return f"The link was the limit{_at_rate(limited)} ({basis}); {rest}."
    begin = "Mostly" if share >= MOSTLY else "The largest part was"
    return f"{begin} {_noun(limited, limit, part)}: {_what(limited, limit, part)} ({basis})."


def _also(limited: Limited, limit: Limit, share: float) -> str:
    if limit is Limit.UNKNOWN:
        return f"For {share:.0%} the limit is unknown: {limited.reason}."
    if limit is Limit.LINK and is_policed(limited):
        return f"The policer was the limit for {share:.0%}."
    return f"{_noun(limited, limit).capitalize()} was the limit for {share:.0%}."


def _ceiling(share: float) -> str:
    return f"{max(int(np.ceil(share * 100)), 1)} %"


def _noun(limited: Limited, limit: Limit, part: Part = Part.NONE) -> str:
    if limit is not Limit.APPLICATION:
        return _NOUNS[limit]
    server, client = (
        ("the server", "the client") if limited.transfer.reverse else ("the client", "the server")
    )
    return client if part is Part.PEER else server


def is_policed(limited: Limited) -> bool:
    """Return whether the empty bucket of a policer, more than a queue, shows that the link was the limit."""
    return limited.by_bucket_s > limited.by_queue_s


def _at_rate(limited: Limited) -> str:
    rate = limited.shown.link.rate if limited.shown is not None else None
    if rate is None:
        return ""
    low, middle, high = (_rate(each) for each in (rate.low, rate.median, rate.high))
    if rate.high <= _AS_ONE * rate.low or low == high:
        return f", at {middle}"
    number, _, unit = low.partition(" ")
    return f", at {middle} ({number if high.endswith(f' {unit}') else low} to {high})"


def _rate(bytes_per_s: float) -> str:
    bits = bytes_per_s * _BITS
    if bits >= 1e6:  # a Mbit
        return f"{bits / 1e6:.3g} Mbit/s"
    return f"{bits / 1e3:.3g} kbit/s"


def _what(limited: Limited, limit: Limit, part: Part) -> str:
    """Return what happened, with its numbers."""
    lengths = _lengths(limited, limit, part)
    seconds = float(lengths.sum())
    if limit is Limit.APPLICATION:
        return _of_application(part, lengths)
    if limit is Limit.LINK:
        held = "a policer let no more through" if is_policed(limited) else "it had data queued or in service"
        return f"{held} for {seconds:.1f} s{_at_rate(limited)}"
    if limit is Limit.RECEIVER_WINDOW and part is Part.ZERO:
        return f"it was closed for {seconds:.1f} s"
    return {
        Limit.HANDSHAKE: f"it took {seconds:.2f} s",
        Limit.OUTAGE: f"nothing came through for {seconds:.1f} s, in {count(len(lengths), 'gap')}",
        Limit.RECOVERY: f"new data waited {seconds:.1f} s for it, {count(len(lengths), 'time')}",
        Limit.RECEIVER_WINDOW: f"data in flight filled it for {seconds:.1f} s",
        Limit.SENDER_BUFFER: f"it was full for {seconds:.1f} s{_or_window(limited)}",
        Limit.SLOW_START: f"for {seconds:.1f} s the congestion window was still growing",
        Limit.CONGESTION_WINDOW: f"it kept data back for {seconds:.1f} s{_though(limited)}",
    }[limit]


def _though(limited: Limited) -> str:
    """Return that the path had room; "" where a policer or a router that marks said that it had none."""
    seen = limited.seen
    had_none = seen is not None and (seen.policer is not None or bool(seen.answers.marked.any()))
    return "" if had_none else " though the path had room"


def _or_window(limited: Limited) -> str:
    return ", or the congestion window stood still" if limited.view in (View.SENDER, View.RECEIVER) else ""


def _of_application(part: Part, lengths: Array) -> str:
    seconds, usual = float(lengths.sum()), float(np.median(lengths))
    many = len(lengths)
    if part is Part.THINK:
        if many == 1:
            return f"it took {usual:.2g} s to begin its answer"
        return f"it took {seconds:.1f} s to begin {many} answers, usually {usual:.2g} s each"
    if part is Part.PEER:
        if many == 1:
            return f"it let {usual:.2g} s go by before it asked"
        return f"it let {seconds:.1f} s go by before it asked, {many} times, usually {usual:.2g} s"
    if part is Part.NAGLE:
        return f"small segments waited {seconds:.1f} s for the ACK of a small one (Nagle's algorithm)"
    return f"it had nothing to send for {seconds:.1f} s, in {count(many, 'pause')}"


def _lengths(limited: Limited, limit: Limit, part: Part) -> Array:
    """Return the lengths of a limit's intervals (of one part, if it is named), s."""
    begin, end = stretches(limited, limit, part or None)
    return np.asarray((end - begin) * limited.transfer.speed / NS_PER_S)


def rows_in_words(rows: list[Share]) -> list[tuple[str, str, str, str]]:
    """Return what a table for people shows: limit, seconds, share, confidence."""
    return [
        (
            f"{row.limit.label} ({row.part.label})" if row.part else row.limit.label,
            f"{row.seconds:.2f}",
            f"{row.share:.1%}",
            row.confidence.label,
        )
        for row in rows
    ]
