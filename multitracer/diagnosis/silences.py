"""Silences: times in which nothing came through, and what the packets allow to be said of their reason.

What comes in: a `Case`, with its dead times (sender's capture) or the outages among its limits (a receiver's
capture alone). What goes out, to the rules: the dead times in which only segments of full size vanished
(`mtu_holes`), the silences of a receiver that chance does not explain (`silences`), and of all others the
findings that `outage` and `blackout` share (`dead_link`): how long, which way, how many tries failed.

What must hold: one silence has one name; a dead time of an MTU hole, or of a connection that the other end
forgot, is no outage. What chance explains at the rate of the other losses is none either. Which direction was
dead is said only where a capture shows it. Where the link was logged, its log tells instead of `dead_link`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.two_points.packets import Outcome
from multitracer.diagnosis.case import Case, Finding, rows
from multitracer.diagnosis.limits.at_sender import offered_bytes
from multitracer.diagnosis.limits.names import Limit, Part, View
from multitracer.diagnosis.packets.opening_and_end import is_forgotten
from multitracer.tables import NA
from multitracer.units import NS_PER_S
from multitracer.words import ends

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.case import Case
    from multitracer.diagnosis.packets.dead_times import DeadTime
    from multitracer.tables import Array

BLACKOUT_S = 10.0
"""An outage as long as this, or longer, is a blackout (paper 001)."""
RADIO_HELP = "Better coverage, or other handover parameters: the radio's log shows cell and handovers."
"""Where a log shows that there is a radio."""
_CHANCE = 1e-4
"""With which packets in a row are still lost by chance, at the rate at which others are lost: then it is no
outage."""
_LEAST_LOSS = 0.01
"""Taken for the rate where fewer were lost."""
_LEAST_UNANSWERED = 3
"""Packets in a row, the tries among them."""
_WAYS = {
    "both": "Nothing came through in either direction",
    "data": "None of the data came through",
    "acks": "The data came through, but nothing came back,",
    "": "Nothing came back",
}


def dead_link(case: Case, kind: str) -> Iterator[Finding]:
    """Yield a finding for each dead time in which tries failed; of each the caller says what it is called."""
    return (each._replace(kind=kind) for each in case.once(_dead_links))


def _dead_links(case: Case) -> list[Finding]:
    return [] if case.is_link_logged else list(_each_link(case))


def _each_link(case: Case) -> Iterator[Finding]:
    for each in silences(case):
        if each.part is not Part.ACKS and not is_smaller_after(case, each):
            yield _at_receiver(case, each)
    share = max(len(case.lost) / max(len(case.segments), 1), _LEAST_LOSS)
    holes = [dead.begin_ns for dead in case.once(mtu_holes)]
    for dead in case.dead_times:
        if not dead.failed:
            continue
        has_other_name = dead.begin_ns in holes or is_forgotten(case.transfer, dead)
        in_a_row = _in_a_row(dead)
        by_chance = in_a_row < _LEAST_UNANSWERED or share**in_a_row > _CHANCE
        if not by_chance and not has_other_name:
            yield _finding(case, dead)


def _at_receiver(case: Case, silence: ReceiverSilence) -> Finding:
    """Return what a receiver alone can tell: neither the tries that failed nor which way was dead."""
    lasted_s = case.link_s(silence.begin_ns, silence.end_ns)
    around = arrivals_around(case, silence)
    last_ns, next_ns = case.transfer.sender["time_ns"][around].tolist()
    sentence = (
        f"No data arrived for {case.link_s(last_ns, next_ns):.1f} s, {case.at_s(last_ns):.1f} s into the "
        "transfer, though some were on their way: what came then was the oldest missing, "
        f"which a timer had sent again after {lasted_s:.1f} s."
    )
    numbers = {"outage_s": lasted_s}
    evidence = rows("sender", around)
    begin_ns, end_ns, helps = silence.begin_ns, silence.end_ns, _help(case)
    return Finding("", begin_ns, end_ns, lasted_s, None, evidence, sentence, helps, numbers)


def _help(case: Case) -> str:
    """Return what would help a radio; "" where none was seen, so that the rule's own words hold."""
    return RADIO_HELP if case.transfer.has_radio else ""


