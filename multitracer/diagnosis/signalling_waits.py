"""Data that waited for the signalling between phone and network: who waited, for which procedure, and how long.

What is known of the phone comes from its messages (PROCEDURES), or from the states that its modem reports
(SIGNALLING_STATES); without either, `promotions_of_packets` infers promotions from waits after idle times. Data
wait from the first packet that nothing answers. Where two causes overlap, the first in `OF_SIGNALLING` holds. Nothing
is concluded if the clocks of log and packets differ by an unknown amount of more than half a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.signalling.procedures import procedures_of
from multitracer.analysis.signalling.states import states_of
from multitracer.captured import Flag
from multitracer.clock.model.relation import Clock, PlacementStatus
from multitracer.diagnosis.limits.names import OF_SIGNALLING, STOPS, Limit, RadioCause
from multitracer.diagnosis.limits.spans import Spans
from multitracer.schemas.radio import RADIO
from multitracer.schemas.signalling import SIGNALLING, HandoverKind, ProcedureResult
from multitracer.schemas.tcp import Vantage
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.recording.capture import Capture
    from multitracer.recording.places import ConnectionAtPoint
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array, Mask, Numbers, Times

_MOST_ERROR_NS = NS_PER_S // 2
"""With a larger error of the clocks (ns) no cause is stated: promotions take 0.1 to 2 s."""
_UNRELATED_NS = 2 * NS_PER_S
"""Error in ns of clocks that only the stamps of their logs relate, as in `radio_cause`."""
_AROUND_NS = 600 * NS_PER_S
"""Messages this long before and after a transfer are used, ns: the releases in them show the inactivity timer."""
_SHORTEST_NS = 20 * NS_PER_MS
"""Shortest wait that counts, ns: two round trips of the air interface. Not measured."""
_REACTS_NS = NS_PER_S
"""Maximum time from a packet to the request that it causes, ns: random access repeats for some 0.1 s (TS 36.321,
5.1). Not measured."""
_REPEATS_NS = 5 * NS_PER_S
"""Maximum time from a request without an answer to the next one, ns: T300 is at most 2 s, and access may be barred."""
_LATE_NS = NS_PER_S // 2
"""A modem may report a connection this much later than data flow, ns: its answers take up to 0.1 s, and wait for each
other."""
_LONGEST_NS = 20 * NS_PER_S
"""Longest promotion that a modem's states show, ns: T3417 of TS 24.301 (5 s), and repetitions. Not measured."""
_FAILING_NS = 5 * NS_PER_S
"""Time in ns from the failure of a link until the phone asks another cell, as in `radio_cause`."""
_TIMEOUT_NS = 3 * NS_PER_S
"""A stop lasts at most twice as long as its reason, and a retransmission timeout more, as in `radio_cause`."""
_LEG_NS = NS_PER_S
"""Maximum time from a change of the NR leg to the stop that it causes, ns. Not measured."""


class SignallingWait(NamedTuple):
    """Data that waited for a procedure between phone and network; times on the sender's clock."""

    cause: RadioCause
    begin_ns: int
    end_ns: int
    what: str
    """The procedure, or what a modem reported."""
    text: str = ""
    """Cause of the network, with its number."""
    evidence: tuple[str, ...] = ()
    """`message:N` is frame N of the log of signalling, `line:N` a line of a modem's log, `sender:N` a row."""
    is_inferred: bool = False
    """Whether packets alone suggest it."""


class _Procedure(NamedTuple):
    """A row of PROCEDURES, on the sender's clock."""

    kind: str
    result: str
    begin_ns: int
    end_ns: int
    """As the begin, if the log has no end."""
    text: str
    is_suspended: bool
    frames: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        return self.result == ProcedureResult.COMPLETE.value


class _Chain(NamedTuple):
    """A promotion: from the first request of an idle phone until data can flow."""

    begin_ns: int | None
    """None if only its end is known."""
    end_ns: int
    late_ns: int
    """By how much earlier data may have flowed."""
    what: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class PhoneSignalling:
    """What a phone and its network did in and around a transfer, on the clock of the transfer's sender."""

    host: str
    procedures: tuple[_Procedure, ...]
    chains: tuple[_Chain, ...]
    idle_ns: Times
    """When the phone became idle or inactive after a connection: the network released it."""
    error_ns: int
    """Error of the clocks against each other."""


