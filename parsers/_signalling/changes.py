"""The rows of `handovers` in messages: commands of the network, replies and own changes of the phone.

One `Tracker` follows one radio of the phone. It takes each message once, in the order of the log. A change
that the messages do not show for certain is left out: a release of an NR leg that was never seen, or a
channel reconfiguration of UMTS that names no other frequency.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from multitracer.schemas.signalling import HandoverKind, Result
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parsers._signalling.dissection import DissectedMessage
    from parsers._signalling.measurements import Reading
    from parsers._signalling.messages import Named

# What a change of a serving cell is while it is followed: two cells, a command, a reply.


@dataclass(frozen=True, slots=True)
class KnownCell:
    """The identity of a cell, as far as it is known; unknown parts are NA."""

    rat: str = ""
    physical_cell_id: int = NA
    channel: int = NA
    cell_id: int = NA

    def columns(self, which: str) -> dict[str, object]:
        """Return the columns of `handovers` for this cell: `which` is the old or the new cell of a change."""
        return {f"{which}_{name}": getattr(self, name) for name in KnownCell.__slots__}

    def may_be(self, other: KnownCell) -> bool:
        """Return whether two cells can be the same one: no known part differs."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in KnownCell.__slots__)
        return all(a == b for a, b in pairs if a not in ("", NA) and b not in ("", NA))

    def completed(self, other: KnownCell) -> KnownCell:
        """Return this cell with its unknown parts replaced by those of another cell."""
        known = {name: getattr(self, name) for name in KnownCell.__slots__}
        return KnownCell(**{n: getattr(other, n) if v in ("", NA) else v for n, v in known.items()})


@dataclass(slots=True)
class CellChange:
    """A change of the serving cell or of the NR carrier beside LTE, in progress or complete."""

    kind: HandoverKind
    time_ns: int
    line: int
    source: KnownCell
    target: KnownCell
    cause: str = ""
    transaction: int = NA
    trigger: int = NA
    result: Result = Result.UNKNOWN
    complete_ns: int = NOT_A_TIME
    complete_line: int = NA
    evidence: str = "signalling"

    def end(self, at: SeenMessage, result: Result, cause: str = "") -> None:
        """Record the end of the change: the message, its result and its cause."""
        self.result, self.complete_ns, self.complete_line = result, at.time_ns, at.frame
        self.cause = cause or self.cause

    def row(self, modem: int) -> dict[str, object]:
        """Return the change as a row of `handovers`; `modem` is the number of the radio."""
        served = self.complete_ns if self.result == Result.COMPLETE else NOT_A_TIME
        return {
            "time_ns": self.time_ns,
            "complete_ns": self.complete_ns,
            "earliest_ns": self.time_ns,
            "latest_ns": served,
            "modem": modem,
            "kind": str(self.kind),
            **self.source.columns("source"),
            **self.target.columns("target"),
            "cause": self.cause,
            "result": str(self.result),
            "evidence": self.evidence,
            "command_line": self.line,
            "complete_line": self.complete_line,
            "trigger_line": self.trigger,
        }


@dataclass(frozen=True, slots=True)
class SeenMessage:
    """A message with its time, and the cell with which the phone exchanged it."""

    time_ns: int
    frame: int
    named: Named
    dissected: DissectedMessage

    @property
    def channel(self) -> int:
        """Channel of the cell with which the message was exchanged; NA if unknown."""
        return self.dissected.numbered.message.channel

    @property
    def cell(self) -> int:
        """Physical identity of the cell with which the message was exchanged; NA if unknown."""
        return self.dissected.numbered.message.physical_cell_id

    def first(self, name: str) -> int:
        """Return the first value of a field of the message; NA if the message does not have the field."""
        value = self.dissected.first(name)
        return NA if value is None else value