def _in_a_row(dead: DeadTime) -> int:
    """Return how many packets were lost in a row at most: by both captures, or all that got no answer.

    Where no answer ever came, both captures show nothing of what was sent after the last packet in both.
    """
    if NA in (dead.lost_data, dead.answer):
        return dead.unanswered
    return min(dead.unanswered, dead.lost_data + dead.lost_acks) or dead.unanswered


def _finding(case: Case, dead: DeadTime) -> Finding:
    lasted_s, certain_s = (case.link_s(dead.begin_ns, end_ns) for end_ns in (dead.end_ns, dead.certain_ns))
    tries = "a try" if dead.failed == 1 else f"{dead.failed} tries"
    until = "and it never came back in this recording" if dead.answer == NA else "the next was answered"
    lasted = ends(f"{certain_s:.1f}", f"{lasted_s:.1f}")
    sentence = (
        f"{_WAYS[dead.way]} for {lasted} s, {case.at_s(dead.begin_ns):.1f} s into "
        f"the transfer: {dead.unanswered} packets got no answer, {tries} to repair it among them; {until}."
    )
    numbers = {"outage_s": lasted_s, "outage_certain_s": certain_s, "unanswered_packets": dead.unanswered}
    if dead.answer != NA:
        numbers["last_wait_s"] = lasted_s - certain_s
    if dead.lost_data != NA:
        numbers |= {"lost_packets": dead.lost_data, "lost_acks": dead.lost_acks}
    payload = int(case.transfer.sender["payload_bytes"][dead.tries].sum())
    answer = [] if dead.answer == NA else [dead.answer]
    evidence = rows("sender", [*dead.tries.tolist(), *answer])
    begin_ns, end_ns, helps = dead.begin_ns, dead.end_ns, _help(case)
    return Finding("", begin_ns, end_ns, lasted_s, payload, evidence, sentence, helps, numbers)


_SHORTEST_TIMEOUT_NS = NS_PER_S // 5
"""Of Linux; others wait for longer, and then fewer tries have failed."""
_OPTIONS_BYTES = 40
"""By so much options alone make a segment smaller (RFC 9293, section 3.1)."""


class ReceiverSilence(NamedTuple):
    """A time without new data, though the sender had some outstanding."""

    begin_ns: int
    end_ns: int
    part: Part
    """`acks`: what had arrived came again and again; else nothing came."""


def silences(case: Case) -> Iterator[ReceiverSilence]:
    """Yield those of a receiver's capture that chance does not explain; none of any other view."""
    cells, shown = case.limited.cells, case.limited.shown
    if case.limited.view is not View.RECEIVER or shown is None:
        return
    spans = shown.out.spans
    held = cells.limit == Limit.OUTAGE
    for begin, end, part in zip(spans.begin.tolist(), spans.end.tolist(), shown.out.part, strict=True):
        is_limit = bool((held & (cells.begin < end) & (cells.end > begin)).any())
        if is_limit and not _by_chance(case, begin, end):
            yield ReceiverSilence(begin, end, Part(int(part)))


def _by_chance(case: Case, begin_ns: int, end_ns: int) -> bool:
    """Return whether the losses before it explain the tries that failed: a timer doubles with each."""
    seen = case.limited.seen
    assert seen is not None
    sends = seen.sends
    before = (sends.needed | sends.by_timer)[sends.time_ns <= begin_ns]
    share = max(float(before.mean()) if len(before) else 0.0, _LEAST_LOSS)
    timeout_ns = max(_SHORTEST_TIMEOUT_NS, seen.trip_ns, seen.floor_ns)
    tries = int(np.log2((end_ns - begin_ns) / timeout_ns + 1))
    return bool(share ** (tries + 1) > _CHANCE)