def signalling_of(transfer: Transfer) -> PhoneSignalling | None:
    """Return the signalling of the phone that carried a transfer; None without a log that can be used."""
    recording = transfer.recording
    every = [each for layer in ("radio", "signalling") for each in recording.logs(layer)]
    logs = [each for each in every if SIGNALLING.name in each[1] or RADIO.name in each[1]]
    own = [each for each in logs if each[0].host in transfer.hosts] or logs
    if recording.phone is not None and transfer.radio_context is not None:
        paths = {path for phone in transfer.radio_context.phones for path in phone.paths}
        own = [each for each in logs if each[0].path in paths]
    if not own or len({log.host for log, _ in own}) > 1:
        return None
    host = own[0][0].host
    window_ns = np.array([transfer.begin_ns - _AROUND_NS, transfer.end_ns + _AROUND_NS])
    (first_ns, last_ns), _ = _placed(transfer, host, window_ns, back=True)
    read = [
        {
            name: after_last_setting(table).within(int(first_ns), int(last_ns)) if name in _CUT else table
            for name, table in tables.items()
        }
        for _, tables in own
    ]
    of_messages = [_of_messages(transfer, host, tables) for tables in read if SIGNALLING.name in tables]
    by_log = [each for each in of_messages if each is not None]
    if len(by_log) < len(of_messages):
        return None
    if not any(each.procedures for each in by_log):
        by_log = [_of_states(transfer, host, tables) for tables in read]
    known = max(by_log, key=lambda each: (len(each.chains), len(each.procedures)), default=None)
    return known if known is not None and known.error_ns <= _MOST_ERROR_NS else None


_CUT = (SIGNALLING.name, RADIO.name)


def after_last_setting(table: Table) -> Table:
    """Return the messages after a modem's clock was last set: the times before are not those of the packets."""
    if table.schema.name != SIGNALLING.name or not len(table):
        return table
    return table.take(table["clock"] == table["clock"].max())


def _placed(transfer: Transfer, host: str, time_ns: Times, *, back: bool = False) -> tuple[Times, int]:
    """Return times of the phone on the sender's clock, or `back`, with the error of the conversion in ns."""
    clocks = transfer.recording.clocks
    if clocks is None or host == transfer.at_sender.host:
        return time_ns, 0
    points = {capture.point.name for capture in transfer.recording.captures}
    source = clocks.of_point(host) if host in points else Clock(host)
    target = clocks.of_point(transfer.at_sender.host)
    if source == target:
        return time_ns, 0
    placed = clocks.place(time_ns, *((target, source) if back else (source, target)))
    if (placed.status == PlacementStatus.UNPLACED).any() or not np.isfinite(placed.bound_ns).all():
        return time_ns, _UNRELATED_NS
    return placed.time_ns, int(placed.bound_ns.max(initial=0))


def _columns_on(transfer: Transfer, host: str, table: Table, *names: str) -> tuple[list[Times], int]:
    """Return columns of times on the sender's clock, NA as they are, and the error in ns."""
    columns, error_ns = [], 0
    for name in names:
        raw, known = table[name], table[name] != NOT_A_TIME
        there, bound_ns = _placed(transfer, host, raw[known])
        column = raw.copy()
        column[known] = there
        columns.append(column)
        error_ns = max(error_ns, bound_ns)
    return columns, error_ns


def _most_used(card: Array) -> Mask:
    """Return the rows of the card with most of them; those without a number belong to it."""
    numbers, many = np.unique(card[card != NA], return_counts=True)
    return np.asarray(card == NA) if not len(numbers) else np.isin(card, (NA, numbers[many.argmax()]))


def _of_data(procedures: Table) -> tuple[int, ...] | None:
    """Return the number of the card that carries data, by its requests for bearers, and NA; None if two do as much.

    A card without service asks more often than another one that carries data, but not for bearers.
    """
    cards = np.unique(procedures["card"][procedures["card"] != NA])
    if len(cards) < 2:
        return NA, *cards.tolist()
    is_of_data = np.isin(procedures["kind"], (_BEARERS, "resume", *_SESSIONS))
    is_of_data &= procedures["result"] == ProcedureResult.COMPLETE.value
    many = [int((is_of_data & (procedures["card"] == card)).sum()) for card in cards]
    most = max(many)
    return None if many.count(most) > 1 else (NA, int(cards[many.index(most)]))


