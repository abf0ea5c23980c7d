"""How far a capture can be trusted: a verdict with its reasons, to be read before any number.

Rules of the file
-----------------
Each rule tests one known defect of captures and gives at most one note: a stable code, a count, and a sentence for an
engineer. A note may raise the verdict: to *caution* (keep this in mind when reading the numbers) or to *poor* (firm
conclusions are not supported). A rare defect gives a note without effect on the verdict.

This file also counts the facts that the rules need, from segments (a stream counts them before it discards
the segments), directions and connections.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from multitracer.analysis.not_tcp import not_tcp, others, tunnels_sentence
from multitracer.analysis.segments.stamp_spread import is_stamped, stamps_of
from multitracer.captured import CaptureMark
from multitracer.schemas.tcp import Initiator
from multitracer.tables import NA
from multitracer.units import NS_PER_MS, NS_PER_S
from multitracer.words import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from multitracer.analysis.connections import Partition
    from multitracer.capture import CaptureTables
    from multitracer.captured import SourceFile
    from multitracer.tables import Array, Table

SUSPICIOUS_EXPANSION = 200
"""Ratio of decompressed to compressed size above which a file may be a compression bomb."""
JUMBO_PAYLOAD_BYTES = 8960
"""Largest payload in a 9,000-byte packet; if no SYN announces the MSS, a larger segment is an oversized one."""
ETHERNET_PAYLOAD_BYTES = 1460
"""Largest payload in a 1,500-byte packet: a segment up to this size was not merged by offload."""

# Shares of packets, segments or bytes above which a fault calls for caution, or makes a capture poor. They
# were set by what each share does to the numbers, not measured.
_ANY = 0.0
"""Threshold of a defect that a single case proves: the capture, not the network, caused it."""
_RARE = 0.001
"""Share up to which counts and rates change by less than the displayed digits."""
_LOSS_RATE = 0.01
"""Share of missing packets that would look like a loss rate that limits TCP."""
_VISIBLE = 0.05
"""Share that is visible in a figure; medians of RTT and flight begin to change."""
_TENTH = 0.1
"""Share that makes the first digit of sums over the capture wrong."""
_FIFTH = 0.2
"""Share that makes loss and retransmission rates meaningless."""
_HALF = 0.5
"""Share at which the numbers describe only the smaller part of the capture."""
_NEVER = 2.0
"""A threshold above every share: this defect alone never makes a capture poor."""
_BACK_MS, _FAR_BACK_MS = 10, 1000
"""Thresholds of time steps backwards, ms: queues of a capture reorder packets by less than 10 ms; a second exceeds most
round trips. Not measured."""
_COARSE_MS = 1000
"""Step of the time stamps, ms, from which nothing within a transfer can be told."""


class Severity(IntEnum):
    """The effect of a note on the verdict."""

    MINOR = 0
    CAUTION = 1
    POOR = 2


VERDICTS = ("good", "caution", "poor")
"""The verdict by the worst note: MINOR, CAUTION, POOR."""

_TIMES = ("durations", "rates", "round-trips", "limits")
"""What rests on the times of the packets."""
_AMOUNT = ("bytes", "losses", "limits")
"""What is wrong if packets are missing in the capture."""
AFFECTS: Mapping[str, tuple[str, ...]] = {
    "no-packets": (*_AMOUNT, "durations", "rates", "round-trips"),
    "no-tcp": (*_AMOUNT, "durations", "rates", "round-trips"),
    "stopped": ("bytes", "durations"),
    "little-tcp": ("limits",),
    "damaged-file": _AMOUNT,
    "kernel-drops": _AMOUNT,
    "not-decoded": _AMOUNT,
    "shared-frames": _AMOUNT,
    "ack-of-unseen-data": (*_AMOUNT, "flight"),
    "time-unit": ("durations", "rates", "round-trips"),
    "no-time": _TIMES,
    "one-time": _TIMES,
    "clock-step": _TIMES,
    "coarse-time": ("rates", "round-trips", "limits"),
    "time-backwards": ("round-trips",),
    "negative-rtt": ("round-trips",),
    "ack-before-data": ("round-trips", "flight"),
    "headers-cut": ("windows", "round-trips", "losses", "limits"),
    "missing-syn": ("windows", "round-trips"),
    "one-sided": ("round-trips", "flight", "losses", "limits"),
    "captured-twice": ("losses", "retransmissions"),
    "ip-length-zero": ("bytes",),
    "bad-length": ("bytes", "losses"),
    "fragments": ("losses",),
    "offload": ("segments",),
    "vpn": ("segments", "round-trips", "losses", "retransmissions", "limits"),
    "initiator-assumed": ("initiator",),
    "duplicates-left-out": (),
    "tunnelled": (),
    "link-type": (),
    "compression-bomb": (),
}
"""What each reason makes doubtful, by its code; nothing if the program has corrected it."""


@dataclass(frozen=True, slots=True)
class Note:
    """One reason to distrust a capture."""

    code: str
    """Stable code of the rule."""
    count: int
    """Number of occurrences."""
    sentence: str
    """A sentence that describes the defect and its effect on the numbers."""
    file: str | None = None
    """Path of the file with the defect; None if it concerns the complete capture."""
    severity: Severity = Severity.MINOR
    """Its effect on the verdict."""

    @property
    def affects(self) -> tuple[str, ...]:
        """What it makes doubtful, in the words of `AFFECTS`; empty if the program has corrected it."""
        return AFFECTS[self.code]


@dataclass(frozen=True, slots=True)
class Trust:
    """The verdict on a capture and its reasons, the worst first."""

    verdict: str
    """"good", "caution" or "poor"."""
    notes: list[Note] = field(default_factory=list)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural, "1 packet" or "2 packets"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


_Weighed = tuple[Severity, Note]


class Some(NamedTuple):
    """A number of connections, and their share of the capture."""

    connections: int
    share: float
    """Share of the payload; share of the packets if there is no payload."""


class CaptureFacts(NamedTuple):
    """Numbers on which the trust in a capture depends, from its segments, directions and connections."""

    segments: int
    marked: Mapping[CaptureMark, int]
    """Number of segments with each mark that limits trust."""
    oversized: int
    """Number of data segments that are larger than their receiver accepts (oversized segments)."""
    steps: Sequence[Sequence[int]]
    """Steps of the clock, ns."""
    totals: Mapping[str, int]
    """Sum of each column of DIRECTIONS in `TOTALS`."""
    connections: int
    late: Some
    """Connections without a captured SYN."""
    one_sided: Some
    """Connections of which only one direction was captured, except mere connection attempts."""
    initiator_by: Mapping[Initiator, int]
    """Number of connections for each way in which the initiator was determined."""


TOTALS = (
    "data_segments",
    "capture_duplicates",
    "acks_of_unseen",
    "missing_bytes",
    "unique_bytes",
    "acks_before_data",
    "negative_rtts",
)
"""The columns of DIRECTIONS whose sums are used by the rules."""


def weighed(files: Sequence[SourceFile], seen: CaptureFacts) -> Trust:
    """Return how far a capture can be trusted, from the facts of its files and the counted facts.

    A capture of which nothing was analysed is never good.
    """
    notes = [each for file in files for each in _of_file(file)]
    notes += _of_amount(files, seen.segments)
    if seen.segments:
        notes += [*_of_segments(seen), *_of_directions(seen), *_of_connections(seen)]
    notes.sort(key=lambda each: -each[0])
    verdict = max((severity for severity, _ in notes), default=Severity.MINOR)
    return Trust(VERDICTS[verdict], [replace(note, severity=severity) for severity, note in notes])


def _weigh(share: float, *, caution: float, poor: float) -> Severity:
    """Return the severity of a share (0 to 1).

    It is "poor" from the share `poor` on, "caution" from the share `caution` on, else there is no concern.
    """
    if share >= poor:
        return Severity.POOR
    return Severity.CAUTION if share >= caution else Severity.MINOR


def _of_amount(files: Sequence[SourceFile], analysed: int) -> Iterator[_Weighed]:
    packets = sum(file.packets for file in files)
    if not packets:
        text = "No packet was captured: nothing can be said of any connection."
        yield Severity.CAUTION, Note("no-packets", 0, text)
        return
    if any(file.stopped for file in files):
        read = counted(packets, "packet")
        text = f"Only the first {read} were read, as requested; later packets are missing."
        yield Severity.CAUTION, Note("stopped", packets, text)
    segments = sum(file.protocols.get("tcp", 0) for file in files)
    if not segments and not analysed:
        yield Severity.CAUTION, Note("no-tcp", packets, not_tcp(files))
    elif 0 < segments < _TENTH * packets:
        text = (
            f"Only {segments:,} of {packets:,} packets are TCP: the numbers say nothing of the others, which "
            f"may have filled the same link.{others(files)}"
        )
        yield Severity.MINOR, Note("little-tcp", packets - segments, text)


def _of_file(file: SourceFile) -> Iterator[_Weighed]:
    if file.damaged is not None:
        yield Severity.CAUTION, Note("damaged-file", max(len(file.lost_ranges), 1), _damage(file), file.path)
    yield from _drops(file)
    if file.guessed_unit:
        text = f"{file.guessed_unit[0].upper()}{file.guessed_unit[1:]}."
        yield Severity.CAUTION, Note("time-unit", 1, text, file.path)
    if file.vpn:
        text = (
            f"The packets are those of {file.vpn}'s VPN inside the phone, not those of the radio: it ends each "
            "connection and makes one of its own, so sizes, times, ACKs and retransmissions are the program's."
        )
        yield Severity.CAUTION, Note("vpn", file.packets, text, file.path)
    if file.guessed_link:
        text = f"{file.guessed_link[0].upper()}{file.guessed_link[1:]}."
        yield Severity.MINOR, Note("link-type", 1, text, file.path)
    if file.tunnels:
        yield from _of_tunnels(file)
    if file.duplicates is not None:
        yield Severity.MINOR, Note("duplicates-left-out", file.duplicates.packets, file.duplicates.sentence, file.path)
    yield from _time_of_file(file)
    yield from _grain_of_file(file)
    left_out = sum(file.not_decoded.values())
    if left_out:
        reasons = ", ".join(f"{reason}: {n:,}" for reason, n in file.not_decoded.items())
        text = f"{left_out:,} of {file.packets:,} packets were not decoded ({reasons}); TCP in them is missing."
        severity = _weigh(left_out / file.packets, caution=_LOSS_RATE, poor=_HALF)
        yield severity, Note("not-decoded", left_out, text, file.path)
    ratio = file.expansion_ratio
    if ratio is not None and ratio > SUSPICIOUS_EXPANSION:
        text = f"The compressed file expands {ratio:,.0f} times: it may have been made to exhaust memory."
        yield Severity.CAUTION, Note("compression-bomb", 1, text, file.path)


def _damage(file: SourceFile) -> str:
    if not file.lost_ranges:
        return f"The file is damaged ({file.damaged}); only what lies before the damage was read."
    return f"The file is damaged ({file.damaged}): packets that were captured are missing there, and look lost."


def _of_tunnels(file: SourceFile) -> Iterator[_Weighed]:
    """Yield notes on tunnels with TCP inside, and on packets in them that could not be read."""
    inside = sum(tunnel.tcp_packets for tunnel in file.tunnels.values())
    if inside:
        yield Severity.MINOR, Note("tunnelled", inside, tunnels_sentence(file), file.path)
    if unread := sum(tunnel.unread_packets for tunnel in file.tunnels.values()):
        text = (
            f"{counted(unread, 'further packet')} that shared a frame with another one (QMAP) {_were(unread)} not "
            "read: the packets look lost."
        )
        severity = _weigh(unread / (unread + file.packets), caution=_ANY, poor=_LOSS_RATE)
        yield severity, Note("shared-frames", unread, text, file.path)


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _drops(file: SourceFile) -> Iterator[_Weighed]:
    dropped = sum(interface.dropped_packets or 0 for interface in file.interfaces)
    if dropped:
        text = (
            f"The capturing host dropped {counted(dropped, 'packet')} that were on the wire (its own count): "
            "holes and missing ACKs may be the capture's, not the network's."
        )
        severity = _weigh(dropped / (dropped + file.packets), caution=_ANY, poor=_LOSS_RATE)
        yield severity, Note("kernel-drops", dropped, text, file.path)


def _time_of_file(file: SourceFile) -> Iterator[_Weighed]:
    if file.without_time:
        many = counted(file.without_time, "packet")
        text = f"{many} without a time ({file.untimed}): nothing can be said of their timing."
        severity = _weigh(file.without_time / max(file.packets, 1), caution=_ANY, poor=_LOSS_RATE)
        yield severity, Note("no-time", file.without_time, text, file.path)
    if file.time_steps_back:
        back_ms = file.largest_step_back_ns / NS_PER_MS
        text = (
            f"Time goes back {counted(file.time_steps_back, 'time')}, by up to {back_ms:,.3f} ms: packets "
            "are not in the order of their times; delays shorter than that are uncertain."
        )
        severity = _weigh(back_ms, caution=_BACK_MS, poor=_FAR_BACK_MS)
        yield severity, Note("time-backwards", file.time_steps_back, text, file.path)


_FEWEST_STAMPED = 3
"""Packets from which equal times of all of them are a fault of the stamps, not chance."""
_SHARED_BY = 8
"""Mean number of packets with one time from which the stamps are those of batches: interrupts of fast interfaces group
fewer. Not measured."""
_TICK_SHARED_BY = 2
"""The same, where all times are multiples of a millisecond or more."""
_FEWEST_SHARED = 20
"""Minimum packets with a time before shared times are judged. Not measured."""
_FEWEST_SECONDS = 10
"""Number of different times that are not all whole seconds by chance."""


def _grain_of_file(file: SourceFile) -> Iterator[_Weighed]:
    """Yield a note on time stamps that are coarser than the events between the packets."""
    timed = file.packets - file.without_time
    moments = timed - file.time_repeats
    if timed < _FEWEST_STAMPED or file.first_ns is None or file.last_ns is None:
        return
    if moments <= 1:
        text = (
            f"All {timed:,} packets have the same time: nothing can be said of their timing, neither rates "
            "nor round trips."
        )
        yield Severity.POOR, Note("one-time", timed, text, file.path)
        return
    each, grain_ns = timed / moments, file.time_grain_ns
    is_of_seconds = grain_ns > 0 and grain_ns % NS_PER_S == 0
    step_ms = step_of_stamps_ns(file) / NS_PER_MS
    if not step_ms:
        return
    is_shared = _is_shared(file)
    what = "are whole seconds" if is_of_seconds else f"are the same for some {each:.0f} packets in a row"
    apart = f"{step_ms:,.4g} ms apart" if grain_ns <= 1 else f"in steps of {step_ms:,.4g} ms"
    text = (
        f"The time stamps {what} ({moments:,} different times, {apart}): round trips, gaps and rates within such a "
        "step cannot be told."
    )
    severity = _weigh(step_ms, caution=_ANY, poor=_COARSE_MS if is_shared else np.inf)
    yield severity, Note("coarse-time", moments, text, file.path)


def step_of_stamps_ns(file: SourceFile) -> float:
    """Return the step of a file's time stamps in ns, if it is coarser than the events between packets; else 0."""
    timed = file.packets - file.without_time
    moments, grain_ns = timed - file.time_repeats, file.time_grain_ns
    if timed < _FEWEST_STAMPED or moments <= 1 or file.first_ns is None or file.last_ns is None:
        return 0.0
    is_of_seconds = grain_ns > 0 and grain_ns % NS_PER_S == 0 and moments >= _FEWEST_SECONDS
    if not _is_shared(file) and not is_of_seconds:
        return 0.0
    if grain_ns > 1:
        return float(grain_ns)
    return (file.last_ns - file.first_ns) / (moments - 1)  # of batches: the mean time between them


