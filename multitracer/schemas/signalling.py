"""Tables of the signalling between a phone and its network: messages, cell changes, procedures and states.

`signalling` has a row for each message of radio resource control (RRC), mobility and session management (NAS)
or the link layers below them. `handovers` has a row for each change of a serving cell. Its rows are derived
from the messages or, without messages, from a table `radio`; `evidence` names the source. A missing value is
NA, never 0. Identities of a subscriber or of a phone (IMSI, IMEI, numbers) are in no column.
`procedures` and `signalling_states` are derived from these two tables, or from what a phone or a modem says without
a diagnostic log.
"""

from __future__ import annotations

from enum import StrEnum

from multitracer.schemas.schema import Column, Schema

_CELL_COLUMNS = (
    ("rat", "U8", "GSM, UMTS, LTE, NR as in the table radio; empty if unknown"),
    ("physical_cell_id", "int64", "PCI, or primary scrambling code"),
    ("channel", "int64", "ARFCN, UARFCN, EARFCN or NR-ARFCN of the downlink"),
    ("cell_id", "int64", "cell identity within the network"),
)


class HandoverKind(StrEnum):
    """Kinds of change of a serving cell; the values of `kind` in HANDOVERS.

    Examples
    --------
    >>> drive = mt.open("sample_traces/rehearsed-drive")
    >>> set(drive.handovers["kind"]) == {mt.HandoverKind.CHANGE}
    True
    """

    HANDOVER = "handover"
    """The network ordered a change; also to another channel within one cell (TS 36.331, 5.3.5.4)."""
    INTER_RAT = "inter-RAT handover"
    """The network ordered a change to another technology (TS 36.331, 5.4)."""
    REDIRECTION = "redirection"
    """The network released the connection and named the target (TS 36.331, 5.3.8.3)."""
    RE_ESTABLISHMENT = "re-establishment"
    """The phone lost its cell and asked another one to continue the connection (TS 36.331, 5.3.7)."""
    RESELECTION = "reselection"
    """The phone chose another cell (TS 36.304, 5.2.4), or it is not known who chose it."""
    SECONDARY_ADDED = "secondary added"
    """The NR leg of a dual connection began (TS 37.340, 10.2)."""
    SECONDARY_CHANGED = "secondary changed"
    """The NR leg moved to another cell (TS 37.340, 10.3 to 10.5)."""
    SECONDARY_RELEASED = "secondary released"
    """The NR leg ended (TS 37.340, 10.4)."""
    ACTIVE_SET = "active set"
    """Cells were added to, or removed from, the active set of a UMTS phone (TS 25.331, 8.3.4)."""
    CHANGE = "change"
    """The serving cell differs between two readings of the radio; nothing else is known."""


class Result(StrEnum):
    """Results of a change of the serving cell; the values of `result` in HANDOVERS."""

    COMPLETE = "complete"
    """The phone confirmed the change, or used the new cell."""
    FAILED = "failed"
    """The phone reported a failure."""
    RE_ESTABLISHED = "re-established"
    """The phone did not confirm the change; it then asked a cell to continue the connection."""
    UNKNOWN = "unknown"
    """The log does not contain the result."""