def _of_messages(transfer: Transfer, host: str, tables: dict[str, Table]) -> PhoneSignalling | None:
    """Return what messages of the card that carries data show; None if it is not known which one does."""
    table, states = procedures_of(tables), states_of(tables)
    if (card := _of_data(table)) is None:
        return None
    table, states = (each.take(np.isin(each["card"], card)) for each in (table, states))
    (begin, end), error_ns = _columns_on(transfer, host, table, "begin_ns", "end_ns")
    rows = [
        _Procedure(
            row["kind"], row["result"], first, max(last, first), _text_of(row["cause"], row["cause_number"]),
            row["purpose"] == "suspend", tuple(f"message:{frame}" for frame in row["frames"].split()),
        )
        for row, first, last in zip(table.rows(), begin.tolist(), end.tolist(), strict=True)
        if first != NOT_A_TIME
    ]  # fmt: skip
    rows.sort(key=lambda row: row.begin_ns)
    late_ns = int(np.median(table["error_ns"])) if len(table) else 0
    idle = _idle_of(transfer, host, states)
    return PhoneSignalling(host, tuple(rows), tuple(_chains(rows)), idle, error_ns + max(late_ns, 0))


def _text_of(cause: str, number: int | None) -> str:
    return cause if number is None else f"{number}: {cause}" if cause else str(number)


_PROMOTES = ("RRC set-up", "resume")
_BEARERS = "service request"


def _chains(procedures: Sequence[_Procedure]) -> Iterator[_Chain]:
    """Yield the promotions: requests that overlap, or that repeat one without an answer, with a complete set-up."""
    group: list[_Procedure] = []
    until_ns = 0
    for each in procedures:
        if each.kind not in (*_PROMOTES, _BEARERS) or each.result == ProcedureResult.CUT.value:
            continue
        if group and each.begin_ns > until_ns:
            yield from _chain(group)
            group = []
        is_open = each.end_ns == each.begin_ns
        ends_ns = each.begin_ns + _REPEATS_NS if is_open else each.end_ns
        until_ns = max(until_ns if group else 0, ends_ns)
        group.append(each)
    if group:
        yield from _chain(group)


def _chain(group: list[_Procedure]) -> Iterator[_Chain]:
    complete = [each for each in group if each.is_complete]
    kinds = dict.fromkeys(each.kind for each in complete)
    if not any(kind in _PROMOTES for kind in kinds):
        return
    end_ns = max(each.end_ns for each in complete)
    frames = tuple(dict.fromkeys(frame for each in group for frame in each.frames))
    yield _Chain(group[0].begin_ns, end_ns, 0, " and ".join(kinds), frames)


def _idle_of(transfer: Transfer, host: str, states: Table) -> Times:
    """Return when the phone became idle or inactive after a connection, ns."""
    rrc = states.take((states["machine"] == "RRC") & np.isin(states["state"], ("idle", "inactive", "connected")))
    rrc = rrc.take(_most_used(rrc["card"]))
    (begin,), _ = _columns_on(transfer, host, rrc, "begin_ns")
    was_connected = np.append(False, rrc["state"][:-1] == "connected")
    is_known = (rrc["error_ns"] != NOT_A_TIME) & (rrc["error_ns"] <= NS_PER_S)
    is_known |= rrc["source"] == "+CSCON"  # sent by itself
    return np.asarray(begin[was_connected & (rrc["state"] != "connected") & is_known])


def _of_states(transfer: Transfer, host: str, tables: dict[str, Table]) -> PhoneSignalling:
    """Return promotions as the states of RRC show them: a connection after an idle phone."""
    states = states_of(tables)
    rrc = states.take(states["machine"] == "RRC")
    rrc = rrc.take(_most_used(rrc["card"]))
    chains, error_ns, idle = list[_Chain](), 0, np.empty(0, np.int64)
    for source in sorted(np.unique(rrc["source"]).tolist()):  # +CSCON, which comes by itself, before +QENG
        own = rrc.take(rrc["source"] == source)
        (begin,), bound_ns = _columns_on(transfer, host, own, "begin_ns")
        error_ns = max(error_ns, bound_ns)
        is_promotion = (own["state"][1:] == "connected") & np.isin(own["state"][:-1], ("idle", "inactive"))
        for row in np.flatnonzero(is_promotion) + 1:
            chain = _chain_of_states(own, int(row), int(begin[row]))
            near = (
                chain.end_ns - chain.late_ns <= each.end_ns and each.end_ns - each.late_ns <= chain.end_ns
                for each in chains
            )
            chains += [] if source != _BEST and any(near) else [chain]
        idle = idle if len(idle) else _idle_of(transfer, host, own)
    return PhoneSignalling(host, (), tuple(sorted(chains, key=lambda each: each.end_ns)), idle, error_ns)