def is_smaller_after(case: Case, silence: ReceiverSilence) -> bool:
    """Return whether full segments had come before it, and of many after it none."""
    seen = case.limited.seen
    assert seen is not None
    size, time = seen.sends.end - seen.sends.begin, seen.sends.time_ns
    before, after = size[time <= silence.begin_ns], size[time >= silence.end_ns]
    return len(after) >= LEAST_SMALLER and int(before.max(initial=0)) > int(after.max()) + _OPTIONS_BYTES


def arrivals_around(case: Case, silence: ReceiverSilence) -> Array:
    """Return the row of what ended a silence, after that of the data that arrived just before."""
    seen = case.limited.seen
    assert seen is not None
    sends = seen.sends
    ended_by = sends.row[np.searchsorted(sends.time_ns, silence.end_ns)]
    arrived = np.sort(sends.row)
    return np.array([arrived[max(int(np.searchsorted(arrived, ended_by)) - 1, 0)], ended_by])


def repeated_in(case: Case, silence: ReceiverSilence) -> list[int]:
    """Return the rows of data that came again though they had arrived, in a silence."""
    seen = case.limited.seen
    assert seen is not None
    sends = seen.sends
    inside = (sends.time_ns >= silence.begin_ns) & (sends.time_ns <= silence.end_ns)
    return [int(row) for row in sends.row[inside & sends.again & ~sends.needed]]


_SMALL_BYTES = 536
"""What every path carries (RFC 9293, section 3.7.1): if this vanishes, it is not for its size."""
_LEAST_TRIES = 3
"""Full segments that vanished in tries: chance seldom takes three in a row. One is enough where both captures
show that larger ones were lost later, too. Not measured"""
_LEAST_FROM_THE_FIRST = 4  # one more where no full segment ever passed: nothing shows a path. Not measured
_LEAST_LOST = 5  # full segments, none through, where both captures show each. Not measured
_LEAST_LATER = 2
"""Of them, lost when smaller ones came through again: then it was no outage that had ended. Not measured"""
LEAST_SMALLER = 20
"""Smaller segments after it that were answered, without one of full size."""
_BY_CHANCE = 0.02
"""Part of arrivals whose smaller segments, joined, happen to be as long as those that vanished."""
_AT_ONCE_S = 1.0
"""After something small had come through, the first segment of full size followed within this time."""


def mtu_holes(case: Case) -> list[DeadTime]:
    """Return the dead times in which only full-size segments vanished, and others of the same hole.

    Either one ended with a smaller copy, and nothing of full size was sent in what came through after it
    (black-hole detection of RFC 4821); or no segment of full size ever came through, from the first one on,
    right after smaller packets had; or both captures show that smaller ones passed meanwhile, or that larger
    ones were lost also later, when smaller ones passed.
    """
    dead_times = case.dead_times
    if not dead_times:
        return []
    full = largest_bytes(case)
    holes = (at for at, dead in enumerate(dead_times) if dead.failed and _is_hole(case, dead, full))
    first = next(holes, len(dead_times))
    begin = case.transfer.sender["seq_bytes"]
    while 0 < first < len(dead_times):
        if begin[dead_times[first - 1].tries[0]] != begin[dead_times[first].tries[0]]:
            break
        first -= 1
    return [dead for dead in dead_times[first:] if dead.failed]


def largest_bytes(case: Case) -> int:
    """Return the payload of the largest segment on the path: what is larger than was offered is cut."""
    largest = int(case.transfer.payload_bytes.max())
    offered = offered_bytes(case.transfer)
    return largest if offered is None else min(largest, offered)