def _is_shared(file: SourceFile) -> bool:
    """Return whether many packets of a file have the same time as the one before."""
    timed = file.packets - file.without_time
    minimum = _TICK_SHARED_BY if file.time_grain_ns > 1 else _SHARED_BY
    return timed >= _FEWEST_SHARED and timed >= minimum * (timed - file.time_repeats)


MARKED = (
    (
        CaptureMark.HEADER_CUT,
        "headers-cut",
        "were cut within the TCP header (snap length): SACK, timestamps and MSS may be missing.",
        _TENTH,
    ),
    (
        CaptureMark.LENGTH_FROM_CAPTURE,
        "ip-length-zero",
        "have an IP length of 0 (segmentation offload); their payload is taken from the record's length.",
        _NEVER,
    ),
    (
        CaptureMark.BAD_LENGTH,
        "bad-length",
        "have lengths that contradict each other; payload is what is there (IP's if those were overwritten).",
        _TENTH,
    ),
    (
        CaptureMark.FRAGMENT,
        "fragments",
        "are IP fragments; the TCP header is only in the first, and losses of the others cannot be seen.",
        _NEVER,
    ),
)


def _of_segments(seen: CaptureFacts) -> Iterator[_Weighed]:
    for mark, code, says, poor in MARKED:
        if count := seen.marked.get(mark, 0):
            severity = _weigh(count / seen.segments, caution=_RARE, poor=poor)
            yield severity, Note(code, count, f"{count:,} of {seen.segments:,} TCP segments {says}")
    if seen.oversized:
        data = seen.totals["data_segments"]
        text = (
            f"{seen.oversized:,} of {data:,} data segments are larger than their receiver accepts (MSS): an "
            "offload (TSO, GRO) splits or merges them outside the capture; on the wire they were smaller and "
            "more numerous."
        )
        severity = _weigh(seen.oversized / data, caution=_RARE, poor=_NEVER)
        yield severity, Note("offload", seen.oversized, text)
    yield from _steps(seen.steps)


