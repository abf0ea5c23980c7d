"""All that is concluded about a transfer: what limited it, its findings, and the account of its link."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.account.uses import LOST, Use
from multitracer.diagnosis.case import Case, Finding
from multitracer.diagnosis.incidents import Incident, incidents
from multitracer.diagnosis.incidents import document as incident_document
from multitracer.diagnosis.limits.group import ConnectionGroup, alone, group_of
from multitracer.diagnosis.limits.limited import Limited, limited
from multitracer.diagnosis.limits.names import Limit, LimitSubtype
from multitracer.diagnosis.rules import findings
from multitracer.diagnosis.sentence import (
    LIMIT_COLUMNS,
    Headline,
    headline_of,
    headline_of_group,
    rows_in_words,
)
from multitracer.diagnosis.transfer import Transfer
from multitracer.errors import InputError
from multitracer.recording.surroundings import ZONE_DOUBT, names_no_zone
from multitracer.schemas.findings import FINDINGS
from multitracer.tables import NA, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from multitracer.diagnosis.account.link_account import LinkAccount
    from multitracer.recording.recording import Recording
    from multitracer.tables import Document

SCHEMA = "multitracer.diagnose/1"
"""Of the document that `diagnose --json` writes (docs/diagnose.schema.json)."""
_DIGITS = 6  # microseconds, finer than most capture clocks
_MOST_SHOWN = 20
"""Findings that a notebook shows."""
_WORTH_SAYING = 0.01
"""Share of the time from which on a class of lost time is worth a sentence."""
_SERIOUS = 0.05
"""Share of the time from which on the first sentence tells of what lowered the utilization, nothing else."""
_NO_LOSS = {
    "link-flow-control",
    "radio-limited",
    "rlp-retransmission-burst",
    "link-reset",
    "blackout",
    "overbuffered-link",
    "application-limited",
    "server-think-time",
    "client-think-time",
}
"""Kinds whose cost is time in which the link did what it could: it does not lower the utilization."""
_NO_FAULT = "No known fault was found."
_LEAST_REPAIR = 0.01
"""Share of the time from which on repairs are worth saying that their cause is not known. Not measured"""
_EXPLAINED = 0.9
"""Share of a class of lost time that findings must have cost to be its explanation."""


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """One transfer, explained.

    Attributes
    ----------
    case : Case
        The transfer with what limited it, and what is measured of its packets.
    findings : list of Finding
        What cost time, the costliest first: `kind`, `begin_ns`, `end_ns`, `cost_s`, `sentence`,
        `help`, `numbers`, `evidence`.
    group : ConnectionGroup
        The piece of work that it is part of; alone, if it was asked for.
    """

    case: Case
    findings: list[Finding]
    group: ConnectionGroup

    @property
    def transfer(self) -> Transfer:
        """What it is about."""
        return self.case.transfer

    @property
    def limited(self) -> Limited:
        """What limited it at each instant: `shares`, `table`."""
        return self.case.limited

    @property
    def account(self) -> LinkAccount:
        """What the link's time was used for: `seconds` by class, `utilization`; NaN without its log."""
        return self.case.account

    def __repr__(self) -> str:
        number = self.transfer.layers.at_sender.number
        return f"<diagnosis of connection {number}: {len(self.findings)} findings. {self.headline.sentence}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the first sentence, where the time went, and the first findings."""
        used = rows_in_words(self.limited)
        places = sorted(part for each in self.listed for part in each.parts)
        listed = [self.findings[place] for place in places]
        rows = [(f.kind, f"{f.cost_s:.2f} s", f.sentence) for f in listed[:_MOST_SHOWN]]
        rest = len(listed) - _MOST_SHOWN
        more = f"<p>and {rest:,} more in <code>.findings</code></p>" if rest > 0 else ""
        tables = _html_table(LIMIT_COLUMNS, used)
        tables += _html_table(("finding", "cost", "what happened"), rows) if rows else ""
        help_, sender = self.headline.help, self.transfer.layers.at_sender
        of = f"Connection {sender.number}, {sender.ends[0]} → {sender.ends[1]}:"
        paragraphs = "".join(
            f"<p>{escape(each)}</p>" for each in (self.headline.sentence, f"What would help: {help_}.", of)
        )
        return f"{paragraphs}{tables}{more}"

    @cached_property
    def headline(self) -> Headline:
        """The first sentence: of the group, or of the transfer if it is alone.

        Beside a log of the radio whose times name no time zone, it says so.
        """
        alone = len(self.group.members) == 1
        sentence = headline_of(self.limited) if alone else headline_of_group(self.group)
        if not any(names_no_zone(radio) for _, radio in self.transfer.radio):
            return sentence
        return sentence._replace(sentence=f"{sentence.sentence} {ZONE_DOUBT}")

    @cached_property
    def incidents(self) -> list[Incident]:
        """What happened, largest cost first: findings of one cause, or alike, together; see `Incident`."""
        return incidents(self.case, self.findings)

    @property
    def listed(self) -> list[Incident]:
        """The incidents that text and pages show: not those that repeat a limit and cost nothing."""
        return [each for each in self.incidents if each.is_listed]

    @property
    def no_fault(self) -> str:
        """What is said where no rule found anything: also that data were lost, and nothing shows by what."""
        shares = self.limited.shares
        waited_s = sum(
            row.seconds for row in shares if row.limit is Limit.RECOVERY or row.part is LimitSubtype.REPAIR
        )
        is_short = waited_s < _LEAST_REPAIR * self.limited.total_s
        return _NO_FAULT if is_short else f"{_NO_FAULT[:-1]} that explains what was lost and sent again."

    def at_s(self, time_ns: int) -> float:
        """Return a stamp as link seconds since the connection's first SYN."""
        return self.case.at_s(time_ns)

    def table(self) -> Table:
        """Return FINDINGS."""
        findings = self.findings
        columns = {
            "kind": [f.kind for f in findings],
            "begin_ns": [f.begin_ns for f in findings],
            "end_ns": [f.end_ns for f in findings],
            "cost_s": [f.cost_s for f in findings],
            "cost_bytes": [NA if f.cost_bytes is None else f.cost_bytes for f in findings],
            "evidence": [" ".join(f.evidence) for f in findings],
            "sentence": [f.sentence for f in findings],
        }
        dtypes = {column.name: column.dtype for column in FINDINGS}
        return Table(FINDINGS, {name: np.array(v, dtype=dtypes[name]) for name, v in columns.items()})

    def document(self, *, intervals: bool = False) -> Document:
        """Return what `multitracer diagnose --json` writes (docs/diagnose.schema.json)."""
        listed = {"intervals": self.limited.intervals()} if intervals else {}
        return {
            "schema": SCHEMA,
            "headline": self.headline.document(),
            "view": self.limited.view.label,
            "limits_total_s": round(self.limited.total_s, _DIGITS),
            "limits": [each.document() for each in self.limited.shares],
            **listed,
            "group": self.group.document(),
            "incidents": [incident_document(self.case, each) for each in self.incidents],
            "findings": [_finding(self.case, finding) for finding in self.findings],
            "account": self.account.document(),
        }


