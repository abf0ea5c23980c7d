"""The first sentence: what limited a transfer, for how long, with what confidence, and the remedy."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.verdicts.words import Necessity
from multitracer.diagnosis.clauses import (
    BLACK_HOLE,
    BOTH_PROGRAMS,
    MOSTLY,
    NOUNS,
    PATH_NOUNS,
    SMALL,
    WORTH_SAYING,
    at_rate,
    black_hole,
    by_end,
    is_policed,
    lasted,
    noun_for,
    noun_of_row,
    of_all,
    outage_span,
    policed_to,
    subtypes_in_words,
    tried,
    vanished,
    waited,
    waits_s,
    way_in_words,
    what_happened,
)
from multitracer.diagnosis.held import is_after_idle, link_in_words, window_varies
from multitracer.diagnosis.limits.limited import by_direction, is_asked_in_vain, is_of, stretches
from multitracer.diagnosis.limits.names import (
    NAMES_OF_SIGNALLING,
    OF_SIGNALLING,
    OF_THE_RADIO,
    ONE_END,
    Confidence,
    Limit,
    LimitSubtype,
    RadioCause,
    Viewpoint,
    by_limit,
    largest,
    summed,
)
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.limits.windows import is_read_late
from multitracer.diagnosis.packets.opening_and_end import failed_opening
from multitracer.diagnosis.packets.options import lacks_sack, lacks_scaling
from multitracer.diagnosis.remedies import LESS_LOSS, remedy
from multitracer.units import NS_PER_S
from multitracer.words import count, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from multitracer.diagnosis.finding import Finding
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.names import Causes, LimitShare
    from multitracer.diagnosis.packets.opening_and_end import FailedOpening
    from multitracer.diagnosis.packets.options import MissingOption
    from multitracer.diagnosis.radio_cause import RadioCauses
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array

LIMIT_COLUMNS = ("what limited it", "seconds", "share", "confidence", "numbers")
"""Column titles of `rows_in_words`."""
ENDED_IN = "It ended in "
"""Begin of the sentence about an outage that the connection did not survive."""
_WAITS = (LimitSubtype.THINK, LimitSubtype.PEER)
"""Subtypes of the application limit in which one program waits for the other, seen from either direction."""


class Headline(NamedTuple):
    """The first sentence with its parts."""

    limit: Limit
    part: LimitSubtype
    share: float
    confidence: Confidence
    sentence: str
    help: str
    cause: RadioCause = RadioCause.UNKNOWN
    """What the radio log shows as the cause of the limit."""
    reverse: bool = False
    """Whose data the limit held back: False the initiator's, True the responder's."""


_REQUESTS = 2  # segments of data, at most, of an end that only asks for a transfer, and waits for no part of it
_IDLE_S = 1.0
"""Minimum silence, in s, after which a box on the path may have forgotten a connection. Not measured."""


def facts_of(limited: Limited, findings: Sequence[Finding], options: Sequence[MissingOption]) -> frozenset[str]:
    """Return the facts that remedies depend on: kinds of findings, missing options, and those named here."""
    transfer = limited.transfer
    windows = [each.numbers["window_bytes"] for each in findings if each.kind == "receiver-limited"]
    missing = {f"without-{each.name}" for each in options}
    further = {
        "radio": transfer.has_radio,
        "of-initiator": not transfer.reverse,
        "policed": is_policed(limited),
        "unscaled": lacks_scaling(transfer, max(windows, default=0.0)),
        "nothing-lost": _is_nothing_lost(limited),
        "unopened": failed_opening(transfer) is not None,
        "clock-step": bool(transfer.clock_steps),
        "one-time": limited.total_s == 0,
        "one-way": int(np.count_nonzero(_payload_of_peer(transfer))) <= _REQUESTS,
        "after-idle": _is_idle_before_end(limited),
        "one-direction": len(transfer.sent) in (0, len(transfer.sender)),
        "receiver-only": limited.view is Viewpoint.RECEIVER,
        "no-sack": lacks_sack(transfer),
        "asked-in-vain": is_asked_in_vain(limited),
    }
    ways = {finding.kind: {other.reverse for other in findings if other.kind == finding.kind} for finding in findings}
    single = {_in_one_way(kind, reverse=reverse) for kind, (reverse, *more) in ways.items() if not more}
    return frozenset(set(ways) | single | missing | {name for name, holds in further.items() if holds})


def _in_one_way(kind: str, *, reverse: bool) -> str:
    """Return the fact that all findings of a kind are about the data of one direction."""
    return f"{kind}, {'server' if reverse else 'client'}'s data only"


def _payload_of_peer(transfer: Transfer) -> Array:
    """Return the payload of each segment of the other end, in bytes: int64."""
    return np.asarray(transfer.sender["payload_bytes"][transfer.sender["reverse"] != transfer.reverse])


def _is_nothing_lost(limited: Limited) -> bool:
    """Return whether no packet of the data was lost as far as the captures show: what was sent again was not needed."""
    transfer = limited.transfer
    is_from_afar = limited.view is Viewpoint.RECEIVER
    is_in_order = not is_from_afar or bool((np.diff(transfer.sender["seq_bytes"][transfer.data]) >= 0).all())
    notes = [note for capture in transfer.recording.captures for note in capture.analysis.trust.notes]
    is_known = limited.seen is not None and not any(note.severity and "losses" in note.affects for note in notes)
    needless = transfer.verdicts["necessity"] == Necessity.SPURIOUS
    return is_known and is_in_order and bool(needless.all()) and not (is_from_afar and len(needless))


def _is_idle_before_end(limited: Limited) -> bool:
    """Return whether a connection was silent before an outage that it did not survive: a box may have forgotten it."""
    limit, others = limited.cells.limit, np.flatnonzero(limited.cells.limit != Limit.OUTAGE)
    if not len(others) or limit[-1] != Limit.OUTAGE or limited.transfer.is_complete:
        return False
    last = int(others[-1])
    return bool(limit[last] == Limit.APPLICATION and limited.seconds[last] >= _IDLE_S)


def headline_of(
    limited: Limited,
    facts: frozenset[str] = frozenset(),
    radio: RadioCauses | None = None,
    findings: Sequence[Finding] = (),
) -> Headline:
    """Return the first sentence of one transfer.

    Parameters
    ----------
    limited : Limited
    facts : frozenset of str
        Those of `facts_of`, on which its remedy depends.
    radio : RadioCauses, optional
        Its causes by a radio log.
    findings : sequence of Finding
        Those of the transfer's own direction. With a `rate-change` two rates are told, not a range; a reset is told.
    """
    if (failed := failed_opening(limited.transfer)) is not None:
        return _headline_unopened(limited, failed, facts)
    changed = next((each for each in findings if each.kind == "rate-change"), None)
    reset = next((each for each in findings if each.kind == "reset-by-peer"), None)
    hole = black_hole(limited, findings)
    limit = next(iter(by_limit(limited.shares)))
    sums = by_direction(limited.shares, limited.transfer)
    key = next(each for each in sums if each[0] is limit)
    own = [row for row in limited.shares if is_of(row, key)]
    others = {each: share for each, share in sums.items() if each != key}
    next_share = max((share for (each, _), share in others.items() if each is not limit), default=0.0)
    parts, others_of_it = _main_parts(limited, own, next_share)
    capture = parts[0].part if len(parts) == 1 else LimitSubtype.NONE
    share = parts[0].share if capture and parts[0].share >= next_share else sums[key]
    share = sum(row.share for row in parts) if others_of_it else share
    of_radio = _radio_words(limited, limit, share, own[0].confidence, radio)
    first = of_radio.first or _first(limited, limit, parts, share, changed, hole)
    named = {each for each, other in others.items() if other >= WORTH_SAYING and each[0] not in of_radio.limits}
    rest = [
        *others_of_it,
        *(also for each in others if each in named for also in _also(limited, *each, others[each], hole)),
    ]
    helps = [_remedy(limited, row._replace(part=_main_part(limited, row)), facts) for row in parts]
    if limit is Limit.RECOVERY:  # of two directions, one without a known cause adds nothing
        helps = [each for each in helps if each != remedy(limit, LimitSubtype.NONE, frozenset())] or helps[:1]
    further = _helps_of_others(limited, {each: other for each, other in others.items() if each in named}, facts)
    if others_of_it:
        rest_of_it = [row for row in own if row not in parts and row.share >= WORTH_SAYING]
        further += [(row.share, noun_of_row(limited, row), _remedy(limited, row, facts)) for row in rest_of_it]
    helps += [help_for(noun, share, words) for share, noun, words in sorted(further, key=itemgetter(0), reverse=True)]
    if reset is not None:
        helps.append(f"{_FOR}the reset: the log of the program that ended it, or of a firewall")
    gone = {key} | named | {each for each in others if each[0] in of_radio.limits}
    last = [_last_words(limited, gone, hole), "" if reset is None else _ended_by_reset(limited, reset)]
    also = [words for _, words in sorted(rest, key=itemgetter(0), reverse=True)]
    more = [] if of_radio.first else subtypes_in_words(own, parts)
    waited = [] if radio is None else signalling_words([radio])
    of_waits = [each.sentence for each in waited]
    sentence = " ".join(filter(None, [first, *more, _if_lost(limited, parts), of_radio.more, *of_waits, *also, *last]))
    help_, cause = with_signalling(
        waited, of_radio.help or distinct_helps(helps), of_radio.cause, sum(row.seconds for row in own), limited.total_s
    )
    return Headline(limit, capture, share, parts[0].confidence, sentence, help_, cause, parts[0].reverse)


def _remedy(limited: Limited, row: LimitShare, facts: frozenset[str]) -> str:
    """Return the remedy for a row, with the sender of its data by name."""
    here = facts_here(facts, limited, row)
    words = with_losses(limited.side(reverse=row.reverse), remedy(row.limit, row.part, here))
    return words.replace("a capture at the sender", f"a capture at the {'server' if row.reverse else 'client'}")


_COUNTED = r" \([^()]* lost\)"
"""What `with_losses` inserts; it is told once."""


def _lost(limited: Limited) -> Array:
    """Return the rows of data that were sent again because earlier copies were lost."""
    verdicts = limited.transfer.verdicts
    rows: Array = verdicts["row"][verdicts["necessity"] == Necessity.NECESSARY]
    return rows


def with_losses(limited: Limited, words: str, whose: str = "") -> str:
    """Return a remedy against losses with their number; `whose`: what follows it."""
    lost, many = len(_lost(limited)), len(limited.transfer.data)
    counted = f" ({lost:,} of {count(many, 'data packet')}{whose} {'was' if lost == 1 else 'were'} lost)"
    return words.replace(LESS_LOSS, f"{LESS_LOSS}{counted}", 1) if lost else words


_FOR = "for "
"""Begin of a remedy for a limit beside the largest."""


def help_for(noun: str, share: float, words: str) -> str:
    """Return a remedy for a limit beside the largest."""
    return f"{_FOR}{noun} ({percent(share, is_short=True)}): {words}"


def distinct_helps(helps: Sequence[str]) -> str:
    """Return remedies as one text, a sentence for each limit, without those that another one contains.

    That of the largest limit always stays. The text has no full stop at its end.
    """
    chosen: list[str] = []
    for each in helps:
        own, is_of_largest = each.rpartition("): ")[2], not each.startswith(_FOR)
        if not any(own in other for other in chosen):
            chosen = [*(other for other in chosen if not is_of_largest or other not in each), each]
    largest = "; ".join(each for each in chosen if not each.startswith(_FOR))
    first, *rest = [*filter(None, [largest]), *(each for each in chosen if each.startswith(_FOR))]
    text = ". ".join([first, *(f"{each[0].upper()}{each[1:]}" for each in rest)])
    counted = re.search(_COUNTED, text)
    if counted is None:
        return text
    return text[: counted.end()] + text[counted.end() :].replace(counted[0], "")


def _helps_of_others(
    limited: Limited, named: dict[tuple[Limit, bool], float], facts: frozenset[str]
) -> list[tuple[float, str, str]]:
    """Return share, noun and remedy of further limits, to follow that of the largest.

    `named` has the shares of the limits that the sentence names beside the largest, in descending order.
    """
    helps: list[tuple[float, str, str]] = []
    for key, share in named.items():
        limit = key[0]
        if limit is Limit.UNKNOWN:
            continue
        rows = [row for row in limited.shares if is_of(row, key)]
        if limit is Limit.APPLICATION:  # of each endpoint, as the sentence names it
            helps += _helps_of_programs(limited, rows, facts)
            continue
        row = rows[0]
        if limit is Limit.LINK:
            row = row._replace(part=_main_part(limited, row._replace(part=LimitSubtype.NONE)))
        helps.append((share, noun_for(limited, limit, reverse=row.reverse), _remedy(limited, row, facts)))
    return helps


def _helps_of_programs(
    limited: Limited, rows: list[LimitShare], facts: frozenset[str]
) -> Iterator[tuple[float, str, str]]:
    """Yield share, noun and remedy of each endpoint's program, and of each large subtype of it."""
    ends = by_end(limited, rows)
    for place, (noun, share) in enumerate(ends.items()):
        if place and share < WORTH_SAYING:
            continue
        own = [row for row in rows if noun_of_row(limited, row) == noun]
        for row in (each for each in own if each is own[0] or each.share >= WORTH_SAYING):
            yield (share if row is own[0] else row.share), noun, _remedy(limited, row, facts)