def _steps(steps: Sequence[Sequence[int]]) -> Iterator[_Weighed]:
    if len(steps):
        largest_ns, error_ns = max(steps, key=lambda each: abs(each[0]))
        text = (
            f"The capture's clock stepped {counted(len(steps), 'time')}, by {largest_ns / NS_PER_S:+,.3f} s at most (± "
            f"{duration(error_ns)}, a tick of the TCP timestamps), while the TCP timestamps of a sender ran on: times "
            "before and after cannot be compared."
        )
        yield Severity.POOR, Note("clock-step", len(steps), text)


def _of_directions(seen: CaptureFacts) -> Iterator[_Weighed]:
    packets = seen.segments
    twice = seen.totals["capture_duplicates"]
    if twice:
        text = (
            f"{counted(twice, 'segment')} captured twice (same IP identification). Retransmissions are "
            "counted with such copies, as tshark and tcptrace count them; figures show them apart."
        )
        yield _weigh(twice / packets, caution=_RARE, poor=_FIFTH), Note("captured-twice", twice, text)
    yield from _unseen(seen)
    early = seen.totals["acks_before_data"]
    if early:
        text = (
            f"{counted(early, 'ACK')} captured before the data acknowledged: the file's order is not "
            "the wire's (directions captured or stamped apart); RTT and flight are affected."
        )
        yield _weigh(early / packets, caution=_ANY, poor=_VISIBLE), Note("ack-before-data", early, text)
    negative = seen.totals["negative_rtts"]
    if negative:
        text = (
            f"{counted(negative, 'ACK')} stamped earlier than what was acknowledged (the clock went "
            "back, or two clocks stamped): none below zero is counted, the other round trips are uncertain."
        )
        yield Severity.POOR, Note("negative-rtt", negative, text)


