"""The result of a diagnosis: what limited a transfer, its findings, and the account of its link.

A `Diagnosis` caches the measurements of the packets that the rules use. The findings of the rules are merged
into incidents: findings of one cause are one incident, and so are repeated similar findings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.verdicts.words import Necessity
from multitracer.captured import CaptureMark, Flag
from multitracer.diagnosis.clauses import relayed_in_words
from multitracer.diagnosis.finding import (
    BY_PACKETS,
    COST_LIMITS,
    HOLES,
    INTERRUPTIONS,
    LIMITS_OF,
    ORDER_DIGITS,
    cost_of,
    dearest_first,
    incidents_of,
)
from multitracer.diagnosis.group_sentence import headline_of_group
from multitracer.diagnosis.limits.at_sender import offered_bytes
from multitracer.diagnosis.limits.names import (
    OF_SIGNALLING,
    STOPS,
    Confidence,
    Limit,
    LimitSubtype,
    RadioCause,
    Viewpoint,
    causes_document,
    direction_of,
    largest,
    summed,
)
from multitracer.diagnosis.packets.dead_times import DeadTime, dead_times
from multitracer.diagnosis.packets.injected_resets import InjectedReset, injected_resets
from multitracer.diagnosis.packets.losses import Carried, carried, unexplained
from multitracer.diagnosis.packets.mtu_holes import mtu_holes
from multitracer.diagnosis.packets.opening_and_end import HandshakeAndResets
from multitracer.diagnosis.packets.options import MissingOption, missing_options
from multitracer.diagnosis.packets.packet_delays import PacketDelays, WireSegments, data_delays, wire_segments
from multitracer.diagnosis.packets.policing import Policing
from multitracer.diagnosis.sentence import LIMIT_COLUMNS, Headline, facts_of, headline_of, rows_in_words
from multitracer.diagnosis.service_times import ArrivalGaps, arrival_gaps
from multitracer.schemas.findings import FINDINGS
from multitracer.tables import NA, Table
from multitracer.units import NS_PER_S
from multitracer.words import as_html, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from multitracer.diagnosis.account.link_account import LinkAccount
    from multitracer.diagnosis.finding import Finding, Incident
    from multitracer.diagnosis.limits.group import ConnectionGroup
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.radio_cause import RadioCauses
    from multitracer.diagnosis.signalling_waits import InactivityTimer, PhoneSignalling, SignallingWait
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array, Document

SCHEMA = "multitracer.diagnose/2"
"""Schema name of the document that `diagnose --json` writes (docs/schemas/diagnose.schema.json)."""
_DIGITS = 6  # microseconds, finer than most capture clocks
_MOST_SHOWN = 20
"""Maximum number of findings in the notebook view."""
_FLOW = 0.1
"""Minimum ratio of the other direction's bytes to those of the transfer at which it is a flow of its own, not requests
or answers, whose losses are the transfer's. Not measured."""
_OF_FLOWS = {
    "blackout",
    "bufferbloat",
    "congestion-loss",
    "ecn-marked",
    "exponential-back-off",
    "outage",
    "path-mtu-black-hole",
    "policer",
    "random-loss",
    "reordering",
    "spurious-timeout",
    "zero-window",
}
"""Kinds about the losses, queues and windows of one direction."""
_FORGOTTEN, _AFTER_IT = "idle-timeout", {"reset-by-peer"}
"""The end of a connection that a box had forgotten, and the kinds that tell of the same end."""
_OF_LOSSES = {"random-loss", "congestion-loss", "policer", "path-mtu-black-hole", "reordering"}
"""Kinds of findings that say why data were lost, or that none were."""
_DEAD = {"outage", "blackout"}
"""Kinds of one thing: its length differs with the direction."""
_OUTAGES = _DEAD | {_FORGOTTEN}
"""Kinds of findings of time in which nothing arrived."""
_AFTER_LOSSES = {Limit.RECOVERY, Limit.CONGESTION_WINDOW}
_MIN_REPAIR = 0.02
"""If retransmissions took at least this share of the time, a sentence says that the cause of the losses is
unknown. Not measured."""


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """The diagnosis of one transfer, or of its connection: then a wait for the peer is followed to its cause.

    The rules and measurements below are of the transfer's own direction; `peer` has those of the other one.

    Attributes
    ----------
    limited : Limited
        What limited it at each instant: `shares`, `table`.
    group : ConnectionGroup
        The group of connections that contains it; alone, if one connection was requested.
    find : callable
        The rules: takes this object and returns the findings.
    """

    limited: Limited
    group: ConnectionGroup
    find: Callable[[Diagnosis], list[Finding]]

    @property
    def transfer(self) -> Transfer:
        """The transfer of this diagnosis."""
        return self.limited.transfer

    @property
    def account(self) -> LinkAccount:
        """How the link time was used: `seconds` by class, `utilization`; NaN without a link log."""
        return self.limited.account

    @cached_property
    def findings(self) -> list[Finding]:
        """The causes of lost time (`Finding`), those with the most lost time first.

        If the other direction was examined, its findings are among them, with times on this sender's clock.
        """
        return [self._with_radio_help(self._in_any_order[place]) for place in self._order]

    def _with_radio_help(self, finding: Finding) -> Finding:
        helps = self.cause_of([finding]).help if finding.kind in (*INTERRUPTIONS, *LIMITS_OF) else ""
        return finding._replace(help=f"{helps[0].upper()}{helps[1:]}.") if helps else finding

    @cached_property
    def causes(self) -> list[RadioCauses]:
        """The causes that the radio log shows for the limits of each connection of the group, this one first.

        It is empty without a radio log in the time of the group, and without a procedure that data waited for.
        """
        context, signalling = self.transfer.radio_context, self.signalling
        if (context is None or not context.phones) and signalling is None:
            return []
        from multitracer.diagnosis.radio_cause import radio_causes, witness_of  # noqa: PLC0415  # few have a log
        from multitracer.diagnosis.signalling_waits import waits_of  # noqa: PLC0415  # as few

        witness = None if context is None or not context.phones else witness_of(self.group)
        shifts = [(each.limited, each.begin_ns - each.limited.begin_ns) for each in self.group.members]
        waits = [
            [] if signalling is None else waits_of(each, signalling, shift_ns=shift_ns) for each, shift_ns in shifts
        ]
        if witness is None and not any(waits):
            return []
        timer = "" if self.inactivity_timer is None else str(self.inactivity_timer)
        return [
            radio_causes(each, witness, shift_ns=shift_ns).with_waits(own, timer)
            for (each, shift_ns), own in zip(shifts, waits, strict=True)
        ]

    @cached_property
    def signalling(self) -> PhoneSignalling | None:
        """What the phone's log of signalling, or its modem's states, show; None without."""
        if not self.transfer.recording.has_radio_logs:
            return None
        from multitracer.diagnosis.signalling_waits import signalling_of  # noqa: PLC0415  # few have a log

        return signalling_of(self.transfer)

    @cached_property
    def inactivity_timer(self) -> InactivityTimer | None:
        """The network's inactivity timer, by its releases and the captured packets; None without a release."""
        from multitracer.diagnosis.signalling_waits import inactivity_timer  # noqa: PLC0415  # few have a log

        return inactivity_timer(self.transfer, self.signalling)

    @cached_property
    def waits(self) -> tuple[SignallingWait, ...]:
        """What data of the transfer's connection waited for between phone and network, in order of time."""
        return self.causes[0].waits if self.causes else ()

    def cause_of(self, findings: Sequence[Finding]) -> RadioCause:
        """Return what the radio log shows as the cause of some findings; unknown for those without waiting data."""
        if not self.causes:
            return RadioCause.UNKNOWN
        kinds = {each.kind for each in findings}
        if (named := next((each for each in OF_SIGNALLING if each.label in kinds), None)) is not None:
            return named
        chosen = [(each, STOPS if each.kind in HOLES else LIMITS_OF.get(each.kind, ())) for each in findings]
        return largest(
            summed([self.causes[0].within(each.begin_ns, each.end_ns, limits) for each, limits in chosen if limits])
        )

    @property
    def trust(self) -> str:
        """How far the captures can be trusted: good, caution or poor; `document()["trust"]` has the reasons."""
        return self.transfer.recording.trust

    @cached_property
    def peer(self) -> Diagnosis | None:
        """The diagnosis of the other direction; None if it was not examined.

        Its limits are only those that a wait of this direction was followed to.
        """
        other = self.limited.other
        return None if other is None else Diagnosis(other, self.group, self.find)

    @cached_property
    def _all_own_findings(self) -> list[Finding]:
        return self.find(self)

    @cached_property
    def _own_findings(self) -> list[Finding]:
        if not any(each.kind == _FORGOTTEN for each in self._peers_findings):
            return self._all_own_findings
        return [each for each in self._all_own_findings if each.kind not in _AFTER_IT]  # the same end, told of once

    @cached_property
    def _peers_findings(self) -> list[Finding]:
        """The findings of the other direction on its clock, without those that this direction has, too.

        They lie in the time that is followed to it; if it carries much data itself, those of its losses and queues
        count everywhere.
        """
        if self.peer is None:
            return []
        limited, many = self.limited, self.transfer.both_unique_bytes
        followed = limited.cells.begin[limited.is_theirs], limited.cells.end[limited.is_theirs]
        has_flow = many[1] >= _FLOW * many[0]
        kept = []
        for finding in self.peer._all_own_findings:
            begin_ns, end_ns = self._here_ns(finding.begin_ns, finding.end_ns)
            is_there = bool(((followed[0] < end_ns) & (followed[1] > begin_ns)).any())
            kinds = _DEAD if finding.kind in _DEAD else {finding.kind}
            same = [each for each in self._all_own_findings if each.kind in kinds]
            is_new = not any(each.begin_ns <= end_ns and begin_ns <= each.end_ns for each in same)
            if is_new and (is_there or (has_flow and finding.kind in _OF_FLOWS)):
                kept.append(finding)
        return kept

    @cached_property
    def _in_any_order(self) -> list[Finding]:
        theirs = []
        for each in self._peers_findings:
            begin_ns, end_ns = self._here_ns(each.begin_ns, each.end_ns)
            theirs.append(each._replace(begin_ns=begin_ns, end_ns=end_ns, reverse=not self.transfer.reverse))
        return [*self._own_findings, *theirs]

    @cached_property
    def _order(self) -> list[int]:
        every = self._in_any_order
        if self.peer is None:
            return list(range(len(every)))  # as the rules gave them
        return sorted(range(len(every)), key=lambda place: -round(every[place].cost_s, ORDER_DIGITS))

    def _here_ns(self, *peers_ns: int) -> list[int]:
        """Return times of the other direction's sender on the clock of this one."""
        times: list[int] = self.limited.from_other(np.array(peers_ns, dtype=np.int64)).tolist()
        return times

    def __repr__(self) -> str:
        number = self.transfer.at_sender.number
        return f"<diagnosis of connection {number}: {len(self.findings)} findings. {printable(self.headline.sentence)}>"

    def _repr_html_(self) -> str:
        """Return the notebook view: the first sentence, the use of the time, and the first findings."""
        used = rows_in_words(self.limited)
        places = sorted(part for each in self.listed for part in each.parts)
        listed = [self.findings[place] for place in places]
        shown = listed[:_MOST_SHOWN]
        rows = [(f.kind, cost_of(f"{f.cost_s:.2f} s", is_weak=self.is_weak(f)), f.sentence) for f in shown]
        rest = len(listed) - _MOST_SHOWN
        more = f"<p>and {rest:,} more in <code>.findings</code></p>" if rest > 0 else ""
        tables = _html_table(LIMIT_COLUMNS, used)
        tables += _html_table(("finding", "cost", "what happened"), rows) if rows else ""
        help_, sender = self.headline.help, self.transfer.at_sender
        of = f"Connection {sender.number}, {sender.ends[0]} → {sender.ends[1]}:"
        paragraphs = "".join(
            f"<p>{as_html(each)}</p>" for each in (self.headline.sentence, f"What would help: {help_}.", of)
        )
        return f"{paragraphs}{tables}{more}"

    @cached_property
    def headline(self) -> Headline:
        """The first sentence: of the group, or of the transfer if it is alone.

        If a radio log has no time zone, the sentence says so.
        """
        alone, causes = len(self.group.members) == 1, self.causes
        facts, own = facts_of(self.limited, self.findings, self.missing_options), next(iter(causes), None)
        if alone:
            sentence = headline_of(self.limited, facts, own, self._own_findings)
            words = [sentence.sentence, relayed_in_words(self.transfer)]
            sentence = sentence._replace(sentence=" ".join(filter(None, words)))
        else:
            sentence = headline_of_group(self.group, facts, causes)
        if not self.transfer.radio:
            return sentence
        from multitracer.recording import radio_context  # noqa: PLC0415  # most recordings have no radio log

        if not any(radio_context.names_no_zone(radio) for _, radio in self.transfer.radio):
            return sentence
        context = self.transfer.radio_context
        caveat = "" if context is None else context.zone_caveat
        return sentence._replace(sentence=f"{sentence.sentence} {caveat or radio_context.ZONE_CAVEAT}")

    @cached_property
    def incidents(self) -> list[Incident]:
        """The incidents, those with the most lost time first.

        An incident is a finding together with its consequences, or a group of similar findings.
        """
        place = np.argsort(self._order).tolist()
        own = incidents_of(self, self._own_findings)
        all_ = [replace(each, parts=tuple(place[part] for part in each.parts)) for each in own]
        theirs = [] if self.peer is None else incidents_of(self.peer, self._peers_findings)
        for each in theirs:
            begin_ns, end_ns = self._here_ns(each.begin_ns, each.end_ns)
            parts = tuple(place[part + len(self._own_findings)] for part in each.parts)
            moved = replace(each, begin_ns=begin_ns, end_ns=end_ns, parts=parts, reverse=not self.transfer.reverse)
            all_.append(moved)
        return [self._with_cause(each) for each in sorted(all_, key=dearest_first)]

    def _with_cause(self, incident: Incident) -> Incident:
        """Return an incident with the cause that the radio log shows, and a sentence that begins with it."""
        cause = self.cause_of([self.findings[part] for part in incident.parts])
        incident = replace(incident, help=self.findings[incident.parts[0]].help)  # against the radio's cause, if known
        if cause <= RadioCause.NORMAL or incident.kind not in INTERRUPTIONS:
            return replace(incident, cause=cause)
        words = self.causes[0].words(cause, incident.begin_ns, incident.end_ns)
        sentence = f"{words[0].upper()}{words[1:]}: {incident.sentence[0].lower()}{incident.sentence[1:]}"
        return replace(incident, cause=cause, sentence=sentence)

    @property
    def listed(self) -> list[Incident]:
        """The incidents that text and pages show.

        Not shown are those that only repeat a limit and lost no time.
        """
        return [each for each in self.incidents if each.is_listed]

    @property
    def no_fault(self) -> str:
        """The sentence that is shown if there is no finding: it counts losses of unknown cause, if there were any."""
        return self.unexplained_losses or "No known fault was found beside what limited it."

    @cached_property
    def unexplained_losses(self) -> str:
        """A sentence about losses that matter and that no finding explains; "" without such losses."""
        shares = self.limited.shares
        after = [each for each in shares if each.limit in _AFTER_LOSSES or each.part is LimitSubtype.REPAIR]
        is_short = sum(each.seconds for each in after) <= _MIN_REPAIR * self.limited.total_s
        if is_short or self._lost_in_outages or any(each.kind in _OF_LOSSES for each in self.findings):
            return ""
        if self.is_link_logged:
            return "No known fault explains why data were lost and sent again."
        if words := unexplained(self.carried, at_receiver=self.limited.view is Viewpoint.RECEIVER):
            return words
        is_repaired = any(each.part is LimitSubtype.REPAIR for each in after)
        return "Requests or answers were lost, and no known fault explains why." if is_repaired else ""

    @property
    def _lost_in_outages(self) -> bool:
        """Whether all data that had to be sent again were lost in an outage, which explains them.

        They were outstanding when it began, or sent in it: a timer sends the oldest outstanding segment again.
        """
        verdicts, time_ns = self.transfer.verdicts, self.transfer.sender["time_ns"]
        is_needed, known = verdicts["necessity"] == Necessity.NECESSARY, verdicts["earlier_row"] != NA
        again_ns = time_ns[verdicts["row"]]
        first_ns = np.where(known, time_ns[verdicts["earlier_row"]], again_ns)
        is_lost = np.zeros(len(again_ns), dtype=bool)
        for each in self.findings:
            if each.kind in _OUTAGES:
                inside = (again_ns >= each.begin_ns) & (again_ns <= each.end_ns)
                oldest_ns = min(first_ns[inside].min(initial=each.begin_ns), each.begin_ns)
                is_lost |= inside | ((first_ns >= oldest_ns) & (first_ns <= each.end_ns))
        return bool(is_needed.any() and is_lost[is_needed].all())

    def table(self) -> Table:
        """Return the table FINDINGS: one row per finding."""
        findings = self.findings
        columns = {
            "kind": [f.kind for f in findings],
            "begin_ns": [f.begin_ns for f in findings],
            "end_ns": [f.end_ns for f in findings],
            "cost_s": [f.cost_s for f in findings],
            "cost_bytes": [NA if f.cost_bytes is None else f.cost_bytes for f in findings],
            "direction": [direction_of(reverse=f.reverse) for f in findings],
            "evidence": [" ".join(f.evidence) for f in findings],
            "sentence": [f.sentence for f in findings],
        }
        dtypes = {column.name: column.dtype for column in FINDINGS}
        return Table(FINDINGS, {name: np.array(v, dtype=dtypes[name]) for name, v in columns.items()})

    def document(self, *, intervals: bool = False, stages: bool = True) -> Document:
        """Return what `multitracer diagnose --json` writes (docs/schemas/diagnose.schema.json).

        Parameters
        ----------
        intervals : bool
            Also return each interval of the transfer with its limit.
        stages : bool
            Return the stages of the group's chain, which are many for small exchanges.
        """
        headline, radio = self.headline, next(iter(self.causes), None)
        listed = {"intervals": self._intervals(radio)} if intervals else {}
        return {
            "schema": SCHEMA,
            "trust": self.transfer.recording.trust_document(),
            "headline": {
                "limit": headline.limit.label,
                "part": headline.part.label if headline.part else None,
                "direction": direction_of(reverse=headline.reverse),
                "share": round(headline.share, _DIGITS),
                "confidence": headline.confidence.label,
                "sentence": headline.sentence,
                "help": headline.help,
                "cause": headline.cause.label,
            },
            "view": self.limited.view.label,
            "limits_total_s": round(self.limited.total_s, _DIGITS),
            "limits": [
                {
                    "limit": each.limit.label,
                    "part": each.part.label if each.part else None,
                    "direction": direction_of(reverse=each.reverse),
                    "seconds": round(each.seconds, _DIGITS),
                    "share": round(each.share, _DIGITS),
                    "share_low": round(each.share_low, _DIGITS),
                    "share_high": round(each.share_high, _DIGITS),
                    "confidence": each.confidence.label,
                    **causes_document({} if radio is None else radio.of_limit(each.limit, each.part), digits=_DIGITS),
                }
                for each in self.limited.shares
            ],
            **listed,
            "group": self.group.document(stages=stages),
            "incidents": [
                {
                    **self._kind_time_and_cost(each),
                    "count": each.count,
                    "parts": list(each.parts),
                    "sentence": each.sentence,
                    "help": each.help,
                    "cause": each.cause.label,
                }
                for each in self.incidents
            ],
            "findings": [
                {
                    **self._kind_time_and_cost(each),
                    "cost_bytes": each.cost_bytes,
                    "evidence": list(each.evidence),
                    "sentence": each.sentence,
                    "help": each.help,
                    "numbers": {name: round(float(number), _DIGITS) for name, number in each.numbers.items()},
                }
                for each in self.findings
            ],
            "account": self.account.document(),
        }

    def _intervals(self, radio: RadioCauses | None) -> list[Document]:
        rows = self.limited.intervals()
        return [each | {"cause": None} for each in rows] if radio is None else radio.split(rows)

    def _kind_time_and_cost(self, each: Incident | Finding) -> Document:
        """Return the common JSON keys; seconds are link time since the data sender's SYN."""
        begin_ns = self.transfer.begin_ns
        return {
            "kind": each.kind,
            "direction": direction_of(reverse=each.reverse),
            "begin_ns": each.begin_ns,
            "end_ns": each.end_ns,
            "begin_s": round(self.link_s(begin_ns, each.begin_ns), _DIGITS),
            "end_s": round(self.link_s(begin_ns, each.end_ns), _DIGITS),
            "cost_s": round(each.cost_s, _DIGITS),
        }

    # --- what is measured of its packets, once, for the rules ---

    def measure_shared(self) -> None:
        """Compute the properties that several rules use, before the rules run in parallel.

        Since Python 3.12 a cached property has no lock, so several threads could compute it at once.
        """
        self.transfer.joined, self.transfer.verdicts, self.opening, self.carried  # noqa: B018
        if not self.is_link_logged:
            self.typical_delays, self.own_time_ns, self.mtu_holes, self.carried.losses  # noqa: B018

    @property
    def is_link_logged(self) -> bool:
        """Whether a link log shows all losses and their times, so that packets are not needed for them."""
        return self.account.is_logged

    @cached_property
    def dead_times(self) -> list[DeadTime]:
        """Intervals in which nothing arrived although data were outstanding and a timer retransmitted.

        They are found in the packets.
        """
        seen = self.limited.seen
        known = None if seen is None else seen.dead_times
        return dead_times(self.transfer) if known is None else known

    @cached_property
    def opening(self) -> HandshakeAndResets:
        """The handshake and the resets of the connection."""
        return HandshakeAndResets(self.transfer)

    @cached_property
    def mtu_holes(self) -> list[DeadTime]:
        """The dead times (nothing arrived) that a path MTU black hole caused.

        Only full-size segments were lost in them.
        """
        dead = self.dead_times
        return mtu_holes(self.transfer, self.segments, dead, self.largest_bytes) if dead else []

    @property
    def largest_bytes(self) -> int:
        """Payload of the largest segment on the path, in bytes; joined packets (offload) do not count."""
        largest = int(self.transfer.payload_bytes.max())
        offered = offered_bytes(self.transfer)
        return largest if offered is None else min(largest, offered)

    @cached_property
    def arrival_gaps(self) -> ArrivalGaps | None:
        """The gaps between arrivals of full segments; None if no capture shows them."""
        seen = self.limited.seen
        return None if seen is None else arrival_gaps(self.limited, self.carried, self.full_bytes)

    @cached_property
    def own_time_ns(self) -> float:
        """The time that the link needs for a full segment without cross traffic, in ns; 0 if unknown."""
        return 0.0 if self.arrival_gaps is None else self.arrival_gaps.own_time_ns

    @cached_property
    def policing(self) -> Policing:
        """The result of the test whether a policer (a rate limiter without a queue) dropped packets."""
        seen = self.limited.seen
        known = None if seen is None else seen.policing
        return Policing(self.carried) if known is None else known

    @property
    def delays(self) -> PacketDelays | None:
        """The queueing delays of full-size segments; None if no capture shows them."""
        return self.carried.delays

    @cached_property
    def typical_delays(self) -> PacketDelays | None:
        """The queueing delays of full-size segments, or of all segments if few are full.

        Delays of all segments need captures at both endpoints. None if no capture shows delays.
        """
        full = self.delays
        if full is None or not full.is_one_way or 2 * len(full.row) >= len(self.segments):
            return full
        return data_delays(self.transfer, self.segments, of_any_size=True)

    @cached_property
    def segments(self) -> WireSegments:
        """The data segments as they were on the wire: packets that offload joined are split again."""
        seen = self.limited.seen
        if seen is not None and seen.carried is not None:
            return seen.carried.segments
        if seen is not None and seen.segments is not None:
            return seen.segments
        return wire_segments(self.transfer, self.full_bytes, offered_bytes(self.transfer))

    @cached_property
    def full_bytes(self) -> int:
        """Payload bytes of a full segment; larger captured segments come from offload."""
        if self.limited.seen is not None:
            return self.limited.seen.mss_bytes
        return max(int(self.transfer.payload_bytes.max(initial=0)), 1)

    @property
    def lost(self) -> Array:
        """Indexes in `segments` of the segments that were lost: int64, ascending.

        Segments that were lost in a dead time (nothing arrived at all) are left out.
        """
        return self.carried.lost

    @cached_property
    def carried(self) -> Carried:
        """The data segments as they were on the wire, with their losses and delays."""
        seen = self.limited.seen
        known = None if seen is None else seen.carried
        return carried(self.transfer, self.segments, self.dead_times) if known is None else known

    @cached_property
    def injected_resets(self) -> list[InjectedReset]:
        """The resets of handshake and open connection, before any FIN, that no endpoint sent."""
        resets = np.concatenate([self.opening.resets_in_handshake, self.opening.resets_when_open])
        return injected_resets(self.transfer, resets) if len(resets) else []

    @cached_property
    def missing_options(self) -> list[MissingOption]:
        """The options that one SYN has and the other one, or the same SYN elsewhere, has not; empty without data."""
        places = [each for each in (self.transfer.at_sender, self.transfer.at_receiver) if each is not None]
        offers = [offered for each in places if (offered := each.offered_options) is not None]
        is_equal = all((offered == offers[0][:, :1]).all() for offered in offers)
        return [] if is_equal or not len(self.transfer.data) else missing_options(self.transfer)

    @property
    def is_unopened(self) -> bool:
        """Whether SYNs were captured, but no SYN-ACK."""
        return len(self.opening.syns) > 0 and not len(self.opening.syn_acks)

    @property
    def is_incomplete(self) -> bool:
        """Whether data of the transfer were not acknowledged, as far as is known."""
        return not self.transfer.is_complete

    @cached_property
    def ecn_echoes(self) -> Array:
        """Rows of `sender` with ACKs that say that a router marked packets (RFC 3168)."""
        flags, acks = self.transfer.sender["flags"], self.transfer.acks
        return acks[has(flags[acks], Flag.ECE) & ~has(flags[acks], Flag.SYN)]

    @property
    def has_ecn_echoes(self) -> bool:
        """Whether an ACK says that a router marked packets."""
        return len(self.ecn_echoes) > 0

    @cached_property
    def cut_syns(self) -> list[int]:
        """Rows of `sender` with SYNs whose options the capture cut."""
        table = self.transfer.sender
        marks = np.uint16(CaptureMark.HEADER_CUT)
        return np.flatnonzero((table["flags"] & np.uint16(Flag.SYN) != 0) & (table["marks"] & marks != 0)).tolist()

    @cached_property
    def refused_data_syns(self) -> list[int]:
        """Rows of `sender` with SYNs that carry data which the first SYN-ACK does not acknowledge."""
        opening, table = self.opening, self.transfer.sender
        if not len(opening.syn_acks):
            return []
        syns = opening.syns[(opening.syns < opening.syn_acks[0]) & (table["payload_bytes"][opening.syns] > 0)]
        is_refused = table["ack_bytes"][opening.syn_acks[0]] <= table["seq_bytes"][syns] + 1
        return [int(row) for row in syns[is_refused]]

    @property
    def has_untranslated_sacks(self) -> bool:
        """Whether SACK blocks of the receiver name bytes that were never sent."""
        return len(self.transfer.untranslated) > 0

    def limited_s(
        self, *limits: Limit | tuple[Limit, LimitSubtype], begin_ns: int | None = None, end_ns: int | None = None
    ) -> float:
        """Return the link time in seconds, within an interval, in which a given limit of this direction was in effect.

        Several limits may be given, each with or without a subtype. None as begin or end leaves a side open.
        """
        cells = self.limited.own
        chosen = np.zeros(len(cells.begin), dtype=bool)
        for each in limits:
            limit, part = each if isinstance(each, tuple) else (each, None)
            chosen |= (cells.limit == limit) & (part is None or cells.part == part)
        begin = cells.begin if begin_ns is None else np.maximum(cells.begin, begin_ns)
        end = cells.end if end_ns is None else np.minimum(cells.end, end_ns)
        return self.link_s(0, int(np.maximum(end - begin, 0)[chosen].sum()))

    def is_weak(self, finding: Finding) -> bool:
        """Return whether the cost of a finding is only an upper bound: most of that time is `weak`."""
        limited, limit = self.limited, COST_LIMITS.get(finding.kind)
        if BY_PACKETS in finding.numbers:
            return True
        chosen = np.isin(limited.cells.limit, STOPS) if limit is None else limited.cells.limit == limit
        begin, end = (limited.cells.begin[chosen], limited.cells.end[chosen])
        length_ns = np.maximum(np.minimum(end, finding.end_ns) - np.maximum(begin, finding.begin_ns), 0)
        weak_ns = length_ns[limited.confidence[chosen] == Confidence.WEAK].sum()
        return bool(2 * weak_ns > length_ns.sum())

    def link_s(self, begin_ns: int, end_ns: int) -> float:
        """Return the link time in seconds between two times of the sender's clock."""
        return (end_ns - begin_ns) * self.transfer.speed / NS_PER_S

    def at_s(self, time_ns: int) -> float:
        """Return a time of the sender's clock as seconds of link time since the connection's first SYN."""
        return self.link_s(self._begin_ns, time_ns)

    @property
    def _begin_ns(self) -> int:
        """The time of the connection's first SYN, from either endpoint, in ns."""
        known = len(self.limited.cells.begin) > 0
        return min(self.limited.begin_ns, self.transfer.begin_ns) if known else self.transfer.begin_ns


def _html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    heads = "".join(f"<th>{as_html(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{as_html(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