def facts_here(facts: frozenset[str], limited: Limited, row: LimitShare) -> frozenset[str]:
    """Return the facts for a limit of either direction: whose data they are, whether policed or paced, or read late."""
    side = limited.side(reverse=row.reverse)
    is_late = None if side.seen is None else is_read_late(side.seen)
    here = {
        "of-initiator": not row.reverse,
        "policed": is_policed(side),
        "or-paced": side.shown is not None and side.shown.spaced.total_ns > 0,
        "read-late": is_late is True,
        "varies": is_late is not True and window_varies(side),
        "or-program": row.limit is not Limit.LINK and _or_else(side, row) != "",
        "stateless": side.view in ONE_END,
        "lost": len(_lost(side)) > 0,
        "window-after-idle": row.limit is Limit.SLOW_START and is_after_idle(side),
        "acks-lost": row.limit is Limit.LINK and _or_else(side, row).startswith(", or the loss"),
        "or-pace": row.limit is Limit.LINK and _or_else(side, row).startswith(", or the pace"),
        "weak-without-state": row.confidence is Confidence.WEAK
        and side.view in ONE_END
        and not side.transfer.recording.inputs.holds("tcp"),  # it was recorded, but that end's capture is not whole
    }
    elsewhere = set()
    if row.limit in (Limit.OUTAGE, Limit.RECOVERY):  # a box that forgot the connection drops the data of both ends
        elsewhere = {each for each in facts if _in_one_way(each, reverse=not row.reverse) in facts} - {"idle-timeout"}
    return (facts - set(here) - elsewhere) | {name for name, holds in here.items() if holds}