def _unseen(seen: CaptureFacts) -> Iterator[_Weighed]:
    unseen, missing = seen.totals["acks_of_unseen"], seen.totals["missing_bytes"]
    if unseen:
        text = (
            f"{counted(unseen, 'ACK')} of data that is not in the capture ({counted(missing, 'byte')} "
            "missing in between): the capture lost packets that the receiver got."
        )
        share = missing / max(missing + seen.totals["unique_bytes"], 1)
        yield _weigh(share, caution=_ANY, poor=_VISIBLE), Note("ack-of-unseen-data", unseen, text)


def _of_connections(seen: CaptureFacts) -> Iterator[_Weighed]:
    late, one_sided = seen.late, seen.one_sided
    if late.connections:
        text = (
            f"{late.connections:,} of {seen.connections:,} connections show no SYN: they began before the "
            "capture; MSS, window scale and the handshake's round trip are unknown."
        )
        severity = _weigh(late.share, caution=_TENTH, poor=_NEVER)
        yield severity, Note("missing-syn", late.connections, text)
    yield from _assumed(seen)
    if one_sided.connections:
        text = (
            f"{one_sided.connections:,} of {seen.connections:,} connections show one direction only: no "
            "round trips, no true flight, and what was lost cannot be told."
        )
        severity = _weigh(one_sided.share, caution=_TENTH, poor=_NEVER)
        yield severity, Note("one-sided", one_sided.connections, text)