SIGNALLING = Schema(
    "signalling",
    (
        Column("time_ns", "int64", "as the diagnostic log or the capture has it", "ns since 1970"),
        Column("frame", "uint32", "frame in the GSMTAP capture, from 1; several messages may share one"),
        Column("modem", "int64", "which radio of a phone with several cards, from 0", na=True),
        Column("rat", "U8", "GSM, UMTS, LTE, NR; empty if unknown"),
        Column("layer", "U8", "rrc, nas, sms, rr (of GSM), rlc/mac; empty if unknown"),
        Column("direction", "U4", "up from the phone, down from the network; empty if the log does not say"),
        Column("logical_channel", "U20", "BCCH-DL-SCH, UL-DCCH, ...; empty if none"),
        Column("message", "U64", "its name in the standard; empty if tshark knows none"),
        Column("cause", "U64", "why, in the word of the standard; empty if it says none"),
        Column("cause_number", "int64", "of a cause of EMM, ESM, 5GMM or 5GSM (TS 24.301, TS 24.501)", na=True),
        Column("transaction", "int64", "RRC or session management (PTI) identifier, which a reply repeats", na=True),
        Column("bearer", "int64", "identity of the EPS bearer or PDU session", na=True),
        Column("elements", "U96", "parts that change a state: suspendConfig, switchOff, imsiDetach, sCell+1, ..."),
        Column("physical_cell_id", "int64", "of the cell that it was exchanged with", na=True),
        Column("channel", "int64", "ARFCN, UARFCN, EARFCN or NR-ARFCN of the downlink", na=True),
        Column("cell_id", "int64", "cell identity, in a message that broadcasts it", na=True),
        Column("area_code", "int64", "LAC or TAC, in a message that broadcasts it", na=True),
        Column("clock", "int64", "number of the stretch in which the log's times follow one clock, from 0"),
        Column("encrypted", "int64", "1 if its content is ciphered and was not read, 0 if not", na=True),
    ),
)
"""Messages between phone and network."""

HANDOVERS = Schema(
    "handovers",
    (
        Column("time_ns", "int64", "the command; else the first sign of the new cell", "ns since 1970"),
        Column("complete_ns", "int64", "the phone confirmed it, refused it or gave up", "ns since 1970"),
        Column("earliest_ns", "int64", "the old cell served until then at least", "ns since 1970"),
        Column("latest_ns", "int64", "the new cell served from then on", "ns since 1970"),
        Column("modem", "int64", "which radio of a phone with several cards, from 0", na=True),
        Column("kind", "U20", "handover, redirection, secondary added, ... (`multitracer.schemas.signalling.Kind`)"),
        *(
            Column(f"{which}_{name}", dtype, f"{words} cell: {doc}", na=dtype == "int64")
            for which, words in (("source", "old"), ("target", "new"))
            for name, dtype, doc in _CELL_COLUMNS
        ),
        Column("cause", "U48", "why, in the word of the standard; empty if nothing says it"),
        Column("result", "U16", "complete, failed, re-established or unknown"),
        Column("evidence", "U12", "signalling, cell id, PCI (with the channel) or technology"),
        Column("command_line", "int64", "frame of the command; line of the last row with the old cell", na=True),
        Column("complete_line", "int64", "frame of the reply; line of the first row with the new cell", na=True),
        Column("trigger_line", "int64", "frame of the measurement report before the command", na=True),
    ),
)
"""Changes of a serving cell, or of the NR leg that a dual connection adds."""


class ProcedureResult(StrEnum):
    """Results of a procedure between phone and network; the values of `result` in PROCEDURES."""

    COMPLETE = "complete"
    """The procedure reached its end."""
    REJECTED = "rejected"
    """The network refused it; `cause` says why."""
    FAILED = "failed"
    """The phone reported a failure, or the connection was released before the end."""
    RE_ESTABLISHED = "re-established"
    """A handover without a reply; the phone then asked a cell to continue the connection."""
    REPLACED = "replaced"
    """The phone or the network began another procedure instead."""
    UNANSWERED = "unanswered"
    """The log goes on and has no reply within the time that the standard gives, or the request was repeated."""
    UNREADABLE = "unreadable"
    """As `unanswered`, but messages came that are ciphered; one of them may be the reply."""
    CUT = "cut"
    """The log, or the time in which it follows one clock, begins or ends within the procedure."""


_FRAMES = "numbers of frames in the log, as in the table signalling"
_WHERE = (
    Column("rat", "U8", "GSM, UMTS, LTE, NR; empty if unknown"),
    Column("physical_cell_id", "int64", "PCI, or primary scrambling code, of the cell in which it began", na=True),
    Column("channel", "int64", "ARFCN, UARFCN, EARFCN or NR-ARFCN of that cell", na=True),
    Column("cell_id", "int64", "identity of that cell within the network", na=True),
)

