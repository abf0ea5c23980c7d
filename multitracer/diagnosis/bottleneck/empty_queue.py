"""Losses that no queue explains, by both captures: the packets before and after them did not wait for long.

A queue that is managed (CoDel, PIE, RED) drops before it is full, but never a packet that next to nothing is
ahead of, and one packet at a time. So a single loss at half a queue shows nothing by itself. It does if it is
one of several in a row, or if other losses show that this queue drops only when it is full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import span_minimum
from multitracer.analysis.verdicts import Necessity
from multitracer.diagnosis.bottleneck.service_times import arrival_gaps, busy_pieces, is_busy
from multitracer.diagnosis.packets.losses import Losses
from multitracer.diagnosis.packets.packet_delays import all_delays
from multitracer.diagnosis.packets.packets_ahead import may_be_full, most_ahead, packets_ahead
from multitracer.diagnosis.packets.train_rate import HEADERS_BYTES, train_rate
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.case import Case
    from multitracer.diagnosis.packets.packet_delays import PacketDelays
    from multitracer.tables import Array

_EMPTY_NS = 1.7 * NS_PER_MS
"""Less is noise of clocks and hosts, as for the losses by chance."""
_AHEAD = 1.25
"""Segments ahead of it on a slow link: a managed queue never drops the only one (RFC 8289, section 4)."""
_DEEPER = 3.0
"""Times that delay which the path's queue must have been seen to reach: else it may be full with it ..."""
_FLIGHT = 10
"""... unless less than so many segments were on their way: a queue holds an initial window (RFC 6928)."""
_LONGEST = 0.99  # quantile of the waits that is the longest: single ones are noise. Not measured
_AHEAD_OF_MOST, _APART_NS = 1 / 3, 1.7 * NS_PER_MS
"""... or unless a link that always takes as long for a segment held three times as many of ours, for longer
by more than noise: on a fast link all waits are short. No managed queue drops then: 5 ms are CoDel's target
(RFC 8289, section 4.3), 7.5 ms half of PIE's (RFC 8033, section 4.1)."""
_LEAST_RUNS = 3  # fewer losses may all be chance. Not measured
_LEAST_ROWS, _LEAST_PACKETS = 2, 5
"""... but not so many packets in so few rows, with next to nothing ahead where a deeper queue was seen. Not
measured"""
_LEAST_RUNS_OF_FEW = 5
"""Where no queue was ever seen, none is known to be deeper, and more must speak for it."""
_LEAST_RUN = 2
"""A managed queue drops one packet at a time, so several in a row fell to a full queue or to chance ..."""
_HALF = 0.7
"""... and to chance if its wait is at most this part of one that came through so soon before or after ..."""
_SOON = 2
"""... in the longest round trips: a queue that was full then would have lost that one, too ..."""
_JITTER_NS = 10 * NS_PER_MS
"""... and by no less: radio delays packets by some milliseconds more or less ..."""
_BELOW_RANK = 0.85
"""... and if its place among all waits is no higher: those at a full queue of Wi-Fi lie at 0.9 and more."""
_FULL, _FAR = 0.93, 0.5
"""Parts of the longest wait from which on a queue was full, and below which it was far from it ..."""
_CHANCE_RANK, _QUARTILE = 0.75, 0.25
"""... if its place among all waits is no higher, as for the losses by chance (at their lower quartile)."""
_ALIKE = 0.1
"""Between the quartiles of such waits, as part of the middle one: 0.003 where the path had become longer."""
_MOSTLY, _NOT_FULL = 0.5, 0.85
"""If so many of the runs of losses were at a full queue, it drops only then: a managed one drops at any wait.
Below this part of the longest wait it was not full, and did not lose what was lost."""
_STEADY, _LEAST_PIECES, _AROUND = 1.25, 8, 5
"""By so much the link's time for a segment, the median of a few pieces, may vary in a transfer: else a full
queue does not always take as long. Far less than `_HALF` and `_FAR` leave room for."""
_LEAST_SHARE = 0.02
"""Of all runs of losses that were repaired."""