_ASSUMED_BY = {
    Initiator.OTHER_CONNECTIONS: "by other connections to the same server",
    Initiator.PORTS: "by the port numbers",
    Initiator.DATA: "as who sent less data",
    Initiator.FIRST_SENDER: "as who was seen first",
}


def _assumed(seen: CaptureFacts) -> Iterator[_Weighed]:
    counts = {by: seen.initiator_by.get(by, 0) for by in _ASSUMED_BY}
    assumed = sum(counts.values())
    if assumed:
        how = ", ".join(f"{counts[by]:,} {words}" for by, words in _ASSUMED_BY.items() if counts[by])
        text = (
            f"Who began {assumed:,} of {seen.connections:,} connections is assumed ({how}), for neither SYN "
            "nor SYN-ACK was captured: initiator and responder may be the other way round."
        )
        yield Severity.MINOR, Note("initiator-assumed", assumed, text)


@dataclass(slots=True)
class SegmentFacts:
    """Numbers from the segments that trust depends on; a stream counts them, then discards the segments."""

    segments: int = 0
    marked: dict[CaptureMark, int] = field(default_factory=dict)
    """Number of segments with each mark that limits trust."""
    oversized: int = 0
    """Number of data segments that are larger than their receiver accepts."""
    steps: Array = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    """Steps of the clock and the error of each, in ns: int64, shape (n_steps, 2)."""

    def add(self, marks: Array) -> None:
        """Add more segments to the counts; `marks` has the capture marks of each: uint16, shape (n,)."""
        self.segments += len(marks)
        present = int(np.bitwise_or.reduce(marks)) if len(marks) else 0
        for mark, *_ in MARKED:
            if present & mark:
                count = int(np.count_nonzero(marks & np.uint16(mark)))
                self.marked[mark] = self.marked.get(mark, 0) + count