PROCEDURES = Schema(
    "procedures",
    (
        Column("begin_ns", "int64", "its first message; missing if the log begins within it", "ns since 1970"),
        Column("end_ns", "int64", "the message that ended it; missing if the log has none", "ns since 1970"),
        Column("duration_ns", "int64", "missing without both, with one message, or if the times contradict", "ns"),
        Column("error_ns", "int64", "error of begin, end and duration: by how much the log's times are wrong", "ns"),
        Column("card", "int64", "which radio of a phone with several cards, from 0, as `modem` elsewhere", na=True),
        Column("kind", "U24", "attach, service request, RRC set-up, handover, ... (docs/signalling.md)"),
        Column("result", "U16", "complete, rejected, failed, unanswered, cut, ... (docs/signalling.md)"),
        Column("cause", "U64", "why the network or the phone ended it so, in the words of the standard"),
        Column("cause_number", "int64", "the cause's number in TS 24.301 or TS 24.501", na=True),
        Column("purpose", "U40", "why it began: establishment or resume cause; suspend of a release"),
        Column("reason", "U64", "why its result is cut, unanswered, unreadable, replaced or failed"),
        *_WHERE,
        Column("begin_frame", "int64", f"its first message; {_FRAMES}", na=True),
        Column("end_frame", "int64", "the message that ended it", na=True),
        Column("frames", "U176", "its messages in order, separated by blanks, at most 16"),
    ),
)
"""Procedures between phone and network: what was asked, how it ended, and how long it took."""

PROCEDURE_STATISTICS = Schema(
    "procedure_statistics",
    (
        Column("kind", "U24", "attach, service request, RRC set-up, handover, ... as in procedures"),
        Column("session", "U16", 'with by="session": of a campaign'),
        Column("host", "U64", 'with by="host": whose phone'),
        *_WHERE[:3],
        Column("hour_ns", "int64", 'with by="hour": begin of the hour, UTC', "ns since 1970"),
        Column("count", "int64", "procedures, without those that the log cuts"),
        Column("complete", "int64", "of these, complete"),
        Column("failures", "int64", "of these, rejected, failed, re-established or unanswered"),
        Column("causes", "U400", "failures by cause, the commonest first: 2 of 15: no suitable cells; 1 unanswered"),
        Column("durations", "int64", "complete ones whose duration is known"),
        Column("duration_median_ns", "float64", "median of these durations; NaN without one", "ns"),
        Column("duration_p95_ns", "float64", "their 95th percentile, between ranks linear", "ns"),
    ),
)
"""Procedures by kind, and by cell, hour, host or session: how many, how they failed, and how long they took."""

SIGNALLING_STATES = Schema(
    "signalling_states",
    (
        Column("begin_ns", "int64", "the message or reading that proves the state", "ns since 1970"),
        Column("end_ns", "int64", "the next state began, or the last message of the log", "ns since 1970"),
        Column("error_ns", "int64", "by how much earlier it may have begun; missing if unknown", "ns"),
        Column("card", "int64", "which radio of a phone with several cards, from 0, as `modem` elsewhere", na=True),
        Column("machine", "U12", "RRC, EMM, 5GMM, GMM, MM, registration, session, DC or CA"),
        Column("state", "U32", "idle, connected, registered, EN-DC, ... (docs/signalling.md)"),
        Column("number", "int64", "of secondary cells (CA), or of bearers and sessions (session)", na=True),
        Column("rat", "U8", "GSM, UMTS, LTE, NR; empty if unknown"),
        Column("source", "U16", "signalling, or what said it without a diagnostic log: +CEREG, mServiceState, ..."),
        Column("message", "U64", "name of the message that proves the state; of a source its value"),
        Column("begin_frame", "int64", f"that message; {_FRAMES}, or line of the other log", na=True),
        Column("end_frame", "int64", "the message with the next state; missing if the log ends in it", na=True),
    ),
)
"""States of the phone in time, each from the message that proves it until another message proves another one."""
