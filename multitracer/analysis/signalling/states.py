"""The rows of SIGNALLING_STATES from messages: RRC, registration, sessions, dual connectivity, carrier aggregation.

A state begins with the message that proves it, and is unknown before the first such message. Where the message
proves only that the phone was in a state by then (a request of an idle phone whose release the log does not have),
the error reaches back to the last message of the state before.

Without messages, the same states come from what a modem or a phone says, as far as it says them.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.signalling.messages import runs_of, table_of
from multitracer.schemas.radio import GAPS, PHONE_EVENTS, RADIO
from multitracer.schemas.signalling import HANDOVERS, SIGNALLING, SIGNALLING_STATES, HandoverKind, Result
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from multitracer.analysis.signalling.messages import MessageRun, SignallingMessage
    from multitracer.tables import Numbers, Table

_UNKNOWN = ""


class _Machine:
    """One state machine of one card: collects its rows while messages prove states."""

    def __init__(self, name: str, run: MessageRun) -> None:
        self._name, self._run = name, run
        self.state, self._number, self.rat = _UNKNOWN, NA, ""
        self.rows: list[dict[str, object]] = []
        self._evidence_ns: int | None = None
        """Time of the last message that proves the present state."""

    def enter(
        self, message: SignallingMessage, state: str, *, rat: str = "", number: int = NA, late: bool = False
    ) -> None:
        """Note that a message proves a state; `late` if the state may have begun before the message."""
        begin_ns = message.time_ns if not self.rows else max(message.time_ns, self._latest_ns())
        if (state, rat, number) == (self.state, self.rat, self._number):
            self._evidence_ns = begin_ns
            return
        self._close(begin_ns, message.frame)
        was, before_ns = self.state, self._evidence_ns
        self.state, self.rat, self._number, self._evidence_ns = state, rat, number, begin_ns
        if state == _UNKNOWN:
            return
        error_ns: int | None = self._run.error_ns(message)
        if late:
            seen_ns = before_ns if was != _UNKNOWN else None
            error_ns = None if seen_ns is None or error_ns is None else error_ns + begin_ns - seen_ns
        self.rows.append({
            "begin_ns": begin_ns, "error_ns": error_ns, "card": self._run.card, "machine": self._name, "state": state,
            "number": number, "rat": rat, "source": "signalling", "message": message.message,
            "begin_frame": message.frame,
        })  # fmt: skip

    def finish(self) -> list[dict[str, object]]:
        """Return the rows; the log ends, or its clock was set."""
        self._close(max(self._run.last_ns, self._latest_ns()), None)
        return [row for row in self.rows if row["begin_ns"] != row["end_ns"] or row["end_frame"] is None]

    @property
    def begin_ns(self) -> int:
        """Time at which the present state began, ns."""
        begin_ns = self.rows[-1]["begin_ns"]
        assert isinstance(begin_ns, int)
        return begin_ns

    def _latest_ns(self) -> int:
        end_ns = self.rows[-1].get("end_ns", self.begin_ns) if self.rows else 0
        assert isinstance(end_ns, int)
        return end_ns

    def _close(self, end_ns: int, frame: int | None) -> None:
        if self.state != _UNKNOWN:
            self.rows[-1] |= {"end_ns": end_ns, "end_frame": frame}


_CONNECTS = {
    "rrcconnectionsetup", "rrcsetup", "rrcconnectionresume", "rrcresume", "rrcconnectionreestablishment",
    "rrcreestablishment",
}  # fmt: skip
"""Messages after which the phone is connected (TS 36.331, 5.3.3.4, 5.3.3.4a, 5.3.7.5; TS 38.331, 5.3.3.4, 5.3.13.4)."""
_SETS_UP = {"rrcconnectionsetup", "rrcsetup"}
"""Those that begin a connection without any secondary cell."""
_OF_IDLE = {"rrcconnectionrequest", "rrcsetuprequest", "rrcconnectionresumerequest"}
"""Requests that only an idle phone sends (TS 36.331, 5.3.3.2 and 5.3.3.3a; TS 38.331, 5.3.3.2)."""
_RESUMES = {"rrcconnectionresumerequest"}
"""Of these, the one that an inactive phone sends, too (TS 36.331, 5.3.3.3a: LTE with a core network of 5G)."""
_OF_INACTIVE = {"rrcresumerequest", "rrcresumerequest1"}
_RELEASES = {"rrcconnectionrelease", "rrcrelease", "rrcconnectionreleasecomplete", "rrcconnectionreestablishmentreject"}
_OVER_SRB3 = {
    "rrcreconfiguration", "rrcreconfigurationcomplete", "measurementreport", "ueassistanceinformation",
    "failureinformation", "iabotherinformation",
}  # fmt: skip
"""NR messages that the NR leg of an LTE connection carries, too (TS 37.340, 7.5): they do not prove a connection of
NR."""
_LEAVES = ("mobilityfrom", "handoverfromutran")
_SUSPENDS = {"suspendConfig", "rrc-InactiveConfig"}


_OF_GSM = {
    "handover access",
    "handover complete",
    "assignment complete",
    "ciphering mode complete",
    "paging response",
    "classmark change",
    "measurement report",
}
"""What only a phone on a dedicated channel of GSM sends (TS 44.018, 9.1): no other technology has its connection."""


def _is_in_gsm(message: SignallingMessage) -> bool:
    return message.layer == "rr" and message.rat == "GSM" and message.name in _OF_GSM


class RrcState:
    """RRC: idle, inactive or connected; the state of the technology that the phone uses."""

    def __init__(self, run: MessageRun) -> None:
        self.machine = _Machine("RRC", run)
        self._is_leaving = False

    def take(self, message: SignallingMessage) -> None:
        """Process one message of RRC; a message inside another one has no channel, and proves nothing."""
        name, rat, machine = message.name, message.rat, self.machine
        if _is_in_gsm(message):
            machine.enter(message, _UNKNOWN)
        if not message.logical_channel or message.layer != "rrc":
            return
        if name in _RELEASES:
            is_suspended = bool(_SUSPENDS & {*message.elements.split()})
            machine.enter(message, "inactive" if is_suspended else "idle", rat=rat)
        elif name in _OF_IDLE | _OF_INACTIVE:
            was_inactive = (machine.state, machine.rat) == ("inactive", rat)
            is_inactive = name in _OF_INACTIVE or (name in _RESUMES and was_inactive)
            machine.enter(message, "inactive" if is_inactive else "idle", rat=rat, late=True)
        elif name in _CONNECTS or (message.logical_channel.endswith("DCCH") and self._is_proof(message)):
            late = name not in _CONNECTS and not self._is_leaving
            machine.enter(message, "connected", rat=rat, late=late)
            self._is_leaving = name.startswith(_LEAVES)

    def _is_proof(self, message: SignallingMessage) -> bool:
        return message.rat != "NR" or message.name not in _OVER_SRB3 or self._is_leaving or self.machine.rat == "NR"


DETACHES = ("detach request", "deregistration request (ue originating)", "deregistration request (ue terminated)")


def is_imsi_detach(message: SignallingMessage) -> bool:
    """Return whether a detach is from services of circuits alone: registration and sessions stay."""
    return "imsiDetach" in message.elements.split()


_REFUSED = {3, 6, 7, 8, 9, 10, 11, 12, 14, 27, 35, 40, 42}
"""Causes of TS 24.301, 5.5.3.2.5 and 5.6.1.5, and TS 24.501, 5.5.1.3.5 and 5.6.1.5, after which the phone is
deregistered; after another one it stays registered, and may be without service."""
_INITIATED = {
    "attach request": "registered-initiated", "registration request": "registered-initiated",
    "tracking area update request": "tracking-area-updating-initiated",
    "routing area update request": "routing-area-updating-initiated",
    "service request": "service-request-initiated", "extended service request": "service-request-initiated",
    "control plane service request": "service-request-initiated", "detach request": "deregistered-initiated",
    "deregistration request (ue originating)": "deregistered-initiated",
}  # fmt: skip
"""States of EMM, 5GMM and GMM (TS 24.301, 5.1.3.2; TS 24.501, 5.1.3.2; TS 24.008, 4.1.3.1)."""
_REGISTERED = {
    "attach accept", "attach complete", "registration accept", "registration complete", "tracking area update accept",
    "tracking area update complete", "routing area update accept", "routing area update complete", "service accept",
}  # fmt: skip
_OF_REGISTERED = {
    "emm information", "configuration update command", "guti reallocation command", "uplink nas transport",
    "downlink nas transport", "ul nas transport", "dl nas transport",
}  # fmt: skip
"""Messages that only a registered phone exchanges."""
_DEREGISTERED = {
    "detach accept", "deregistration accept (ue originating)", "deregistration accept (ue terminated)", "attach reject",
}  # fmt: skip
_REJECTS = {
    "registration reject", "tracking area update reject", "routing area update reject", "service reject",
}  # fmt: skip
_BEARERS = {("LTE", "rrcconnectionreconfigurationcomplete"), ("UMTS", "securitymodecomplete")}
"""Messages of RRC that answer a service request (TS 24.301, 5.6.1.4; TS 24.008, 4.7.13.3)."""
_INITIATED_NS = 20 * NS_PER_S
"""Maximum duration of a state between request and answer: T3410, T3430 and T3517 are 15 s, T3417 5 s."""
_MM = {"LTE": "EMM", "NR": "5GMM", "UMTS": "GMM", "GSM": "GMM"}


class RegistrationState:
    """EMM, 5GMM and GMM: deregistered, registered, and the states between a request and its answer."""

    def __init__(self, run: MessageRun) -> None:
        self.machines = {name: _Machine(name, run) for name in dict.fromkeys(_MM.values())}
        self._stable = dict.fromkeys(self.machines, _UNKNOWN)
        self._detaches_imsi = False

    def take(self, message: SignallingMessage) -> None:
        """Process one message of NAS, or of RRC that answers a service request or ends a connection."""
        name, rat = message.name, message.rat
        machine = self.machines.get(_MM.get(rat, ""))
        if machine is None:
            return
        which = _MM[rat]
        state = _UNKNOWN
        if message.layer == "nas":
            state = self._of_nas(which, machine, message)
        elif machine.state == "service-request-initiated" and ((rat, name) in _BEARERS or name in _RELEASES):
            state = "registered"  # TS 24.301, 5.6.1.6, and TS 24.501, 5.6.1.7: a release ends the request alone
        elif machine.state == "deregistered-initiated" and name in _RELEASES:
            state = "deregistered"
        if state != _UNKNOWN:
            machine.enter(message, state, rat=rat, late=name in _OF_REGISTERED)
            if not state.endswith("initiated"):
                self._stable[which] = state
        elif machine.state.endswith("initiated") and message.time_ns - machine.begin_ns > _INITIATED_NS:
            machine.enter(message, _UNKNOWN)  # its answer was lost, or is ciphered

    def _of_nas(self, which: str, machine: _Machine, message: SignallingMessage) -> str:
        name = message.name
        if name in DETACHES:
            self._detaches_imsi = is_imsi_detach(message)
        if self._detaches_imsi and (name in DETACHES or name == "detach accept"):
            return _UNKNOWN  # of circuits alone: it changes nothing (TS 24.301, 5.5.2.2.2)
        if name in _INITIATED:
            return "deregistered" if "switchOff" in message.elements.split() else _INITIATED[name]
        if name in _REGISTERED or name in _OF_REGISTERED:
            return _UNKNOWN if machine.state == "deregistered-initiated" else "registered"
        if name in _DEREGISTERED:
            return "deregistered"
        if name in _REJECTS:
            was_registered = self._stable[which] == "registered" or name != "registration reject"
            return "registered" if was_registered and message.cause_number not in _REFUSED else "deregistered"
        return _UNKNOWN


class SessionState:
    """EPS bearers, PDU sessions and PDP contexts: none or active, with their number where it is known."""

    def __init__(self, run: MessageRun) -> None:
        self.machine = _Machine("session", run)
        self._bearers: set[int] = set()
        self._is_complete = False
        """Whether the log shows all of them, from the attach on."""
        self._core = ""
        """Whose identities these are: those of EPS, 5GS and GPRS are different numbers of one session."""
        self._detaches_imsi = False

    def take(self, message: SignallingMessage) -> None:
        """Process one message of NAS."""
        name = message.name
        if name in DETACHES:
            self._detaches_imsi = is_imsi_detach(message)
        if self._detaches_imsi and (name in DETACHES or name == "detach accept"):
            return
        self._move(message)
        if name == "attach request" and message.rat == "LTE":
            self._bearers, self._is_complete = set(), True
            if self.machine.state == "active":  # who attaches was deregistered, and has none (TS 24.301, 5.5.1)
                self._enter(message, late=True)
        elif name in _DEREGISTERED or name in DETACHES[:2]:
            self._bearers, self._is_complete = set(), True
            self._enter(message)
        elif name in _ACTIVATES:
            self._bearers.add(message.bearer)
            self._enter(message)
        elif name in _DEACTIVATES:
            self._bearers.discard(message.bearer)
            self._enter(message)

    def _move(self, message: SignallingMessage) -> None:
        """Forget the sessions of another core network once the phone is registered, or has a session, in this one.

        Which of them moved with the phone (TS 23.502, 4.11) is in no message that is read.
        """
        core = _MM.get(message.rat, "")
        if message.layer != "nas" or not core or not (message.name in _REGISTERED or message.name in _ACTIVATES):
            return
        if self._core not in ("", core):
            self._bearers, self._is_complete = set(), False
            self.machine.enter(message, _UNKNOWN)
        self._core = core

    def _enter(self, message: SignallingMessage, *, late: bool = False) -> None:
        number = len(self._bearers) if self._is_complete and NA not in self._bearers else NA
        state = "active" if self._bearers else "none" if self._is_complete else _UNKNOWN
        self.machine.enter(message, state, number=number, late=late)


_ACTIVATES = {
    "activate default eps bearer context accept", "activate dedicated eps bearer context accept",
    "pdu session establishment accept", "activate pdp context accept",
}  # fmt: skip
_DEACTIVATES = {
    "deactivate eps bearer context accept", "pdu session release command", "deactivate pdp context accept",
}  # fmt: skip


class AggregationState:
    """Carrier aggregation: none or active, with the number of secondary cells where it is known."""

    def __init__(self, run: MessageRun) -> None:
        self.machine = _Machine("CA", run)
        self._cells: set[int] = set()
        self._is_complete = False
        self._ordered: tuple[int, str] | None = None
        """Transaction of a reconfiguration that names cells, and its elements."""

    def take(self, message: SignallingMessage) -> None:
        """Process one message of RRC; a command counts when the phone has confirmed it."""
        name, is_in_gsm = message.name, _is_in_gsm(message)
        if not is_in_gsm and (not message.logical_channel or message.layer != "rrc"):
            return
        if message.rat == "NR" and name in _OVER_SRB3 and self.machine.rat != "NR":
            return  # the NR leg of an LTE connection may have carried it: its cells are those of the leg
        if is_in_gsm or message.rat not in ("LTE", "NR"):
            self._cells, self._is_complete = set(), False
            self.machine.enter(message, _UNKNOWN)
        elif name in _SETS_UP or name in _RELEASES or name in _OF_IDLE or "reestablishmentrequest" in name:
            self._cells, self._is_complete, self._ordered = set(), True, None
            self._enter(message)
        elif "sCell" in message.elements:
            self._ordered = message.transaction, message.elements
        elif name.endswith("reconfigurationcomplete") and self._ordered is not None:
            transaction, elements = self._ordered
            if NA in (transaction, message.transaction) or transaction == message.transaction:
                self._change(elements)
                self._ordered = None
                self._enter(message)

    def _change(self, elements: str) -> None:
        for word in elements.split():
            sign, index = word[5:6], word[6:]
            if word.startswith("sCell") and index.isdigit():
                (self._cells.add if sign == "+" else self._cells.discard)(int(index))

    def _enter(self, message: SignallingMessage) -> None:
        number = len(self._cells) if self._is_complete else NA
        state = "active" if self._cells else "none" if self._is_complete else _UNKNOWN
        self.machine.enter(message, state, rat=message.rat, number=number, late=message.name in _OF_IDLE)


_ADDS = (HandoverKind.SECONDARY_ADDED.value, HandoverKind.SECONDARY_CHANGED.value)


class DualConnectivityState:
    """LTE only, EN-DC or NR; none while the phone has no connection.

    Parameters
    ----------
    run : MessageRun
    legs : dict of int to bool
        Whether the NR leg is there after a message, by the frame of the message (HANDOVERS).
    """

    def __init__(self, run: MessageRun, legs: dict[int, bool]) -> None:
        self.machine = _Machine("DC", run)
        self._legs = legs

    def take(self, message: SignallingMessage, rrc: _Machine) -> None:
        """Process one message, after `rrc` has."""
        if message.layer != "rrc":
            return
        if message.frame in self._legs and rrc.rat != "NR":
            self.machine.enter(message, "EN-DC" if self._legs[message.frame] else "LTE only", rat="LTE")
        if rrc.state in ("idle", "inactive"):
            self.machine.enter(message, "none", rat=rrc.rat, late=message.name in _OF_IDLE | _OF_INACTIVE)
        elif rrc.state == "connected" and rrc.rat == "NR":
            self.machine.enter(message, "NR", rat="NR")
        elif rrc.rat == "LTE" and (message.name in _CONNECTS or self.machine.state == "NR"):  # NR: handed over
            self.machine.enter(message, "LTE only", rat="LTE")
        elif rrc.state == "connected" and rrc.rat == "LTE" and self.machine.state == "none":
            self.machine.enter(message, _UNKNOWN)  # the log lacks the set-up, and what may have followed it
        elif rrc.state == "connected" and rrc.rat != "LTE":
            self.machine.enter(message, _UNKNOWN)


# --- the same states without a diagnostic log ---
#
# Sources are registration codes of AT commands (TS 27.007), the connection state of +CSCON and Quectel's +QENG,
# Android's service state, and its log of changes. What is asked is known only when it is asked: the error reaches back
# to the answer before. A code that a modem sent by itself comes after the change, nobody knows how long after.


_MACHINES = {"+CEREG": "EMM", "+C5GREG": "5GMM", "+CGREG": "GMM", "+CREG": "MM"}
_STAT_REGISTERED = {1, 5, 6, 7, 9, 10, 11}
"""Values of <stat> with a registration (TS 27.007, 7.2 and 10.1.22); 8 is for emergencies alone."""
_STAT_NOT_REGISTERED = {0, 2, 3, 8}
"""Values of <stat> without one (TS 27.007, 7.2)."""
_STAT_UNKNOWN = 4
"""Value of <stat> without coverage or knowledge (TS 27.007, 7.2)."""
_CONNECTIONS = {"NOCONN": "idle", "IDLE": "idle", "CONNECT": "connected", "CONNECTED": "connected"}
"""States of RRC by the words of +QENG and +CSCON."""
_BY_ITSELF = "+CSCON"
"""Source that modems report when it changes, and that no profile asks for."""
_SOURCES = (*_MACHINES, "+QENG", "+CSCON", "mServiceState")
_SERVICES = {
    "IN_SERVICE": "registered", "OUT_OF_SERVICE": "deregistered", "EMERGENCY_ONLY": "deregistered",
    "POWER_OFF": "deregistered",
}  # fmt: skip
"""States by the names of Android's ServiceState; its numbers are their order."""
_DATA_STATES = {"CONNECTED": "active", "DISCONNECTED": "none"}