def _last_words(limited: Limited, named: set[tuple[Limit, bool]], hole: Finding | None = None) -> str:
    """Return a sentence about an outage that the connection did not survive; "" if it was named, or is none."""
    cells, reverse = limited.cells, bool(limited.is_reverse[-1:].any())
    if not (cells.limit[-1:] == Limit.OUTAGE).any() or any(limit is Limit.OUTAGE for limit, _ in named):
        return ""
    if limited.side(reverse=reverse).transfer.is_complete:
        return ""
    others = np.flatnonzero(cells.limit != Limit.OUTAGE)
    seconds = float(limited.seconds[int(others.max(initial=-1)) + 1 :].sum())
    noun, from_s = noun_for(limited, Limit.OUTAGE, reverse=reverse), limited.total_s - seconds
    if hole is not None:
        return f"{ENDED_IN}{BLACK_HOLE}: {vanished(hole)} for {lasted(seconds)}, from {from_s:.1f} s to the end."
    return f"{ENDED_IN}{noun}: nothing arrived for {lasted(seconds)}, from {from_s:.1f} s to the end."


def _ended_by_reset(limited: Limited, reset: Finding) -> str:
    """Return a sentence about the reset that ended the open connection."""
    transfer = limited.transfer
    row = int(reset.evidence[0].rpartition(":")[2])
    at_s = (reset.begin_ns - limited.begin_ns) * transfer.speed / NS_PER_S
    who = "server" if transfer.sender["reverse"][row] else "client"
    return f"The {who} ended the connection by a reset at {at_s:.1f} s."