_BEST = "+CSCON"


def _chain_of_states(rrc: Table, row: int, end_ns: int) -> _Chain:
    asked_ns = int(rrc["error_ns"][row])
    late_ns = _LATE_NS if asked_ns == NOT_A_TIME else _LATE_NS + asked_ns
    lines = (rrc["begin_frame"][row - 1], rrc["begin_frame"][row])
    evidence = tuple(f"line:{line}" for line in lines if line != NA)
    return _Chain(None, end_ns, late_ns, f"connected by {rrc['source'][row]}", evidence)


# --- who waited ---


class _Unanswered(NamedTuple):
    """A time in which one end had sent a packet, and nothing arrived."""

    first_ns: int
    """The first packet in it that needs an answer."""
    next_ns: int
    """The next arrival; the end of the transfer without one."""


@dataclass(frozen=True)
class _Packets:
    """Packets of a transfer as captured next to the phone, or else at the other end; times on the sender's clock."""

    out_ns: Times
    """Those that the captured end sent and that need an answer: data, SYN, FIN."""
    in_ns: Times
    """Those that arrived there."""
    end_ns: int
    floor_ns: int
    """Least round-trip time; 0 if unknown."""

    def unanswered(self, from_ns: int, to_ns: int) -> _Unanswered | None:
        """Return the longest time without an arrival that meets an interval and has a packet that waits."""
        first = int(np.searchsorted(self.in_ns, from_ns, side="right"))
        last = int(np.searchsorted(self.in_ns, to_ns, side="left"))
        gaps: list[_Unanswered] = []
        for place in range(first, last + 1):
            before_ns = int(self.in_ns[place - 1]) if place else np.iinfo(np.int64).min
            next_ns = int(self.in_ns[place]) if place < len(self.in_ns) else self.end_ns
            at = int(np.searchsorted(self.out_ns, before_ns, side="left"))
            if at < len(self.out_ns) and self.out_ns[at] < next_ns:
                gaps.append(_Unanswered(int(self.out_ns[at]), next_ns))
        return max(gaps, key=lambda each: each.next_ns - each.first_ns, default=None)


def _packets(limited: Limited, *, is_receivers: bool) -> _Packets:
    """Return the packets next to an end, the receiver of the data or its sender; else those at the other end."""
    transfer = limited.transfer
    table, time_ns = transfer.sender, transfer.time_ns
    sends_reverse = transfer.reverse != is_receivers
    if is_receivers and transfer.receiver is not None:
        table, time_ns = transfer.receiver, transfer.came_ns
    elif is_receivers == (transfer.vantage is Vantage.NEAR_SENDER):
        sends_reverse = not sends_reverse  # captured at the other end, whose data wait as well
    is_out = table["reverse"] == sends_reverse
    needs_answer = (table["end_bytes"] > table["seq_bytes"]) | (table["flags"] & np.uint16(Flag.SYN | Flag.FIN) != 0)
    end_ns = int(limited.cells.end[-1]) if len(limited.cells.end) else transfer.end_ns
    floor_ns = 0 if limited.seen is None else int(limited.seen.floor_ns)
    return _Packets(np.sort(time_ns[is_out & needs_answer]), np.sort(time_ns[~is_out]), end_ns, floor_ns)


def _is_at_receiver(transfer: Transfer, host: str) -> bool:
    """Return whether a phone received the data: by its host, else by the place of the only capture."""
    if host in transfer.hosts:
        return host == transfer.hosts[1]
    return transfer.vantage is Vantage.NEAR_RECEIVER