class _Statement(NamedTuple):
    """One statement of a modem or phone."""

    machine: str
    source: str
    card: int
    time_ns: int
    line: int
    state: str
    """Empty if the statement is that the state is unknown."""
    words: str
    rat: str
    by_itself: bool
    """Whether nobody asked."""
    within_ns: int | None = None
    """Duration of the answer to another command in which it came by itself; None if it came in none."""


def _reported(tables: Mapping[str, Table]) -> list[dict[str, object]]:
    """Return rows of SIGNALLING_STATES from the tables `radio`, `gaps` and `phone_events` of one log."""
    chains: dict[tuple[str, str, int], list[_Statement]] = {}
    for statement in (*_of_radio(tables.get(RADIO.name)), *_of_events(tables.get(PHONE_EVENTS.name))):
        chains.setdefault((statement.machine, statement.source, statement.card), []).append(statement)
    gaps = [row["time_ns"] for row in tables[GAPS.name].rows()] if GAPS.name in tables else []
    return [row for chain in chains.values() for row in _rows(chain, sorted(filter(None, gaps)))]


def _of_radio(radio: Table | None) -> Iterator[_Statement]:
    if radio is None:
        return
    rows = np.flatnonzero(
        np.isin(radio["source"], _SOURCES) & np.isin(radio["role"], ("serving", "")) & ~radio.missing("time_ns")
    )
    names = ("source", "state", "registration", "modem", "time_ns", "line", "rat")
    columns = [radio[name][rows].tolist() for name in names]
    alone = ((radio["asked_ns"] == radio["answered_ns"]) & ~radio.missing("asked_ns"))[rows].tolist()
    within = _within_other_answers(radio)[rows].tolist()
    for source, word, stat, card, time_ns, line, rat, by_itself, within_ns in zip(*columns, alone, within, strict=True):
        machine, state, words = "registration", _SERVICES.get(word, ""), word
        if source in _MACHINES:
            state = "registered" if stat in _STAT_REGISTERED else "deregistered" if stat in _STAT_NOT_REGISTERED else ""
            machine, words = _MACHINES[source], f"{source}: {stat}"
        elif source != "mServiceState":
            machine, state, words = "RRC", _CONNECTIONS.get(word, ""), f"{source}: {word}"
        if state or stat == _STAT_UNKNOWN:
            inside = None if within_ns == NA else within_ns
            yield _Statement(machine, source, card, time_ns, line, state, words, rat, by_itself, inside)