_OF_LEG = (
    HandoverKind.SECONDARY_ADDED,
    HandoverKind.SECONDARY_CHANGED,
    HandoverKind.SECONDARY_RELEASED,
    HandoverKind.ACTIVE_SET,
)
"""Changes that do not change the serving cell."""
_LONGEST_NS = 12 * NS_PER_S
"""Maximum time from a command to its reply: T304 of NR is at most 10 s (TS 38.331, 6.3.2)."""
_REPORT_NS = 10 * NS_PER_S
"""Maximum time from a measurement report to the command that answers it; a later one is blind. Not measured."""
_REDIRECTED_NS = 60 * NS_PER_S
"""Maximum time from a release to the first message in another cell; a later one is not a redirection. Not measured."""
_TARGETS = {0: "UMTS", 1: "GSM", 2: "CDMA", 3: "EVDO", 4: "NR", 5: "LTE"}
"""Target technology of MobilityFromEUTRACommand (TS 36.331, 6.2.2)."""
_TARGETS_OF_NR = {0: "LTE", 1: "UMTS"}
"""Target technology of MobilityFromNRCommand (TS 38.331, 6.2.2)."""
_REDIRECTIONS = dict(enumerate(("LTE", "GSM", "UMTS", "UMTS", "EVDO", "CDMA", "UMTS", "UMTS", "NR")))
"""Technology of RedirectedCarrierInfo (TS 36.331, 6.2.2)."""
_RECONFIGURATIONS = (
    *("PhysicalChannelReconfiguration", "TransportChannelReconfiguration"),
    *("RadioBearerReconfiguration", "RadioBearerSetup", "RadioBearerRelease"),
)
"""Reconfiguration messages of UMTS that may order a hard handover (TS 25.331, 8.3.5)."""