def waits_of(limited: Limited, signalling: PhoneSignalling, *, shift_ns: int = 0) -> list[SignallingWait]:
    """Return what data of a connection waited for, in order of time; waits do not overlap.

    Parameters
    ----------
    limited : Limited
    signalling : PhoneSignalling
        Of the phone that carried it.
    shift_ns : int
        To be added to the times of the connection for those of the signalling.
    """
    own = _Waits(limited, signalling, shift_ns)
    by_cause = {
        RadioCause.REJECTED: own.rejected,
        RadioCause.RADIO_LINK_FAILURE: own.failures,
        RadioCause.RELEASE: own.releases,
        RadioCause.SECONDARY_LEG: own.legs,
        RadioCause.PROMOTION: own.promotions,
    }
    taken, waits = Spans.none(), list[SignallingWait]()
    for cause in OF_SIGNALLING:
        for each in by_cause[cause]():
            edges = np.array([each.begin_ns]), np.array([each.end_ns])
            free = Spans.of(*edges).without(taken)
            if not len(free.begin) or free.total_ns < _SHORTEST_NS:
                continue
            longest = int(free.length_ns.argmax())
            begin_ns, end_ns = int(free.begin[longest]), int(free.end[longest])
            waits.append(each._replace(begin_ns=begin_ns - shift_ns, end_ns=end_ns - shift_ns))
            taken = taken.union(Spans.of(*edges))
    return sorted(waits, key=lambda each: each.begin_ns)


_ACCESS = (
    "RRC set-up", "resume", "attach", "registration", "service request", "tracking area update", "routing area update",
)  # fmt: skip
_SESSIONS = ("PDN connection", "PDU session", "PDP context")
_LEGS = tuple(
    kind.value
    for kind in (HandoverKind.SECONDARY_ADDED, HandoverKind.SECONDARY_CHANGED, HandoverKind.SECONDARY_RELEASED)
)


