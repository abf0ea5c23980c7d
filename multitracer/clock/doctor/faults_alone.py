"""Faults that the stamps of one log show by themselves, one rule a function.

Each rule returns a Complaint or None. They go from the particular to the general: what one explains, the next
ones leave alone (`examination.examine`).
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Flag
from multitracer.clock.doctor.complaints import Complaint
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_MS, NS_PER_S
from multitracer.words import count, duration

if TYPE_CHECKING:
    from multitracer.capture import Capture
    from multitracer.clock.doctor.complaints import Stamps
    from multitracer.tables import Array

_FEW = 20
"""Fewer stamps show nothing."""
_SMALLEST_STEP_NS = 10 * NS_PER_MS
"""Capture queues mix packets by less than that; a clock that is set moves by more."""
_SMALLEST_APART_NS = NS_PER_MS
_TEETH = 5
"""A pattern that comes five times is none by chance; also the least packets of a direction."""
_MOST_FALLS = 1_000  # bounds the time on a log in disorder
_FEWEST_SECONDS, _SHARING = 3, 2
"""Distinct seconds, and records for each: one record a second may have no fraction by design."""
_CUT_NS = (10 * NS_PER_MS, 100 * NS_PER_MS)
"""Two decimals or one; other steps below a second may be slots of a link: all of virtual time is in them."""
_COARSEST_NS = 10 * NS_PER_S
"""Steps of a few seconds are a log's own rhythm."""
_BOUNDED = 0.9  # of the lag that one side shows, the other has to confirm so much. Not measured
_OFTEN = 20  # one ACK in 20 before its data: fewer may be mistaken pairs. Not measured
_USUAL_TOP = 95  # percentile of the heights: the highest may be a step of another kind. Not measured
_DENSE = 0.02  # of the records: a fraction in the wrong unit falls back once a second or more. Not measured
_UNLIKE = 4  # a tooth so many times the median one is none of a saw. Not measured
_FIFTHS, _MOST_FIFTHS = 5, 4  # a log in equal parts; falls in four of them are no single event
_EVEN = 0.3  # standard deviation over mean, of distances and heights of teeth. Not measured
_AFTER = 5  # records after a fall: a straggler or two are overtaken, a clock that was set stays behind


def whole_seconds(stamps: Stamps) -> Complaint | None:
    """Stamps that have only whole seconds: several records share each."""
    known = stamps.known_ns
    if len(known) < _FEW or np.any(known % NS_PER_S):
        return None
    seconds = len(np.unique(known))
    if seconds < _FEWEST_SECONDS or len(known) < _SHARING * seconds:
        return None
    return Complaint(
        "whole-seconds",
        stamps.name,
        f"{len(known):,} records share {seconds:,} stamps, all whole seconds: the log cut the fraction off",
        "spread the records of a second evenly over it; each is then known to 0.5 s",
        proposed_ns=_spread(stamps.time_ns),
    )


def coarse_stamps(stamps: Stamps) -> Complaint | None:
    """Stamps in other steps than whole seconds, of which several records share each: a minute, a tenth."""
    known = stamps.known_ns
    if len(known) < _FEW:
        return None
    tick, distinct = int(np.gcd.reduce(np.diff(known))), len(np.unique(known))
    is_coarse = tick in _CUT_NS or tick >= _COARSEST_NS
    if not is_coarse or distinct < _FEWEST_SECONDS or len(known) < _SHARING * distinct:
        return None
    step = duration(tick)
    return Complaint(
        "coarse-stamps",
        stamps.name,
        f"{len(known):,} records share {distinct:,} stamps, all in steps of {step}: the log cut the rest off",
        f"spread the records of a step evenly over it; each is then known to {duration(tick // 2)}",
        proposed_ns=_spread(stamps.time_ns, tick),
    )


