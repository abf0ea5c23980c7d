"""What limited a QUIC transfer, from what shows it: packets that keys open, a qlog, or sealed datagrams.

With frames the rules are those of TCP, asked of the connection in the form of segments (`analysis.quic`); a qlog of the
sender adds its congestion window. Without keys two captures still show each datagram's loss and delay, so the link, an
outage and the handshake can be told; what else held data back is `unknown`, and the answer says so. One sealed capture
shows the handshake and rates only.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.quic import as_segments, full_sizes, sent_packets
from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.limits.names import Confidence, Limit, LimitSubtype, Viewpoint, direction_of
from multitracer.logs import HostLog, ParsedLog, Point
from multitracer.protocols.quic import FrameType, Parameter, Space
from multitracer.recording.inputs import Inputs
from multitracer.recording.quic import add_windows, matched, relation_of, version_words
from multitracer.recording.recording import Recording
from multitracer.schemas.sender import TCP_STATE
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S
from multitracer.words import count, duration, percent, rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.analysis.quic import Places
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.names import LimitShare
    from multitracer.recording.quic import QuicPath, QuicView
    from multitracer.tables import Array, Document, Mask, Numbers, Times

SCHEMA = "multitracer.diagnose/2"
_DIGITS = 6  # microseconds, as for TCP
SEALED, SEALED_BOTH = "sealed", "both-ends-sealed"
WOULD_TELL = "the keys of the connection (SSLKEYLOGFILE, --keylog) or a qlog of the sender would tell"
_CANNOT_TELL = (
    "without keys a full congestion window, the flow control of the receiver, the repair of losses and a program that "
    f"sends nothing look alike; {WOULD_TELL}"
)
_WHY_UNKNOWN = {
    Viewpoint.RECEIVER.label: (
        "at the receiver a full congestion window, the repair of losses and a program that sends nothing look alike; "
        "the sender's capture with keys, or its qlog, would tell"
    ),
    **dict.fromkeys(
        (Viewpoint.SENDER.label, Viewpoint.BOTH_ENDS.label),
        "packets show neither the send buffer nor the congestion window of the sender; its qlog would tell",
    ),
    Viewpoint.SENDER_STATE.label: "the qlog of its sender has no firm evidence for one limit",
}
_KINDS = frozenset({
    "congestion-loss", "random-loss", "link-limited", "bufferbloat", "outage", "blackout", "policer",
    "slow-start-limited", "application-limited", "server-think-time", "client-think-time",
})  # fmt: skip
"""Findings of TCP that are about any transport."""
_OF_TCP = ("TCP", "SO_", "tcp_", "Nagle", "SYN")
"""Words that no sentence about QUIC has."""
_FULL_SHARE = 0.5
"""Share of a limit's time in which a full congestion window confirms it, or an open one contradicts it."""
_WORTH_SAYING = 0.1  # of T: smaller limits are in the table only
_NEVER_MEASURED = (Limit.APPLICATION, Limit.SENDER_BUFFER)
"""A QUIC sender paces in its program: that it sends nothing is no proof that it has nothing."""
_NOUNS = {
    Limit.HANDSHAKE: "the handshake", Limit.OUTAGE: "an outage of the path", Limit.LINK: "the link",
    Limit.RECOVERY: "the repair of lost packets", Limit.RECEIVER_WINDOW: "flow control of the receiver",
    Limit.SENDER_BUFFER: "the send buffer or the congestion window", Limit.APPLICATION: "the sending program",
    Limit.SLOW_START: "slow start", Limit.CONGESTION_WINDOW: "the congestion window",
    Limit.UNKNOWN: "something that is not known",
}  # fmt: skip
_HELPS = {
    Limit.HANDSHAKE: "a server that answers sooner, a shorter path, or fewer new connections (0-RTT, resumption)",
    Limit.OUTAGE: "finding the part of the path that failed: the log of its router or modem shows why",
    Limit.LINK: "a faster link, or less other traffic on it",
    Limit.RECOVERY: "less loss: check the radio signal and the drop counters of the queue",
    Limit.RECEIVER_WINDOW: (
        "larger limits of flow control at the receiver (initial_max_data, initial_max_stream_data), raised sooner; or "
        "a receiving program that reads sooner"
    ),
    Limit.SENDER_BUFFER: "a qlog of the sender shows whether its buffer or its congestion window was full",
    Limit.APPLICATION: "a program that writes more, or sooner; requests at the same time",
    Limit.SLOW_START: "connections that are kept open, or a larger initial congestion window",
    Limit.CONGESTION_WINDOW: "less loss, or another congestion control",
    Limit.UNKNOWN: WOULD_TELL,
}
_PARTS = {LimitSubtype.NAGLE: LimitSubtype.WRITES}
"""Parts that QUIC has not, and what they are there."""


class QuicRow(NamedTuple):
    """The time of one limit, as a row of the answer."""

    limit: Limit
    part: str | None
    seconds: float
    share: float
    share_low: float
    share_high: float
    confidence: Confidence
    reverse: bool

    def document(self) -> Document:
        """Return the row as `diagnose --json` writes it."""
        return {
            "limit": self.limit.label,
            "part": self.part,
            "direction": direction_of(reverse=self.reverse),
            "seconds": round(self.seconds, _DIGITS),
            "share": round(self.share, _DIGITS),
            "share_low": round(self.share_low, _DIGITS),
            "share_high": round(self.share_high, _DIGITS),
            "confidence": self.confidence.label,
            "cause": None,
            "causes": {},
        }


Cell = tuple[int, int, Limit, "str | None", Confidence, bool]
"""Begin, end, limit, part, confidence and direction of an interval."""
_NOT_OUTAGE = frozenset(Limit) - {Limit.HANDSHAKE}
_WINDOWS = frozenset({Limit.CONGESTION_WINDOW, Limit.SLOW_START, Limit.SENDER_BUFFER})


class QuicFinding(NamedTuple):
    """One thing that happened to a QUIC transfer."""

    kind: str
    begin_ns: int
    end_ns: int
    cost_s: float
    sentence: str
    help: str = ""
    numbers: dict[str, float] = {}  # noqa: RUF012  # never changed
    reverse: bool = False