def facts_of(capture: CaptureTables, parts: Partition, directions: Table) -> SegmentFacts:
    """Return the numbers of the segments of a capture that trust depends on."""
    if not len(capture.segments):
        return SegmentFacts()
    count = oversized(capture.segments["payload_bytes"], parts.direction, directions["mss_bytes"])
    facts = SegmentFacts(oversized=count, steps=clock_steps(capture, parts, directions))
    facts.add(capture.segments["marks"])
    return facts


def oversized(payload: Array, direction: Array, mss_bytes: Array) -> int:
    """Return the number of segments that carry more than their receiver accepts (oversized segments).

    Parameters
    ----------
    payload : ndarray of int32, bytes, shape (n_segments,)
    direction : ndarray of integers, shape (n_segments,)
        Index into `mss_bytes`.
    mss_bytes : ndarray of int32, bytes, shape (n_directions,)
        Maximum segment size for each direction, as announced; NA if unknown.
    """
    large = np.flatnonzero(payload > ETHERNET_PAYLOAD_BYTES)
    mss = mss_bytes[direction[large] ^ 1].astype(np.int64)
    limit = np.where(mss == NA, JUMBO_PAYLOAD_BYTES, mss)
    return int(np.count_nonzero(payload[large] > limit))


def trust_of(files: Sequence[SourceFile], facts: SegmentFacts, connections: Table, directions: Table) -> Trust:
    """Return how far a capture can be trusted, from its files, segments, CONNECTIONS and DIRECTIONS."""
    return weighed(files, _seen(facts, connections, directions))


def _seen(facts: SegmentFacts, connections: Table, directions: Table) -> CaptureFacts:
    packets = directions["packets"].reshape(-1, 2)
    answered = packets.min(axis=1) > 0
    attempts = directions["syn"].reshape(-1, 2).sum(axis=1) == packets.sum(axis=1)
    by = np.bincount(connections["initiator_by"], minlength=len(Initiator)).tolist()
    return CaptureFacts(
        segments=facts.segments,
        marked=facts.marked,
        oversized=facts.oversized,
        steps=facts.steps.tolist(),
        totals={name: int(directions[name].sum()) for name in TOTALS},
        connections=len(connections),
        late=_some(directions, ~connections["syn_seen"]),
        one_sided=_some(directions, ~answered & ~attempts),
        initiator_by=dict(zip(Initiator, by, strict=True)),
    )


def _some(directions: Table, chosen: Array) -> Some:
    """Return the number of chosen connections, and their share of the payload of the capture.

    Without any payload, it is their share of the packets.
    """
    carried = directions["payload_bytes"].reshape(-1, 2).sum(axis=1)
    weight = carried if carried.any() else directions["packets"].reshape(-1, 2).sum(axis=1)
    share = float(weight[chosen].sum() / weight.sum()) if chosen.any() else 0.0
    return Some(int(np.count_nonzero(chosen)), share)


# --- steps of the capture's clock ---
#
# They are seen against the clocks of TCP timestamps (RFC 7323, section 5.4). A sender's timestamps run on at
# a constant rate, between 1 Hz and 1 kHz, whatever somebody does to the clock of the capturing host. Between
# two segments of one sender the two clocks must have advanced alike. How fast a sender's timestamps tick is
# known by the time and the ticks between its segments.

SMALLEST_STEP_NS = NS_PER_S // 2
"""Minimum clock step, ns; smaller ones are left to the rule `time_steps_back`, because ticks are coarse and hosts set
timestamps before queueing."""
MIN_SEGMENTS = 20  # with fewer a rate of ticks is not known well. Not measured
_MIN_CALM = 10
"""Minimum number of segments without a long gap before them, to measure the rate of the ticks."""
_LARGEST_SKEW = 0.01  # part of the time: far above the skew of any clock. Not measured
_TYPICAL_RATES_HZ = (1, 2, 10, 100, 250, 300, 500, 1000)
"""Typical rates: Linux ticks each ms, older kernels HZ times a second, others each 10, 100 or 500 ms."""
_NO_STEPS: Array = np.empty((0, 2), dtype=np.int64)
"""No steps: a step and its error have a row each."""
_QUEUE_SKEW = 0.1  # part of a usual rate: a queue that grows stretches the measured one. Not measured