def lost_at_empty_queue(case: Case) -> Losses | None:
    """Return the losses that no queue explains; None if they are too few, or only one end was captured."""
    lost, delays = case.lost, None if case.is_link_logged else _delays(case)
    if delays is None or len(lost) < _LEAST_RUNS:
        return None
    lost = repaired_losses(case)
    if len(lost) < _LEAST_RUNS:
        return None
    run = np.cumsum(np.append(0, np.diff(lost) > 1))
    first, last = np.searchsorted(run, [np.arange(run[-1] + 1), np.arange(1, run[-1] + 2)])
    waited = _waited_ns(delays, lost[first], lost[last - 1])
    one_ns = _AHEAD * _service_ns(case)
    limit_ns = max(_EMPTY_NS, one_ns)
    longest_ns = float(np.quantile(delays.queue_ns, _LONGEST))
    is_deep = longest_ns >= _DEEPER * limit_ns
    is_steady = not len(delays.changes) and _is_steady(case)
    few = _unless_longest(delays, waited, limit_ns, one_ns)
    if not is_deep:
        fewer = is_steady & (longest_ns - waited >= _APART_NS) & _has_fewer_ahead(case, delays, lost[first])
        few &= _is_small_flight(case, lost[first]) | fewer
    in_a_row = last - first >= _LEAST_RUN
    longer_ns = longest_ns if is_steady else _longer_ns(case, delays, lost[first])
    few |= _unless_alike(waited, in_a_row & _is_below(delays, waited, longer_ns))
    if is_steady and np.count_nonzero(waited >= _FULL * longest_ns) >= _LEAST_RUNS:
        few |= _far(delays, waited, longest_ns)
        if np.mean(waited >= _FULL * longest_ns) >= _MOSTLY:
            most_ns = _most_ns(case, delays, lost[first], lost[last - 1])
            few |= _unless_alike(waited, most_ns <= _NOT_FULL * longest_ns)
    few &= ~may_be_full(delays, lost[first], case.carried.sent_ns[lost[first]])
    least = _least_runs((last - first)[few & (waited <= limit_ns)]) if is_deep else _LEAST_RUNS_OF_FEW
    if few.sum() < max(least, _LEAST_SHARE * len(few)):
        return None
    return Losses(lost[few[run]], waited[few], place_among(delays, waited[few]), longest_ns)


def _unless_longest(delays: PacketDelays, waited: Array, limit_ns: float, one_ns: float) -> Array:
    """Return which waits are within a limit; none if most are among the longest of those: a short queue.

    Where most waited for no more than one segment (`one_ns`) no queue was full, however few waited longer.
    """
    few = np.asarray(waited <= limit_ns)
    within = delays.ordered_ns[: np.searchsorted(delays.ordered_ns, limit_ns, side="right")]
    place = np.searchsorted(within, waited[few]) / max(len(within), 1)
    if not few.any() or np.quantile(waited[few], _QUARTILE) <= one_ns:
        return few
    return few & (np.quantile(place, _QUARTILE) <= _CHANCE_RANK)


def place_among(delays: PacketDelays, waited: Array) -> Array:
    """Return the place of waits (ns) among all of `delays`: float64, 0 to 1, shape (n,)."""
    return np.searchsorted(delays.ordered_ns, waited) / len(delays.queue_ns)


def _far(delays: PacketDelays, waited: Array, longest_ns: float) -> Array:
    """Return which waits are far from the longest; none if they are alike, as at another full queue."""
    far = (waited <= _FAR * longest_ns) & (longest_ns - waited >= _JITTER_NS)
    far &= place_among(delays, waited) <= _CHANCE_RANK
    return _unless_alike(waited, far)


def _unless_alike(waited: Array, chosen: Array) -> Array:
    """Return what was chosen; none if so many waits are alike as at another full queue."""
    if np.count_nonzero(chosen) < _LEAST_RUNS:
        return np.asarray(chosen)
    low, middle, high = np.quantile(waited[chosen], (0.25, 0.5, 0.75))
    return np.asarray(chosen & (high - low >= _ALIKE * middle))


def _is_steady(case: Case) -> bool:
    """Return whether the link took as long for a segment all the time, so that a full queue did, too."""
    gaps = case.once(arrival_gaps)
    pieces = None if gaps is None else busy_pieces(gaps, is_busy(case, gaps))
    if pieces is None or len(pieces.service_ns) < _LEAST_PIECES:
        return False
    middle = np.median(np.lib.stride_tricks.sliding_window_view(pieces.service_ns, _AROUND), axis=1)
    return bool(middle.max() <= _STEADY * middle.min())