@dataclass
class QuicDiagnosis:
    """The answer for one QUIC connection."""

    path: QuicPath
    view: str
    """both-ends, sender-state, sender, receiver, both-ends-sealed, sealed."""
    reverse: bool
    """Whose data: False the client's, True the server's."""
    rows: list[QuicRow]
    total_s: float
    begin_ns: int
    findings: list[QuicFinding]
    known: list[str]
    """Sentences on what else is known."""
    facts: Document = field(default_factory=dict)
    """Numbers of the connection for `--json`."""
    rate_bps: float | None = None
    """Rate of the link while it was the limit."""
    trust: Document | None = None
    cells: list[Cell] = field(default_factory=list)
    """Begin, end, limit, part, confidence and direction of each interval."""

    @cached_property
    def by_limit(self) -> dict[Limit, float]:
        """Share of each limit, the largest first."""
        sums: dict[Limit, float] = {}
        for row in self.rows:
            sums[row.limit] = sums.get(row.limit, 0.0) + row.share
        return dict(sorted(sums.items(), key=lambda each: -each[1]))

    @property
    def main(self) -> QuicRow:
        """The largest row of the largest limit."""
        first = next(iter(self.by_limit))
        return max((row for row in self.rows if row.limit is first), key=lambda row: row.seconds)

    @cached_property
    def sentence(self) -> str:
        """The first sentence: what limited the transfer, for what share of its time, how sure."""
        main, share = self.main, self.by_limit[self.main.limit]
        how = f"{percent(share)} of {duration(self.total_s * NS_PER_S)}"
        if main.limit is Limit.UNKNOWN:
            words = f"It is not known what limited the transfer for {how}: {_WHY_UNKNOWN.get(self.view, _CANNOT_TELL)}."
        else:
            noun = _NOUNS[main.limit]
            most = "Mostly " if share > _FULL_SHARE else "The largest limit was "
            at = f", at {rate(self.rate_bps)}" if main.limit is Limit.LINK and self.rate_bps else ""
            words = f"{most}{noun}{self._which(main)}{at}: {how} (confidence: {main.confidence.label})."
        for limit, part in list(self.by_limit.items())[1:]:
            if part >= _WORTH_SAYING:
                who = (
                    "What limited it is not known"
                    if limit is Limit.UNKNOWN
                    else f"{_upper(_NOUNS[limit])} was the limit"
                )
                words += f" {who} for {percent(part)}."
        return words

    def _which(self, row: QuicRow) -> str:
        if row.limit is Limit.RECEIVER_WINDOW and row.part in ("connection", "stream"):
            return f", whose limit of the {row.part} left less than a packet"
        if row.limit is Limit.APPLICATION and row.part == LimitSubtype.PEER.label:
            return ", which waited for the other end"
        return ""

    @property
    def help(self) -> str:
        """What would help against the largest limit, and against others of a tenth of the time or more."""
        limits = [limit for limit, share in self.by_limit.items() if share >= _WORTH_SAYING] or [self.main.limit]
        return "; ".join(dict.fromkeys(_HELPS[limit] for limit in limits))

    @property
    def ends(self) -> tuple[str, str]:
        """Who sent the data, and who received them: HOST:PORT."""
        ends = self.path.ends
        client, server = (each if port else name for each, port, name in (
            (ends.source, ends.sport, "client"), (ends.destination, ends.dport, "server")))  # fmt: skip
        return (server, client) if self.reverse else (client, server)

    def overlay(
        self, spans: Sequence[tuple[int, int]], limit: Limit, part: str | None, sure: Confidence, over: frozenset[Limit]
    ) -> None:
        """Put a limit into some spans, in the place of certain others, and count the shares again."""
        cells: list[Cell] = []
        for cell in self.cells:
            inside = [
                (max(low, cell[0]), min(high, cell[1])) for low, high in spans if low < cell[1] and high > cell[0]
            ]
            at = cell[0]
            for low, high in inside if cell[2] in over else ():
                if low > at:
                    cells.append((at, low, *cell[2:]))
                cells.append((low, high, limit, part, sure, self.reverse))
                at = high
            if at < cell[1]:
                cells.append((at, *cell[1:]))
        if cells != self.cells:
            self._set(cells)

    def _set(self, cells: list[Cell]) -> None:
        self.cells = cells
        sums: dict[tuple[Limit, str | None, bool], list[float]] = {}
        confidence: dict[tuple[Limit, str | None, bool], Confidence] = {}
        for low, high, limit, part, sure, way in cells:
            key = limit, part, way
            sums.setdefault(key, []).append((high - low) / NS_PER_S)
            confidence[key] = max(sure, confidence.get(key, sure))
        total = max(sum(map(sum, sums.values())), 1e-12)
        known = {(row.limit, row.part, row.reverse): row.confidence for row in self.rows}
        rows = []
        for key, seconds in sums.items():
            share, sure = sum(seconds) / total, known.get(key, confidence[key])
            firm = share if sure is not Confidence.WEAK else 0.0
            rows.append(QuicRow(key[0], key[1], sum(seconds), share, firm, share, sure, key[2]))
        self.rows = sorted(rows, key=lambda row: -row.seconds)
        self.__dict__.pop("by_limit", None)
        self.__dict__.pop("sentence", None)

    def document(self, *, intervals: bool = False) -> Document:
        """Return what `diagnose --json` writes."""
        main, sender, receiver = self.main, *self.ends
        listed = {"intervals": list(self._intervals())} if intervals else {}
        findings = [self._finding(each) for each in self.findings]
        kept = ("kind", "direction", "begin_ns", "end_ns", "begin_s", "end_s", "cost_s", "sentence", "help")
        return {
            "connection": self.path.number,
            "transport": "quic",
            "sender": sender,
            "receiver": receiver,
            "duplicates": [],
            "schema": SCHEMA,
            "trust": self.trust,
            "headline": {
                "limit": main.limit.label,
                "part": main.part,
                "direction": direction_of(reverse=main.reverse),
                "share": round(self.by_limit[main.limit], _DIGITS),
                "confidence": main.confidence.label,
                "sentence": self.sentence,
                "help": self.help,
                "cause": None,
            },
            "view": self.view,
            "limits_total_s": round(self.total_s, _DIGITS),
            "limits": [row.document() for row in self.rows],
            **listed,
            "group": {
                "connections": [self.path.number],
                "multipath": [],
                "total_s": round(self.total_s, _DIGITS),
                "limits": [
                    {
                        name: row.document()[name]
                        for name in ("limit", "part", "direction", "seconds", "share", "confidence")
                    }
                    for row in self.rows
                ],
                "chain": [],
            },
            "incidents": [
                {**{name: each[name] for name in kept}, "count": 1, "parts": [place], "cause": None}
                for place, each in enumerate(findings)
            ],
            "findings": findings,
            "account": dict.fromkeys(_ACCOUNT),
            "quic": {**self.facts, "known": self.known},
        }

    def _finding(self, each: QuicFinding) -> Document:
        return {
            "kind": each.kind,
            "direction": direction_of(reverse=each.reverse),
            "begin_ns": each.begin_ns,
            "end_ns": each.end_ns,
            "begin_s": round((each.begin_ns - self.begin_ns) / NS_PER_S, _DIGITS),
            "end_s": round((each.end_ns - self.begin_ns) / NS_PER_S, _DIGITS),
            "cost_s": round(each.cost_s, _DIGITS),
            "cost_bytes": None,
            "evidence": [],
            "sentence": each.sentence,
            "help": each.help,
            "numbers": {name: round(float(value), _DIGITS) for name, value in each.numbers.items()},
        }

    def _intervals(self) -> Iterator[Document]:
        for begin, end, limit, part, confidence, reverse in self.cells:
            yield {
                "begin_ns": begin,
                "end_ns": end,
                "begin_s": round((begin - self.begin_ns) / NS_PER_S, _DIGITS),
                "end_s": round((end - self.begin_ns) / NS_PER_S, _DIGITS),
                "limit": limit.label,
                "part": part,
                "direction": direction_of(reverse=reverse),
                "confidence": confidence.label,
                "evidence": [],
                "cause": None,
            }