class StampRate(NamedTuple):
    """The measured clock of a sender's timestamps."""

    measured_hz: float
    nominal_hz: int
    """The nearest typical rate, Hz."""

    @property
    def limits(self) -> dict[str, float]:
        """Return the maximum difference between capture time and ticks for two segments, by kind of limit.

        A larger difference means a clock step.
        """
        return {
            "tick_ns": NS_PER_S / self.nominal_hz,
            "min_ns": SMALLEST_STEP_NS,
            "skew": _LARGEST_SKEW,
            "resolution_ns": 2 * NS_PER_S / self.measured_hz,
        }


def stamp_rate(calm: int, spent_ns: int, ticked: int) -> StampRate | None:
    """Return the rate of a sender's timestamp clock; None if too few gaps or no typical rate fit.

    The rate is measured in gaps between segments that are too short to contain a clock step.

    Parameters
    ----------
    calm : int
        Number of such gaps.
    spent_ns, ticked : int
        Their total time, and their total ticks.
    """
    rate_hz = ticked * NS_PER_S / spent_ns if spent_ns > 0 else 0.0
    nominal = _nominal(rate_hz)
    return None if calm < _MIN_CALM or nominal is None else StampRate(rate_hz, nominal)


def _nominal(rate_hz: float) -> int | None:
    """Return the typical rate of timestamp clocks nearest to the measured one, Hz; None if none is near.

    Queues make the measured rate too low or too high. In short gaps of aggregated arrivals, ticks seem to run
    fast: 2 Hz looks like 3.1 Hz.
    """
    nearest = min(_TYPICAL_RATES_HZ, key=lambda typical: abs(typical - rate_hz))
    return nearest if abs(nearest - rate_hz) < _QUEUE_SKEW * nearest else None


_AT_ONCE = 1 << 16
"""Number of segments processed together, to bound the memory for a long transfer."""


class StampedGaps(Protocol):
    """Gaps between consecutive segments of one sender, each with its capture time and its timestamp ticks."""

    def calm(self) -> tuple[int, int, int]:
        """Return three sums over the gaps that are too short to contain a clock step.

        They are the number of these gaps, their total time in ns, and their total ticks.
        """

    def unexpected(self, limits: dict[str, float]) -> Array:
        """Return the indexes of gaps whose time and ticks differ by more than `limits`: int64, ascending."""

    def each(self) -> Iterator[tuple[Array, Array]]:
        """Yield, in blocks, two arrays: the times of the gaps in ns, and their ticks; both int64."""


def clock_steps(capture: CaptureTables, parts: Partition, directions: Table) -> Array:
    """Return the steps of the capture's clock, found in the timestamps of the senders with most segments.

    The error of each is a tick of these timestamps.

    We assume that a step shows in the timestamps of both hosts of a connection, and that a change in only one
    of them comes from a queue.

    Returns
    -------
    ndarray of int64, ns, shape (n_steps, 2)
        Step, below 0 if the clock stepped backwards, and error; empty if no step was found.
    """
    return steps_by(directions, _idle_gaps_in(capture, parts))


def steps_by(directions: Table, idle_gaps: Callable[[int], StampedGaps]) -> Array:
    """Return the clock steps as `clock_steps` does, with the gaps from a given function.

    Parameters
    ----------
    directions : Table
        DIRECTIONS of a capture.
    idle_gaps : callable
        Returns the gaps between the segments with timestamps of a direction.
    """
    busiest, packets = busiest_sender(directions)
    if packets < MIN_SEGMENTS:
        return _NO_STEPS
    return _steps_of(directions, idle_gaps, busiest)


def busiest_sender(directions: Table) -> tuple[int, int]:
    """Return the direction that sent most segments, of those with timestamps, and this number.

    The number is 0 if no direction has timestamps.
    """
    packets = np.where(directions["timestamps"], directions["packets"], 0)
    busiest = int(np.argmax(packets)) if len(packets) else 0
    return busiest, int(packets[busiest]) if len(packets) else 0


def steps_of(capture: CaptureTables, parts: Partition, directions: Table, direction: int) -> Array:
    """Return the clock steps that the timestamps of both hosts of a connection show, as `clock_steps` does.

    `direction` is one of the two directions of the connection.
    """
    return _steps_of(directions, _idle_gaps_in(capture, parts), direction)


class ClockStep(NamedTuple):
    """One step of the capture's clock: it lies between two segments of one sender."""

    before_row: int
    """Row in SEGMENTS of the last segment before it."""
    after_row: int
    step_ns: int
    """Below 0 if the clock stepped backwards."""


