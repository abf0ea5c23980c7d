"""Clauses and nouns of the first sentence: what a limit is called, and did to a transfer, with its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.verdicts.words import Necessity
from multitracer.clock.model.relation import PlacementStatus
from multitracer.diagnosis.held import idle_gaps_s, window_varies, writes_in_words
from multitracer.diagnosis.limits.at_sender import opening
from multitracer.diagnosis.limits.limited import is_asked_in_vain, shown_s, stretches
from multitracer.diagnosis.limits.names import JOINED, ONE_END, Confidence, Limit, LimitSubtype, Viewpoint
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.limits.windows import is_read_late
from multitracer.diagnosis.packets.opening_and_end import HandshakeAndResets
from multitracer.units import NS_PER_S
from multitracer.words import about, count, duration, percent, rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from multitracer.diagnosis.finding import Finding
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.names import LimitShare
    from multitracer.endpoints import Endpoints
    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array

_BITS = 8  # in a byte
_OF_ACKS = 0.25  # minimum part of the link's time for which ACKs are named beside the data. Not measured
_SHORT_S = 0.95  # below it one digit behind the point is less than two that count
_TINY_S = 0.01  # below it a time is in milliseconds or microseconds
_LONG_S = 100.0  # from here on minutes and seconds, as wherever a length of time is told
_AS_ONE = 1.02
"""Maximum ratio of the highest to the lowest rate of a link that is printed as one number. Not measured."""


def what_happened(
    limited: Limited,
    limit: Limit,
    part: LimitSubtype,
    changed: Finding | None = None,
    sure: Confidence = Confidence.MEASURED,
) -> str:
    """Return a clause about the effect of a limit, with its numbers; `changed` as in `at_rate`.

    Where it is not `sure`, the clause names what packets of one end do not tell from it.
    """
    begin, end = stretches(limited, limit, part or None)
    lengths = np.asarray((end - begin) * limited.transfer.speed / NS_PER_S)
    seconds, many = float(lengths.sum()), len(lengths)
    del lengths
    if limit is Limit.APPLICATION and part in (LimitSubtype.WRITES, LimitSubtype.NONE):
        did, gaps = writes_in_words(limited, begin, end, is_weak=sure is Confidence.WEAK)
        is_like_full_buffer = sure is Confidence.WEAK and limited.view in ONE_END
        return f"it {did} for {lasted(seconds)}{gaps}{', or its send buffer was full' if is_like_full_buffer else ''}"
    del begin, end
    if limit is Limit.APPLICATION:
        is_server = limited.transfer.reverse != (part is LimitSubtype.PEER)
        clause = _of_application(part, seconds, waits_s(limited, part), is_server=is_server)
        may_be_lost = part is LimitSubtype.PEER and is_asked_in_vain(limited)
        return f"{clause}, or its requests were lost on the way, as some of its ACKs were" if may_be_lost else clause
    if limit is Limit.LINK:
        if part is LimitSubtype.ACKS:
            return f"they waited in its queue for {lasted(seconds)}"
        if is_policed(limited):
            return f"a policer let no more through{policed_to(limited)} for {lasted(seconds)}"
        what = (
            "data or their ACKs waited in its queues"
            if _is_of_acks(limited, part)
            else "it had data queued or in service"
        )
        return f"{what} for {lasted(seconds)}{at_rate(limited, changed)}"
    if limit is Limit.RECEIVER_WINDOW and part is LimitSubtype.ZERO:
        return f"it had no room for a segment for {lasted(seconds)}"
    gaps = f", in {many:,} gaps" if many > 1 else ""
    return {
        Limit.HANDSHAKE: f"it took {_opened(limited, seconds)}{tried(limited)}",
        Limit.OUTAGE: f"{_silent(limited, part)} for {lasted(seconds)}{gaps}{outage_span(limited)}",
        Limit.RECOVERY: f"new data waited {lasted(seconds)} for it{_often(many)}",
        Limit.RECEIVER_WINDOW: f"data in flight filled it for {lasted(seconds)}{_though_read(limited)}",
        Limit.SENDER_BUFFER: _of_buffer(limited, seconds),
        Limit.SLOW_START: f"for {lasted(seconds)} the congestion window was still growing",
        Limit.CONGESTION_WINDOW: _of_window(limited, seconds, sure),
    }[limit]


def _silent(limited: Limited, part: LimitSubtype) -> str:
    """Return what did not arrive in an outage, as far as the captures show it."""
    if part is LimitSubtype.ACKS:
        return "the data arrived, but no ACK came back"
    if part is LimitSubtype.DATA or limited.view is Viewpoint.RECEIVER:
        return "no data arrived"
    is_alone = limited.view in (Viewpoint.SENDER, Viewpoint.SENDER_STATE)
    return "no ACK came back" if is_alone and not part else "nothing arrived"


def outage_span(limited: Limited, spans: Spans | None = None) -> str:
    """Return when the outages of one direction began and ended, of several the longest, after a comma; "" for none.

    `spans` are those of both directions, if they are known.
    """
    begin, end = spans or stretches(limited, Limit.OUTAGE)
    if not len(begin):
        return ""
    longest = int(np.argmax(end - begin))
    scale = limited.transfer.speed / NS_PER_S
    from_s, to_s = ((int(edge[longest]) - limited.begin_ns) * scale for edge in (begin, end))
    return f", {'the longest ' if len(begin) > 1 else ''}from {from_s:.1f} s to {to_s:.1f} s"


def _is_of_acks(limited: Limited, part: LimitSubtype) -> bool:
    """Return whether the link as a whole was the limit in the direction of the ACKs for a large part of its time."""
    of_acks, of_all = (
        float((end - begin).sum())
        for begin, end in (stretches(limited, Limit.LINK, each) for each in (LimitSubtype.ACKS, None))
    )
    return not part and of_acks > _OF_ACKS * of_all


def is_policed(limited: Limited) -> bool:
    """Return whether the limit "link" is mostly a policer with an empty token bucket, not a queue."""
    if limited.shown is None:
        return False
    link = limited.shown.link
    return shown_s(limited, Limit.LINK, link.by_bucket) > shown_s(limited, Limit.LINK, link.by_queue)


def policed_to(limited: Limited) -> str:
    """Return the rate of a policer as the end of a clause, " than ... with headers"; "" if unknown."""
    policer = None if limited.seen is None else limited.seen.policer
    return "" if policer is None else f" than {rate(policer.rate_bytes_per_s * _BITS)} with headers"


def at_rate(limited: Limited, changed: Finding | None = None) -> str:
    """Return the rate of a link; empty if it is unknown.

    With the finding `rate-change` of this direction (`changed`) it is the rates before and after, and when it changed.
    """
    link_rate = limited.link_rate
    if link_rate is None:
        return ""
    if changed is not None and changed.reverse == limited.transfer.reverse:
        before, after = (rate(changed.numbers[f"rate_{side}_bps"]) for side in ("before", "after"))
        at_s = (changed.begin_ns - limited.begin_ns) * limited.transfer.speed / NS_PER_S
        return f", at {before} and, from {at_s:.1f} s on, at {after}"
    low, middle, high = (rate(each * _BITS) for each in (link_rate.low, link_rate.median, link_rate.high))
    if link_rate.high <= _AS_ONE * link_rate.low or low == high:
        return f", at {middle}"
    number, _, unit = low.partition(" ")
    return f", at {number if high.endswith(f' {unit}') else low} to {high}, {middle} at the median"


def tried(limited: Limited) -> str:
    """Return a clause that counts the SYNs or SYN-ACKs that were needed, in the capture that has most; "" for one."""
    transfer = limited.transfer
    tables = [each for each in (transfer.sender, transfer.receiver) if each is not None]
    openings = [HandshakeAndResets(transfer, each) for each in tables]
    syns, lost = (max(each) for each in zip(*((len(o.needed_syns), o.lost_syn_acks) for o in openings), strict=True))
    if lost and syns <= lost + 1:
        return f", because the SYN-ACK was sent {lost + 1:,} times"
    return f", because the SYN was sent {syns:,} times" if syns > 1 else ""


def _opened(limited: Limited, seconds: float) -> str:
    """Return a text with the duration of the handshake.

    In a client's capture, it adds the duration for the client's peer.
    """
    transfer = limited.transfer
    begin_ns, opened_ns, _ = opening(transfer) if len(transfer.time_ns) else (0, 0, None)
    connected_s = (opened_ns - begin_ns) * transfer.speed / NS_PER_S
    is_client = limited.view is Viewpoint.RECEIVER and transfer.reverse
    if not is_client or not 0 < connected_s < seconds:
        return lasted(seconds, 2)
    return f"{lasted(connected_s, 2)} to connect, and {lasted(seconds - connected_s, 2)} more until the server knew"


def _of_window(limited: Limited, seconds: float, sure: Confidence) -> str:
    """Return a clause about the congestion window: why it was small is a guess where the limit itself is one."""
    is_weak, is_after = sure is Confidence.WEAK, _is_after_losses(limited)
    seen = limited.seen
    had_none = seen is not None and (seen.policer is not None or bool(seen.answers.marked.any()))
    room = "" if had_none else f" though the path {'seemed to have' if is_weak else 'had'} room"
    if is_after and not is_weak:
        return f"losses had made it small, and it kept data back for {lasted(seconds)}{room}"
    return f"it kept data back for {lasted(seconds)}{' after losses' if is_after else ''}{room and ',' + room}"


def _is_after_losses(limited: Limited) -> bool:
    """Return whether losses, which make a congestion window small, came before most of its time."""
    verdicts, (begin, end) = limited.transfer.verdicts, stretches(limited, Limit.CONGESTION_WINDOW)
    rows = verdicts["row"][verdicts["necessity"] == Necessity.NECESSARY]
    if not len(rows):
        return False
    after_ns = np.maximum(end - np.maximum(begin, limited.transfer.time_ns[rows].min()), 0).sum()
    return bool(2 * after_ns > (end - begin).sum())


def _though_read(limited: Limited) -> str:
    """Return words that the receiving program was no reason for a full window; "" where that was not seen."""
    is_in_time = limited.seen is not None and is_read_late(limited.seen) is False
    is_in_time = is_in_time and not window_varies(limited)
    return ", although the receiving program read in time" if is_in_time else ""


def _of_buffer(limited: Limited, seconds: float) -> str:
    """Return a clause about a send buffer: packets of one end show only what it does to them."""
    if limited.view not in ONE_END:
        return f"it was full for {lasted(seconds)}"
    alike = "a congestion window that stands still looks the same"
    return f"only ACKs seemed to release new data, for {lasted(seconds)}; {alike}"


def waits_s(limited: Limited, part: LimitSubtype) -> Array:
    """Return the length of each wait for a program or the path: float64, s."""
    idle_s = idle_gaps_s(limited) if part is LimitSubtype.PEER else np.empty(0)
    if len(idle_s):
        return idle_s
    begin, end = stretches(limited, Limit.APPLICATION, part)
    return np.asarray((end - begin) * limited.transfer.speed / NS_PER_S)


def waited(lengths_s: Array, seconds: float, *, is_server: bool) -> str:
    """Return a clause about a program that the other one waited for: a server's answers, or a client's requests."""
    typical, many = float(np.median(lengths_s)), len(lengths_s)
    if many == 1:
        return f"it took {about(typical)} to begin its answer" if is_server else f"it waited {about(typical)} {_ASKS}"
    if is_server:
        return f"it took {lasted(seconds)} to begin {many:,} answers, typically {about(typical)} each"
    return f"it waited {many:,} times {_ASKS}, typically {about(typical)}, {lasted(seconds)} in all"


_ASKS = "before it sent its next request"


def _of_application(part: LimitSubtype, seconds: float, lengths_s: Array, *, is_server: bool) -> str:
    """Return a clause about the application, but for its writes; `is_server`: it is the responder that waited."""
    if part in (LimitSubtype.THINK, LimitSubtype.PEER):
        return waited(lengths_s, seconds, is_server=is_server)
    if part is LimitSubtype.LATENCY:
        pair = "an answer and the next request" if is_server else "a request and its answer"
        return f"{pair} took a round trip {count(len(lengths_s), 'time')}, {lasted(seconds)} in all"
    if part is LimitSubtype.REPAIR:
        return f"{lasted(seconds)} went by until a lost one was sent again{_often(len(lengths_s))}"
    return f"small segments waited {lasted(seconds)} for the ACK of a small one (Nagle's algorithm)"


def _often(many: int) -> str:
    """Return how often something happened, after a comma; "" for once."""
    return f", {many:,} times" if many > 1 else ""


def lasted(seconds: float, digits: int = 1) -> str:
    """Return a duration as text in seconds, with `digits` decimals.

    Below 1 s it has two significant digits, below 10 ms in milliseconds or microseconds.
    """
    if seconds >= _LONG_S:
        return duration(seconds * NS_PER_S)
    if seconds >= _SHORT_S:
        return f"{seconds:.{digits}f} s"
    if seconds < _TINY_S:
        return duration(float(f"{seconds:.2g}") * NS_PER_S)
    return f"{np.format_float_positional(seconds, 2, fractional=False, trim='-')} s"


BLACK_HOLE = "a path MTU black hole"


def black_hole(limited: Limited, findings: Sequence[Finding]) -> Finding | None:
    """Return the finding of a path MTU black hole that most of the outages are; None if they are not."""
    begin, end = stretches(limited, Limit.OUTAGE)
    holes = [each for each in findings if each.kind == "path-mtu-black-hole"]
    spans = Spans.of(*(np.array([getattr(each, edge) for each in holes], np.int64) for edge in ("begin_ns", "end_ns")))
    return holes[0] if holes and 2 * spans.overlap_ns(begin, end).sum() > (end - begin).sum() else None


def vanished(hole: Finding) -> str:
    """Return what a path MTU black hole did."""
    return f"segments of {hole.numbers['vanished_bytes']:,.0f} bytes vanished, and smaller packets passed,"


_LARGE = 0.15
"""Minimum share of T with which a subtype of the largest limit is named. Not measured."""
_DID = {
    LimitSubtype.HOST: "data waited in the sender's own interface",
    LimitSubtype.ACKS: "ACKs waited in the queue of the other direction",
    LimitSubtype.ZERO: "the window had no room for one segment",
}
"""What subtypes did whose limit is named without them."""


def subtypes_in_words(own: list[LimitShare], parts: list[LimitShare]) -> list[str]:
    """Return sentences on subtypes of the largest limit (`own`) that its sentence, of `parts`, does not name."""
    named = {row.part for row in parts}
    shares = {row.part: row for row in own if row.part in _DID and row.part not in named and row.share >= _LARGE}
    return [
        f"For {percent(row.share, is_short=True)} {_DID[part]} ({row.confidence.label})."
        for part, row in shares.items()
    ]


# --- nouns ---

WORTH_SAYING = 0.1
"""Minimum share of T for which a limit other than the largest is named (limits.md)."""
MOSTLY = 0.5
"""Minimum share for which a sentence begins with "Mostly" (limits.md)."""
SMALL = 0.02
"""Minimum share of T with which a direction counts as one in which packets were lost. Not measured."""


BOTH_PROGRAMS, _ALL = "the programs at both ends", "the programs and the path between them"
NOUNS = {
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
PATH_NOUNS = {LimitSubtype.LATENCY: "the path's latency", LimitSubtype.REPAIR: "the repair of lost requests or answers"}
"""Nouns for subtypes of the application limit that no program causes."""
_LINK_NOUNS = {
    LimitSubtype.HOST: "the sender's own interface",
    LimitSubtype.ACKS: "the link in the direction of the ACKs",
}


def noun_of_limit(limit: Limit) -> str:
    """Return the noun for a limit, of whatever data."""
    return NOUNS[limit]


def noun_of_row(limited: Limited, row: LimitShare) -> str:
    """Return the noun for the limit of a row."""
    return noun_for(limited, row.limit, row.part, reverse=row.reverse)


def noun_for(limited: Limited, limit: Limit, part: LimitSubtype = LimitSubtype.NONE, *, reverse: bool) -> str:
    """Return a noun for a limit of the data of one direction; it names whose data, unless they are the transfer's."""
    sender, receiver = ("the server", "the client") if reverse else ("the client", "the server")
    if limit is not Limit.APPLICATION:
        noun = _LINK_NOUNS.get(part, NOUNS[limit]) if limit is Limit.LINK else NOUNS[limit]
        shown = limited.side(reverse=reverse).shown
        if part is LimitSubtype.HOST and shown is not None and shown.spaced.total_ns > 0:
            noun += " or a pacer"  # packets alone do not tell these apart
        minimum = SMALL if limit in JOINED else WORTH_SAYING
        is_of_both = len({row.reverse for row in limited.shares if row.limit is limit and row.share >= minimum}) > 1
        is_named = reverse != limited.transfer.reverse or is_of_both
        if not is_named or limit in (Limit.HANDSHAKE, Limit.UNKNOWN) or (is_of_both and limit in JOINED):
            return noun
        return (
            f"{noun} from {way_in_words(reverse=reverse)}"
            if noun == "the link"
            else f"{noun} (data from {way_in_words(reverse=reverse)})"
        )
    if part in PATH_NOUNS:
        return PATH_NOUNS[part]
    return receiver if part is LimitSubtype.PEER else sender


