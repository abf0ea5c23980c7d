"""The first sentence about several connections: what limited all of them together, and which of them differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.clauses import (
    MOSTLY,
    WORTH_SAYING,
    by_end,
    is_policed,
    lasted,
    noun_for,
    noun_of_limit,
    noun_of_row,
    of_all,
    way_in_words,
)
from multitracer.diagnosis.limits.names import Confidence, Limit, LimitSubtype, by_limit, largest, summed
from multitracer.diagnosis.packets.opening_and_end import failed_opening
from multitracer.diagnosis.remedies import remedy
from multitracer.diagnosis.sentence import (
    Headline,
    distinct_helps,
    facts_here,
    facts_of,
    help_for,
    more_of_radio,
    of_limit,
    of_readings,
    programs_in_words,
    signalling_words,
    was_limit,
    with_losses,
    with_signalling,
)
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import count, percent, rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.diagnosis.limits.group import ConnectionGroup
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.names import Causes, LimitShare
    from multitracer.diagnosis.packets.opening_and_end import FailedOpening
    from multitracer.diagnosis.radio_cause import RadioCauses

_MOST_NAMED = 3
"""Maximum number of connections that are named one by one; of more, those with one limit are counted."""
_OF_ONE = (Limit.SLOW_START, Limit.CONGESTION_WINDOW, Limit.RECOVERY)
"""Limits that hold back one connection while others of the group fill the link."""


def headline_of_group(
    group: ConnectionGroup, facts: frozenset[str] = frozenset(), radio: Sequence[RadioCauses] = ()
) -> Headline:
    """Return the first sentence of a group of connections.

    `facts` are those of its longest transfer, `radio` the causes of its members' limits by a radio log.
    """
    failed = [each for member in group.members if (each := failed_opening(member.limited.transfer)) is not None]
    if len(failed) == len(group.numbers):
        return _headline_of_failed(group, failed)
    rows, longest = group.shares, group.longest
    if not rows:
        return _headline_without_time(group)
    if longest.transfer.clock_steps:
        sentence = f"What limited {len(group.numbers):,} connections is not known: {longest.reason}."
        help_ = remedy(Limit.UNKNOWN, LimitSubtype.NONE, facts)
        return Headline(Limit.UNKNOWN, LimitSubtype.NONE, 1.0, Confidence.WEAK, sentence, help_)
    sums = by_limit(rows)
    limit, share = next(iter(sums.items()))
    others = {each: other for each, other in sums.items() if each is not limit and other >= WORTH_SAYING}
    facts |= {each.kind for each in failed}
    main = next(row for row in rows if row.limit is limit)
    part = main.part if main.share > MOSTLY * share else LimitSubtype.NONE
    counted = [row for row in of_limit(rows, limit) if row.share >= WORTH_SAYING * share]
    confidence = max((row.confidence for row in counted), default=main.confidence)
    noun, of_ends = _noun_of_all(longest, rows, limit, part, reverse=main.reverse), ""
    helps = [_remedy(group, main, part, facts)]
    if limit is Limit.APPLICATION:
        ends = by_end(longest, of_limit(rows, limit))
        large = {end: ours for end, ours in ends.items() if ours >= WORTH_SAYING}
        noun = next(iter(ends))
        if len(large) > 1:
            noun, part = of_all(ends), LimitSubtype.NONE
            of_ends = f": {', '.join(f'{end} for {percent(ours, is_short=True)}' for end, ours in large.items())}"
            helps = list(_remedies_of_programs(group, large, facts))
    which = ", which they filled together" if limit is Limit.LINK and _is_filled_together(group) else ""
    many = f"{_who(group)} took {lasted(group.total_s)}.{_unopened_of(group, failed)}"
    mostly = "Mostly" if share >= MOSTLY else "The largest part was"
    basis = f"{percent(share, is_short=True)}, {confidence.label}"
    first = f"{many} {mostly} {noun}{which} ({basis}){of_ends or _carried(group, limit)}."
    rest = [words for each, other in others.items() for words in _also(longest, rows, each, other)]
    apart = _apart(group, noun, is_together=which != "")
    of_radio, every = (of_readings(summed(causes)) for causes in _causes_of(radio, limit))
    (more, radio_help), waited = more_of_radio(limit, of_radio, every, radio), signalling_words(radio)
    helps += _remedies_of_others(group, others, facts)
    sentence = " ".join(filter(None, [first, apart, more, *(each.sentence for each in waited), *rest]))
    limit_s = sum(row.seconds for each in group.members for row in of_limit(each.limited.shares, limit))
    help_, cause = with_signalling(
        waited, radio_help or distinct_helps(helps), largest(of_radio), limit_s, group.total_s
    )
    return Headline(limit, part, share, confidence, sentence, help_, cause, main.reverse)


def _causes_of(radio: Sequence[RadioCauses], limit: Limit) -> tuple[list[Causes], list[Causes]]:
    """Return the causes of one limit, and of all, of each connection."""
    return [each.of_limit(limit) for each in radio], [each.seconds() for each in radio]


def _who(group: ConnectionGroup) -> str:
    many = len(group.numbers)
    return f"One MPTCP connection with {many:,} subflows" if group.is_one_connection else f"{many:,} connections"


def _noun(limited: Limited, limit: Limit, part: LimitSubtype = LimitSubtype.NONE, *, reverse: bool) -> str:
    """Return a noun for a limit of several connections."""
    if limit is Limit.LINK and is_policed(limited):
        return "a policer"
    return "opening connections" if limit is Limit.HANDSHAKE else noun_for(limited, limit, part, reverse=reverse)


def _noun_of_all(
    longest: Limited, rows: Sequence[LimitShare], limit: Limit, part: LimitSubtype = LimitSubtype.NONE, *, reverse: bool
) -> str:
    """Return a noun for a limit by all its rows: where those of both directions count, it names both.

    ACKs wait for the link of the other direction.
    """
    ways = [0.0, 0.0]
    for row in of_limit(rows, limit):
        ways[row.reverse != (limit is Limit.LINK and row.part is LimitSubtype.ACKS)] += row.share
    if limit in (Limit.HANDSHAKE, Limit.APPLICATION, Limit.UNKNOWN) or min(ways) < WORTH_SAYING * sum(ways):
        is_way = limit is Limit.LINK and not part
        return _noun(longest, limit, part, reverse=ways[1] > ways[0] if is_way else reverse)
    if limit is not Limit.LINK:
        return f"{noun_of_limit(limit)} (data of both directions)"
    more = f", more from {way_in_words(reverse=ways[1] > ways[0])}" if max(ways) >= 2 * min(ways) else ""
    return f"{noun_of_limit(limit)} in both directions{more}"


def _is_filled_together(group: ConnectionGroup) -> bool:
    """Return whether the link was the limit mostly because the packets of all followed each other in its queue."""
    together_s = group.together.total_ns * group.longest.transfer.speed / NS_PER_S
    link_s = sum(row.seconds for row in of_limit(group.shares, Limit.LINK) if not row.part)
    return link_s > 0 and 2 * together_s >= link_s


def _carried(group: ConnectionGroup, limit: Limit) -> str:
    """Return the rate at which data of all arrived, where a link was the limit of data in one direction; or ""."""
    transfers = [each.limited.transfer for each in group.members]
    if limit is not Limit.LINK or len(transfers) < len(group.numbers) or len({each.reverse for each in transfers}) > 1:
        return ""
    carried = sum(each.both_unique_bytes[0] for each in transfers)
    return f", with {rate(carried * BITS_PER_BYTE / group.total_s)} of payload in all"


def _also(longest: Limited, rows: Sequence[LimitShare], limit: Limit, share: float) -> list[str]:
    """Return sentences about a limit beside the largest."""
    own = of_limit(rows, limit)
    if limit is Limit.APPLICATION:
        return [words for _, words in programs_in_words(longest, own)]
    return [was_limit(_noun_of_all(longest, rows, limit, reverse=own[0].reverse), share, own)]


def _facts_of_limit(group: ConnectionGroup, row: LimitShare, facts: frozenset[str]) -> frozenset[str]:
    """Return the facts for a limit of the group: those of the connection that has most of it.

    `facts` are those of the longest connection: the findings of others are not known.
    """
    most = _most_of(group, row.limit)
    is_of_all = most is group.longest or row.limit is Limit.HANDSHAKE  # how others failed to open is among `facts`
    return facts_here(facts if is_of_all else facts_of(most, (), ()), most, row)


def _most_of(group: ConnectionGroup, limit: Limit) -> Limited:
    """Return the connection that has most of a limit."""
    taken_s = [sum(own.seconds for own in of_limit(each.limited.shares, limit)) for each in group.members]
    return group.members[int(np.argmax(taken_s))].limited


def _remedy(group: ConnectionGroup, row: LimitShare, part: LimitSubtype, facts: frozenset[str]) -> str:
    """Return the remedy for a limit of the group, with the losses of the connection that has most of it."""
    side = _most_of(group, row.limit).side(reverse=row.reverse)
    return with_losses(side, remedy(row.limit, part, _facts_of_limit(group, row, facts)), " of one connection")


def _remedies_of_others(group: ConnectionGroup, others: dict[Limit, float], facts: frozenset[str]) -> Iterator[str]:
    """Yield the remedies of the limits that the sentence names beside the largest."""
    longest, rows = group.longest, group.shares
    for limit, share in others.items():
        own = of_limit(rows, limit)
        if limit is Limit.APPLICATION:
            large = {end: ours for end, ours in by_end(longest, own).items() if ours >= WORTH_SAYING}
            yield from _remedies_of_programs(group, large, facts)
        elif limit is not Limit.UNKNOWN:
            noun = _noun_of_all(longest, rows, limit, reverse=own[0].reverse)
            yield help_for(noun, share, _remedy(group, own[0], own[0].part, facts))


def _remedies_of_programs(group: ConnectionGroup, ends: dict[str, float], facts: frozenset[str]) -> Iterator[str]:
    """Yield the remedy for the program of each end, and for the path between them, by most of its time."""
    for end, share in ends.items():
        own = of_limit(group.shares, Limit.APPLICATION)
        row = next(each for each in own if noun_of_row(group.longest, each) == end)
        yield help_for(end, share, _remedy(group, row, row.part, facts))


def _apart(group: ConnectionGroup, of_all: str, *, is_together: bool) -> str:
    """Return a sentence with the largest limit of each connection; "" where it is not known of all.

    `of_all` is the noun for the largest limit of all together. Where they filled the link together, it is also the
    limit of those that a window or recovery held back.
    """
    if len(group.members) < len(group.numbers):
        return ""
    nouns: dict[str, list[int]] = {}
    for member in group.members:
        nouns.setdefault(_main_noun(member.limited, is_together=is_together), []).append(member.number)
    if len(nouns) == 1:
        noun = next(iter(nouns))
        what = "the largest limit of each connection"
        return f"That was {what}." if noun == of_all else f"T{what[1:]} was {noun}."
    if len(group.numbers) <= _MOST_NAMED:
        by_number = sorted(nouns.items(), key=lambda item: min(item[1]))
        words = [
            f"{noun} in connection{'s' if len(own) > 1 else ''} {' and '.join(map(str, sorted(own)))}"
            for noun, own in by_number
        ]
    else:
        most_first = sorted(nouns.items(), key=lambda item: -len(item[1]))
        (first, most), *rest = most_first
        words = [f"{first} in {count(len(most), 'connection')}", *(f"{noun} in {len(own):,}" for noun, own in rest)]
    return f"The largest limit was {', '.join(words)}."


def _main_noun(limited: Limited, *, is_together: bool) -> str:
    """Return the noun for the largest limit of one connection."""
    limit = next(iter(by_limit(limited.shares)), Limit.UNKNOWN)
    rows = of_limit(limited.shares, limit)
    if limit is Limit.APPLICATION:
        return next(iter(by_end(limited, rows)))
    if is_together and limit in _OF_ONE:
        limit, rows = Limit.LINK, []
    part = rows[0].part if rows and rows[0].share > MOSTLY * sum(row.share for row in rows) else LimitSubtype.NONE
    return _noun(limited, limit, part, reverse=rows[0].reverse if rows else limited.transfer.reverse)


def _headline_of_failed(group: ConnectionGroup, failed: list[FailedOpening]) -> Headline:
    """Return the first sentence of connections of which none was opened."""
    sure = max(Confidence.MEASURED if each.is_certain else Confidence.WEAK for each in failed)
    basis = f" (100 % of {lasted(group.total_s)}, {sure.label})" if group.total_s else ""
    sentence = _unopened_of(group, failed).strip().removesuffix(".")
    helps = remedy(Limit.HANDSHAKE, LimitSubtype.NONE, frozenset(each.kind for each in failed))
    return Headline(Limit.HANDSHAKE, LimitSubtype.NONE, 1.0, sure, f"{sentence}{basis}.", helps)


def _unopened_of(group: ConnectionGroup, failed: list[FailedOpening]) -> str:
    """Return a sentence that counts the connections that were never opened, after a space; "" if all were."""
    words = {
        "connection-refused": "refused",
        "syn-unanswered": "never answered",
        "unopened": "not answered before the capture ended",
    }
    of_all = f" of {len(group.numbers):,} connections"
    clauses = []
    for kind, how in words.items():
        if many := sum(each.kind == kind for each in failed):
            clauses.append(f"{many:,}{of_all} {'was' if many == 1 else 'were'} {how}")
            of_all = ""
    return f" {', '.join(clauses)}." if clauses else ""


def _headline_without_time(group: ConnectionGroup) -> Headline:
    """Return the first sentence of connections that took no time: no share of it can be told."""
    first = (
        f"{len(group.numbers):,} connections took {lasted(0.0)}: each of them has a single packet, or all "
        "its packets have the same time. What limited them is not known."
    )
    none = LimitSubtype.NONE
    helps = remedy(Limit.UNKNOWN, none, frozenset({"one-time"}))
    return Headline(Limit.UNKNOWN, none, 0.0, Confidence.WEAK, first, helps)