def _within_other_answers(radio: Table) -> Numbers:
    """Return for each row that a modem said by itself in the answer to another command how long that took, ns; or NA.

    Such an answer has readings of its own command in the same line of the log. Only +CSCON is never asked.
    """
    lines = radio["line"]
    others = np.unique(lines[radio["source"] != _BY_ITSELF])
    took = np.where(radio.missing("asked_ns"), NA, radio["answered_ns"] - radio["asked_ns"])
    is_inside = (radio["source"] == _BY_ITSELF) & np.isin(lines, others) & (took > 0)
    return np.where(is_inside, took, NA)


def _of_events(events: Table | None) -> Iterator[_Statement]:
    """Yield the changes that Android logs: EventLogTags.logtags of frameworks/opt/telephony."""
    for row in events.rows() if events is not None else ():
        values = [each.strip() for each in row["text"].strip("[] ").split(",")]
        state, machine = "", ""
        if row["event"] == "gsm_service_state_change" and len(values) == 4 and values[3] in ("0", "1", "2", "3"):
            machine, state = "registration", list(_SERVICES.values())[int(values[3])]
        elif row["event"] == "gsm_data_state_change" and values[-1] in _DATA_STATES:
            machine, state = "session", _DATA_STATES[values[-1]]
        if state and row["time_ns"] is not None:
            words = f"{row['event']} {row['text']}"
            yield _Statement(machine, "logcat", NA, row["time_ns"], row["line"], state, words, "", by_itself=True)