def by_end(limited: Limited, rows: Iterable[LimitShare]) -> dict[str, float]:
    """Return the share of the time for each endpoint's program, the larger one first.

    The keys are nouns, for example "the server".
    """
    ends: dict[str, float] = {}
    for row in rows:
        noun = noun_of_row(limited, row)
        ends[noun] = ends.get(noun, 0.0) + row.share
    return dict(sorted(ends.items(), key=lambda end: -end[1]))


def way_in_words(*, reverse: bool) -> str:
    """Return the direction of data in words."""
    return "server to client" if reverse else "client to server"


def of_all(nouns: Iterable[str]) -> str:
    """Return one noun for several causes: "both programs", or a noun that includes the path."""
    return _ALL if set(nouns) & set(PATH_NOUNS.values()) else BOTH_PROGRAMS


# --- the other side of a proxy ---

_RELAYED_BYTES = 10_000
"""Minimum payload of two connections of which equal sizes are no chance. Not measured."""


def relayed_in_words(transfer: Transfer) -> str:
    """Return a sentence about the connection at the other side of a proxy; "" if none is known.

    A proxy that ends a connection begins one of its own and passes the bytes on: the bulk has exactly the same size
    in both, neither client nor server is the same, and most of the time both are open. One that changes the bytes is
    not recognised. Only an address that both have shows that it is one.
    """
    many, _ = transfer.both_unique_bytes
    if many < _RELAYED_BYTES:
        return ""
    place = transfer.at_sender
    own = place.capture.analysis.ends(place.connection)
    others: dict[Endpoints, tuple[Capture, int]] = {}
    for capture in transfer.recording.captures:
        of_bulk = capture.analysis.directions["unique_bytes"][int(transfer.reverse) :: 2]
        for row in np.flatnonzero(of_bulk == many).tolist():
            ends = capture.analysis.ends(row + 1)
            is_other = ends.src != own.src and ends.dst != own.dst
            here = place.capture, place.connection
            if is_other and _is_open_meanwhile(transfer.recording, here, (capture, row + 1)):
                others.setdefault(ends, (capture, capture.offset + row + 1))
    if len(others) != 1:
        return ""
    ((ends, (capture, number)),) = others.items()
    other = f"Connection {number} ({ends.source} -> {ends.destination}, captured at {capture.point.name})"
    if own.dst == ends.src or own.src == ends.dst:
        why = f"the same {many:,} bytes, probably for a proxy between both"
    else:
        why = f"the same number of bytes ({many:,}) at the same time; a proxy may be between"
    return f"{other} carried {why}: explain it, too (--connection {number})."


def _is_open_meanwhile(recording: Recording, own: tuple[Capture, int], other: tuple[Capture, int]) -> bool:
    """Return whether another connection was open during most of one, within the error of their clocks.

    Clocks without a known relation are compared as they are.
    """
    begin_ns, end_ns = _open_ns(*own)
    others_ns, error_ns, clocks = _open_ns(*other), 0.0, recording.clocks
    if clocks is not None and own[0] is not other[0]:
        placed = clocks.place(others_ns, *(clocks.of_point(each.point.name) for each, _ in (other, own)))
        if not (placed.status == PlacementStatus.UNPLACED).any():
            others_ns, error_ns = placed.time_ns, float(placed.bound_ns.max())
    both_ns = min(end_ns, others_ns[1] + error_ns) - max(begin_ns, others_ns[0] - error_ns)
    return bool(both_ns > MOSTLY * (end_ns - begin_ns))


def _open_ns(capture: Capture, connection: int) -> Array:
    """Return the times of the first and the last packet of a connection by its capture's clock: int64, ns."""
    rows = capture.analysis.connections
    return np.array([rows["start_ns"][connection - 1], rows["end_ns"][connection - 1]], dtype=np.int64)