_ACCOUNT = (
    "total_s", "utilization", "utilization_rounded_up_pct", "outcome", "inferred", "payload_bytes", "seconds",
)  # fmt: skip


def _upper(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"


def explain_quic(recording: Recording, path: QuicPath, *, reverse: bool | None = None) -> QuicDiagnosis:
    """Return what limited a QUIC connection, by the best of what shows it.

    Parameters
    ----------
    recording : Recording
    path : QuicPath
    reverse : bool, optional
        Whose data: False the client's, True the server's; by default those of the direction with more bytes.
    """
    way = path.reverse if reverse is None else reverse
    read = [view for view in path.captures if view.is_read]
    qlog = next((each for each in path.qlogs if each.known.is_server == way), None)
    if len(read) >= 2:
        answer = _by_frames(path, read[:2], qlog, reverse=way)
    elif qlog is not None:
        answer = _by_frames(path, [qlog], qlog, reverse=way)
    elif read:
        answer = _by_frames(path, read, None, reverse=way)
    elif path.qlogs:
        answer = _by_frames(path, path.qlogs[:1], None, reverse=way)
    elif len(path.captures) >= 2:
        answer = _by_datagrams(path, reverse=way)
    else:
        answer = _by_one(path, reverse=way)
    answer.facts = _facts(path, answer)
    answer.trust = recording.trust_document()
    return answer


# --- by frames: the rules of TCP ---


def _by_frames(path: QuicPath, views: Sequence[QuicView], qlog: QuicView | None, *, reverse: bool) -> QuicDiagnosis:
    """Return the answer from views whose frames are known; the sender's first, its qlog with its state."""
    views = sorted(views, key=lambda view: _is_near_client(path, view) == reverse)
    limits = _limits(path)
    places: tuple[Places, Places] | None = None
    inputs = Inputs("quic", [], [])
    recording = Recording(inputs)
    for view in views:
        image = as_segments(view.known, name=view.host, limits=limits, places=places)
        places = image.places
        point = Point(view.host, (view.host,))
        inputs.points.append(point)
        recording.add(point, image.tables)
    if qlog is not None and len(qlog.known.state.get("time_ns", ())):
        _add_state(recording, inputs, qlog, views[0], reverse=reverse)
    if not len(recording):
        return _by_one(path, reverse=reverse)
    diagnosis = explain(recording, 1, reverse=None)
    seen = diagnosis.limited
    way = diagnosis.transfer.reverse
    state = qlog if qlog is not None and way == reverse else None
    rows = [_row(path, views[0], state, seen, each) for each in seen.shares]
    collected = list(_findings(diagnosis, views[0]))
    answer = QuicDiagnosis(path, _view_of(seen, state), way, rows, seen.total_s, seen.begin_ns, collected, [])
    answer.rate_bps = None if seen.link_rate is None else seen.link_rate.median * BITS_PER_BYTE
    parts = {(each.limit, each.part, each.reverse): row.part for each, row in zip(seen.shares, rows, strict=True)}
    answer.cells = [
        (begin, end, Limit(limit), parts[Limit(limit), LimitSubtype(part), bool(back)], Confidence(sure), bool(back))
        for begin, end, limit, part, sure, back in zip(
            *(column.tolist() for column in (seen.cells.begin, seen.cells.end, seen.cells.limit, seen.cells.part,
              seen.confidence, seen.is_reverse)), strict=True)
    ]  # fmt: skip
    _refine(answer, seen, state, views[0])
    main = answer.main
    if main.confidence is Confidence.WEAK and answer.by_limit[main.limit] < _FULL_SHARE:
        _make_unknown(answer)
    return answer


def _make_unknown(answer: QuicDiagnosis) -> None:
    """Let all that is weak be unknown: less than half of the time by weak evidence is a guess."""
    weak = frozenset(row.limit for row in answer.rows if row.confidence is Confidence.WEAK)
    answer.overlay(
        [(answer.cells[0][0], answer.cells[-1][1])] if answer.cells else [], Limit.UNKNOWN, None, Confidence.WEAK, weak
    )


def _refine(answer: QuicDiagnosis, seen: Limited, state: QuicView | None, view: QuicView) -> None:
    """Correct the rules of TCP by facts of QUIC: datagrams at both ends, packet numbers, the sender's state."""
    path, way = answer.path, answer.reverse
    if len(path.captures) >= 2:  # each datagram's fate and delay is a fact
        kept = [each for each in answer.findings if each.kind not in ("congestion-loss", "random-loss", "policer")]
        server, client = path.captures[1], path.captures[0]
        near, far = (server, client) if way else (client, server)
        data, back = _datagrams(near, far, reverse=way), _datagrams(far, near, reverse=not way)
        answer.findings = kept + ([] if data is None else list(_sealed_findings(data, reverse=way)))
        if data is not None and back is not None and seen.view is Viewpoint.BOTH_ENDS and not data.is_lost.all():
            spans = _outages(data, back, _trip_ns(data, back))
            answer.overlay(spans, Limit.OUTAGE, None, Confidence.MEASURED, _NOT_OUTAGE)
    elif seen.view is Viewpoint.RECEIVER:
        _only_shown(answer, view, 0.0 if seen.seen is None else float(seen.seen.floor_ns))
        return
    else:
        answer.overlay(_unanswered_gaps(view, reverse=way), Limit.OUTAGE, None, Confidence.INFERRED, _NOT_OUTAGE)
    if state is not None:
        spans = _open_windows(state, [(cell[0], cell[1]) for cell in answer.cells])
        answer.overlay(spans, Limit.APPLICATION, LimitSubtype.WRITES.label, Confidence.INFERRED, _WINDOWS)
    else:  # a full send buffer and a full congestion window look alike
        everything = [(answer.cells[0][0], answer.cells[-1][1])] if answer.cells else []
        answer.overlay(everything, Limit.UNKNOWN, None, Confidence.WEAK, frozenset({Limit.SENDER_BUFFER}))
    if seen.reason:
        answer.known.append(f"Unknown in part: {seen.reason}.")


def _view_of(seen: Limited, state: QuicView | None) -> str:
    if state is not None and seen.view is Viewpoint.SENDER:
        return Viewpoint.SENDER_STATE.label
    return seen.view.label


def _is_near_client(path: QuicPath, view: QuicView) -> bool:
    """Return whether a view is the client's: of a capture, that the server's answer came after a whole round trip."""
    if view.is_near_client is not None:
        return view.is_near_client
    others = [each for each in path.captures if each is not view]
    if others:
        return view is path.captures[0]
    known = view.known
    trips = []
    for way in (False, True):
        sent = sent_packets(known, reverse=way)
        samples = sent.rtt_ns[sent.rtt_ns > 0]
        trips.append(float(np.median(samples)) if len(samples) else 0.0)
    return trips[0] > trips[1]


def _limits(path: QuicPath) -> tuple[dict[int, int], dict[int, int]]:
    """Return the transport parameters of client and server that anything shows."""
    client: dict[int, int] = {}
    server: dict[int, int] = {}
    for view in path.views:
        client |= view.known.hello.parameters
        server |= view.known.chosen.parameters
    return client, server


def _add_state(recording: Recording, inputs: Inputs, qlog: QuicView, view: QuicView, *, reverse: bool) -> None:
    """Add the state of a qlog to a recording as the variables of its sender."""
    state = qlog.known.state
    row = np.flatnonzero((state["event"] == "metrics") & (state["time_ns"] != NOT_A_TIME))
    if not len(row):
        return
    flow = recording.captures[0].tables.flows
    ends = ("b", "a") if reverse else ("a", "b")
    count_ = len(row)
    mss = recording.captures[0].tables.syn_options["mss_bytes"]
    columns: dict[str, Array] = {}
    for column in TCP_STATE:
        missing = NOT_A_TIME if column.unit.startswith("ns") else NA
        columns[column.name] = (
            np.full(count_, missing if np.dtype(column.dtype).kind == "i" else 0, column.dtype)
            if (np.dtype(column.dtype).kind in "iu")
            else np.zeros(count_, column.dtype)
        )
    time_ns = state["time_ns"][row]
    columns |= {
        "time_ns": time_ns,
        "read_before_ns": time_ns,
        "read_after_ns": time_ns,
        "ip_version": np.full(count_, flow["ip_version"][0], np.uint8),
        "address_local": np.repeat(flow[f"address_{ends[0]}"][:1], count_),
        "address_remote": np.repeat(flow[f"address_{ends[1]}"][:1], count_),
        "port_local": np.full(count_, flow[f"port_{ends[0]}"][0], np.uint16),
        "port_remote": np.full(count_, flow[f"port_{ends[1]}"][0], np.uint16),
        "snd_mss_bytes": np.full(count_, int(mss[-1]) if len(mss) else 1200, np.int64),
    }
    for name in ("cwnd_bytes", "ssthresh_bytes", "flight_bytes", "srtt_ns", "rttvar_ns", "min_rtt_ns"):
        columns[name] = _held(state[name], NOT_A_TIME if name.endswith("_ns") else NA)[row]
    log = HostLog(view.host, qlog.host, "qlog", "tcp")
    inputs.listed.append(log)
    recording._logs["tcp"] = [ParsedLog(log, {"tcp_state": Table(TCP_STATE, columns)})]  # of our own making


def _held(values: Array, missing: int) -> Array:
    """Return values in which a missing one is the last known: qlog writes only what changed."""
    place = np.where(values != missing, np.arange(len(values)), -1)
    last = np.maximum.accumulate(place) if len(place) else place
    return np.where(last >= 0, values[np.maximum(last, 0)], missing)


def _row(path: QuicPath, view: QuicView, state: QuicView | None, seen: Limited, each: LimitShare) -> QuicRow:
    sure = each.confidence
    if state is not None and each.limit in (Limit.CONGESTION_WINDOW, Limit.SLOW_START) and each.share > 0.02:
        mine = seen.cells.limit == each.limit
        full = _full_share(state, seen.cells.begin[mine], seen.cells.end[mine])
        if full is not None:
            sure = Confidence.MEASURED if full >= _FULL_SHARE else Confidence.WEAK
    if each.limit is Limit.OUTAGE and seen.view is not Viewpoint.BOTH_ENDS and sure is Confidence.MEASURED:
        sure = Confidence.INFERRED
    if each.limit in _NEVER_MEASURED and sure is Confidence.MEASURED:
        sure = Confidence.INFERRED
    part = _part(view, each.limit, each.part, reverse=each.reverse)
    low = each.share if sure is Confidence.MEASURED else each.share_low
    return QuicRow(each.limit, part, each.seconds, each.share, low, each.share_high, sure, each.reverse)


def _part(view: QuicView, limit: Limit, part: LimitSubtype, *, reverse: bool) -> str | None:
    if limit is Limit.RECEIVER_WINDOW:
        return _narrower(view, reverse=reverse)
    part = _PARTS.get(part, part)
    return part.label if part else None


def _full_share(state: QuicView, begin: Times, end: Times) -> float | None:
    """Return the share of some intervals in whose round trips the congestion window was full; None if not known."""
    columns = state.known.state
    cwnd, flight = (_held(columns[name], NA) for name in ("cwnd_bytes", "flight_bytes"))
    time_ns, packet = columns["time_ns"], 1500
    known = np.flatnonzero((cwnd > 0) & (flight >= 0) & (columns["event"] == "metrics"))
    if len(known) < 2:
        return None
    is_full = flight[known] + packet > cwnd[known]
    srtt = _held(columns["srtt_ns"], NOT_A_TIME)[known]
    reach = np.where(srtt > 0, srtt, 50 * NS_PER_MS)
    full_ns, total, inside = time_ns[known][is_full], 0, 0.0
    for low, high in zip(begin.tolist(), end.tolist(), strict=True):
        steps = np.linspace(low, high, 16)
        wide = float(np.median(reach))
        near = np.searchsorted(full_ns, steps + wide) - np.searchsorted(full_ns, steps - wide)
        total += high - low
        inside += (high - low) * float(np.count_nonzero(near) / len(steps))
    return inside / total if total else None


def _open_windows(state: QuicView, cells: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return when the congestion window had room for a whole round trip before and after, by the sender's own state."""
    columns = state.known.state
    cwnd, flight = (_held(columns[name], NA) for name in ("cwnd_bytes", "flight_bytes"))
    known = np.flatnonzero((cwnd > 0) & (flight >= 0) & (columns["event"] == "metrics"))
    srtt = _held(columns["srtt_ns"], NOT_A_TIME)[known]
    if len(known) < 2 or not (srtt > 0).any() or not cells:
        return []
    trip = int(np.median(srtt[srtt > 0]))
    full_ns = columns["time_ns"][known][flight[known] + 1500 > cwnd[known]]
    begin, end = cells[0][0], cells[-1][1]
    spans, at = [], begin
    for moment_ns in full_ns.tolist():
        if moment_ns - trip > at:
            spans.append((at, min(moment_ns - trip, end)))
        at = max(at, moment_ns + trip)
    if at < end:
        spans.append((at, end))
    return [(low, high) for low, high in spans if high > low]


def _narrower(view: QuicView, *, reverse: bool) -> str | None:
    """Return which limit of flow control was the smaller one where less than a packet was left of it."""
    known = view.known
    rows = np.array([each[0] for each in known.frames.streams], np.int64)
    made = {name: np.full(known.packets, NA, np.int64) for name in ("window_connection_bytes", "window_stream_bytes")}
    add_windows(known, made)
    mine = np.unique(rows[known.columns["reverse"][rows] == reverse])
    connection, stream = (made[name][mine] for name in ("window_connection_bytes", "window_stream_bytes"))
    data = full_sizes(known, reverse=reverse)[1]
    tight = Counter[str]()
    tight["connection"] = int(np.count_nonzero((connection != NA) & (connection < data)))
    tight["stream"] = int(
        np.count_nonzero((stream != NA) & (stream < data) & ((connection == NA) | (stream < connection)))
    )
    name, most = tight.most_common(1)[0]
    return name if most else None


def _findings(diagnosis: Diagnosis, view: QuicView) -> Iterator[QuicFinding]:
    """Yield the findings of TCP's rules that are about any transport, then those of QUIC."""
    for each in diagnosis.findings:
        words = f"{each.sentence} {each.help}"
        if each.kind in _KINDS and not any(word in words for word in _OF_TCP):
            sentence = each.sentence.replace("segments", "packets").replace("segment", "packet")
            yield QuicFinding(each.kind, each.begin_ns, each.end_ns, each.cost_s, sentence, each.help,
                              dict(each.numbers), each.reverse)  # fmt: skip
    for limit in diagnosis.limited.shares:
        if limit.limit is Limit.RECEIVER_WINDOW and limit.share >= _WORTH_SAYING:
            yield _flow_control(diagnosis, view, limit.reverse)
            break
    spurious = spurious_losses(view, reverse=diagnosis.transfer.reverse)
    if spurious:
        begin, end = diagnosis.limited.begin_ns, int(diagnosis.limited.cells.end[-1])
        yield QuicFinding(
            "spurious-loss", begin, end, 0.0,
            f"{count(spurious, 'packet')} counted as lost (three later ones were acked before) arrived after all: "
            "the path changed their order.", "", {"packets": spurious}, diagnosis.transfer.reverse,
        )  # fmt: skip


def _flow_control(diagnosis: Diagnosis, view: QuicView, reverse: bool) -> QuicFinding:
    seen = diagnosis.limited
    mine = seen.cells.limit == Limit.RECEIVER_WINDOW.value
    seconds = float(seen.seconds[mine].sum())
    part = _narrower(view, reverse=reverse) or "connection"
    kind = FrameType.MAX_DATA.value if part == "connection" else FrameType.MAX_STREAM_DATA.value
    values = np.array([each[3] for each in view.known.frames.numbers if each[1] == kind], np.int64)
    steps = np.diff(np.unique(values))
    raised = f" The receiver raised it by {int(np.median(steps)):,} bytes at a time." if len(steps) else ""
    return QuicFinding(
        "receiver-limited", int(seen.cells.begin[mine][0]), int(seen.cells.end[mine][-1]), seconds,
        f"Flow control of the {part} left less than a packet for {duration(seconds * NS_PER_S)}, "
        f"{percent(seconds / max(seen.total_s, 1e-9))} of the time.{raised}",
        _upper(_HELPS[Limit.RECEIVER_WINDOW]) + ".",
        {"raised_bytes": float(np.median(steps))} if len(steps) else {}, reverse,
    )  # fmt: skip


def spurious_losses(view: QuicView, *, reverse: bool) -> int:
    """Return how many packets were acknowledged only after the packet threshold had taken them for lost."""
    sent = sent_packets(view.known, reverse=reverse)
    return int(np.count_nonzero((sent.lost == 0) & (sent.lost_ns != NOT_A_TIME)))


_STEADY = 1.25
"""Ratio of the ninth and the first decile of the time of _TRAIN_PACKETS packets up to which arrivals are steady."""
_TRAIN_PACKETS, _FEWEST_TRAINS = 8, 5  # single gaps vary with the host; a decile of fewer says little. Not measured


def _only_shown(answer: QuicDiagnosis, view: QuicView, floor_ns: float) -> None:
    """Keep what a receiver's packets show by themselves; what else its sender waited for is unknown there."""
    packets = _received(view, reverse=answer.reverse)
    reached = _reached(view, reverse=answer.reverse)
    spans = [
        (low, high)
        for low, high, limit, *_ in answer.cells
        if not (
            limit is Limit.HANDSHAKE
            or (limit is Limit.OUTAGE and packets.has_gap(low, high))
            or (limit is Limit.LINK and packets.is_steady(low, high))
            or (limit is Limit.RECEIVER_WINDOW and _is_near(reached, low - floor_ns, high + floor_ns))
        )
    ]
    answer.overlay(spans, Limit.UNKNOWN, None, Confidence.WEAK, frozenset(Limit))


def _is_near(times: Times, low: float, high: float) -> bool:
    return bool(np.searchsorted(times, low) < np.searchsorted(times, high, side="right"))


class _Received(NamedTuple):
    """The packets of one direction as its receiver saw them; arrays of shape (n,)."""

    time_ns: Times
    number: Numbers
    is_full: Mask

    def has_gap(self, low: int, high: int) -> bool:
        """Return whether packets were lost in the longest silence of a span: numbers are missing behind it."""
        first, last = np.searchsorted(self.time_ns, (low, high))
        first, last = max(int(first) - 1, 0), min(int(last) + 1, len(self.number))
        if last - first < 2:
            return False
        place = first + int(np.diff(self.time_ns[first:last]).argmax())
        return bool(self.number[place + 1] > self.number[: place + 1].max() + 1)

    def is_steady(self, low: int, high: int) -> bool:
        """Return whether full packets arrived at one rate: each few of them took the same time."""
        first, last = np.searchsorted(self.time_ns, (low, high))
        if last - first < _TRAIN_PACKETS * _FEWEST_TRAINS or self.is_full[first:last].mean() < 1 - _SMALL_SHARE:
            return False
        times = self.time_ns[first:last:_TRAIN_PACKETS]
        shortest_ns, longest_ns = np.percentile(np.diff(times), (10, 90))
        return bool(longest_ns <= _STEADY * shortest_ns)


_SMALL_SHARE = 0.1  # of packets, that repairs and ends of streams may be


def _received(view: QuicView, *, reverse: bool) -> _Received:
    columns = view.known.columns
    is_mine = (columns["reverse"] == reverse) & (columns["space"] == Space.ONE_RTT.value) & (columns["number"] >= 0)
    row = np.flatnonzero(is_mine)
    row = row[np.argsort(columns["time_ns"][row], kind="stable")]
    largest = full_sizes(view.known, reverse=reverse)[0]
    return _Received(columns["time_ns"][row], columns["number"][row], columns["bytes"][row] >= 0.9 * largest)


def _reached(view: QuicView, *, reverse: bool) -> Times:
    """Return when data arrived that ended exactly at a limit of flow control, or the sender said that it was blocked.

    A limit that was raised before the data used it up is no limit; an end at its very byte is.
    """
    known = view.known
    is_mine = known.columns["reverse"] == reverse
    message = known.hello if reverse else known.chosen
    connection = {message.parameters.get(Parameter.MAX_DATA, NA)}
    initial = {message.parameters.get(each, NA) for each in _STREAM_LIMITS}
    streams: dict[int, set[int]] = {}
    rows = []
    for row, kind, first, last in known.frames.numbers:
        if is_mine[row]:
            if kind in (FrameType.DATA_BLOCKED.value, FrameType.STREAM_DATA_BLOCKED.value):
                rows.append(row)
        elif kind == FrameType.MAX_DATA.value:
            connection.add(last)
        elif kind == FrameType.MAX_STREAM_DATA.value:
            streams.setdefault(first, set()).add(last)
    ends: dict[int, int] = {}
    used = 0
    for row, stream, offset, length, _ in known.frames.streams:
        if not is_mine[row]:
            continue
        before = ends.get(stream, 0)
        ends[stream] = max(before, offset + length)
        used += ends[stream] - before
        if offset + length > before and (
            used in connection or ends[stream] in initial or ends[stream] in streams.get(stream, ())
        ):
            rows.append(row)
    return np.sort(known.columns["time_ns"][np.array(rows, np.int64)])


_STREAM_LIMITS = (
    Parameter.MAX_STREAM_DATA_BIDI_REMOTE, Parameter.MAX_STREAM_DATA_BIDI_LOCAL, Parameter.MAX_STREAM_DATA_UNI,
)  # fmt: skip


_IDLE_TRIPS, _TRIED_TRIPS = 3.0, 1.3  # round trips: an answer and a probe had time to come, with jitter. Not measured


def _unanswered_gaps(view: QuicView, *, reverse: bool) -> list[tuple[int, int]]:
    """Return the times in which nothing came back to a sender although it asked after a round trip, too.

    Not the loss of one flight: the probe that follows it is answered within a round trip. Here a probe was lost, too.
    """
    known = view.known
    sent = sent_packets(known, reverse=reverse)
    trips = sent.rtt_ns[sent.rtt_ns > 0]
    if not len(trips):
        return []
    trip = float(np.median(trips))
    columns = known.columns
    came = np.sort(columns["time_ns"][columns["reverse"] != reverse])
    tried = np.sort(columns["time_ns"][sent.row[columns["eliciting"][sent.row] != 0]])
    spans = []
    for low, high in zip(came[:-1].tolist(), came[1:].tolist(), strict=True):
        if high - low < _IDLE_TRIPS * trip:
            continue
        first, last = np.searchsorted(tried, (low + _TRIED_TRIPS * trip, high - _TRIED_TRIPS * trip))
        if last > first:
            after = int(np.searchsorted(tried, tried[last - 1], side="right"))
            spans.append((low, min(int(tried[after]), high) if after < len(tried) else high))
    return spans


# --- sealed: what datagrams alone show ---


class _Datagrams(NamedTuple):
    """The datagrams of one direction, on the sender's clock; arrays of shape (n,)."""

    sent_ns: Times
    arrived_ns: Times
    """NOT_A_TIME: lost between the captures."""
    size: Numbers

    @property
    def is_lost(self) -> Mask:
        """Which did not arrive."""
        return np.asarray(self.arrived_ns == NOT_A_TIME)


def _datagrams(near: QuicView, far: QuicView, *, reverse: bool) -> _Datagrams | None:
    """Return the datagrams from one capture to another one; None if the clocks cannot be related."""
    relation = relation_of(near, far)
    if relation is None:
        return None
    mine = near.datagrams(reverse=reverse)
    one, two = matched(near, far)
    arrived = np.full(len(near.known.datagram_bytes), NOT_A_TIME, np.int64)
    placed = relation.inverse().place(far.datagram_ns[two], with_bounds=False)
    arrived[one] = placed.time_ns
    return _Datagrams(near.datagram_ns[mine], arrived[mine], near.known.datagram_bytes[mine])


_QUEUE_MS, _QUEUE_SHARE = 3, 0.1  # limits.md, "How each is found"


def _by_datagrams(path: QuicPath, *, reverse: bool) -> QuicDiagnosis:
    """Return the answer from two captures without keys."""
    client, server = path.captures[:2]
    near, far = (server, client) if reverse else (client, server)
    data, back = _datagrams(near, far, reverse=reverse), _datagrams(far, near, reverse=not reverse)
    if data is None or back is None or data.is_lost.all():
        answer = _by_one(path, reverse=reverse)
        answer.known.append("The two captures share too few datagrams of both directions to relate their clocks.")
        return answer
    begin, end = int(near.datagram_ns[0]), int(data.arrived_ns.max())
    shift = 0
    if near is not client:  # T begins with the client's first packet, half a floor round trip before it arrived
        shift = int((back.arrived_ns - back.sent_ns)[~back.is_lost].min(initial=0)) if (~back.is_lost).any() else 0
    begin -= max(shift, 0)
    handshake = client.handshake_ns
    until = begin if handshake == NOT_A_TIME else begin + handshake
    edges = _painted(data, back, (begin, max(until, begin), max(end, begin + 1)))
    rows = _rows_of(edges, reverse=reverse)
    total = sum(row.seconds for row in rows)
    busy = [(low, high) for low, high, limit, *_ in edges if limit is Limit.LINK]
    findings = list(_sealed_findings(data, reverse=reverse))
    answer = QuicDiagnosis(
        path, SEALED_BOTH, reverse, rows, total, begin, findings, [], rate_bps=_rate_within(data, busy)
    )
    answer.cells = edges
    lost = int(np.count_nonzero(data.is_lost))
    answer.known.append(
        f"{count(lost, 'datagram')} of {len(data.size):,} with data were lost between the captures "
        f"({percent(lost / max(len(data.size), 1)) if lost else '0 %'}), {int(np.count_nonzero(back.is_lost)):,} of "
        f"{len(back.size):,} of the other direction."
    )
    answer.known.append(f"{_upper(_CANNOT_TELL)}.")
    return answer


def _painted(data: _Datagrams, back: _Datagrams, times: tuple[int, int, int]) -> list[Cell]:
    """Return the intervals of T with their limits: handshake, outage, link by its queue; else unknown."""
    begin, until, end = times
    there = ~data.is_lost
    delay = (data.arrived_ns - data.sent_ns)[there].astype(np.float64)
    trip = _trip_ns(data, back)
    queue = delay - delay.min()
    service = _service_ns(data)
    is_queued = queue > max(_QUEUE_MS * NS_PER_MS, _QUEUE_SHARE * trip, 1.5 * service)
    arrived = data.arrived_ns[there]
    order = np.argsort(arrived, kind="stable")
    spans = _runs(
        arrived[order], queue[order], is_queued[order], bridge=max(2 * NS_PER_MS, 2.5 * service), minimum=trip
    )
    out = _outages(data, back, trip)
    marks = [(begin, until, Limit.HANDSHAKE, Confidence.MEASURED)]
    marks += [(low, high, Limit.OUTAGE, Confidence.MEASURED) for low, high in out]
    marks += [
        (low, high, Limit.LINK, Confidence.MEASURED) for low, high in _served(spans, arrived[order], service, trip)
    ]
    points = sorted({begin, end, *(each for low, high, *_ in marks for each in (low, high) if begin < each < end)})
    cells: list[Cell] = []
    for low, high in pairwise(points):
        limit, sure = next(
            ((each[2], each[3]) for each in marks if each[0] <= low and high <= each[1]),
            (Limit.UNKNOWN, Confidence.WEAK),
        )
        if cells and cells[-1][2] is limit:
            cells[-1] = (cells[-1][0], high, limit, None, sure, False)
        else:
            cells.append((low, high, limit, None, sure, False))
    return cells


def _served(spans: list[tuple[int, int]], arrived: Times, service: float, trip: float) -> list[tuple[int, int]]:
    """Return the spans of a queue without the silences in them: a link that delivers nothing serves no queue."""
    kept = []
    for low, high in spans:
        at = low
        inside = arrived[(arrived >= low) & (arrived <= high)].tolist()
        for one, two in pairwise([low, *inside]):
            if two - one > max(10 * service, 2 * trip):
                kept.append((at, one))
                at = two
        kept.append((at, high))
    return [(low, high) for low, high in kept if high - low >= trip]


def _trip_ns(data: _Datagrams, back: _Datagrams) -> float:
    """Return the floor of the round trip: the least delays of both directions together."""
    ways = [(way.arrived_ns - way.sent_ns)[~way.is_lost] for way in (data, back)]
    minimum = [int(way.min()) for way in ways if len(way)]
    return max(float(sum(minimum)) * 2 / max(len(minimum), 1), float(NS_PER_MS))


def _service_ns(data: _Datagrams) -> float:
    """Return the time that the bottleneck took for a full datagram: the tenth percentile of gaps between arrivals."""
    arrived = np.sort(data.arrived_ns[~data.is_lost & (data.size >= 0.9 * np.percentile(data.size, 98))])
    gaps = np.diff(arrived)
    gaps = gaps[gaps > 0]
    return float(np.median(gaps[gaps <= np.median(gaps)])) if len(gaps) > 8 else 0.0


def _runs(arrived: Times, queue: Array, is_queued: Mask, *, bridge: float, minimum: float) -> list[tuple[int, int]]:
    """Return where a queue stood: the union of [arrival - delay above the floor, arrival], as limits.md has it."""
    spans: list[list[float]] = []
    for at, wait in zip(arrived[is_queued].tolist(), queue[is_queued].tolist(), strict=True):
        if spans and at - wait <= spans[-1][1] + bridge:
            spans[-1][1], spans[-1][2] = max(spans[-1][1], at), spans[-1][2] + 1
        else:
            spans.append([at - wait, at, 1])
    return [(int(low), int(high)) for low, high, samples in spans if high - low >= minimum and samples >= 3]


_HELD_NS = 200 * NS_PER_MS
"""Least silence of a path that is a stall though datagrams waited in it: slow links and schedulers pause for less."""


def _outages(data: _Datagrams, back: _Datagrams, trip: float) -> list[tuple[int, int]]:
    """Return the times in which a datagram was lost, a later try too, and nothing arrived in either direction.

    Each lasts from the last arrival to the send time of the first try that came through.
    """
    arrivals = np.sort(np.concatenate([data.arrived_ns[~data.is_lost], back.arrived_ns[~back.is_lost]]))
    answered = np.sort(np.concatenate([data.sent_ns[~data.is_lost], back.sent_ns[~back.is_lost]]))
    lost = np.sort(np.concatenate([data.sent_ns[data.is_lost], back.sent_ns[back.is_lost]]))
    waiting = [
        np.concatenate([getattr(way, name)[~way.is_lost] for way in (data, back)]) for name in ("arrived_ns", "sent_ns")
    ]
    collected = []
    for low, high in zip(arrivals[:-1].tolist(), arrivals[1:].tolist(), strict=True):
        if high - low < 2 * trip:
            continue
        tries = lost[(lost >= low - trip) & (lost < high)]
        held = waiting[1][(waiting[0] >= high) & (waiting[1] >= low - trip) & (waiting[1] < high - 2 * trip)]
        if high - low >= _HELD_NS and len(held) >= 2:  # the path kept them, and delivered them later
            collected.append((int(low), int(high)))
            continue
        if len(tries) >= 2 and tries[-1] - tries[0] >= trip:
            after = np.searchsorted(answered, max(int(tries[-1]), low))  # the first try that came through
            collected.append((int(low), int(min(answered[after] if after < len(answered) else high, high))))
    return collected


def _rows_of(cells: Sequence[Cell], *, reverse: bool) -> list[QuicRow]:
    seconds: dict[Limit, float] = {}
    sure: dict[Limit, Confidence] = {}
    for low, high, limit, _, confidence, _ in cells:
        seconds[limit] = seconds.get(limit, 0.0) + (high - low) / NS_PER_S
        sure[limit] = confidence
    total = max(sum(seconds.values()), 1e-12)
    unknown = seconds.get(Limit.UNKNOWN, 0.0) / total
    rows = []
    for limit, took in sorted(seconds.items(), key=lambda each: -each[1]):
        part = took / total
        firm = 0.0 if limit is Limit.UNKNOWN else part
        most = part if limit is Limit.UNKNOWN else min(part + unknown, 1.0)
        rows.append(QuicRow(limit, None, took, part, firm, most, sure[limit], reverse))
    return rows


def _rate_within(data: _Datagrams, spans: Sequence[tuple[int, int]]) -> float | None:
    """Return the rate of arrivals while the link was the limit, in bit/s."""
    time_ns = sum(high - low for low, high in spans)
    if not time_ns:
        return None
    arrived = data.arrived_ns
    inside = np.zeros(len(arrived), bool)
    for low, high in spans:
        inside |= (arrived > low) & (arrived <= high)
    return float(data.size[inside].sum()) * BITS_PER_BYTE * NS_PER_S / time_ns


_FEWEST_LOSSES = 3  # fewer have no quartile. Not measured
_FULL_RANK, _FULL_NS = 0.89, 5 * NS_PER_MS  # as the findings of TCP: a full queue before most losses
_RANDOM_NS, _RANDOM_RANK = 1.7 * NS_PER_MS, 0.75  # limits.md, "Findings on any network"


def _sealed_findings(data: _Datagrams, *, reverse: bool) -> Iterator[QuicFinding]:
    """Yield what caused the losses, by the delay of the datagrams before them."""
    lost = np.flatnonzero(data.is_lost)
    there = np.flatnonzero(~data.is_lost)
    if len(lost) < _FEWEST_LOSSES or len(there) < 20:
        return
    queue = (data.arrived_ns - data.sent_ns)[there].astype(np.float64)
    queue -= queue.min()
    before = np.searchsorted(there, lost) - 1
    waited = queue[before[before >= 0]]
    ranks = np.searchsorted(np.sort(queue), waited, side="right") / len(queue)
    span = int(data.sent_ns[lost[0]]), int(data.sent_ns[lost[-1]])
    numbers = {
        "lost_packets": len(lost),
        "lost_share": len(lost) / len(data.size),
        "waited_s": float(np.median(waited)) / NS_PER_S,
    }
    much = f"{count(len(lost), 'datagram')} ({percent(len(lost) / len(data.size))})"
    middle = f"{np.median(waited) / NS_PER_MS:.1f} ms"
    if np.quantile(ranks, 0.25) >= _FULL_RANK and np.quantile(waited, 0.25) >= _FULL_NS:
        words = (
            f"{much} were lost by a queue that was full or managed: those before them had waited in it for {middle}."
        )
        yield QuicFinding(
            "congestion-loss",
            *span,
            0.0,
            words,
            "An AQM that marks (ECN), or another congestion control.",
            numbers,
            reverse,
        )
    elif np.median(waited) <= _RANDOM_NS and np.quantile(ranks, 0.75) <= _RANDOM_RANK:
        words = f"{much} were lost though no queue stood: those before them had waited for {middle}."
        yield QuicFinding(
            "random-loss", *span, 0.0, words, "Less loss on the path itself: check the radio signal.", numbers, reverse
        )


def _by_one(path: QuicPath, *, reverse: bool) -> QuicDiagnosis:
    """Return what one capture without keys shows: the handshake, rates, silences."""
    view = path.captures[0] if path.captures else path.views[0]
    time_ns = view.datagram_ns
    mine = view.datagrams(reverse=reverse)
    begin = int(time_ns[0])
    end = max(int(time_ns[mine[-1]]) if len(mine) else begin, begin + 1)
    until = begin if view.handshake_ns == NOT_A_TIME else min(begin + view.handshake_ns, end)
    cells = [(begin, until, Limit.HANDSHAKE, None, Confidence.MEASURED, reverse)] if until > begin else []
    if end > until:
        cells.append((until, end, Limit.UNKNOWN, None, Confidence.WEAK, reverse))
    rows = _rows_of(cells, reverse=reverse)
    answer = QuicDiagnosis(path, SEALED, reverse, rows, sum(row.seconds for row in rows), begin, [], [])
    answer.cells = list(cells)
    answer.known = list(_notes_on_one(view, mine))
    answer.known.append(f"Not read: {view.known.absent}." if view.known.absent else "")
    answer.known = [each for each in answer.known if each]
    return answer


_TRAIN = 0.2
"""Gaps between arrivals that differ by less than this share are of one length. Not measured."""


def _notes_on_one(view: QuicView, mine: Numbers) -> Iterator[str]:
    """Yield sentences on the rate of one direction, its commonest gap and its longest silence."""
    if len(mine) < 20:
        return
    time_ns, size = view.datagram_ns[mine], view.known.datagram_bytes[mine]
    took = int(time_ns[-1] - time_ns[0])
    if took <= 0:
        return
    mean = rate(float(size.sum()) * BITS_PER_BYTE * NS_PER_S / took)
    yield f"{len(mine):,} datagrams with data in {duration(took)}, {mean} at the mean."
    gaps = np.diff(time_ns)
    full = size[1:] >= 0.9 * np.percentile(size, 98)
    usable = gaps[full & (gaps > 0)]
    if len(usable) > 50:
        bins = np.round(np.log(usable) / np.log1p(_TRAIN)).astype(np.int64)
        values, counts = np.unique(bins, return_counts=True)
        common = usable[bins == values[counts.argmax()]]
        gap = float(np.median(common))
        pace = rate(float(np.percentile(size, 98)) * BITS_PER_BYTE * NS_PER_S / gap)
        held = float(common.sum()) / took
        words = f"The commonest gap between full datagrams is {gap / NS_PER_MS:.2f} ms ({pace})"
        yield f"{words}; such gaps are {percent(held)} of the time."
    yield f"The longest silence is {duration(int(gaps.max()))}."


# --- numbers ---


def _facts(path: QuicPath, answer: QuicDiagnosis) -> Document:
    """Return the numbers of a connection for `--json`; null where they are not known."""
    view = path.views[0]
    known = view.known
    facts: Document = {
        "version": version_words(known.version),
        "sni": known.hello.sni,
        "alpn": list(known.chosen.alpn or known.hello.alpn or ()) or None,
        "handshake_ms": _ms(view.handshake_ns),
        "retry": known.has_retry,
        "version_negotiation": known.has_negotiation,
        "absent": known.absent or None,
        "rtt_ms": None,
        "lost_packets": None,
        "spurious_losses": None,
        "ack_delay_ms": None,
        "blocked_frames": None,
        "key_updates": None,
    }
    read = [each for each in path.views if each.is_read]
    sender = next((each for each in read if _is_near_client(path, each) != answer.reverse), None)
    if sender is not None:
        sent = sent_packets(sender.known, reverse=answer.reverse)
        trips, waits = sent.rtt_ns[sent.rtt_ns > 0], sent.ack_delay_ns[sent.ack_delay_ns >= 0]
        blocked = (FrameType.DATA_BLOCKED.value, FrameType.STREAM_DATA_BLOCKED.value)
        phases = sender.known.columns["key_phase"]
        facts |= {
            "rtt_ms": {"min": _ms(trips.min()), "p50": _ms(np.median(trips)), "max": _ms(trips.max())}
            if len(trips)
            else None,
            "lost_packets": int(np.count_nonzero(sent.lost == 1)),
            "spurious_losses": spurious_losses(sender, reverse=answer.reverse),
            "ack_delay_ms": _ms(np.median(waits)) if len(waits) else None,
            "blocked_frames": sum(each[1] in blocked for each in sender.known.frames.numbers),
            "key_updates": int(max(phases.max(initial=NA), 0)) if (phases >= 0).any() else None,
        }
    return facts


def _ms(ns: float) -> float | None:
    return None if ns == NOT_A_TIME else round(float(ns) / NS_PER_MS, 6)