class _Waits:
    """The waits of one connection by cause, on the clock of the signalling; they may overlap."""

    def __init__(self, limited: Limited, signalling: PhoneSignalling, shift_ns: int) -> None:
        self._signalling = signalling
        packets = _packets(limited, is_receivers=_is_at_receiver(limited.transfer, signalling.host))
        self._packets = _Packets(
            packets.out_ns + shift_ns, packets.in_ns + shift_ns, packets.end_ns + shift_ns, packets.floor_ns
        )
        self._error_ns = signalling.error_ns
        is_stop = np.isin(limited.cells.limit, STOPS)
        self._stops = Spans.of(limited.cells.begin[is_stop] + shift_ns, limited.cells.end[is_stop] + shift_ns)

    def promotions(self) -> Iterator[SignallingWait]:
        for chain in self._signalling.chains:
            unanswered = self._packets.unanswered(chain.end_ns - chain.late_ns - self._error_ns, chain.end_ns)
            if unanswered is None or unanswered.first_ns >= chain.end_ns:
                continue
            longest_ns = _REACTS_NS + self._error_ns if chain.begin_ns is not None else _LONGEST_NS
            first_ns = chain.end_ns if chain.begin_ns is None else chain.begin_ns
            if unanswered.first_ns < first_ns - longest_ns:
                if chain.begin_ns is None:
                    continue
                unanswered = unanswered._replace(first_ns=chain.begin_ns)  # another reason held it back before
            end_ns = min(chain.end_ns, unanswered.next_ns)
            if chain.late_ns:
                end_ns = max(min(end_ns, unanswered.next_ns - self._packets.floor_ns), end_ns - chain.late_ns)
            if end_ns - unanswered.first_ns >= _SHORTEST_NS:
                yield SignallingWait(
                    RadioCause.PROMOTION, unanswered.first_ns, end_ns, chain.what, evidence=chain.evidence
                )

    def rejected(self) -> Iterator[SignallingWait]:
        for each in self._signalling.procedures:
            if each.result != ProcedureResult.REJECTED.value or each.kind not in (*_ACCESS, *_SESSIONS):
                continue
            unanswered = self._packets.unanswered(each.end_ns, each.end_ns + 1)
            if unanswered is None or unanswered.first_ns > each.end_ns + self._error_ns:
                continue
            until_ns = self._until(each.end_ns, unanswered)
            if each.kind in _SESSIONS and until_ns - each.end_ns < NS_PER_S:
                continue  # the session of another service, such as of calls
            begin_ns = max(unanswered.first_ns, each.begin_ns - _REACTS_NS - self._error_ns)
            yield SignallingWait(RadioCause.REJECTED, begin_ns, until_ns, each.kind, each.text, each.frames)

    def failures(self) -> Iterator[SignallingWait]:
        failed = (ProcedureResult.FAILED.value, ProcedureResult.RE_ESTABLISHED.value)
        for each in self._signalling.procedures:
            is_failure = each.kind == HandoverKind.RE_ESTABLISHMENT.value
            if is_failure or (each.kind == HandoverKind.HANDOVER.value and each.result in failed):
                yield from self._around(RadioCause.RADIO_LINK_FAILURE, each, _FAILING_NS)

    def releases(self) -> Iterator[SignallingWait]:
        redirections = {
            each.begin_ns for each in self._signalling.procedures if each.kind == HandoverKind.REDIRECTION.value
        }
        for each in self._signalling.procedures:
            if each.kind != "release" or each.begin_ns in redirections:
                continue
            unanswered = self._packets.unanswered(each.begin_ns, each.begin_ns + 1)
            if unanswered is not None and unanswered.first_ns < each.begin_ns - _SHORTEST_NS - self._error_ns:
                until_ns = self._until(each.begin_ns, unanswered)
                yield SignallingWait(RadioCause.RELEASE, each.begin_ns, until_ns, each.kind, each.text, each.frames)

    def legs(self) -> Iterator[SignallingWait]:
        for each in self._signalling.procedures:
            if each.kind in _LEGS:
                what = f"{each.kind}, {each.result}" if not each.is_complete else each.kind
                yield from self._around(RadioCause.SECONDARY_LEG, each._replace(kind=what), _SHORTEST_NS)

    def _until(self, from_ns: int, unanswered: _Unanswered) -> int:
        """Return when the next promotion, or another request of the phone, succeeded; else the next arrival."""
        ends = [chain.end_ns for chain in self._signalling.chains if chain.end_ns > from_ns]
        ends += [
            each.end_ns
            for each in self._signalling.procedures
            if each.kind in (*_ACCESS, *_SESSIONS) and each.is_complete and each.begin_ns > from_ns
        ]
        inside = [end_ns for end_ns in ends if end_ns < unanswered.next_ns]
        return max(inside, default=unanswered.next_ns)

    def _around(self, cause: RadioCause, each: _Procedure, before_ns: int) -> Iterator[SignallingWait]:
        """Yield the stop that a procedure explains: it began shortly before, or in it, and lasted no longer than that.

        Without a stop it is the time in which a packet of the phone waited.
        """
        error_ns, stops = self._error_ns, self._stops
        near = (stops.end >= each.begin_ns - error_ns) & (stops.begin <= each.end_ns + _LEG_NS + error_ns)
        near &= stops.begin >= each.begin_ns - before_ns - error_ns
        near &= stops.end <= stops.begin + 2 * np.maximum(each.end_ns - stops.begin, 0) + _TIMEOUT_NS + error_ns
        spans = stops.where(near)
        if len(spans.begin):
            begin_ns, end_ns = int(spans.begin[0]), int(spans.end[-1])
            yield SignallingWait(cause, begin_ns, end_ns, each.kind, each.text, each.frames)
            return
        unanswered = self._packets.unanswered(each.begin_ns - before_ns, each.end_ns)
        if cause is RadioCause.SECONDARY_LEG or unanswered is None or unanswered.next_ns < each.end_ns - error_ns:
            return
        begin_ns = max(unanswered.first_ns, each.begin_ns - before_ns - error_ns)
        end_ns = min(self._until(each.begin_ns, unanswered), max(each.end_ns, begin_ns) + _TIMEOUT_NS)
        if end_ns - begin_ns >= _SHORTEST_NS:
            yield SignallingWait(cause, begin_ns, end_ns, each.kind, each.text, each.frames)


# --- the inactivity timer ---


class InactivityTimer(NamedTuple):
    """The network's inactivity timer, estimated from the times between the last packet and the release, s."""

    seconds: float
    low_s: float
    high_s: float
    releases: int

    def __str__(self) -> str:
        seconds = f"{self.seconds:.1f} s"
        low, high = f"{self.low_s:.1f}", f"{self.high_s:.1f}"
        return seconds if low == high else f"{seconds} ({low} to {high} s)"


_ALIKE = 0.15
"""Releases within this share of a typical one were of the timer; others had another reason, or traffic before them that
was not captured. Not measured."""
_SHORTEST_TIMER_NS = NS_PER_S
"""Shortest inactivity timer that is looked for, ns: networks use some 2 to 60 s."""