def _main_parts(
    limited: Limited, own: list[LimitShare], next_share: float
) -> tuple[list[LimitShare], list[tuple[float, str]]]:
    """Return the rows of the largest limit that the first sentence names, and shares and sentences of other rows.

    Of losses in both directions there is one row for each. Otherwise one subtype stands for its limit if it is most
    of it, and no other limit is larger than it; if none does, all are one row without a subtype. The application
    limit is named by its subtypes, because they may belong to both endpoints, and both are named. If the path caused
    most of it, sentences about the programs follow, unless another limit is larger than what is left.
    """
    main, complete = own[0], sum(row.share for row in own)
    if len(ways := _ways_of_losses(limited, main.limit)) > 1:
        return ways, []
    if main.limit is not Limit.APPLICATION:
        is_most = main.share > MOSTLY * complete and main.share >= next_share and main.limit is not Limit.RECOVERY
        return [main if is_most else main._replace(part=LimitSubtype.NONE)], []
    parts = [row for row in own if row is main or row.share >= WORTH_SAYING]
    nouns = [noun_of_row(limited, row) for row in parts]
    mine = [row for row, noun in zip(parts, nouns, strict=True) if noun == nouns[0]]
    is_largest = sum(row.share for row in mine) >= next_share
    if len(mine) == len(parts) or of_all(nouns) == BOTH_PROGRAMS or not is_largest:
        return parts, []
    return mine, programs_in_words(limited, [row for row in parts if row not in mine])


def _if_lost(limited: Limited, parts: list[LimitShare]) -> str:
    """Return a sentence with the share of all losses if packets that a program waited for were lost; "" without."""
    if not any(limited.may_be_lost(row) for row in parts):
        return ""
    of_losses = (Limit.OUTAGE, Limit.RECOVERY)
    lost = [row for row in limited.shares if row.limit in of_losses or row.part is LimitSubtype.REPAIR]
    if not sum(row.share for row in lost) >= WORTH_SAYING:
        return ""
    waits = [row for row in limited.shares if limited.may_be_lost(row)]
    share = sum(row.share for row in limited.shares if row in lost or row in waits)
    awaited = sorted({"requests" if row.reverse else "answers" for row in waits}, reverse=True)
    return f"If these {' or '.join(awaited)} were lost, lost packets cost {percent(share, is_short=True)} in all."


def _ways_of_losses(limited: Limited, limit: Limit) -> list[LimitShare]:
    """Return a row for each direction in which packets were lost, the larger one first; none for other limits."""
    if limit not in (Limit.OUTAGE, Limit.RECOVERY):
        return []
    ways: dict[bool, LimitShare] = {}
    for row in of_limit(limited.shares, limit):
        before = ways.get(row.reverse, row._replace(part=LimitSubtype.NONE, seconds=0.0, share=0.0))
        ways[row.reverse] = before._replace(seconds=before.seconds + row.seconds, share=before.share + row.share)
    return sorted((each for each in ways.values() if each.share >= SMALL), key=lambda row: -row.share)


def _headline_unopened(limited: Limited, failed: FailedOpening, facts: frozenset[str]) -> Headline:
    """Return the first sentence of a connection that was never opened."""
    facts |= {failed.kind}
    sure = limited.shares[0].confidence
    basis = f" (100 % of {lasted(limited.total_s)}, {sure.label})" if limited.total_s else ""
    if failed.is_refused:
        what = f"it was refused {lasted(failed.seconds)} after the SYN"
    elif failed.is_certain:
        what = f"{failed.syns:,} SYNs had no answer"
    else:
        what = "one SYN was sent, and no answer is in the capture"
    sentence = f"The connection was never opened: {what}{basis}."
    helps = remedy(Limit.HANDSHAKE, LimitSubtype.NONE, facts)
    return Headline(Limit.HANDSHAKE, LimitSubtype.NONE, 1.0, sure, sentence, helps)


def _main_part(limited: Limited, row: LimitShare) -> LimitSubtype:
    """Return the subtype of a row; of one that stands for all of the link, the subtype of most of that, if any."""
    if row.part or row.limit is not Limit.LINK:
        return row.part
    own = [each for each in limited.shares if each.limit is row.limit and each.reverse == row.reverse]
    main = max(own, key=lambda each: each.share)
    return main.part if main.share > MOSTLY * sum(each.share for each in own) else LimitSubtype.NONE