class Tracker:
    """Follows the serving cell of one radio of a phone, and collects its changes.

    Parameters
    ----------
    modem : int
        Number of the radio; NA if the phone has only one.
    """

    def __init__(self, modem: int) -> None:
        self.modem = modem
        self.serving = KnownCell()
        self._leg: KnownCell | None = None
        self._pending: CellChange | None = None
        self._leg_pending: CellChange | None = None
        self._trigger, self._reported_ns = NA, 0
        self._done: list[CellChange] = []

    def finish(self) -> None:
        """Discard changes that are not complete, because the log ends or its clock jumps."""
        self._pending = self._leg_pending = self._leg = None
        self.serving, self._trigger = KnownCell(), NA

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield the rows of `handovers`, in the order of their commands."""
        for change in self._done:
            yield change.row(self.modem)

    def take_reading(self, reading: Reading, time_ns: int, frame: int) -> None:
        """Process a reading about the serving cell; another cell than before is a reselection."""
        if reading.get("role") != "serving" or "cell_id" not in reading:
            return
        cell = KnownCell(*(reading.get(name, NA) for name in KnownCell.__slots__))  # type: ignore[arg-type]
        pending = self._pending
        if pending is not None and pending.kind is HandoverKind.REDIRECTION:
            self._redirected(cell, time_ns, frame)
        elif self.serving.rat and not self.serving.may_be(cell) and pending is None:
            change = CellChange(HandoverKind.RESELECTION, time_ns, NA, self.serving, cell, evidence="cell id")
            change.result, change.complete_ns, change.complete_line = Result.COMPLETE, time_ns, frame
            self._done.append(change)
        elif self._last is not None and self._last.target.may_be(cell):
            self._last.target = self._last.target.completed(cell)
        if pending is None or pending.kind is HandoverKind.REDIRECTION:
            self.serving = cell if not self.serving.may_be(cell) else cell.completed(self.serving)

    @property
    def _last(self) -> CellChange | None:
        """Last finished change of the serving cell; changes of the NR carrier beside LTE do not count."""
        return next((each for each in reversed(self._done) if each.kind not in _OF_LEG), None)

    def _redirected(self, cell: KnownCell, time_ns: int, frame: int) -> None:
        change = self._pending
        assert change is not None
        if change.target.may_be(cell) and time_ns - change.time_ns <= _REDIRECTED_NS:
            change.target = change.target.completed(cell)
            change.result, change.complete_ns, change.complete_line = Result.COMPLETE, time_ns, frame
        self._pending = None

    def take(self, seen: SeenMessage) -> None:
        """Process a message of RRC, or a radio resource message of GSM."""
        self._expire(seen)
        name = seen.named.name
        if name in ("MeasurementReport", "Measurement Report"):
            self._trigger, self._reported_ns = seen.frame, seen.time_ns
            return
        self._locate(seen)
        handler = _HANDLERS.get((seen.named.rat, name))
        if handler is not None:
            handler(self, seen)

    def _expire(self, seen: SeenMessage) -> None:
        """Discard commands to which no reply came in time."""
        for slot in ("_pending", "_leg_pending"):
            change: CellChange | None = getattr(self, slot)
            if change is None:
                continue
            longest = _REDIRECTED_NS if change.kind is HandoverKind.REDIRECTION else _LONGEST_NS
            if seen.time_ns - change.time_ns > longest:
                setattr(self, slot, None)

    def _locate(self, seen: SeenMessage) -> None:
        """Update the known serving cell from the cell of a message."""
        message = seen.dissected.numbered.message
        is_gsm = seen.named.rat == "GSM" and message.uplink is True
        if seen.named.contained or not (is_gsm or message.logical_channel.endswith(("DCCH", "CCCH"))):
            return
        here = KnownCell(seen.named.rat, seen.cell, seen.channel)
        if self._pending is not None and self._pending.kind is not HandoverKind.REDIRECTION:
            return
        if not self.serving.rat or here.may_be(self.serving):
            self.serving = self.serving.completed(here)
        elif self._pending is not None:
            self._redirected(here, seen.time_ns, seen.frame)
            self.serving = here
        elif seen.named.name.endswith(("ConnectionRequest", "SetupRequest")) or is_gsm:
            evidence = "technology" if self.serving.rat != here.rat else "PCI"
            change = CellChange(HandoverKind.RESELECTION, seen.time_ns, NA, self.serving, here, evidence=evidence)
            change.end(seen, Result.COMPLETE)
            self._done.append(change)
            self.serving = here
        elif here.rat == self.serving.rat:
            self.serving = here

    # --- commands ---

    def _order(self, seen: SeenMessage, kind: HandoverKind, target: KnownCell, cause: str = "") -> CellChange:
        """Record a command of the network to change to the cell `target`; return the new change."""
        transaction = seen.named.transaction
        change = CellChange(kind, seen.time_ns, seen.frame, self.serving, target, cause, transaction)
        change.trigger = self._report(seen.time_ns)
        self._pending = change
        self._done.append(change)
        return change

    def _report(self, command_ns: int) -> int:
        """Return the frame of the measurement report that a command may answer, once; NA if there is none."""
        trigger, self._trigger = self._trigger, NA
        return trigger if command_ns - self._reported_ns <= _REPORT_NS else NA

    def _order_leg(
        self, seen: SeenMessage, kind: HandoverKind, source: KnownCell, target: KnownCell, cause: str = ""
    ) -> CellChange:
        change = CellChange(kind, seen.time_ns, seen.frame, source, target, cause, seen.named.transaction)
        if kind is not HandoverKind.SECONDARY_RELEASED:
            change.trigger = self._report(seen.time_ns)
        self._leg_pending = change
        self._done.append(change)
        return change

    def _complete(self, seen: SeenMessage) -> None:
        """Record the reply that the commanded change is complete."""
        change = self._pending
        if change is not None and _is_reply(seen.named.transaction, change.transaction):
            change.end(seen, Result.COMPLETE)
            self.serving, self._pending = change.target, None
        leg = self._leg_pending
        if leg is not None and _is_reply(seen.named.transaction, leg.transaction):
            leg.end(seen, Result.COMPLETE)
            self._leg_pending = None
            self._leg = None if leg.kind is HandoverKind.SECONDARY_RELEASED else leg.target

    def _refuse(self, seen: SeenMessage) -> None:
        """Record the reply that the commanded change has failed; the phone remains in its cell."""
        if self._pending is not None:
            self._pending.end(seen, Result.FAILED, seen.named.cause)
            self._pending = None

    def _release(self, seen: SeenMessage) -> None:
        """Record that the connection has ended."""
        if self._leg is not None:
            self._order_leg(
                seen, HandoverKind.SECONDARY_RELEASED, self._leg, KnownCell(), "release of the connection"
            ).end(seen, Result.COMPLETE)
        self._leg = self._leg_pending = self._pending = None
        self._trigger = NA

    # --- LTE ---

    def lte_reconfiguration(self, seen: SeenMessage) -> None:
        """Process RRCConnectionReconfiguration (TS 36.331, 5.3.5)."""
        if seen.first("mobility_control") != NA:
            extended, plain = seen.first("target_channel_extended"), seen.first("target_channel")
            channel = extended if extended != NA else plain
            channel = self.serving.channel if channel == NA else channel
            self._order(seen, HandoverKind.HANDOVER, KnownCell("LTE", seen.first("target_cell"), channel))
        if seen.first("nr_config") == 0 and self._leg is not None:
            self._order_leg(seen, HandoverKind.SECONDARY_RELEASED, self._leg, KnownCell())
        elif seen.first("nr_config") == 1 and seen.first("with_sync") != NA:
            target = KnownCell("NR", seen.first("nr_cell"), seen.first("nr_channel"))
            kind = HandoverKind.SECONDARY_ADDED if self._leg is None else HandoverKind.SECONDARY_CHANGED
            self._order_leg(seen, kind, self._leg or KnownCell(), target)

    def lte_release(self, seen: SeenMessage) -> None:
        """Process RRCConnectionRelease (TS 36.331, 5.3.8), which can redirect to another frequency."""
        self._release(seen)
        choice = seen.first("redirected")
        if choice == NA:
            return
        rat = _REDIRECTIONS.get(choice, "")
        fields = {"LTE": "redirected_lte", "UMTS": "redirected_umts", "NR": "redirected_nr"}
        channel = seen.first(fields[rat]) if rat in fields else NA
        self._order(seen, HandoverKind.REDIRECTION, KnownCell(rat, NA, channel), seen.named.cause)

    def lte_mobility(self, seen: SeenMessage) -> None:
        """Process MobilityFromEUTRACommand (TS 36.331, 5.4.3)."""
        rat = _TARGETS.get(seen.first("target_rat"), "")
        self._order(seen, HandoverKind.INTER_RAT, self._other(seen, rat))

    def nr_failure(self, seen: SeenMessage) -> None:
        """Process SCGFailureInformationNR (TS 36.331, 5.6.13a): the NR carrier is lost until set up again."""
        if self._leg_pending is not None and self._leg_pending.kind is not HandoverKind.SECONDARY_RELEASED:
            self._leg_pending.end(seen, Result.FAILED, seen.named.cause)
        elif self._leg is not None:
            change = self._order_leg(seen, HandoverKind.SECONDARY_RELEASED, self._leg, KnownCell(), seen.named.cause)
            change.end(seen, Result.FAILED)
        self._leg = self._leg_pending = None

    # --- re-establishment ---

    def re_establish(self, seen: SeenMessage) -> None:
        """Process a request to re-establish a connection (TS 36.331, 5.3.7; TS 38.331, 5.3.7)."""
        rat = seen.named.rat
        lost = KnownCell(rat, seen.first("lte_cell" if rat == "LTE" else "nr_cell"))
        before = self._pending
        source = lost.completed(self.serving) if lost.may_be(self.serving) else lost
        if before is not None and before.kind is not HandoverKind.REDIRECTION:
            before.end(seen, Result.RE_ESTABLISHED)
            source = before.source
        self._leg = self._leg_pending = self._pending = None
        self._trigger = NA
        self.serving = source
        target = KnownCell(rat, seen.cell, seen.channel)
        self._order(seen, HandoverKind.RE_ESTABLISHMENT, target, seen.named.cause).transaction = NA

    def reestablished(self, seen: SeenMessage) -> None:
        """Process the completion of a re-establishment."""
        if self._pending is not None and self._pending.kind is HandoverKind.RE_ESTABLISHMENT:
            self._pending.end(seen, Result.COMPLETE)
            self.serving, self._pending = self._pending.target, None

    def rejected(self, seen: SeenMessage) -> None:
        """Process a rejected re-establishment, or a new connection that replaces it."""
        if self._pending is not None and self._pending.kind is HandoverKind.RE_ESTABLISHMENT:
            self._pending.end(seen, Result.FAILED)
            self.serving, self._pending = self._pending.target, None

    # --- NR ---

    def nr_reconfiguration(self, seen: SeenMessage) -> None:
        """Process RRCReconfiguration (TS 38.331, 5.3.5), except one inside an LTE message."""
        if not seen.named.contained and seen.first("with_sync") != NA:
            channel = seen.first("nr_channel")
            channel = self.serving.channel if channel == NA else channel
            self._order(seen, HandoverKind.HANDOVER, KnownCell("NR", seen.first("nr_cell"), channel))

    def nr_complete(self, seen: SeenMessage) -> None:
        """Process RRCReconfigurationComplete (TS 38.331, 5.3.5): the commanded change is complete."""
        if not seen.named.contained:
            self._complete(seen)

    def nr_release(self, seen: SeenMessage) -> None:
        """Process RRCRelease (TS 38.331, 5.3.8)."""
        self._release(seen)
        if (choice := seen.first("nr_redirected")) != NA:
            rat = {0: "NR", 1: "LTE"}.get(choice, "")
            self._order(seen, HandoverKind.REDIRECTION, KnownCell(rat), seen.named.cause)

    def nr_mobility(self, seen: SeenMessage) -> None:
        """Process MobilityFromNRCommand (TS 38.331, 5.4.3)."""
        rat = _TARGETS_OF_NR.get(seen.first("nr_target_rat"), "")
        self._order(seen, HandoverKind.INTER_RAT, self._other(seen, rat))

    # --- UMTS and GSM ---

    def umts_reconfiguration(self, seen: SeenMessage) -> None:
        """Process a message that is a hard handover if it names another frequency (TS 25.331, 8.3.5)."""
        channel = seen.first("umts_channel")
        if channel != NA and self.serving.channel not in (NA, channel):
            self._order(seen, HandoverKind.HANDOVER, KnownCell("UMTS", seen.first("umts_scrambling"), channel))

    def umts_active_set(self, seen: SeenMessage) -> None:
        """Process ActiveSetUpdate (TS 25.331, 8.3.4)."""
        added = seen.first("umts_scrambling") if seen.first("umts_added") > 0 else NA
        self._order(seen, HandoverKind.ACTIVE_SET, KnownCell("UMTS", added, self.serving.channel))

    def umts_active_set_done(self, seen: SeenMessage) -> None:
        """Process ActiveSetUpdateComplete; the serving cell does not change."""
        if self._pending is not None and self._pending.kind is HandoverKind.ACTIVE_SET:
            self._pending.end(seen, Result.COMPLETE)
            self._pending = None

    def umts_cell_update(self, seen: SeenMessage) -> None:
        """Process CellUpdate (TS 25.331, 8.3.1), which follows a radio link failure or a reselection."""
        causes = {"radiolinkFailure": HandoverKind.RE_ESTABLISHMENT, "cellReselection": HandoverKind.RESELECTION}
        if (kind := causes.get(seen.named.cause)) is not None:
            self._order(seen, kind, KnownCell("UMTS", seen.cell, seen.channel), seen.named.cause)

    def leave_umts(self, seen: SeenMessage) -> None:
        """Process a command to change to another technology (TS 25.331, 8.3.7 and 8.3.11)."""
        rat = "LTE" if seen.named.name.endswith("EUTRA") else "GSM"
        self._order(seen, HandoverKind.INTER_RAT, self._other(seen, rat))

    def gsm_handover(self, seen: SeenMessage) -> None:
        """Process HANDOVER COMMAND (TS 44.018, 9.1.15)."""
        ncc, bcc = seen.first("gsm_ncc"), seen.first("gsm_bcc")
        color = NA if NA in (ncc, bcc) else ncc * 8 + bcc
        target = KnownCell("GSM", color, seen.first("gsm_target_channel"))
        change = self._order(seen, HandoverKind.HANDOVER, target, seen.named.cause)
        change.source = replace(self.serving, rat="GSM")

    @staticmethod
    def _other(seen: SeenMessage, rat: str) -> KnownCell:
        """Return the target cell in technology `rat`, from the handover command inside the message."""
        if rat == "UMTS":
            return KnownCell(rat, seen.first("umts_scrambling"), seen.first("umts_channel"))
        if rat == "LTE":
            return KnownCell(rat, seen.first("target_cell"), seen.first("target_channel"))
        if rat == "NR":
            return KnownCell(rat, seen.first("nr_cell"), seen.first("nr_channel"))
        return KnownCell(rat, NA, seen.first("gsm_target_channel") if rat == "GSM" else NA)

    def enter(self, seen: SeenMessage) -> None:
        """Process the first reply in the new technology: the change is complete."""
        if self._pending is not None and self._pending.kind is HandoverKind.INTER_RAT:
            self._pending.end(seen, Result.COMPLETE)
            self.serving, self._pending = self._pending.target, None


def _is_reply(reply: int, command: int) -> bool:
    return NA in (reply, command) or reply == command


def _finish_or_enter(tracker: Tracker, seen: SeenMessage) -> None:
    tracker.enter(seen)
    tracker._complete(seen)


_T = Tracker
_HANDLERS: dict[tuple[str, str], Callable[[Tracker, SeenMessage], None]] = {
    ("LTE", "RRCConnectionReconfiguration"): _T.lte_reconfiguration,
    ("LTE", "RRCConnectionReconfigurationComplete"): _finish_or_enter,
    ("LTE", "RRCConnectionRelease"): _T.lte_release,
    ("LTE", "MobilityFromEUTRACommand"): _T.lte_mobility,
    ("LTE", "SCGFailureInformationNR"): _T.nr_failure,
    ("LTE", "RRCConnectionReestablishmentRequest"): _T.re_establish,
    ("LTE", "RRCConnectionReestablishmentComplete"): _T.reestablished,
    ("LTE", "RRCConnectionReestablishmentReject"): _T.rejected,
    ("LTE", "RRCConnectionRequest"): _T.rejected,
    ("NR", "RRCReconfiguration"): _T.nr_reconfiguration,
    ("NR", "RRCReconfigurationComplete"): _T.nr_complete,
    ("NR", "RRCRelease"): _T.nr_release,
    ("NR", "MobilityFromNRCommand"): _T.nr_mobility,
    ("NR", "RRCReestablishmentRequest"): _T.re_establish,
    ("NR", "RRCReestablishmentComplete"): _T.reestablished,
    ("NR", "RRCSetup"): _T.rejected,
    ("NR", "RRCSetupRequest"): _T.rejected,
    **{("UMTS", name): _T.umts_reconfiguration for name in _RECONFIGURATIONS},
    **{("UMTS", f"{name}Complete"): _T._complete for name in _RECONFIGURATIONS},
    **{("UMTS", f"{name}Failure"): _T._refuse for name in _RECONFIGURATIONS},
    ("UMTS", "ActiveSetUpdate"): _T.umts_active_set,
    ("UMTS", "ActiveSetUpdateComplete"): _T.umts_active_set_done,
    ("UMTS", "ActiveSetUpdateFailure"): _T._refuse,
    ("UMTS", "CellUpdate"): _T.umts_cell_update,
    ("UMTS", "CellUpdateConfirm"): _T._complete,
    ("UMTS", "HandoverFromUTRANCommand-EUTRA"): _T.leave_umts,
    ("UMTS", "HandoverFromUTRANCommand-GSM"): _T.leave_umts,
    ("UMTS", "CellChangeOrderFromUTRAN"): _T.leave_umts,
    ("UMTS", "HandoverFromUTRANFailure"): _T._refuse,
    ("UMTS", "CellChangeOrderFromUTRANFailure"): _T._refuse,
    ("UMTS", "HandoverToUTRANComplete"): _T.enter,
    ("UMTS", "RRCConnectionRelease"): _T._release,
    ("GSM", "Handover Command"): _T.gsm_handover,
    ("GSM", "Handover Complete"): _finish_or_enter,
    ("GSM", "Handover Failure"): _T._refuse,
}