def _is_hole(case: Case, dead: DeadTime, full: int) -> bool:
    payload = case.transfer.sender["payload_bytes"]
    vanished = payload[dead.tries[: dead.failed]] >= full
    if full <= _SMALL_BYTES or not vanished.any():
        return False
    if vanished.all() and _larger_lost_after(case, dead, full):
        return True
    if np.count_nonzero(vanished) < _LEAST_TRIES - (dead.answer != NA):
        return False
    if vanished.all() and (_none_ever(case, dead, full) or _smaller_passed(case, dead, full)):
        return True
    return dead.answer != NA and dead.failed >= _LEAST_TRIES and _smaller_after(case, dead, full)


def _smaller_after(case: Case, dead: DeadTime, full: int) -> bool:
    table, data = case.transfer.sender, case.transfer.data
    if case.transfer.receiver is not None and case.segments.closes.any():
        came = case.segments.closes & (table["time_ns"][case.segments.row] >= dead.end_ns)
        payload = case.transfer.receiver["payload_bytes"][case.segments.arrived[came]]
        return len(payload) >= LEAST_SMALLER and float((payload % full == 0).mean()) <= _BY_CHANCE
    after = data[table["time_ns"][data] >= dead.end_ns]
    after = after[table["end_bytes"][after] <= int(table["ack_bytes"][case.transfer.acks].max())]
    return len(after) >= LEAST_SMALLER and bool((table["payload_bytes"][after] < full).all())


def _smaller_passed(case: Case, dead: DeadTime, full: int) -> bool:
    """Return whether both captures show that from its begin on all of full size were lost, and no smaller."""
    pairs, table = case.transfer.data_pairs, case.transfer.sender
    if pairs is None:
        return False
    since = (pairs.sent != NA) & (table["time_ns"][np.maximum(pairs.sent, 0)] >= dead.begin_ns)
    is_full = table["payload_bytes"][np.maximum(pairs.sent, 0)] >= full
    passed, lost = (since & (pairs.table["outcome"] == which) for which in (Outcome.MATCHED, Outcome.LOST))
    smaller = np.any(passed & ~is_full) and not np.any(lost & ~is_full)
    return bool(smaller and not np.any(passed & is_full) and np.count_nonzero(lost & is_full) >= _LEAST_LOST)


def _larger_lost_after(case: Case, dead: DeadTime, full: int) -> bool:
    """Return whether both captures show that what is larger than all that came was lost, also later.

    Others may be lost meanwhile, to a full queue or by chance. A sender that looks for the size that passes
    sends larger segments now and then (RFC 4821).
    """
    pairs, table = case.transfer.data_pairs, case.transfer.sender
    if pairs is None:
        return False
    sent = np.maximum(pairs.sent, 0)
    since = (pairs.sent != NA) & (table["time_ns"][sent] >= dead.begin_ns)
    later = since & (table["time_ns"][sent] >= dead.end_ns)
    outcome, payload = pairs.table["outcome"], table["payload_bytes"][sent]
    passed = outcome == Outcome.MATCHED
    most = int(payload[since & passed].max(initial=0))
    if most >= full or np.any(since & (outcome == Outcome.RECUT)):
        return False
    larger = (outcome == Outcome.LOST) & (payload > most)
    is_later = np.count_nonzero(later & larger) >= _LEAST_LATER
    is_passed = np.count_nonzero(later & passed & (payload > 0)) >= LEAST_SMALLER
    return bool(is_later and is_passed and np.count_nonzero(since & larger) >= _LEAST_LOST)


def _none_ever(case: Case, dead: DeadTime, full: int) -> bool:
    table, data, acks = case.transfer.sender, case.transfer.data, case.transfer.acks
    large = data[table["payload_bytes"][data] >= full]
    acked = int(table["ack_bytes"][acks].max())
    first_ns = int(table["time_ns"][large[0]])
    earlier = acks[acks < large[0]]
    soon_s = (first_ns - int(table["time_ns"][earlier[-1]])) / NS_PER_S if len(earlier) else _AT_ONCE_S
    never = acked < table["seq_bytes"][large].min() + full and not table["sack_blocks"][acks].any()
    return bool(never and dead.failed >= _LEAST_FROM_THE_FIRST and soon_s < _AT_ONCE_S)
