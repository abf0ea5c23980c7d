"""The sentence at the top: what limited a transfer, for how long, how sure that is, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.happened import at_rate, is_policed, lasted, policed_to, what_happened
from multitracer.diagnosis.limits.names import Confidence, Limit, Part
from multitracer.diagnosis.limits.shares import by_limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from multitracer.diagnosis.limits.group import Group
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.shares import LimitShare

WORTH_SAYING = 0.1
"""Share of T from which on a limit that is not the largest is named (limits.md)."""
MOSTLY = 0.5
"""Share from which on a sentence begins so: half (limits.md)."""

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
    Part.LATENCY: "fewer round trips: several requests at once, larger ones, or a shorter path",
    Part.REPAIR: "less loss: a lost request alone waits for a timer, as nothing behind it shows the loss",
}
_ANSWERS_HELP = {Part.PEER: "a peer that answers sooner, or data that do not wait for its answers"}
"""Where the data are the initiator's: its peer answers."""
_BOTH, _ALL = "the programs at both ends", "the programs and the path between them"
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
_PATH_NOUNS = {
    Part.LATENCY: "the path's latency",
    Part.REPAIR: "the repair of lost requests or answers",
}
"""Of the parts of the application that no program made."""


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
    own = [row for row in limited.shares if row.limit is limit]
    others = {each: share for each, share in sums.items() if each is not limit}
    next_share = max(others.values(), default=0.0)
    parts, others_of_it = _parted(limited, _main_parts(own, next_share), next_share)
    part = parts[0].part if len(parts) == 1 else Part.NONE
    share = parts[0].share if part and parts[0].share >= next_share else sums[limit]
    share = sum(row.share for row in parts) if others_of_it else share
    first = _first(limited, limit, parts, share)
    rest = [_also(limited, each, other) for each, other in others.items() if other >= WORTH_SAYING]
    helps = _POLICED_HELP if limit is Limit.LINK and is_policed(limited) else _help(limited, limit)
    helps = "; ".join(dict.fromkeys(_part_help(limited, row.part) or helps for row in parts))
    sentence = " ".join([first, *others_of_it, *filter(None, rest)])
    return Headline(limit, part, share, own[0].confidence, sentence, helps)


def _parted(
    limited: Limited, parts: list[LimitShare], next_share: float
) -> tuple[list[LimitShare], list[str]]:
    """Return the rows of whose was most, if the path is among them, and what is said of the others beside it.

    All rows, and nothing, where only programs are named, or another limit is larger than what is left.
    """
    nouns = [_noun(limited, row.limit, row.part) for row in parts]
    mine = [row for row, noun in zip(parts, nouns, strict=True) if noun == nouns[0]]
    is_largest = sum(row.share for row in mine) >= next_share
    if len(mine) == len(parts) or _of_all(nouns) == _BOTH or not is_largest:
        return parts, []
    others = {row.part: row.share for row in parts if row not in mine}
    return mine, [_programs(limited, others)]


def _main_parts(own: list[LimitShare], next_share: float) -> list[LimitShare]:
    """Return the parts of the largest limit that the first sentence tells; all as one row without a part.

    One part stands for its limit if it is most of it, and no other limit is larger than that part. What an
    application did is named by its parts: they may be of two ends, and neither is to be silent.
    """
    main, whole = own[0], sum(row.share for row in own)
    many = [row for row in own if row is main or row.share >= WORTH_SAYING]
    if main.limit is Limit.APPLICATION:
        return many
    is_most = main.share > MOSTLY * whole and main.share >= next_share
    return [main if is_most else main._replace(part=Part.NONE)]


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
    many = f"{len(group.numbers):,} connections took {lasted(group.total_s)}."
    mostly = "Mostly" if share >= MOSTLY else "The largest part was"
    parts = {part: seconds / total for (each, part), (seconds, _) in group.seconds.items()
             if each is Limit.APPLICATION}  # fmt: skip
    ends = _by_end(group.longest, parts) if limit is Limit.APPLICATION else {}
    noun = next(iter(ends), _noun(group.longest, limit, part) + group.shared_by(limit))
    if sum(end >= WORTH_SAYING for end in ends.values()) > 1:
        part = Part.NONE
        noun = f"{_of_all(ends)}, {' and '.join(f'{end} for {ours:.0%}' for end, ours in ends.items())}"
    first = f"{many} {mostly} {noun} ({share:.0%}, {sure.label})."
    rest = [
        _programs(group.longest, parts)
        if each is Limit.APPLICATION
        else f"{_noun(group.longest, each).capitalize()} was the limit for {other:.0%}."
        for each, other in ordered[1:]
        if other >= WORTH_SAYING
    ]
    helps = _part_help(group.longest, part) or _help(group.longest, limit)
    return Headline(limit, part, share, sure, " ".join([first, *rest]), helps)


