"""The rows of PROCEDURES: requests of phone or network with their answers, how they ended, and how long it took.

A table of procedures says which messages begin and end each one. Changes of a serving cell come from HANDOVERS,
which has their rules. Two copies of a NAS message, of the NAS log and of the RRC message that carries it, are
messages of one procedure: the first one counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.signalling.messages import runs_of, table_of
from multitracer.analysis.signalling.states import DETACHES, is_imsi_detach
from multitracer.schemas.signalling import HANDOVERS, PROCEDURES, SIGNALLING, HandoverKind, ProcedureResult, Result
from multitracer.tables import NA
from multitracer.units import NS_PER_S
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from multitracer.analysis.signalling.messages import MessageRun, SignallingMessage
    from multitracer.tables import Table

_MOST_FRAMES = 16
"""Maximum number of frames that a row lists, as its column holds; an attach without repetitions has ten."""
_PAGED_NS = 5 * NS_PER_S
"""Maximum time from a paging to the request that answers it; T3413 of the network is longer, phones take 0.1 s."""
_CALLED = ("mt-", "terminating")
"""Begin of the causes of a request that answers a paging (TS 36.331, TS 38.331 and TS 25.331: establishmentCause)."""
_CHANGE_NS = {HandoverKind.REDIRECTION: 60 * NS_PER_S}
_HANDOVER_NS = 12 * NS_PER_S
"""Maximum times of a change of cell from command to reply, as in `parsers._signalling.changes`."""


class _Kind(NamedTuple):
    """A kind of procedure: the names of its messages in lower case, and how long it may take.

    `begins` also repeat the request. An `accepts` is an answer after which only `completes` are due, and may be the
    end. What `stops` fails it. `replaces` begins another procedure instead. A `shared` message ends only a procedure
    that is in progress.
    """

    name: str
    begins: tuple[str, ...]
    completes: tuple[str, ...]
    rejects: tuple[str, ...] = ()
    accepts: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    longest_s: int = 15
    shared: tuple[str, ...] = ()
    by_transaction: bool = False
    repeats: bool = True
    """Whether a second request within the time is a copy or a repetition; if not, the first one is unanswered."""

    @property
    def names(self) -> set[str]:
        """Names of all its messages."""
        return {*self.begins, *self.completes, *self.rejects, *self.accepts, *self.stops, *self.replaces}


_RELEASES = ("rrcconnectionrelease", "rrcrelease")
_BEARERS = ("LTE rrcconnectionreconfigurationcomplete", "UMTS securitymodecomplete")
_KINDS = (
    _Kind(  # TS 36.331, 5.3.3; TS 38.331, 5.3.3; T300 is at most 2 s, in UMTS 8 s
        "RRC set-up", ("rrcconnectionrequest", "rrcsetuprequest"), ("rrcconnectionsetupcomplete", "rrcsetupcomplete"),
        ("rrcconnectionreject", "rrcreject"), ("rrcconnectionsetup", "rrcsetup"), longest_s=10, repeats=False,
    ),
    _Kind(  # TS 36.331, 5.3.3.3a; TS 38.331, 5.3.13; T319 is at most 2 s
        "resume", ("rrcconnectionresumerequest", "rrcresumerequest", "rrcresumerequest1"),
        ("rrcconnectionresumecomplete", "rrcresumecomplete"), ("rrcconnectionreject", "rrcreject", *_RELEASES),
        ("rrcconnectionresume", "rrcresume"), replaces=("rrcconnectionsetup", "rrcsetup"), longest_s=10,
        shared=("rrcconnectionreject", "rrcreject", *_RELEASES), repeats=False,
    ),
    _Kind(  # TS 24.301, 5.5.1; T3410 is 15 s
        "attach", ("attach request",), ("attach complete",), ("attach reject",), ("attach accept",), replaces=DETACHES,
        longest_s=20,
    ),
    _Kind(  # TS 24.501, 5.5.1; T3510 is 15 s
        "registration", ("registration request",), ("registration accept",), ("registration reject",),
        replaces=DETACHES,
    ),
    _Kind(  # TS 24.301, 5.5.3; T3430 is 15 s
        "tracking area update", ("tracking area update request",), ("tracking area update accept",),
        ("tracking area update reject",), replaces=(*DETACHES, "attach request"),
    ),
    _Kind(  # TS 24.008, 4.7.5; T3330 is 15 s
        "routing area update", ("routing area update request",), ("routing area update accept",),
        ("routing area update reject",), replaces=DETACHES,
    ),
    _Kind(  # TS 24.008, 4.4; T3210 is 20 s
        "location update", ("location updating request",), ("location updating accept",),
        ("location updating reject",), longest_s=20,
    ),
    _Kind(  # TS 24.301, 5.6.1, and TS 24.008, 4.7.13: the bearers or the security of the radio are an answer, too;
        # TS 24.501, 5.6.1; T3517 is 15 s
        "service request", ("service request", "extended service request", "control plane service request"),
        ("service accept", *_BEARERS), ("service reject",), stops=_RELEASES,
        replaces=(*DETACHES, "attach request", "tracking area update request"), shared=_BEARERS,
    ),
    _Kind(  # TS 24.301, 6.5.1: the network's answer gives the address; T3482 is 8 s
        "PDN connection", ("pdn connectivity request",), ("activate default eps bearer context request",),
        ("pdn connectivity reject", "attach reject"), replaces=DETACHES, longest_s=10, by_transaction=True,
        shared=("attach reject",),
    ),
    _Kind(  # TS 24.501, 6.4.1; T3580 is 16 s
        "PDU session", ("pdu session establishment request",), ("pdu session establishment accept",),
        ("pdu session establishment reject",), replaces=DETACHES, longest_s=20, by_transaction=True,
    ),
    _Kind(  # TS 24.008, 6.1.3.1; T3380 is 30 s
        "PDP context", ("activate pdp context request",), ("activate pdp context accept",),
        ("activate pdp context reject",), replaces=DETACHES, longest_s=30,
    ),
    _Kind("release", (), ("rrcconnectionrelease", "rrcrelease")),  # one message: TS 36.331, 5.3.8
)  # fmt: skip


@dataclass(slots=True)
class _Open:
    """A procedure in progress."""

    number: int
    """Of its kind."""
    begin: SignallingMessage | None
    """None if the log begins within it."""
    transaction: int
    frames: list[int]
    rat: str
    cell: dict[str, int]
    paging: SignallingMessage | None
    """The last paging before it; whom it called is not read."""
    accept: SignallingMessage | None = None
    ciphered: int = 0


@dataclass(slots=True)
class _Card:
    """The procedures of one card within one clock; `take` each message in turn, then `finish`."""

    run: MessageRun
    rows: list[dict[str, object]] = field(default_factory=list)
    _open: list[_Open] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)
    """Kinds of which the run has had a message, so that a later answer has its request in the log, or it is lost."""
    _paging: SignallingMessage | None = None
    _cell: dict[str, int] = field(default_factory=dict)
    _identities: dict[tuple[int, int], int] = field(default_factory=dict)

    def take(self, message: SignallingMessage) -> None:
        """Process one message."""
        self._locate(message)
        for each in self._open if message.encrypted == 1 else ():
            each.ciphered += 1
        if message.name.startswith("paging"):
            self._paging = message
        self._expire(message)
        for name in (message.name, f"{message.rat} {message.name}"):
            for number in _BY_NAME.get(name, ()):
                if name in _KINDS[number].replaces and is_imsi_detach(message):
                    continue  # of circuits alone: the request goes on
                self._end_others(number, name, message)
                self._step(number, name, message)

    def finish(self) -> None:
        """End what is in progress: the log, or its clock, ends."""
        for each in self._open:
            if each.accept is not None and each.begin is not None:
                self._end(each, each.accept, ProcedureResult.COMPLETE)
            else:
                self._end(each, None, ProcedureResult.CUT, self.run.why(begin=each.begin is None))

    def _locate(self, message: SignallingMessage) -> None:
        """Note the cell of a message, and the identity of a cell that it broadcasts."""
        cell = {"physical_cell_id": message.physical_cell_id, "channel": message.channel}
        if NA not in (message.cell_id, message.physical_cell_id):
            self._identities[message.physical_cell_id, message.channel] = message.cell_id
        if message.logical_channel.endswith(("DCCH", "CCCH")) and message.channel != NA:
            self._cell = cell | {"cell_id": self._identities.get((message.physical_cell_id, message.channel), NA)}

    def _expire(self, message: SignallingMessage) -> None:
        for each in [each for each in self._open if self._is_over(each, message)]:
            self._open.remove(each)
            self._unanswered(each)

    def _is_over(self, each: _Open, message: SignallingMessage) -> bool:
        begin_ns = each.begin.time_ns if each.begin is not None else self.run.messages[0].time_ns
        return message.time_ns - begin_ns > _KINDS[each.number].longest_s * NS_PER_S

    def _unanswered(self, each: _Open, reason: str = "") -> None:
        if each.begin is None:
            self._end(each, None, ProcedureResult.CUT, self.run.why(begin=True))
        elif each.accept is not None:
            self._end(each, each.accept, ProcedureResult.COMPLETE)
        elif each.ciphered and not reason:
            words = f"{count(each.ciphered, 'message')} after it cannot be read (ciphered)"
            self._end(each, None, ProcedureResult.UNREADABLE, words)
        else:
            self._end(
                each, None, ProcedureResult.UNANSWERED, reason or f"no reply in {_KINDS[each.number].longest_s} s"
            )

    def _end_others(self, number: int, name: str, message: SignallingMessage) -> None:
        """End all but the first request of a kind with a message that is of none of their transactions."""
        kind = _KINDS[number]
        if name in kind.replaces or (name in kind.shared and name not in kind.completes):
            for other in [each for each in self._open if each.number == number][1:]:
                self._answer(other, name, message)

    def _step(self, number: int, name: str, message: SignallingMessage) -> None:
        kind = _KINDS[number]
        if not kind.begins:  # one message
            self._end(self._opened(number, message, None), message, ProcedureResult.COMPLETE)
            return
        waiting = (each for each in self._open if each.number == number)
        each = next((each for each in waiting if not kind.by_transaction or _fits(each, message)), None)
        if name in kind.begins:
            self._seen.add(number)
            if each is not None and kind.repeats:
                _note(each, message)
                each.cell = each.cell or self._cell
                return
            if each is not None:
                self._open.remove(each)
                self._unanswered(each, "the request was repeated")
            self._open.append(self._opened(number, message, message))
            return
        if each is None:
            first = number not in self._seen and name not in (*kind.shared, *kind.stops, *kind.replaces)
            if not first or message.time_ns - self.run.messages[0].time_ns > kind.longest_s * NS_PER_S:
                return
            self._seen.add(number)
            if any(name in _KINDS[other.number].names for other in self._open):
                return  # it answers another request, such as that of a resume
            each = self._opened(number, message, None)
            self._open.append(each)
        self._answer(each, name, message)

    def _answer(self, each: _Open, name: str, message: SignallingMessage) -> None:
        kind = _KINDS[each.number]
        if name not in kind.replaces:
            _note(each, message)
        if name in kind.accepts:
            each.accept = each.accept or message
            return
        self._open.remove(each)
        if name in kind.completes:
            self._end(each, message, ProcedureResult.COMPLETE)
        elif name in kind.replaces:
            if each.accept is not None:
                self._end(each, each.accept, ProcedureResult.COMPLETE)
            else:
                self._end(each, message, ProcedureResult.REPLACED, f"{message.message} came instead")
        elif name in kind.stops:
            redirected = each.begin is not None and each.begin.name.startswith("extended")
            words = "the connection was released"  # of a call to another technology it is the answer
            self._end(each, message, *((ProcedureResult.COMPLETE,) if redirected else (ProcedureResult.FAILED, words)))
        elif name in _RELEASES and _purpose(each.begin).lower() == "rna-update":  # TS 38.331, 5.3.13.8
            self._end(each, message, ProcedureResult.COMPLETE)
        else:
            self._end(each, message, ProcedureResult.REJECTED)

    def _opened(self, number: int, message: SignallingMessage, begin: SignallingMessage | None) -> _Open:
        return _Open(number, begin, message.transaction, [message.frame], message.rat, self._cell, self._paging)

    def _end(self, each: _Open, end: SignallingMessage | None, result: ProcedureResult, reason: str = "") -> None:
        kind, begin = _KINDS[each.number], each.begin
        if end is not None and kind.begins and begin is None:
            result, reason = ProcedureResult.CUT, self.run.why(begin=True)
        row: dict[str, object] = {
            "card": self.run.card, "kind": kind.name, "result": str(result), "reason": reason, "rat": each.rat,
            "purpose": _purpose(begin), **each.cell, "frames": _listed(each.frames),
        }  # fmt: skip
        if end is not None:
            row |= {"cause": end.cause, "cause_number": end.cause_number}
        if not kind.begins and end is not None:
            begin = end
            row["purpose"] = "suspend" if {"suspendConfig", "rrc-InactiveConfig"} & {*end.elements.split()} else ""
        if (first := begin or end) is not None:
            row["error_ns"] = self.run.error_ns(first, end)
        row |= _timed(begin, end)
        self.rows.append(row)
        if begin is not None and each.paging is not None and _purpose(begin).lower().startswith(_CALLED):
            waited_ns = begin.time_ns - each.paging.time_ns
            more = {"kind": "paging to set-up", "frames": _listed([each.paging.frame, *each.frames])}
            self.rows += [row | _timed(each.paging, end) | more] if 0 <= waited_ns <= _PAGED_NS else []


_BY_NAME: dict[str, list[int]] = {}
for _number, _kind in enumerate(_KINDS):
    for _each in _kind.names:
        _BY_NAME.setdefault(_each, []).append(_number)


def _note(each: _Open, message: SignallingMessage) -> None:
    """Add the frame of a message of a procedure, as far as its row can list it."""
    if len(each.frames) < _MOST_FRAMES and message.frame not in each.frames:
        each.frames.append(message.frame)


def _fits(each: _Open, message: SignallingMessage) -> bool:
    """Return whether a message may belong to a procedure, by its transaction; 0 is of no transaction."""
    return each.transaction in (NA, message.transaction) or message.transaction in (NA, 0)


def _purpose(begin: SignallingMessage | None) -> str:
    """Return the cause that a request of RRC gives; the cause of another message is of its answer."""
    return begin.cause if begin is not None and begin.layer == "rrc" else ""


def _timed(begin: SignallingMessage | None, end: SignallingMessage | None) -> dict[str, object]:
    """Return the columns of time; an end whose time contradicts the order of the log has that of the begin."""
    row: dict[str, object] = {}
    if begin is not None:
        row |= {"begin_ns": begin.time_ns, "begin_frame": begin.frame}
    if end is not None:
        end_ns = end.time_ns if begin is None else max(begin.time_ns, end.time_ns)
        row |= {"end_ns": end_ns, "end_frame": end.frame}
        if begin not in (None, end) and end.time_ns >= begin.time_ns:
            row |= {"duration_ns": end_ns - begin.time_ns}
    return row


def _listed(frames: Iterable[int]) -> str:
    return " ".join(map(str, list(dict.fromkeys(frames))[:_MOST_FRAMES]))


def procedures_of(tables: Mapping[str, Table]) -> Table:
    """Return PROCEDURES of the tables of one log.

    Parameters
    ----------
    tables : mapping of str to Table
        Its tables `signalling` and `handovers`; without them the result has no rows.

    Returns
    -------
    Table
        In the order of `begin_ns`, or of `end_ns` where the log begins within a procedure.
    """
    rows: list[dict[str, object]] = []
    if (signalling := tables.get(SIGNALLING.name)) is not None:
        runs = list(runs_of(signalling))
        for run in runs:
            card = _Card(run)
            for message in run.messages:
                card.take(message)
            card.finish()
            rows += card.rows
        rows += _changes(tables.get(HANDOVERS.name), runs)
    table = table_of(PROCEDURES, rows)
    time_ns = np.where(table.missing("begin_ns"), table["end_ns"], table["begin_ns"])
    return table.take(np.argsort(time_ns, kind="stable"))


_OF_CHANGE = {Result.COMPLETE.value: ProcedureResult.COMPLETE, Result.FAILED.value: ProcedureResult.FAILED,
              Result.RE_ESTABLISHED.value: ProcedureResult.RE_ESTABLISHED}  # fmt: skip


def _changes(handovers: Table | None, runs: list[MessageRun]) -> Iterator[dict[str, object]]:
    """Yield a row for each commanded change of a cell, and for each measurement report that a command answered."""
    if handovers is None:
        return
    by_frame = {(run.card, message.frame): (run, message) for run in runs for message in reversed(run.messages)}
    for change in handovers.rows():
        card = NA if change["modem"] is None else change["modem"]
        run, command = by_frame.get((card, change["command_line"]), (None, None))
        if run is None or command is None:  # the phone changed by itself
            continue
        names = ("rat", "physical_cell_id", "channel", "cell_id")
        source = {name: change[f"source_{name}"] for name in names}
        if change["kind"].startswith("secondary"):  # the phone is in the cell that commands it
            source = {name: getattr(command, name) for name in names}
        common = {"card": card, "result": str(ProcedureResult.COMPLETE), **source}
        _, report = by_frame.get((card, change["trigger_line"]), (None, None))
        if report is not None:
            times = _timed(report, command) | {"error_ns": run.error_ns(report, command, is_of_report=True)}
            yield {**common, **times, "kind": "report to command", "frames": _listed([report.frame, command.frame])}
        longest_ns = _CHANGE_NS.get(change["kind"], _HANDOVER_NS)
        result, reason = _OF_CHANGE.get(change["result"], ProcedureResult.UNANSWERED), ""
        if result is ProcedureResult.UNANSWERED:
            reason = f"no reply in {longest_ns // NS_PER_S} s"
            if run.last_ns - command.time_ns <= longest_ns:
                result, reason = ProcedureResult.CUT, run.why(begin=False)
        end_ns, end_frame = change["complete_ns"], change["complete_line"]
        reply = None if end_ns is None else command._replace(time_ns=end_ns, frame=end_frame)
        _, last = by_frame.get((card, end_frame), (None, None))
        frames = _listed(frame for frame in (command.frame, end_frame) if frame is not None)
        more = {"kind": change["kind"], "result": str(result), "reason": reason, "cause": change["cause"]}
        yield {**common, **_timed(command, reply), **more, "frames": frames, "error_ns": run.error_ns(command, last)}
