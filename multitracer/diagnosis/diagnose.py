"""All that is concluded of a transfer: its account and its findings, the dearest first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from multitracer.diagnosis.account import Account, account
from multitracer.diagnosis.case import Case, Finding
from multitracer.diagnosis.incidents import Incident, incidents
from multitracer.diagnosis.incidents import document as incident_document
from multitracer.diagnosis.inferred import untold
from multitracer.diagnosis.rules import findings
from multitracer.diagnosis.use import LOST, SAYS, Use
from multitracer.errors import InputError
from multitracer.findings import FINDINGS
from multitracer.tables import NA, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from multitracer.diagnosis.transfer import Transfer

_DIGITS = 6
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
}
"""Kinds whose cost is time in which the link did what it could: it does not lower the utilization."""
_EXPLAINED = 0.9
"""Share of a class of lost time that findings must have cost to be its explanation."""


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """One transfer, explained.

    Attributes
    ----------
    transfer : Transfer
        What it is about.
    account : Account
        What the transfer's time was used for: `seconds` by class, `total_s`, `utilization`, `outcome`.
    findings : list of Finding
        What cost time, the costliest first: `kind`, `begin_ns`, `end_ns`, `cost_s`, `sentence`,
        `help`, `numbers`, `evidence`.
    """

    transfer: Transfer
    account: Account
    findings: list[Finding]

    def __repr__(self) -> str:
        number = self.transfer.layers.view.sender.number
        return f"<diagnosis of connection {number}: {len(self.findings)} findings. {headline(self)}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the first sentence, where the time went, and the first findings."""
        books = self.account
        uses = sorted(books.seconds.items(), key=lambda item: -item[1])
        used = [(use.label, f"{s:.2f} s", f"{s / books.total_s:.1%}") for use, s in uses if s > 0]
        found = [(f.kind, f"{f.cost_s:.2f} s", f.sentence) for f in self.findings[:_MOST_SHOWN]]
        rest = len(self.findings) - _MOST_SHOWN
        more = f"<p>and {rest:,} more in <code>.findings</code></p>" if rest > 0 else ""
        tables = _html_table(("where the time went", "seconds", "share"), used)
        tables += _html_table(("finding", "cost", "what happened"), found) if found else ""
        return f"<p>{escape(headline(self))}</p>{tables}{more}"

    @cached_property
    def incidents(self) -> list[Incident]:
        """What happened, the dearest first: findings of one cause, or alike, together; see `Incident`."""
        return incidents(self._case, self.findings)

    @property
    def _case(self) -> Case:
        return Case(self.transfer, self.account)

    def table(self) -> Table:
        """Return FINDINGS."""
        found = self.findings
        columns = {
            "kind": [f.kind for f in found],
            "begin_ns": [f.begin_ns for f in found],
            "end_ns": [f.end_ns for f in found],
            "cost_s": [f.cost_s for f in found],
            "cost_bytes": [NA if f.cost_bytes is None else f.cost_bytes for f in found],
            "evidence": [" ".join(f.evidence) for f in found],
            "sentence": [f.sentence for f in found],
        }
        dtypes = {column.name: column.dtype for column in FINDINGS}
        return Table(FINDINGS, {name: np.array(v, dtype=dtypes[name]) for name, v in columns.items()})

    def document(self) -> dict[str, Any]:
        """Return what `multitracer diagnose --json` writes of the transfer (docs/diagnoses.md)."""
        books = self.account
        seconds = {use.label: round(value, _DIGITS) for use, value in books.seconds.items()}
        return {
            "incidents": [incident_document(self._case, each) for each in self.incidents],
            "findings": [_finding(self.transfer, finding) for finding in self.findings],
            "account": {
                "total_s": round(books.total_s, _DIGITS),
                "utilization": None if np.isnan(books.utilization) else round(books.utilization, _DIGITS),
                "utilization_rounded_up_pct": books.rounded_up_percent,
                "outcome": books.outcome,
                "inferred": books.inferred,
                "payload_bytes": books.payload_bytes,
                "seconds": seconds,
            },
        }


def _html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _finding(transfer: Transfer, finding: Finding) -> dict[str, Any]:
    begin_s, end_s = (
        round((stamp - transfer.begin_ns) * transfer.speed / 1e9, _DIGITS)
        for stamp in (finding.begin_ns, finding.end_ns)
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


def diagnose(transfer: Transfer) -> Diagnosis:
    """Return the account and the findings of a transfer, the dearest first.

    Raises
    ------
    InputError
        If packets of it carry no time.
    """
    if transfer.without_time:
        why = "; ".join(file.untimed for file in transfer.layers.part.capture.files if file.untimed)
        many = f"{transfer.without_time:,} of its packets carry no time (in the capture {why})"
        number = transfer.layers.part.offset + transfer.layers.connection
        raise InputError(
            f"connection {number}: {many}, so nobody knows where its time went; choose another one"
        )
    case = Case(transfer, account(transfer))
    return Diagnosis(transfer, case.account, findings(case))


def headline(diagnosis: Diagnosis) -> str:
    """Return a sentence or two: how well the channel was used, and what cost most."""
    books, transfer = diagnosis.account, diagnosis.transfer
    if not len(transfer.data):
        return "No data were sent in this direction."
    took = f"{books.payload_bytes:,} bytes took {books.total_s:.1f} s"
    why = untold(transfer) if books.inferred else ""
    if why:
        return f"{took}. How well the channel was used is not known: {why}."
    used = "an unknown share" if np.isnan(books.utilization) else f"{books.utilization:.1%}"
    basis = " (inferred from TCP alone)" if books.inferred else ""
    ended = " and was never completed" if books.outcome == "dropped" else ""
    return f"{took}{ended}; the channel was used for {used}{basis}. {_worst(diagnosis)}".rstrip()


def _worst(diagnosis: Diagnosis) -> str:
    """Return what cost most: a kind of finding, or a class of lost time that no finding explains."""
    books = diagnosis.account
    lost = max(LOST, key=lambda use: books.seconds[use])
    serious = books.seconds[lost] >= _SERIOUS * books.total_s
    found = [each for each in diagnosis.findings if not serious or each.kind not in _NO_LOSS]
    said, cost_s = _dearest_kind(found)
    if not serious and books.seconds[Use.ACCESS] > max(cost_s, books.seconds[lost]):
        return f"For {books.seconds[Use.ACCESS]:.1f} s {SAYS[Use.ACCESS]}."  # no finding tells of it
    if said and cost_s >= _EXPLAINED * books.seconds[lost]:
        return said
    if books.seconds[lost] < _WORTH_SAYING * books.total_s:
        return said
    return f"For {books.seconds[lost]:.1f} s {SAYS[lost]}."


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