def _html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _finding(case: Case, finding: Finding) -> Document:
    begin_s, end_s = (
        round(case.since_own_syn_s(stamp), _DIGITS) for stamp in (finding.begin_ns, finding.end_ns)
    )
    return {
        "kind": finding.kind,
        "begin_ns": finding.begin_ns,
        "end_ns": finding.end_ns,
        "begin_s": begin_s,
        "end_s": end_s,
        "cost_s": round(finding.cost_s, _DIGITS),
        "cost_bytes": finding.cost_bytes,
        "evidence": list(finding.evidence),
        "sentence": finding.sentence,
        "help": finding.help,
        "numbers": {name: round(float(value), _DIGITS) for name, value in finding.numbers.items()},
    }


def explain(recording: Recording, connection: int | None = None, *, reverse: bool | None = None) -> Diagnosis:
    """Return what is concluded of a transfer, or of the work that took longest.

    Parameters
    ----------
    recording : Recording
    connection : int, optional
        Its number in the recording, from 1; by default the longest of the group that took longest.
    reverse : bool, optional
        Whose data: False the initiator's, True the responder's; by default the one with more bytes.

    Raises
    ------
    InputError
        If there is no such connection, or packets of it carry no time.
    """
    group = group_of(recording) if connection is None and reverse is None else None
    if group is None:
        return diagnose(Transfer.of(recording, connection, reverse=reverse))
    return diagnose(group.longest.transfer, group)