def repaired_losses(case: Case) -> Array:
    """Return the places in `case.segments` of what was lost, sent again, and not too large: int64."""
    lost = case.lost
    return np.asarray(lost[_is_repaired(case, lost) & ~_is_too_large(case, lost)])


def _is_repaired(case: Case, place: Array) -> Array:
    """Return which were sent again: of others nobody knows whether the capture missed them."""
    verdicts = case.transfer.verdicts
    needed = verdicts["earlier_row"][verdicts["necessity"] != Necessity.SPURIOUS]
    return np.isin(case.segments.row[place], needed)


def _is_too_large(case: Case, place: Array) -> Array:
    """Return which were larger than all that arrived of what was sent after them: lost for their size."""
    segments = case.segments
    arrived = np.where(segments.closes, segments.payload_bytes, 0)
    later = np.maximum.accumulate(arrived[::-1])[::-1]
    return np.asarray(segments.payload_bytes[place] > later[place])


def _delays(case: Case) -> PacketDelays | None:
    """Return the delays one way, of full segments if it is these that were lost."""
    payload, full = case.segments.payload_bytes[case.lost], case.delays
    if full is None or not full.is_one_way:
        return None
    least = int(case.segments.payload_bytes[full.place].min())
    if np.count_nonzero(payload >= least) * 2 >= len(payload):
        return full
    return all_delays(case.transfer, case.segments)


def _waited_ns(delays: PacketDelays, first: Array, last: Array) -> Array:
    """Return the longer delay of the packets before and after each run; endless if one is missing."""
    before, after = np.searchsorted(delays.place, first) - 1, np.searchsorted(delays.place, last)
    known = (before >= 0) & (after < len(delays.place))
    queue_ns = delays.queue_ns.astype(np.float64)
    longer = np.maximum(queue_ns[np.maximum(before, 0)], queue_ns[np.minimum(after, len(queue_ns) - 1)])
    return np.where(known, longer, np.inf)


def _most_ns(case: Case, delays: PacketDelays, first: Array, last: Array) -> Array:
    """Return the most that a packet could have waited when each run began; endless if that is not known.

    A queue drains by no more than the time that passes: what came next and waited less shows how long it was.
    """
    after = np.searchsorted(delays.place, last)
    at = np.minimum(after, len(delays.place) - 1)
    gone_ns = delays.time_ns[at] - case.carried.sent_ns[first]
    return np.where(after < len(delays.place), delays.queue_ns[at] + gone_ns, np.inf)


def _service_ns(case: Case) -> float:
    """Return how long the link takes for a full segment, by its fastest trains."""
    rate = case.transfer.once(train_rate)
    full = case.full_bytes + HEADERS_BYTES
    return full / rate * NS_PER_S / case.transfer.speed if rate else 0.0


def _longer_ns(case: Case, delays: PacketDelays, place: Array) -> Array:
    """Return the longest wait of what came through soon before or after each place."""
    width_ns = _SOON * int(case.transfer.rtt_ns.max(initial=0))
    sent_ns = case.transfer.sender["time_ns"][case.segments.row[place]]
    first, last = (np.searchsorted(delays.time_ns, sent_ns + width) for width in (-width_ns, width_ns))
    first = np.minimum(first, len(delays.time_ns) - 1)
    return np.asarray(-span_minimum(-delays.queue_ns, first, np.maximum(last, first + 1)))


def _is_below(delays: PacketDelays, waited: Array, longer_ns: Array | float) -> Array:
    """Return which waits are far shorter than a longer one that came through."""
    far = (waited <= _HALF * longer_ns) & (longer_ns - waited >= _JITTER_NS)
    return np.asarray(far & (place_among(delays, waited) <= _BELOW_RANK))


def _has_fewer_ahead(case: Case, delays: PacketDelays, place: Array) -> Array:
    """Return which had far fewer of ours ahead of them than others that came through."""
    ahead = packets_ahead(delays, place, case.carried.sent_ns[place])
    return np.asarray(ahead <= _AHEAD_OF_MOST * most_ahead(delays))


def _least_runs(many: Array) -> int:
    """Return how many rows of so many lost packets are enough."""
    return _LEAST_ROWS if many.sum() >= _LEAST_PACKETS else _LEAST_RUNS


def _is_small_flight(case: Case, place: Array) -> Array:
    flight = case.transfer.sender["flight_bytes"][case.segments.row[place]]
    return np.asarray(flight < _FLIGHT * case.full_bytes)