def _first(
    limited: Limited,
    limit: Limit,
    parts: list[LimitShare],
    share: float,
    changed: Finding | None,
    hole: Finding | None = None,
) -> str:
    named = share if len(parts) == 1 and limit is not Limit.APPLICATION else sum(row.share for row in parts)
    basis = f"{percent(named, is_short=True)} of {lasted(limited.total_s)}, {parts[0].confidence.label}"
    if limit is Limit.UNKNOWN and limited.transfer.clock_steps:
        return f"What limited it is not known: {limited.reason}."
    if limit is Limit.UNKNOWN:
        known = f" ({basis})" if limited.total_s else ""
        return f"What limited it is not known{known}: {limited.reason or 'nothing in the packets shows it'}."
    if limit is Limit.LINK and share > 1 - WORTH_SAYING:
        rest = _no_other(limited, parts[0])
        side = limited.side(reverse=parts[0].reverse)
        at = f": a policer let no more through{policed_to(side)}" if is_policed(side) else at_rate(side, changed)
        at = "" if parts[0].part is LimitSubtype.ACKS else at
        what = noun_for(limited, limit, parts[0].part, reverse=parts[0].reverse).removeprefix("the ")
        return f"The {what}{_or_else(side, parts[0])} limited it{at} ({basis}){rest}."
    begin = "Mostly" if share >= MOSTLY else "The largest part was"
    if limit is Limit.OUTAGE and hole is not None:
        side = limited.side(reverse=parts[0].reverse)
        took = lasted(sum(row.seconds for row in parts))
        return f"{begin} {BLACK_HOLE}: {vanished(hole)} for {took}{outage_span(side)} ({basis})."
    nouns = [noun_for(limited, limit, row.part, reverse=row.reverse) for row in parts]
    if not parts[0].part and _main_part(limited, parts[0]) is LimitSubtype.ACKS:
        nouns = [f"{nouns[0]}, more in the direction of the ACKs"]
    if len(parts) > 1 and limit in (Limit.OUTAGE, Limit.RECOVERY):
        return f"{begin} {NOUNS[limit]}: {_of_both_ways(limited, parts)} ({basis})."
    nouns, did = _clauses(limited, parts, nouns, changed)
    if len(set(nouns)) == 1:
        or_else = _or_else(limited.side(reverse=parts[0].reverse), parts[0]).strip(",")
        return f"{begin} {nouns[0]}{or_else and ',' + or_else}: {', and '.join(did)} ({basis})."
    what = "; ".join(_of_end(noun, words) for noun, words in zip(nouns, did, strict=True))
    return f"{begin} {of_all(nouns)}: {what} ({basis})."


def _no_other(limited: Limited, main: LimitShare) -> str:
    """Return words on the other rows of the table: none exceeds a share; "" where the main one is weak itself."""
    if main.confidence is Confidence.WEAK:
        return ""
    part = (main.part,) if main.part else tuple(LimitSubtype)
    same = main.limit, main.reverse
    others = (row.share for row in limited.shares if (row.limit, row.reverse) != same or row.part not in part)
    most = max(others, default=0.0)
    return f"; no other cause exceeds {int(round(100 * most, 1)) + 1} %"  # as the table rounds it


def _clauses(
    limited: Limited, parts: list[LimitShare], nouns: list[str], changed: Finding | None
) -> tuple[list[str], list[str]]:
    """Return the noun of each clause, and what it did; waits of one program in both directions are one clause."""
    clauses: dict[tuple[str, LimitSubtype], list[LimitShare]] = {}
    for row, noun in zip(parts, nouns, strict=True):
        subtype = LimitSubtype.PEER if row.part in _WAITS else row.part
        clauses.setdefault((noun, subtype), []).append(row)
    did = []
    for (noun, _), (row, *more) in clauses.items():
        sides = [(limited.side(reverse=each.reverse), each.part) for each in (row, *more)]
        if more:
            lengths_s = np.concatenate([waits_s(side, part) for side, part in sides])
            seconds = sum(each.seconds for each in (row, *more))
            did.append(waited(lengths_s, seconds, is_server=noun == "the server"))
        else:
            did.append(what_happened(*sides[0][:1], row.limit, row.part, changed, row.confidence))
    return [noun for noun, _ in clauses], did


def _of_both_ways(limited: Limited, parts: list[LimitShare]) -> str:
    """Return a clause about losses in both directions, each with its time."""
    is_repair = parts[0].limit is Limit.RECOVERY
    if not is_repair:
        return _of_outages(limited)
    ways: list[str] = []
    for row in parts:
        begin, _ = stretches(limited.side(reverse=row.reverse), row.limit)
        ways.append(f"{lasted(row.seconds)}{'' if ways else ' for it'} from {way_in_words(reverse=row.reverse)}")
        ways[-1] += f", {len(begin):,} times" if len(begin) > 1 else ""
    return f"new data waited {', and '.join(ways)}"