def diagnose(transfer: Transfer, group: ConnectionGroup | None = None) -> Diagnosis:
    """Return the limits, the findings (largest cost first) and the link's account of a transfer.

    Parameters
    ----------
    transfer : Transfer
    group : ConnectionGroup, optional
        The piece of work that it is part of; by default it is alone.

    Raises
    ------
    InputError
        If packets of it carry no time.
    """
    if transfer.without_time:
        why = "; ".join(file.untimed for file in transfer.layers.part.capture.files if file.untimed)
        many = f"{transfer.without_time:,} of its packets carry no time (in the capture {why})"
        number = transfer.layers.part.offset + transfer.layers.connection
        raise InputError(f"connection {number}: {many}, so its time cannot be explained; choose another one")
    limits = group.longest if group is not None else limited(transfer)
    if transfer.recording is not None:
        transfer.recording.clocks  # noqa: B018  # not before what another thread tells of them
    case = Case(limits)
    return Diagnosis(case, findings(case), group or alone(limits))


def headline(diagnosis: Diagnosis) -> str:
    """Return the first sentence: what limited the work, for how much of its time, and how sure that is."""
    return diagnosis.headline.sentence


def channel_use(diagnosis: Diagnosis) -> str:
    """Return how well the channel was used (paper 004), and what cost most; empty without a link log."""
    account = diagnosis.account
    if not account.is_logged or not len(diagnosis.transfer.data):
        return ""
    used = "an unknown share" if np.isnan(account.utilization) else f"{account.utilization:.1%}"
    ended = " and was never completed" if account.outcome == "dropped" else ""
    took = f"{account.payload_bytes:,} bytes took {account.total_s:.1f} s{ended}"
    return f"{took}; the channel was used for {used}. {_worst(diagnosis)}".rstrip()


def _worst(diagnosis: Diagnosis) -> str:
    """Return what cost most: a kind of finding, or a class of lost time that no finding explains."""
    account = diagnosis.account
    lost = max(LOST, key=lambda use: account.seconds[use])
    serious = account.seconds[lost] >= _SERIOUS * account.total_s
    serious_ones = [each for each in diagnosis.findings if not serious or each.kind not in _NO_LOSS]
    kind, cost_s = _dearest_kind(serious_ones)
    if not serious and account.seconds[Use.ACCESS] > max(cost_s, account.seconds[lost]):
        return (
            f"For {account.seconds[Use.ACCESS]:.1f} s {account.says(Use.ACCESS)}."  # no finding tells of it
        )
    if kind and cost_s >= _EXPLAINED * account.seconds[lost]:
        return kind
    if account.seconds[lost] < _WORTH_SAYING * account.total_s:
        return kind
    return f"For {account.seconds[lost]:.1f} s {account.says(lost)}."


def _dearest_kind(findings: list[Finding]) -> tuple[str, float]:
    """Return the sentence of the dearest finding of the kind that cost most, and that cost in seconds."""
    costs: dict[str, float] = {}
    for each in findings:
        costs[each.kind] = costs.get(each.kind, 0.0) + each.cost_s
    kind = max(costs, key=lambda name: costs[name], default="")
    if not costs.get(kind):
        return "", 0.0
    own = [each for each in findings if each.kind == kind]  # the dearest first
    more = f" This happened {len(own)} times and cost {costs[kind]:.1f} s in all." if len(own) > 1 else ""
    return own[0].sentence + more, costs[kind]