def _rows(chain: list[_Statement], gaps_ns: list[int]) -> Iterator[dict[str, object]]:
    """Yield the states of one machine of one source; a gap in the log ends what is known."""
    chain.sort(key=lambda statement: statement.time_ns)
    begin, error_ns = chain[0], None
    for last, statement in [*pairwise(chain), (chain[-1], None)]:
        is_gap = statement is not None and bisect_left(gaps_ns, last.time_ns) < bisect_left(gaps_ns, statement.time_ns)
        if statement is not None and not is_gap and (statement.state, statement.rat) == (begin.state, begin.rat):
            continue
        end = last if statement is None or is_gap else statement
        if begin.state:
            yield {
                "begin_ns": begin.time_ns, "end_ns": end.time_ns, "error_ns": error_ns, "card": begin.card,
                "machine": begin.machine, "state": begin.state, "rat": begin.rat, "source": begin.source,
                "message": begin.words, "begin_frame": begin.line, "end_frame": None if end is last else end.line,
            }  # fmt: skip
        if statement is not None:
            begin, error_ns = statement, None if is_gap or statement.by_itself else statement.time_ns - last.time_ns
            if statement.within_ns is not None and not is_gap:
                error_ns = statement.within_ns


def states_of(tables: Mapping[str, Table]) -> Table:
    """Return SIGNALLING_STATES of the messages of one log, or of what a modem or a phone says.

    Parameters
    ----------
    tables : mapping of str to Table
        Its tables `signalling` and `handovers`, `radio`, `gaps` and `phone_events`, as far as it has them.

    Returns
    -------
    Table
        In the order of `begin_ns`; the rows of one card and machine do not overlap within one clock of the log.
    """
    rows = _reported(tables)
    if (signalling := tables.get(SIGNALLING.name)) is not None:
        for run in runs_of(signalling):
            rows += _of_run(run, _legs(tables.get(HANDOVERS.name), run.card))
    table = table_of(SIGNALLING_STATES, rows)
    return table.take(np.argsort(table["begin_ns"], kind="stable"))


def _of_run(run: MessageRun, legs: dict[int, bool]) -> list[dict[str, object]]:
    rrc, registration, session = RrcState(run), RegistrationState(run), SessionState(run)
    aggregation, dual = AggregationState(run), DualConnectivityState(run, legs)
    for message in run.messages:
        rrc.take(message)
        registration.take(message)
        session.take(message)
        aggregation.take(message)
        dual.take(message, rrc.machine)
    machines = [rrc.machine, *registration.machines.values(), session.machine, dual.machine, aggregation.machine]
    return [row for machine in machines for row in machine.finish()]


def _legs(handovers: Table | None, card: int) -> dict[int, bool]:
    """Return whether the NR leg is there after a message of one card, by its frame."""
    legs: dict[int, bool] = {}
    for change in handovers.rows() if handovers is not None else ():
        if (NA if change["modem"] is None else change["modem"]) != card or change["complete_line"] is None:
            continue
        is_complete = change["result"] == Result.COMPLETE.value
        if change["kind"] in _ADDS and (is_complete or change["result"] == Result.FAILED.value):
            legs[change["complete_line"]] = is_complete
        elif change["kind"] == HandoverKind.SECONDARY_RELEASED.value:
            legs[change["complete_line"]] = False
    return legs