def _of_outages(limited: Limited) -> str:
    """Return a clause about outages, with the time of each direction in which nothing arrived.

    That is the direction of the data that waited, unless their ACKs, or the packets of both ends, did not arrive.
    """
    ways: dict[str, tuple[float, int]] = {}
    spans: dict[str, str] = {}
    cells, rows = limited.cells, of_limit(limited.shares, Limit.OUTAGE)
    times = {way: Spans.none() for way in map(_way_of_outage, rows)}
    for row in rows:  # an outage in which the data of both ends waited, one after the other, is one
        mine = (cells.limit == Limit.OUTAGE) & (cells.part == row.part) & (limited.is_reverse == row.reverse)
        way = _way_of_outage(row)
        times[way] = times[way].union(Spans.of(cells.begin[mine], cells.end[mine]))
    for row in [each for each in rows if each.share >= SMALL] or rows:
        way = _way_of_outage(row)
        ways[way] = ways.get(way, (0.0, 0))[0] + row.seconds, len(times[way].begin)
        spans.setdefault(way, outage_span(limited.side(reverse=row.reverse), times[way]))
    most_first = sorted(ways.items(), key=lambda item: -item[1][0])
    clauses = [
        f"for {lasted(took)} {way}{f', {many:,} times' if many > 1 else ''}{spans[way]}"
        for way, (took, many) in most_first
    ]
    return f"nothing arrived {', and '.join(clauses)}"


def _way_of_outage(row: LimitShare) -> str:
    """Return the direction in which nothing arrived, in words."""
    if row.part is LimitSubtype.BOTH:
        return "in both directions"
    return f"from {way_in_words(reverse=row.reverse != (row.part is LimitSubtype.ACKS))}"


def _of_end(noun: str, words: str) -> str:
    """Return a clause about one endpoint, for example "the server's small segments waited"."""
    if noun in PATH_NOUNS.values():
        return words
    return f"{noun} {words.removeprefix('it ')}" if words.startswith("it ") else f"{noun}'s {words}"


def _also(
    limited: Limited, limit: Limit, reverse: bool, share: float, hole: Finding | None = None
) -> list[tuple[float, str]]:
    """Return shares and sentences of a limit beside the largest."""
    rows = [row for row in limited.shares if is_of(row, (limit, reverse))]
    if limit is Limit.APPLICATION:
        return programs_in_words(limited, rows)
    side = limited.side(reverse=rows[0].reverse)
    if limit is Limit.UNKNOWN:
        return [(share, f"For {percent(share, is_short=True)} the limit is unknown: {side.reason}.")]
    policed = limit is Limit.LINK and is_policed(side)
    part = LimitSubtype.NONE
    if limit is Limit.LINK:
        part = _main_part(limited, rows[0]._replace(part=part))
    noun = "the policer" if policed else noun_for(limited, limit, part, reverse=rows[0].reverse)
    because = tried(side) if limit is Limit.HANDSHAKE else ""
    because = outage_span(side) if limit is Limit.OUTAGE else because
    noun = BLACK_HOLE if limit is Limit.OUTAGE and hole is not None else noun
    noun += _or_else(side, max(rows, key=lambda row: row.seconds))
    return [(share, was_limit(noun, share, rows, because))]


def _or_else(limited: Limited, row: LimitShare) -> str:
    """Return words on what else a weak limit may be in the packets of one end: " or ..."; "" for others."""
    if row.confidence is not Confidence.WEAK:
        return ""
    if row.limit is Limit.LINK and not row.part:
        pace = ", or the pace of the sender," if limited.view is not Viewpoint.BOTH_ENDS else ""
        return ", or the loss of ACKs," if is_asked_in_vain(limited) else pace
    if row.limit is Limit.SENDER_BUFFER:
        return ", or the pace of the sending program,"
    if limited.view is not Viewpoint.RECEIVER:
        return ""
    if row.limit is Limit.RECOVERY:
        return ", or a program that waited," if _is_nothing_lost(limited) else ""
    is_marked = limited.seen is not None and bool(limited.seen.answers.marked.any())
    can_be_program = row.limit is Limit.CONGESTION_WINDOW and not is_marked
    return ", or the pace of the sending program," if can_be_program else ""


def of_limit(rows: Iterable[LimitShare], limit: Limit) -> list[LimitShare]:
    """Return the rows of one limit."""
    return [row for row in rows if row.limit is limit]


def was_limit(noun: str, share: float, rows: Sequence[LimitShare], more: str = "") -> str:
    """Return a sentence about a limit beside the largest, with the confidence of most of its time (`rows`)."""
    sure = max(rows, key=lambda row: row.seconds).confidence
    return f"{noun[0].upper()}{noun[1:]} was the limit for {percent(share, is_short=True)} ({sure.label}){more}."


def programs_in_words(limited: Limited, rows: Iterable[LimitShare]) -> list[tuple[float, str]]:
    """Return a share and a sentence for each endpoint's program; only one if both are small."""
    rows = list(rows)
    ends = by_end(limited, rows)
    large = {noun: share for noun, share in ends.items() if share >= WORTH_SAYING}
    if not large:
        share = sum(ends.values())
        return [(share, f"{of_all(ends).capitalize()} were the limit for {percent(share, is_short=True)}.")]
    of = {noun: [row for row in rows if noun_of_row(limited, row) == noun] for noun in large}
    return [(share, was_limit(noun, share, of[noun])) for noun, share in large.items()]