def _part_help(limited: Limited, part: Part) -> str:
    """Return what would help against a part of a limit; "" where that is what helps against the whole."""
    own = {} if limited.transfer.reverse else _ANSWERS_HELP
    return own.get(part, _PART_HELP.get(part, ""))


def _of_all(nouns: Iterable[str]) -> str:
    """Return a name for what all of these did: programs, or the path as well."""
    return _ALL if set(nouns) & set(_PATH_NOUNS.values()) else _BOTH


def _help(limited: Limited, limit: Limit) -> str:
    """Return what would help against a limit; words of a radio only where a log shows one."""
    return _RADIO_HELP.get(limit, HELP[limit]) if limited.transfer.has_radio else HELP[limit]


def _first(limited: Limited, limit: Limit, parts: list[LimitShare], share: float) -> str:
    basis = f"{share:.0%} of {lasted(limited.total_s)}, {parts[0].confidence.label}"
    if limit is Limit.UNKNOWN:
        return (
            f"What limited it is not known ({basis}): {limited.reason or 'nothing in the packets shows it'}."
        )
    if limit is Limit.LINK and share > 1 - WORTH_SAYING:
        others = max((row.share for row in limited.shares if row.limit is not limit), default=0.0)
        rest = f"nothing else cost more than {_ceiling(others)}"
        at = (
            f": a policer let no more through{policed_to(limited)}"
            if is_policed(limited)
            else at_rate(limited)
        )
        return f"The link was the limit{at} ({basis}); {rest}."
    begin = "Mostly" if share >= MOSTLY else "The largest part was"
    words = {row.part: what_happened(limited, limit, row.part) for row in parts}
    nouns = list(dict.fromkeys(_noun(limited, limit, part) for part in words))
    if len(nouns) == 1:
        return f"{begin} {nouns[0]}: {', and '.join(words.values())} ({basis})."
    what = "; ".join(_of_end(_noun(limited, limit, part), did) for part, did in words.items())
    return f"{begin} {_of_all(nouns)}: {what} ({basis})."


def _of_end(noun: str, words: str) -> str:
    """Return what one of two ends did: "the client let 2 s go by", "the server's small segments waited"."""
    if noun in _PATH_NOUNS.values():
        return words
    return f"{noun} {words.removeprefix('it ')}" if words.startswith("it ") else f"{noun}'s {words}"


def _also(limited: Limited, limit: Limit, share: float) -> str:
    if limit is Limit.UNKNOWN:
        return f"For {share:.0%} the limit is unknown: {limited.reason}."
    if limit is Limit.LINK and is_policed(limited):
        return f"The policer was the limit for {share:.0%}."
    if limit is Limit.APPLICATION:
        return _programs(limited, {row.part: row.share for row in limited.shares if row.limit is limit})
    return f"{_noun(limited, limit).capitalize()} was the limit for {share:.0%}."


def _programs(limited: Limited, parts: Mapping[Part, float]) -> str:
    """Return for how much of the time the program of either end was the limit; both, if each is little."""
    ends = _by_end(limited, parts)
    large = {noun: share for noun, share in ends.items() if share >= WORTH_SAYING}
    if not large:
        return f"{_of_all(ends).capitalize()} were the limit for {sum(ends.values()):.0%}."
    return " ".join(f"{noun.capitalize()} was the limit for {share:.0%}." for noun, share in large.items())


def _by_end(limited: Limited, parts: Mapping[Part, float]) -> dict[str, float]:
    """Return the share of the program of each end, the larger first."""
    ends: dict[str, float] = {}
    for part, share in parts.items():
        noun = _noun(limited, Limit.APPLICATION, part)
        ends[noun] = ends.get(noun, 0.0) + share
    return dict(sorted(ends.items(), key=lambda end: -end[1]))


def _ceiling(share: float) -> str:
    return f"{max(int(np.ceil(share * 100)), 1)} %"


def _noun(limited: Limited, limit: Limit, part: Part = Part.NONE) -> str:
    if limit is not Limit.APPLICATION:
        return _NOUNS[limit]
    if part in _PATH_NOUNS:
        return _PATH_NOUNS[part]
    server, client = (
        ("the server", "the client") if limited.transfer.reverse else ("the client", "the server")
    )
    return client if part is Part.PEER else server


def rows_in_words(rows: list[LimitShare]) -> list[tuple[str, str, str, str]]:
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