def inactivity_timer(transfer: Transfer, signalling: PhoneSignalling | None) -> InactivityTimer | None:
    """Return the estimate from the releases of a phone and its captured packets; None without a release."""
    if signalling is None or not len(signalling.idle_ns):
        return None
    capture = _nearest(transfer, signalling.host)
    times = capture.tables.segments["time_ns"]
    packets, _ = _placed(transfer, capture.point.name, np.sort(times[times != NOT_A_TIME]))
    last = np.searchsorted(packets, signalling.idle_ns) - 1
    idle_ns = signalling.idle_ns[last >= 0]
    gaps_ns = np.sort(idle_ns - packets[last[last >= 0]])
    gaps_ns = gaps_ns[gaps_ns >= _SHORTEST_TIMER_NS]
    if not len(gaps_ns):
        return None
    near = [gaps_ns[np.abs(gaps_ns - each) <= _ALIKE * each] for each in gaps_ns]
    most = max(near, key=len)
    seconds = most / NS_PER_S
    return InactivityTimer(float(np.median(seconds)), float(seconds[0]), float(seconds[-1]), len(seconds))


def _nearest(transfer: Transfer, host: str) -> Capture:
    places = [transfer.at_sender, *([] if transfer.at_receiver is None else [transfer.at_receiver])]
    if host == transfer.hosts[1] and len(places) > 1:
        return places[1].capture
    return places[0].capture


# --- packets alone ---

_IDLE_NS = NS_PER_S
"""A request after a shorter pause is of a phone that is awake, ns."""
_SHORTEST_IDLE_NS = 3 * NS_PER_S
"""Shortest idle time after which a phone may have become idle, ns: the timers of networks are some 3 to 60 s."""
_MIN_DELAY_NS, _MAX_DELAY_NS = 100 * NS_PER_MS, 3 * NS_PER_S
"""Range of the delay of the first answer, ns: LTE needs 0.1 to 0.5 s from idle, UMTS up to 2 or 3 s. Not measured."""
_MIN_ROUNDS = 4
"""Shortest idle time in usual times to an answer: on a slow link less is none. Not measured."""
_MIN_WAITS = 4
"""So many first packets must wait, and so many others must not. Not measured."""
_FEW, _MOST = 0.1, 0.75
"""Maximum share of shorter idle times with a wait, and minimum share of longer ones: a packet of another connection, or
of the network, may have woken the phone already. Not measured."""
_SPREAD = 4.0
"""A wait that is longer than the typical one by this factor has another reason, such as a hole. Not measured."""
_MOST_SEGMENTS = 500_000
"""Larger captures are not searched: a bulk transfer, not requests."""