def rows_in_words(limited: Limited) -> list[tuple[str, str, str, str, str]]:
    """Return the rows of the printed table with the columns LIMIT_COLUMNS; the largest limit first."""
    return [
        (
            name_of(limited, row),
            f"{row.seconds:.2f}",
            percent(row.share),
            row.confidence.label,
            numbers_of(limited.side(reverse=row.reverse), row.limit) if place in _first_of_limit(limited) else "",
        )
        for place, row in enumerate(limited.shares)
    ]


def _first_of_limit(limited: Limited) -> set[int]:
    """Return the places, among the rows, of the first row of each limit and direction: its numbers are of them all."""
    first: dict[tuple[Limit, bool], int] = {}
    for place, row in enumerate(limited.shares):
        if row.part is not LimitSubtype.ACKS:  # they wait in the queue of the other direction
            first.setdefault((row.limit, row.reverse), place)
    return set(first.values())


def name_of(limited: Limited, row: LimitShare) -> str:
    """Return limit and subtype as a table names them, and whose data, unless they are the transfer's."""
    name = f"{row.limit.label} ({row.part.label})" if row.part else row.limit.label
    return f"{name}{whose_data(limited.transfer, reverse=row.reverse)}"


def whose_data(transfer: Transfer, *, reverse: bool) -> str:
    """Return ", client's data" or ", server's data"; "" for the data of the transfer itself."""
    return "" if reverse == transfer.reverse else f", {'server' if reverse else 'client'}'s data"


def numbers_of(limited: Limited, limit: Limit) -> str:
    """Return a text with the numbers of a limit, for the printed table.

    For the link, these are its rate and the evidence for it.
    """
    if limit is not Limit.LINK or limited.shown is None:
        return ""
    rate, shown_by = link_in_words(limited)
    return f"{rate}, shown by {shown_by}".removeprefix(", ")


class _RadioWords(NamedTuple):
    """What the first sentence tells of the radio."""

    first: str = ""
    """Replaces the sentence about the largest limit; empty if the radio did not cause it."""
    more: str = ""
    help: str = ""
    limits: tuple[Limit, ...] = ()
    """Other limits whose causes these sentences tell."""
    cause: RadioCause = RadioCause.UNKNOWN


_BEYOND = "look beyond the radio: at the path behind the cell, and at the other end"
_LITTLE = 0.05  # of the time of all causes: a cause with less is not named. Not measured


def _radio_words(
    limited: Limited, limit: Limit, share: float, confidence: Confidence, radio: RadioCauses | None
) -> _RadioWords:
    """Return the sentences about the causes that a radio log shows; all empty without one."""
    if radio is None or (limit is Limit.LINK and is_policed(limited)):
        return _RadioWords()
    own, every = of_readings(radio.of_limit(limit)), of_readings(radio.seconds())
    cause = largest(own)
    others = tuple(each for each in OF_THE_RADIO if each is not limit and _is_mostly_bad(radio.of_limit(each)))
    bad = _bad(every)
    names = [each for each, seconds in bad.items() if seconds >= _LITTLE * sum(bad.values())]
    listed = _listed(bad, names, [radio])
    basis = f"{percent(share, is_short=True)} of {lasted(limited.total_s)}, {confidence.label}"
    if not _is_mostly_bad(own):
        is_good = limit is Limit.LINK and own.get(RadioCause.NORMAL, 0.0) > MOSTLY * sum(own.values())
        if not is_good or sum(bad.values()) < WORTH_SAYING * limited.total_s:
            more, helps = more_of_radio(limit, own, every, [radio])
            return _RadioWords("", more, helps, others if more else (), cause)
        first = (
            f"{_limited_by(bad, names, listed)}. For {_rest(every, names)} the radio was good; the link was the "
            f"limit{at_rate(limited)} ({basis})."
        )
        return _RadioWords(first, "", _help_of(names[0], is_good=True), others, cause)
    helps = "; ".join(each.help for each in names if own.get(each, 0.0) >= WORTH_SAYING * sum(own.values()))
    if len(names) > 1:
        carried = at_rate(limited).replace(", at", "; the link carried", 1) if limit is Limit.LINK else ""
        return _RadioWords(f"The radio limited it: {listed}{carried} ({basis}).", "", helps, others, cause)
    name, took = radio.words(names[0]), lasted(own[names[0]])
    name = name[0].upper() + name[1:]
    first = {
        Limit.OUTAGE: f"{name} cost {took}: nothing arrived ({basis}).",
        Limit.LINK: f"{name} limited the link for {took}{at_rate(limited)} ({basis}).",
        Limit.RECOVERY: f"{name} cost {took}: data were lost, and later data waited for them ({basis}).",
    }[limit]
    return _RadioWords(first, "", helps, others, cause)


