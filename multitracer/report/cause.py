"""Finds the incident that explains the largest limit.

The page shows this incident below the headline and as the first of the marks.

A long run of consecutive lost segments means an outage: a full queue still accepts one packet for each packet
that it forwards, so that some packets arrive between the dropped ones. The panel of the primary cause shows
the rate of a policer or of the link, and dead times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.clauses import black_hole
from multitracer.diagnosis.limits.limited import stretches
from multitracer.diagnosis.limits.names import Confidence, Limit, Viewpoint
from multitracer.diagnosis.limits.spans import Spans
from multitracer.tables import NA
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import count, duration, rate, share, size

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Incident
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.tables import Array

_LOSSES = (
    "policer", "path-mtu-black-hole", "local-buffer-overflow", "random-loss", "congestion-loss", "ecn-marked",
    "reordering", "spurious-timeout", "ack-loss",
)  # fmt: skip
_HOLES = (
    "dropped-call", "handover", "blackout", "link-reset", "path-mtu-black-hole", "idle-timeout", "outage",
    "header-decompressor-failure", "ack-loss", "exponential-back-off",
)  # fmt: skip
_EXPLAIN: dict[Limit, tuple[str, ...]] = {
    Limit.HANDSHAKE: ("syn-unanswered", "connection-refused", "syn-retransmitted", "reset-by-peer"),
    Limit.OUTAGE: _HOLES,
    Limit.LINK: (
        "policer", "bufferbloat", "overbuffered-link", "radio-limited", "link-flow-control",
        "competing-traffic", "rate-change", "rlp-retransmission-burst", "link-limited",
    ),
    Limit.RECOVERY: (*_LOSSES, *_HOLES, "competing-retransmission"),
    Limit.RECEIVER_WINDOW: ("zero-window", "receiver-limited"),
    Limit.SENDER_BUFFER: ("send-buffer-limited",),
    Limit.APPLICATION: ("server-think-time", "client-think-time", "nagle-delayed-ack", "application-limited"),
    Limit.SLOW_START: (*_LOSSES, "slow-start-limited"),
    Limit.CONGESTION_WINDOW: (*_LOSSES, "pacing", "outage"),
    Limit.UNKNOWN: (),
}  # fmt: skip
"""Kinds of incidents that explain a limit, the most specific first."""
_WORTH = 0.1
"""Minimum cost, as a share of the time, at which the most costly cause precedes the most specific one (see limits.md).
"""


_REPEATS = {
    "link-limited", "receiver-limited", "zero-window", "send-buffer-limited", "server-think-time",
    "client-think-time", "application-limited", "slow-start-limited",
}  # fmt: skip
"""Kinds of findings whose sentence repeats the headline."""
QUEUES = {"bufferbloat", "overbuffered-link"}
"""Kinds of incidents that add delay but cost no time: other and interactive traffic suffers."""
_BEFALLS = {
    "link-flow-control": ("the far end stopped the link", "to avoid the stops: a network that takes the data faster"),
    "rlp-retransmission-burst": (
        "the radio failed for a while",
        "to avoid lost frames: a better place, antenna or cell",
    ),
}
"""Causes that can occur together at a radio link, with the remedy; where both occur, each text names the other."""
_JUDGED = {"policer", "random-loss", "congestion-loss", "competing-traffic", "idle-timeout", "radio-limited"}
"""Kinds of incidents that are derived from a pattern: their confidence is always "inferred"."""
AFTER_LOSSES = (Limit.RECOVERY, Limit.CONGESTION_WINDOW)
"""Limits that follow the loss of a packet."""


class Explanation(NamedTuple):
    """The text on the largest limit below the headline of the first screen.

    Attributes
    ----------
    kind, sentence : str
        Name and sentence of the cause of the limit; empty if the headline already states it.
    help : str
        A remedy against the cause of the limit, or against the limit itself if no cause is known.
    """

    kind: str
    sentence: str
    help: str


def explanation(diagnosis: Diagnosis) -> Explanation:
    """Return the texts on the cause of the largest limit and on the remedy."""
    first, of_limit = cause(diagnosis), diagnosis.headline.help.rstrip(".")
    kind = sentence = ""
    helps = [of_limit]
    if first is None:
        lost, of = lost_segments(diagnosis)
        if lost:
            many = f"{lost:,} of {count(of, 'data segment')} ({share(lost, of)})"
            after = "after a loss the sender slows down. Their cause is not shown."
            kind, sentence = "losses", f"{many} did not arrive; {after}"
    elif first.kind not in _REPEATS:
        kind, sentence, known = first.kind, first.sentence, first.help.rstrip(".")
        helps = [known or of_limit]
        if first.kind in QUEUES and not first.cost_s:
            kind, sentence = f"Side effect, {kind}", f"{sentence} It cost this transfer no time."
        if first.kind in QUEUES and diagnosis.headline.limit is Limit.LINK:
            queue = f"{known[:1].lower()}{known[1:]}"
            helps = [of_limit, f"to reduce the delay, which slows other and interactive traffic: {queue}"]
        kinds = {each.kind for each in diagnosis.incidents if each.kind in _BEFALLS} - {first.kind}
        for other in kinds if first.kind in _BEFALLS else ():
            sentence += f" At the same time {_BEFALLS[other][0]} ({other})."
            helps.append(_BEFALLS[other][1])
    if lost_run(diagnosis) is not None:
        helps.insert(0, "the part of the path that lost all data for a while")
    return Explanation(kind, sentence, "; ".join(helps))


def lost_segments(diagnosis: Diagnosis) -> tuple[int, int]:
    """Return two numbers: lost segments and all segments; (0, 0) if losses did not cause the limit."""
    seen = diagnosis.limited.seen
    if seen is None or diagnosis.headline.limit not in AFTER_LOSSES:
        return 0, 0
    return int((seen.sends.lost == 1).sum()), len(seen.sends)


def cause(diagnosis: Diagnosis) -> Incident | None:
    """Return the incident that explains the largest limit; None if no incident does."""
    kinds = _EXPLAIN[diagnosis.headline.limit]
    least_s = _WORTH * diagnosis.limited.total_s
    able = [each for each in diagnosis.incidents if each.kind in kinds]
    return min(
        able, key=lambda each: (-each.cost_s if each.cost_s >= least_s else 0.0, kinds.index(each.kind)), default=None
    )


def confidence_of(first: Incident, view: Viewpoint) -> Confidence:
    """Return the confidence: "measured" if both endpoints or a log show the cause, else "inferred"."""
    if first.kind not in _JUDGED and view in (Viewpoint.LINK_LOG, Viewpoint.BOTH_ENDS):
        return Confidence.MEASURED
    return Confidence.INFERRED


_MIN_SEGMENTS = 20
"""Minimum number of consecutive lost segments for an outage: 88 were measured in an outage, at most 24 with
competing traffic, 13 at a policer."""
_MIN_ROUNDS = 2.0
"""Minimum duration of an outage, as a multiple of the minimum RTT: 2.6 was measured in an outage, at most 1.3
with competing traffic, and 0.6 with full queues, policers and random losses (14 bundled recordings)."""


class LostRun(NamedTuple):
    """A run of consecutive segments that were all lost.

    Attributes
    ----------
    begin_ns, end_ns : int
        Times at which the first and the last segment were sent, recorded time.
    segments : int
    repairs : int
        Number of these segments that were retransmissions.
    """

    begin_ns: int
    end_ns: int
    segments: int
    repairs: int


def lost_run(diagnosis: Diagnosis) -> LostRun | None:
    """Return the longest run of lost segments that contains a lost retransmission.

    None if there is no such run, only one endpoint was captured, or an outage is already a limit.
    """
    seen, is_outage = diagnosis.limited.seen, Limit.OUTAGE in diagnosis.limited.cells.limit
    if seen is None or is_outage or not len(seen.sends) or (seen.sends.lost == NA).any():
        return None
    steps = np.diff(np.concatenate([[0], seen.sends.lost == 1, [0]]))
    first, last = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1) - 1
    many = last - first + 1 >= _MIN_SEGMENTS
    if not many.any():
        return None
    time_ns = seen.sends.time_ns
    longest = int(np.argmax(np.where(many, time_ns[last] - time_ns[first], -1)))
    begin, end = int(first[longest]), int(last[longest])
    run = LostRun(int(time_ns[begin]), int(time_ns[end]), end - begin + 1, int(seen.sends.again[begin : end + 1].sum()))
    return run if run.repairs and run.end_ns - run.begin_ns >= _MIN_ROUNDS * seen.floor_ns else None


_SAMPLES = 500
"""Number of samples of the outstanding data for its median. Not measured."""
_MOST_BANDS = 400
"""Maximum number of shaded bands in a panel; bands less than two pixels apart are drawn as one."""


class Marks(NamedTuple):
    """Times of one kind of event, drawn as marks at the upper edge of the picture.

    They are int64, ns, recorded time, shape (n,).
    """

    kind: str
    time_ns: Array
    words: str


class KnownCause(NamedTuple):
    """Facts about the cause, for the panel.

    Attributes
    ----------
    level : float or None
        Value of the horizontal line, in the unit of the panel's axis; None if not known.
    words : str
        Label of the line: name and value.
    bands_ns : list of pair of int
        Begin and end of each interval in which no data arrived, recorded time.
    marks : list of Marks
        Losses, and packets with an ECN mark of a router.
    """

    level: float | None
    words: str
    bands_ns: list[tuple[int, int]]
    marks: list[Marks]
    dead: str = "outage: the path was interrupted"


NOTHING_KNOWN: KnownCause = KnownCause(None, "", [], [])


def known_cause(diagnosis: Diagnosis, panel: str) -> KnownCause:
    """Return the facts about the cause for the panel with this key.

    The line is the rate of the policer, or else of the link if the link was the limit. If the clock of the
    recording is scaled, there is no line.
    """
    limited, limit = diagnosis.limited, diagnosis.headline.limit
    seen, cells = limited.seen, limited.cells
    dead, no_data = Spans.of(*stretches(limited, Limit.OUTAGE)), NOTHING_KNOWN.dead
    dead = dead.bridged(float(cells.end.max() - cells.begin.min()) / _MOST_BANDS if len(cells.end) else 0.0)
    bands_ns = list(zip(dead.begin.tolist(), dead.end.tolist(), strict=True))
    if black_hole(limited, diagnosis.findings) is not None:
        no_data = "outage: full-size packets vanished"
    run = lost_run(diagnosis)
    if run is not None:
        bands_ns, no_data = [(run.begin_ns, run.end_ns)], "no data arrived"
    marks = []
    if seen is not None:
        lost, marked = seen.sends.time_ns[seen.sends.lost == 1], seen.answers.time_ns[seen.answers.marked]
        marks.append(Marks("lost", lost, f"lost: {count(len(lost), 'segment')}"))
        marks.append(Marks("marked", marked, f"ECN mark in {count(len(marked), 'ACK')}"))
    level: float | None = None
    words = ""
    if panel == "throughput" and diagnosis.transfer.speed == 1:
        link = limited.link_rate
        if seen is not None and seen.policer is not None:
            level, words = seen.policer.rate_bytes_per_s * BITS_PER_BYTE, "policer's rate"
        elif link is not None and limit is Limit.LINK:
            level, words = link.median * BITS_PER_BYTE, "link's rate"
        words = "" if level is None else f"{words}, {rate(level)}"
    elif panel == "flight" and limit is Limit.SENDER_BUFFER:
        level = held_bytes(limited)
        words = "" if level is None else f"the send buffer held {size(level)}"
    elif panel == "rtt" and (first := cause(diagnosis)) is not None:
        level = diagnosis.findings[first.parts[0]].numbers.get("unloaded_rtt_s") or None
        words = f"minimum RTT of a data segment, {duration(level * NS_PER_S)}" if level else ""
    return KnownCause(level, words, bands_ns, [each for each in marks if len(each.time_ns)], no_data)


def held_bytes(limited: Limited) -> float | None:
    """Return the median of the outstanding bytes while the send buffer was full; None if it is not known."""
    begin, end = stretches(limited, Limit.SENDER_BUFFER)
    if limited.seen is None or not len(begin):
        return None
    passed = np.concatenate([[0], np.cumsum(end - begin)])
    evenly = np.linspace(0, passed[-1], _SAMPLES, endpoint=False)
    place = np.searchsorted(passed, evenly, side="right") - 1
    return float(np.median(limited.seen.outstanding(begin[place] + np.rint(evenly - passed[place]).astype(np.int64))))