def _spread(time_ns: Array, step_ns: int = NS_PER_S) -> Array:
    """Return stamps in steps spread over their step, in the order of the records."""
    order = np.argsort(time_ns, kind="stable")
    _, begin, count = np.unique(time_ns[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(begin, count)
    spread = time_ns.copy()
    spread[order] += (2 * rank + 1) * step_ns // (2 * np.repeat(count, count))
    return np.where(time_ns == NOT_A_TIME, time_ns, spread)


def direction_clocks(stamps: Stamps) -> Complaint | None:
    """Two clocks in one capture: each direction of a tap was stamped by a card of its own."""
    if stamps.capture is None:
        return None
    rows = _largest_flow(stamps.capture.segments["flow"], stamps.time_ns)
    if rows is None:
        return None
    reverse = _other_side(stamps.capture, int(stamps.capture.segments["flow"][rows[0]] >> 1))
    back = reverse[rows]
    clocks = _by_order(stamps.time_ns[rows], back) or _by_acknowledgments(stamps, rows, back)
    if clocks is None:
        return None
    ahead_ns, how = clocks
    which = _address(stamps.capture, int(stamps.capture.segments["flow"][rows[0]] >> 1), b=ahead_ns > 0)
    apart = f"{abs(ahead_ns) / NS_PER_MS:,.1f} ms"
    return Complaint(
        "direction-clocks",
        stamps.name,
        f"the two directions were stamped by two clocks, about {apart} apart: {how}",
        f"take {apart} off the stamps of the packets from the side of {which}",
        proposed_ns=_without_lead(stamps.time_ns, reverse, ahead_ns),
    )


def _without_lead(time_ns: Array, reverse: Array, ahead_ns: int) -> Array:
    early = (reverse if ahead_ns > 0 else ~reverse) & (time_ns != NOT_A_TIME)
    return np.where(early, time_ns - abs(ahead_ns), time_ns)


def _largest_flow(flow: Array, time_ns: Array) -> Array | None:
    """Return the rows of the pair of endpoints with the most packets, if both sent some."""
    if len(flow) < _FEW:
        return None
    rows = np.flatnonzero((flow >> 1 == np.argmax(np.bincount(flow >> 1))) & (time_ns != NOT_A_TIME))
    sent = np.bincount(flow[rows] & 1, minlength=2)
    return rows if sent.min() >= _TEETH else None


def _address(capture: Capture, pair: int, *, b: bool) -> str:
    raw = capture.flows["address_b" if b else "address_a"][pair].tobytes()
    return str(ip_address(raw[:4] if capture.flows["ip_version"][pair] == 4 else raw))


def _other_side(capture: Capture, pair: int) -> Array:
    """Return which segments come from the side of endpoint b of a pair; other pairs by the same addresses."""
    flows, flow = capture.flows, capture.segments["flow"]
    a, b = (flows[name] == flows[name][pair] for name in ("address_a", "address_b"))
    turned = (flows["address_a"] == flows["address_b"][pair]) | (
        flows["address_b"] == flows["address_a"][pair]
    )
    turned &= ~(a | b)
    return np.asarray((flow & 1).astype(bool) ^ turned[flow >> 1])


def _by_order(time_ns: Array, back: Array) -> tuple[int, str] | None:
    """Return how far the reverse direction's clock is ahead, if time goes back at each turn one way only.

    At a turn to the direction that is behind, time falls by its lag less the gap between the packets; at the
    other turns it leaps by at least the lag. Both together bound the lag from both sides.
    """
    gap = np.diff(time_ns)
    turns = {True: gap[~back[:-1] & back[1:]], False: gap[back[:-1] & ~back[1:]]}
    if min(map(len, turns.values())) < _TEETH or np.any(gap[back[:-1] == back[1:]] < -_SMALLEST_APART_NS):
        return None
    for to_reverse, falls in turns.items():
        rises = turns[not to_reverse]
        lag = int(-falls.min())
        fell = int(np.count_nonzero(falls < 0))
        if fell >= _TEETH and lag >= _SMALLEST_APART_NS and rises.min() > _BOUNDED * lag:
            sentence = f"time goes back at {fell:,} of {len(falls):,} turns from one direction to the other"
            return (-lag if to_reverse else lag), sentence
    return None


def _by_acknowledgments(stamps: Stamps, rows: Array, back: Array) -> tuple[int, str] | None:
    """Return the same from ACKs that are stamped before what they acknowledge, each way against the other."""
    answered = [_answer_times(stamps, rows[back == way], rows[back != way]) for way in (False, True)]
    if min(map(len, answered)) < 1:
        return None
    for way, times in enumerate(answered):
        early, other = int(-times.min()), int(answered[1 - way].min())
        often = np.count_nonzero(times < 0) > len(times) // _OFTEN
        if often and early >= _SMALLEST_STEP_NS and other > _BOUNDED * early:
            sentence = f"{np.count_nonzero(times < 0):,} of {len(times):,} ACKs are stamped before their data"
            lag = (early + min(other, 2 * early)) // 2
            return (lag if way else -lag), sentence
    return None


def _answer_times(stamps: Stamps, data: Array, acks: Array) -> Array:
    """Return the time from each segment that was sent once to the first ACK of exactly its end."""
    assert stamps.capture is not None
    table = stamps.capture.segments
    units = table["payload_bytes"][data].astype(np.int64)
    units += np.count_nonzero([table["flags"][data] & flag for flag in (Flag.SYN, Flag.FIN)], axis=0)
    data, units = data[units > 0], units[units > 0]
    end, first, copies = np.unique(
        (table["seq"][data].astype(np.int64) + units) % (1 << 32), return_index=True, return_counts=True
    )
    acks = acks[(table["flags"][acks] & Flag.ACK) != 0]
    number, answer = np.unique(table["ack"][acks].astype(np.int64), return_index=True)
    _, at, then = np.intersect1d(end[copies == 1], number, assume_unique=True, return_indices=True)
    sent = stamps.time_ns[data[first[copies == 1][at]]]
    return np.asarray(stamps.time_ns[acks[answer[then]]] - sent)


def saw_tooth(stamps: Stamps) -> Complaint | None:
    """Stamps that run too fast and fall back, again and again: a fraction in the wrong unit, or resets."""
    known = stamps.known_ns
    falls = np.flatnonzero(np.diff(known) < -_SMALLEST_STEP_NS)
    if len(known) < _FEW or len(falls) < _TEETH or not _all_along(falls, len(known)):
        return None
    height = -np.diff(known)[falls]
    tall = int(np.percentile(height, _USUAL_TOP))
    dense = len(falls) >= _DENSE * len(known)
    if tall > _UNLIKE * np.median(height) or not (dense or _regular(known[falls], height)):
        return None
    much = f"{tall / NS_PER_MS:,.1f} ms"
    return Complaint(
        "saw-tooth",
        stamps.name,
        f"time runs ahead and falls back {len(falls):,} times all along the log, by up to {much}: a fraction "
        "of a second in the wrong unit, or a clock that is set again and again",
        f"take the lower envelope; each stamp is then known to {much}",
        proposed_ns=_lower_envelope(stamps.time_ns),
    )


def _all_along(falls: Array, length: int) -> bool:
    """Return whether the falls lie in most fifths of the log, not in one place."""
    return len(np.unique(_FIFTHS * falls // length)) >= _MOST_FIFTHS


def _regular(at_ns: Array, height: Array) -> bool:
    """Return whether teeth come at equal distances and are equally high."""
    between = np.diff(np.sort(at_ns)).astype(np.float64)
    return bool(np.std(between) < _EVEN * np.mean(between) and np.std(height) < _EVEN * np.mean(height))


def _lower_envelope(time_ns: Array) -> Array:
    """Return for each record the least stamp from it on: never later than its own, and never decreasing."""
    far = np.where(time_ns == NOT_A_TIME, np.iinfo(np.int64).max, time_ns)
    least = np.minimum.accumulate(far[::-1])[::-1]
    return np.where(time_ns == NOT_A_TIME, time_ns, least)


def steps_back(stamps: Stamps) -> Complaint | None:
    """Clocks that were set back: from there on, stamps that were used before are used again."""
    known_rows = np.flatnonzero(stamps.time_ns != NOT_A_TIME)
    known = stamps.time_ns[known_rows]
    if len(known) < _FEW:
        return None
    falls = np.flatnonzero(np.diff(known) < -_SMALLEST_STEP_NS)[:_MOST_FALLS]
    lasting = falls[np.array([_lasts(known, int(at)) for at in falls], dtype=bool)]
    if not len(lasting):
        return None
    height = -np.diff(known)[lasting]
    where = ", ".join(f"{known_rows[at + 1] + 1:,}" for at in lasting[:5])
    return Complaint(
        "steps-back",
        stamps.name,
        f"the clock was set back {count(len(lasting), 'time')}, by up to {height.max() / NS_PER_S:,.3f} s "
        f"(before record {where}{', …' if len(lasting) > 5 else ''})",
        "add the step to every stamp after it, less the usual distance of two records",
        proposed_ns=_raised(stamps.time_ns, known_rows[lasting + 1], known, lasting),
    )


def _lasts(known: Array, at: int) -> bool:
    """Return whether more than a straggler or two stays behind what was reached before the fall."""
    behind = np.count_nonzero(known[at + 1 : at + 1 + _AFTER] < known[at])
    return bool(behind >= min(_AFTER, len(known) - at - 1) > 2)


def _raised(time_ns: Array, rows: Array, known: Array, falls: Array) -> Array:
    usual = int(np.median(np.abs(np.diff(known))))
    steps = np.zeros(len(time_ns), dtype=np.int64)
    steps[rows] = usual - np.diff(known)[falls]
    return np.where(time_ns == NOT_A_TIME, time_ns, time_ns + np.cumsum(steps))


OF_LOGS = (coarse_stamps, steps_back)
"""Of logs that are no captures: one reading a second has whole seconds by design, and no directions."""
RULES = (whole_seconds, coarse_stamps, direction_clocks, saw_tooth, steps_back)
"""In this order; the first that explains a log is the one that counts, but for whole seconds."""