def more_of_radio(limit: Limit, own: Causes, every: Causes, radio: Sequence[RadioCauses]) -> tuple[str, str]:
    """Return a sentence about the radio that follows the first one, and the remedy; empty if there is none.

    Parameters
    ----------
    limit : Limit
        The largest limit.
    own, every : dict
        Seconds of each cause of this limit, and of all limits.
    radio : sequence of RadioCauses
        The causes of each connection.
    """
    bad, total_s = _bad(every), sum(each.limited.total_s for each in radio)
    is_good = limit in OF_THE_RADIO and own.get(RadioCause.NORMAL, 0.0) > MOSTLY * sum(own.values())
    if sum(bad.values()) < WORTH_SAYING * max(total_s, 1e-12):
        helps = "" if limit is Limit.RECOVERY else RadioCause.NORMAL.help
        return ("The radio was good; look beyond it.", helps) if is_good else ("", "")
    names = [each for each, seconds in bad.items() if seconds >= _LITTLE * sum(bad.values())]
    listed = _listed(bad, names, radio)
    rest = f"; it was good for {_rest(every, names)}" if is_good else ""
    is_helped = (is_good and limit is not Limit.RECOVERY) or names[0] in own
    helps = _help_of(names[0], is_good=is_good) if is_helped else ""
    return f"{_limited_by(bad, names, listed)}{rest}.", helps


def _listed(bad: Causes, names: list[RadioCause], radio: Sequence[RadioCauses]) -> str:
    """Return the causes with their seconds; each number is that of the connection with most of it."""
    shares = [each.seconds() for each in radio]
    words = []
    for each in names:
        most = max(range(len(radio)), key=[share.get(each, 0.0) for share in shares].__getitem__)
        words.append(f"{radio[most].words(each)} cost {lasted(bad[each])}")
    return ", ".join(words)


def _limited_by(bad: Causes, names: list[RadioCause], listed: str) -> str:
    """Return the beginning of a sentence about the causes, `listed` with their seconds."""
    if len(names) == 1:
        return f"The radio limited it: {listed}"
    return f"The radio limited it for {lasted(sum(bad.values()))}: {listed}"


def _help_of(cause: RadioCause, *, is_good: bool) -> str:
    """Return the remedy against a cause; `is_good`: the radio was good for most of the time."""
    return f"{cause.help}; for the rest, {_BEYOND}" if is_good else cause.help


def _rest(causes: Causes, named: Sequence[RadioCause]) -> str:
    """Return the words for the time without the named causes, in which others may have been."""
    others = sum(seconds for each, seconds in causes.items() if each is not RadioCause.NORMAL and each not in named)
    return "most of the rest" if others >= _SAID_S else "the rest"


_SAID_S = 1.0
"""Minimum time of other causes at which the rest was not good throughout, s: a row of `seconds`."""


def of_readings(causes: Causes) -> Causes:
    """Return the causes that readings of the radio show, without those of the signalling."""
    return {each: seconds for each, seconds in causes.items() if each not in OF_SIGNALLING}


class SignallingWords(NamedTuple):
    """What the first sentence tells of one cause in the signalling."""

    cause: RadioCause
    seconds: float
    sentence: str
    help: str


def signalling_words(radio: Sequence[RadioCauses]) -> list[SignallingWords]:
    """Return what data waited for between phone and network, the longest first.

    A cause with less than a tenth of the time in which data waited is left out: its finding tells of it.

    Parameters
    ----------
    radio : sequence of RadioCauses
        The causes of each connection.
    """
    every, busy_s = summed([each.seconds() for each in radio]), sum(each.busy_s for each in radio)
    words = []
    for cause in OF_SIGNALLING:
        seconds = every.get(cause, 0.0)
        if seconds <= 0 or seconds < WORTH_SAYING * busy_s:
            continue
        waits = [wait for each in radio for wait in each.waits if wait.cause is cause]
        often = "" if len(waits) < 2 else f" {len(waits):,} times"
        total = f", {lasted(seconds)} in all" if often else f", for {lasted(seconds)}"
        text = next((f" (its {wait.what}: cause {wait.text})" for wait in waits if wait.text), "")
        sentence = f"Data waited{often} for {NAMES_OF_SIGNALLING[cause]}{text}{total}."
        if cause is not RadioCause.PROMOTION:
            sentence = sentence.replace(" for ", " because of ", 1)
        helps = cause.help
        if cause is RadioCause.PROMOTION and radio[0].timer:
            helps = f"keep-alives below the inactivity timer of {radio[0].timer}, or requests in batches"
        if cause is RadioCause.REJECTED and text:
            helps = f"ask the operator about cause {next(wait.text for wait in waits if wait.text)}"
        words.append(SignallingWords(cause, seconds, sentence, helps))
    return sorted(words, key=lambda each: -each.seconds)


def with_signalling(
    waited: Sequence[SignallingWords], helps: str, cause: RadioCause, limit_s: float, total_s: float
) -> tuple[str, RadioCause]:
    """Return remedies and cause of the first sentence with those of the signalling.

    What makes most of the largest limit, of `limit_s` seconds, is its cause, and its remedy comes first.
    """
    for each in reversed(waited):
        if each.seconds > MOSTLY * limit_s:
            helps, cause = f"{each.help}. {helps[0].upper()}{helps[1:]}", each.cause
        else:
            noun = NAMES_OF_SIGNALLING[each.cause]
            further = help_for(noun, each.seconds / max(total_s, 1e-12), each.help)
            helps = f"{helps}. {further[0].upper()}{further[1:]}"
    return helps, cause


def _bad(causes: Causes) -> Causes:
    return {each: seconds for each, seconds in causes.items() if each > RadioCause.NORMAL}


def _is_mostly_bad(causes: Causes) -> bool:
    return sum(_bad(causes).values()) > MOSTLY * max(sum(causes.values()), 1e-12)
