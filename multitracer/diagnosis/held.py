"""The total duration of one limit in a transfer, for findings about this limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import distinct
from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.limited import shown_s, stretches
from multitracer.diagnosis.limits.names import ONE_END, Confidence, Limit, LimitSubtype
from multitracer.diagnosis.limits.spans import Spans
from multitracer.tables import NA
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import about, ends, rate

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array

WORTH = 0.1
"""Minimum share of T from which on a limit is a finding, as in the first sentence."""
_MIN_S = 0.05
"""Minimum duration in s that is noticeable."""


class Held(NamedTuple):
    """The total time in which one limit, or one subtype of it, was in effect."""

    begin_ns: int
    end_ns: int
    seconds: float
    share: float
    lengths_s: Array
    """Length of each interval: float64, s."""
    rows: tuple[int, ...]
    """Rows of `sender` at the start of the longest intervals."""

    @property
    def numbers(self) -> dict[str, float]:
        """Number of intervals, median and maximum of their lengths in s, and share of the transfer time."""
        return {
            "stretches": len(self.lengths_s),
            "median_s": float(np.median(self.lengths_s)),
            "largest_s": float(self.lengths_s.max()),
            "share": self.share,
        }

    def finding(
        self, kind: str, sentence: str, numbers: dict[str, float] | None = None, *, cost_s: float | None = None
    ) -> Finding:
        """Return a finding for this limit; its lost time is `cost_s`, by default the total duration."""
        return Finding(
            kind,
            self.begin_ns,
            self.end_ns,
            self.seconds if cost_s is None else cost_s,
            None,
            rows("sender", list(self.rows)),
            sentence,
            numbers=self.numbers if numbers is None else numbers,
        )


_MOST_ROWS = 4  # the longest ones are evidence enough. Not measured


def held(limited: Limited, limit: Limit, part: LimitSubtype | None = None, *, minimum: float = WORTH) -> Held | None:
    """Return the time in which a limit was in effect.

    It is None if this is less than the share `minimum` of the transfer time, or too short to notice.
    """
    begin, end = stretches(limited, limit, part)
    lengths = (end - begin) * limited.transfer.speed / NS_PER_S
    total = float(lengths.sum())
    if total < _MIN_S or total < minimum * limited.total_s:
        return None
    longest = np.sort(begin[np.argsort(-lengths, kind="stable")[:_MOST_ROWS]])
    time = limited.transfer.time_ns
    rows = np.minimum(np.searchsorted(time, longest), len(time) - 1)
    return Held(int(begin[0]), int(end[-1]), total, total / limited.total_s, lengths, tuple(rows.tolist()))


def link_in_words(limited: Limited) -> tuple[str, str]:
    """Return two texts: the rate of the link with its range, and how we know that the link was the limit.

    For example "1.93 Mbit/s of payload (1.85 to 1.95)" and "a queue for 3.1 s, by data at its rate for the rest".
    Both are empty if the link log is the evidence. The rate is empty if it is unknown, or if a policer was
    mostly the limit: bursts that it passes do not show the link's rate.
    """
    if limited.shown is None:
        return "", ""
    link = limited.shown.link
    by_queue_s, by_bucket_s, late_s = (
        shown_s(limited, Limit.LINK, spans) for spans in (link.by_queue, link.by_bucket, limited.shown.out.late)
    )
    shown = (("a queue", by_queue_s), ("the tokens of a policer", by_bucket_s), ("late answers", late_s))
    words = [f"{what} for {seconds:.1f} s" for what, seconds in shown if seconds]
    shown_by = ", by ".join([*words, "data at its rate for the rest" if words else "data at its rate"])
    if limited.link_rate is None or by_bucket_s > by_queue_s:
        return "", shown_by
    low, middle, high = (rate(each * BITS_PER_BYTE) for each in limited.link_rate[:3])
    number, _, unit = middle.partition(" ")
    is_one_unit = low.endswith(f" {unit}") and high.endswith(f" {unit}")
    around = ends(*(each.removesuffix(f" {unit}") if is_one_unit else each for each in (low, high)))
    return f"{middle} of payload" + (f" ({around})" if around not in (number, middle) else ""), shown_by


_STEADY, _OFTEN = 0.6, 0.1
"""A window varies if more than `_OFTEN` of those that were full were smaller than `_STEADY` of one before: 0.93 of
them where a program read slowly, none in 15 views of small buffers."""


def window_varies(limited: Limited) -> bool:
    """Return whether a window that was full was much smaller at times than before: its program may read slowly."""
    if limited.seen is None:
        return False
    begin, end = stretches(limited, Limit.RECEIVER_WINDOW)
    answered_ns = limited.seen.answers.time_ns
    at_ns = np.sort(np.concatenate([begin, answered_ns[Spans(begin, end).holds(answered_ns)]]))
    size = limited.seen.window_edge(at_ns) - limited.seen.acknowledged(at_ns)
    return bool((size < _STEADY * np.maximum.accumulate(size)).sum() > _OFTEN * len(size))


def writes_in_words(limited: Limited, begin: Array, end: Array, *, is_weak: bool = False) -> tuple[str, str]:
    """Return two texts on a program in intervals (ns): what it did, and its idle gaps after a comma.

    For example "had nothing to send" and ", in 8 idle gaps of about 0.71 s"; of a program that wrote little at a time
    "wrote at only 428 kbit/s" and "".
    """
    transfer = limited.transfer
    time_ns = transfer.time_ns[transfer.data]
    first, last = (np.searchsorted(time_ns, edge, side="right") for edge in (begin, end))
    edges = [np.concatenate([[b], time_ns[i:j], [e]]) for b, e, i, j in zip(begin, end, first, last, strict=True)]
    gaps_s = np.concatenate([np.diff(each) for each in edges] or [np.empty(0)]) * transfer.speed / NS_PER_S
    main_s = _main(gaps_s)
    if len(main_s) <= _FEW_GAPS or np.median(main_s) >= _LONG_GAP_S:
        did = "seemed to have nothing to send" if is_weak else "had nothing to send"
        return did, f", {idle_gaps_in_words(gaps_s)}"
    # what one write sends after its first segment leaves within a round trip of it
    written = Spans.of(begin, end).bridged(0 if limited.seen is None else limited.seen.floor_ns)
    first, last = (np.searchsorted(time_ns, edge, side="right") for edge in (written.begin, written.end))
    sent = np.append(0, np.cumsum(transfer.payload_bytes))
    seconds = written.total_ns * transfer.speed / NS_PER_S
    did = "seemed to write" if is_weak else "wrote"
    return f"{did} at only {rate(float((sent[last] - sent[first]).sum()) * BITS_PER_BYTE / seconds)}", ""


_FEW_GAPS, _LONG_GAP_S = 20, 0.1
"""A program with more idle gaps than this, most of them shorter, writes slowly, and is not idle. Not measured."""


def is_weak(limited: Limited, limit: Limit, part: LimitSubtype | None = None) -> bool:
    """Return whether most of the time of a limit, or one subtype of it, is weak."""
    own = limited.transfer.reverse
    rows = [row for row in limited.shares if row.limit is limit and part in (None, row.part) and row.reverse == own]
    weak_s = sum(row.seconds for row in rows if row.confidence is Confidence.WEAK)
    return 2 * weak_s > sum(row.seconds for row in rows)


def or_full_buffer(limited: Limited) -> str:
    """Return words that an idle program may have been a full send buffer, where packets of one end do not tell."""
    rows = [row for row in limited.shares if (row.limit, row.part) == (Limit.APPLICATION, LimitSubtype.WRITES)]
    is_weak = any(row.confidence is Confidence.WEAK for row in rows)
    return ", or its send buffer was full" if is_weak and limited.view in ONE_END else ""


_IDLE_S = 0.2
"""Minimum idle time in s after which Linux begins with a small window again: its shortest retransmission timeout."""
_INITIAL_SEGMENTS = 10
"""Segments of an initial window (RFC 6928): before more were sent, TCP had no larger window to forget."""


def is_after_idle(limited: Limited) -> bool:
    """Return whether most of slow start came after idle times in which TCP forgot a window that had grown."""
    if limited.seen is None:
        return False
    (begin, end), (idle_begin, idle_end) = (stretches(limited, each) for each in (Limit.SLOW_START, Limit.APPLICATION))
    grown = limited.seen.sent_by(idle_begin) > _INITIAL_SEGMENTS * limited.seen.mss_bytes
    long = (idle_end - idle_begin) * limited.transfer.speed >= _IDLE_S * NS_PER_S
    first_ns = idle_end[grown & long].min(initial=np.iinfo(np.int64).max)
    return bool(2 * (end - begin)[begin >= first_ns].sum() > (end - begin).sum())


_ALIKE = 0.15  # maximum error of the sum of idle gaps by their median. Not measured
_AS_LONG = 0.25  # of that length. Not measured


def idle_gaps_in_words(lengths_s: Array) -> str:
    """Return how many idle gaps make most of their time, and their median: "mostly in 8 idle gaps of about 0.71 s".

    Those between the segments of one write are short and many, and say nothing about the program.
    """
    main_s = _main(lengths_s)
    mostly = "in" if len(main_s) == len(lengths_s) else "mostly in"
    many, largest, typical = len(main_s), float(main_s[0]), float(np.median(main_s))
    if many == 1:
        return f"{mostly} one idle gap of {about(largest)}"
    is_alike = abs(many * typical - main_s.sum()) <= _ALIKE * many * typical
    return f"{mostly} {many:,} idle gaps of {f'about {about(typical)}' if is_alike else f'up to {about(largest)}'}"


def _main(lengths_s: Array) -> Array:
    """Return the idle gaps, in descending order, that are about as long as those in which half of the time lies."""
    ordered = np.sort(lengths_s)[::-1]
    half = ordered[int(np.searchsorted(np.cumsum(ordered), ordered.sum() / 2))]
    return np.asarray(ordered[ordered >= _AS_LONG * half])


_ROUND_TRIPS = 1.0
"""Minimum wait of a server beyond the round trip, in round trips, that counts as an idle gap of the client."""
_REACTS_S = 0.01  # a program that waits for nothing asks sooner, also on a busy host. Not measured


def idle_gaps_s(limited: Limited) -> Array:
    """Return the times for which the client had all data before it sent its next request: float64, s.

    They come from the client's capture, if there is one. Otherwise they are those waits of the server that
    are at least a round trip long, minus the transit of its answer and of the next request.
    """
    by_client = client_idle_gaps_s(limited.transfer)
    if by_client is not None:
        return by_client
    begin, end = stretches(limited, Limit.APPLICATION, LimitSubtype.PEER)
    waits_ns = end - begin
    floor_ns = 0 if limited.seen is None else limited.seen.floor_ns
    waits_s = np.asarray(waits_ns * limited.transfer.speed / NS_PER_S)
    return waits_s[(waits_ns >= _ROUND_TRIPS * floor_ns) & (waits_s >= _REACTS_S)]


def client_idle_gaps_s(transfer: Transfer) -> Array | None:
    """Return the times for which the client had all data and sent no request: float64, s.

    They come from the client's capture; None without it. They differ from the server's wait, which also
    includes the time in which its answer passes the queue of the link.
    """
    data, asks, client = transfer.data_pairs, transfer.ack_pairs, transfer.receiver
    if data is None or asks is None or client is None:
        return None
    came = distinct(data.arrived[data.arrived != NA])
    requests = distinct(asks.sent[asks.sent != NA])
    requests = requests[client["payload_bytes"][requests] > 0]
    last = np.searchsorted(came, requests) - 1
    first = (last >= 0) & (np.diff(last, prepend=-1) > 0)
    time_ns = client["time_ns"]
    paused_ns = time_ns[requests[first]] - time_ns[came[last[first]]]
    paused_s = np.asarray(paused_ns * transfer.speed / NS_PER_S)
    return paused_s[paused_s >= _REACTS_S]