def steps_between(capture: CaptureTables, parts: Partition, directions: Table) -> list[ClockStep]:
    """Return where the steps of `clock_steps` lie, in the order of the capture."""
    busiest, packets = busiest_sender(directions)
    if packets < MIN_SEGMENTS:
        return []
    by_sender = []
    for direction in (busiest, busiest ^ 1):
        rows = parts.rows_sent(direction)
        rows = rows[is_stamped(rows, capture)]
        gaps = SegmentGaps(*stamps_of(rows, capture))
        if len(rows) >= MIN_SEGMENTS and (steps := _lasting_in(gaps)) is not None:
            by_sender.append([ClockStep(int(rows[at]), int(rows[at + 1]), int(step)) for at, step, _ in steps])
    return min(by_sender, key=len, default=[])


def _idle_gaps_in(capture: CaptureTables, parts: Partition) -> Callable[[int], StampedGaps]:
    return lambda direction: SegmentGaps(*stamps_of(parts.rows_sent(direction), capture))


def _steps_of(directions: Table, idle_gaps: Callable[[int], StampedGaps], direction: int) -> Array:
    packets = np.where(directions["timestamps"], directions["packets"], 0)
    senders = [d for d in (direction, direction ^ 1) if packets[d] >= MIN_SEGMENTS]
    by_sender = [steps for d in senders if (steps := _seen_by(idle_gaps(d))) is not None]
    return min(by_sender, key=len, default=_NO_STEPS)


def _seen_by(idle_gaps: StampedGaps) -> Array | None:
    """Return the steps that the timestamps of one direction show, and errors; None if their rate is not known."""
    steps = _lasting_in(idle_gaps)
    return None if steps is None else steps[:, 1:]


def _lasting_in(idle_gaps: StampedGaps) -> Array | None:
    """Return the gap, the size and the error of each step: int64, shape (n_steps, 3); None without a known rate.

    At a step, the capture time differs from the ticks by more than rate and resolution explain.
    """
    rate = stamp_rate(*idle_gaps.calm())
    if rate is None:
        return None
    limits = rate.limits
    at = idle_gaps.unexpected(limits)
    if not len(at):
        return np.empty((0, 3), dtype=np.int64)
    differs = np.concatenate([elapsed - ticks * limits["tick_ns"] for elapsed, ticks in idle_gaps.each()])
    at = at[_is_lasting(differs, at)]
    return np.stack([at, differs[at], np.full(len(at), limits["tick_ns"])], axis=1).astype(np.int64)


@dataclass(frozen=True)
class SegmentGaps:
    """The gaps between segments with known times and timestamps."""

    time_ns: Array
    stamp: Array

    def calm(self) -> tuple[int, int, int]:
        """Return the result of `StampedGaps.calm`."""
        calm = spent = ticked = 0
        for elapsed, ticks in self.each():
            short = np.abs(elapsed) < SMALLEST_STEP_NS
            calm += int(np.count_nonzero(short))
            spent, ticked = spent + int(elapsed[short].sum()), ticked + int(ticks[short].sum())
        return calm, spent, ticked

    def unexpected(self, limits: dict[str, float]) -> Array:
        """Return the result of `StampedGaps.unexpected`."""
        at = [np.empty(0, dtype=np.int64)]
        for number, (elapsed, ticks) in enumerate(self.each()):
            expected = ticks * limits["tick_ns"]
            bound = limits["min_ns"] + limits["skew"] * np.abs(expected) + limits["resolution_ns"]
            step = (np.abs(elapsed - expected) > bound) & (ticks >= 0)
            at.append(np.flatnonzero(step) + number * _AT_ONCE)
        return np.concatenate(at)

    def each(self) -> Iterator[tuple[Array, Array]]:
        """Yield the items of `StampedGaps.each`."""
        for begin in range(0, len(self.time_ns) - 1, _AT_ONCE):
            here = slice(begin, begin + _AT_ONCE + 1)
            yield np.diff(self.time_ns[here]), np.diff(self.stamp[here]).view(np.int32).astype(np.int64)


def _is_lasting(differs: Array, at: Array) -> Array:
    """Return which time jumps are lasting: the minimum delay changes by the same time.

    `differs` has the difference of capture time and ticks in each gap, `at` the gaps of the jumps. A queue
    that fills or drains delays segments only for some time; its minimum delay does not change.
    """
    offset = np.concatenate([[0.0], np.cumsum(differs)])
    minimum = np.minimum.reduceat(offset, np.concatenate([[0], at + 1]))
    return np.asarray(np.abs(np.diff(minimum) - differs[at]) < np.abs(differs[at]) / 2)