def promotions_of_packets(limited: Limited) -> list[SignallingWait]:
    """Return the promotions that packets alone suggest for a connection; the cause is not proved.

    In the capture at the host that opened the connection, over all its connections: the first packet after an idle time
    waits for its answer, others of the same connection do not, and one length of idle time divides those before which
    the radio slept from the others: its inactivity timer.
    """
    transfer = limited.transfer
    place = next((each for each in (transfer.at_sender, transfer.at_receiver) if _is_at_initiator(each)), None)
    if place is None or transfer.clock_steps:
        return []
    segments, partition = place.capture.tables.segments, place.capture.analysis.partition
    if not len(segments) == len(partition.direction) <= _MOST_SEGMENTS:
        return []
    at_initiator = place.capture.analysis.directions["vantage"][::2] == Vantage.NEAR_SENDER
    own = np.flatnonzero(at_initiator[partition.direction // 2] & (segments["time_ns"] != NOT_A_TIME))
    own = own[np.argsort(segments["time_ns"][own], kind="stable")]
    time_ns, connection = segments["time_ns"][own], partition.direction[own] // 2 + 1
    result = _first_after_idle(segments.take(own), connection, partition.direction[own] % 2 == 1)
    if result is None:
        return []
    slept, end_ns = result
    mine = connection[slept] == place.connection
    begin_ns, end_ns = time_ns[slept][mine], end_ns[mine]
    if place is transfer.at_receiver:
        begin_ns, end_ns = transfer.receiver_time(begin_ns), transfer.receiver_time(end_ns)
    near = np.minimum(np.searchsorted(transfer.time_ns, begin_ns), len(transfer.time_ns) - 1)
    return [
        SignallingWait(RadioCause.PROMOTION, begin, end, "", evidence=(f"sender:{row}",), is_inferred=True)
        for begin, end, row in zip(begin_ns.tolist(), end_ns.tolist(), near.tolist(), strict=True)
        if _is_after_idle(limited, begin)
    ]


def _is_after_idle(limited: Limited, begin_ns: int) -> bool:
    """Return whether a packet begins the connection, or the programs had nothing to send before it.

    A gap in a bulk transfer, of a window or a repair, is no idle time.
    """
    cells = limited.cells
    cell = int(np.searchsorted(cells.begin, begin_ns - NS_PER_MS, side="right")) - 1
    return cell < 0 or bool(cells.limit[cell] == Limit.APPLICATION)


def _is_at_initiator(place: ConnectionAtPoint | None) -> bool:
    if place is None:
        return False
    row = 2 * (place.connection - 1)
    return bool(place.capture.analysis.directions["vantage"][row] == Vantage.NEAR_SENDER)


def _first_after_idle(segments: Table, connection: Numbers, is_in: Mask) -> tuple[Numbers, Times] | None:
    """Return which packets (in order of time) waited for a radio that slept, and when each wait ended; else None."""
    time_ns, answer = segments["time_ns"], _next(connection, is_in)
    place = np.arange(len(time_ns))
    asks = ~is_in & ((segments["payload_bytes"] > 0) | (segments["flags"] & np.uint16(Flag.SYN) != 0))
    last_in = np.maximum.accumulate(np.where(is_in, place, -1))
    last_ask = np.append(-1, np.maximum.accumulate(np.where(asks, place, -1))[:-1])
    first = np.flatnonzero(asks & (last_in > last_ask) & (answer < len(time_ns)))  # the first after an answer
    if len(first) < 2 * _MIN_WAITS:
        return None
    idle_ns, waited_ns = time_ns[first] - time_ns[first - 1], time_ns[answer[first]] - time_ns[first]
    is_busy = idle_ns < _IDLE_NS
    if int(is_busy.sum()) < _MIN_WAITS:
        return None
    typical_ns = int(np.median(waited_ns[is_busy]))
    is_busy |= idle_ns < _MIN_ROUNDS * typical_ns
    waits = waited_ns >= max(2 * typical_ns, typical_ns + _MIN_DELAY_NS)
    slept = waits & ~is_busy & (waited_ns <= typical_ns + _MAX_DELAY_NS)
    slept &= np.isin(connection[first], connection[first[~waits]])  # else its other end is far away
    # A request that was sent again may have been lost, unless the answer echoes the first copy (Eifel, RFC 3522).
    tsval = segments["tsval"][first]
    is_echoed = (tsval != 0) & (segments["tsecr"][answer[first]] == tsval)
    slept &= is_echoed | (_next(connection, asks)[first] > answer[first])
    if int(slept.sum()) < _MIN_WAITS:
        return None
    longer = idle_ns >= max(_SHORTEST_IDLE_NS, _dividing(idle_ns, waits))
    slept &= longer & (waited_ns <= _SPREAD * np.median(waited_ns[slept]))
    if int(slept.sum()) < _MIN_WAITS or int((~longer).sum()) < _MIN_WAITS:
        return None
    if (waits & ~is_busy)[longer].mean() < _MOST or waits[~longer].mean() > _FEW:
        return None
    return first[slept], np.asarray(time_ns[answer[first[slept]]] - int(waited_ns.min()))  # an upper bound


def _next(connection: Numbers, chosen: Mask) -> Numbers:
    """Return the place of the next chosen packet of the same connection for each; the number of packets if none."""
    none = len(connection)
    order = np.argsort(connection, kind="stable")
    those = np.flatnonzero(chosen[order])
    there = np.append(order[those], none)[np.searchsorted(those, np.arange(none), side="right")]
    following = np.empty(none, np.int64)
    following[order] = np.where(np.append(connection, -1)[there] == connection[order], there, none)
    return following


def _dividing(idle_ns: Times, waits: Mask) -> int:
    """Return the idle time above which most requests wait, and below which most do not: with the fewest exceptions."""
    order = np.argsort(idle_ns, kind="stable")
    wrong_below = np.append(0, np.cumsum(waits[order]))
    wrong_above = np.append(0, np.cumsum(~waits[order][::-1]))[::-1]
    place = int(np.argmin(wrong_below + wrong_above))
    return int(idle_ns[order[place]]) if place < len(order) else int(idle_ns.max()) + 1
