"""The entry point: the diagnosis of a transfer, or of the group of connections that took longest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.account.uses import LOST, Use
from multitracer.diagnosis.diagnosis import Diagnosis
from multitracer.diagnosis.limits.group import ConnectionGroup, alone, group_of
from multitracer.diagnosis.limits.limited import limited, of_both_directions
from multitracer.diagnosis.rules import findings
from multitracer.errors import InputError
from multitracer.recording.transfer import Transfer

if TYPE_CHECKING:
    from multitracer.diagnosis.finding import Finding
    from multitracer.recording.recording import Recording

_WORTH_SAYING = 0.01
"""Minimum share of the time from which on a class of lost time is mentioned."""
_SERIOUS = 0.05
"""Share of lost time from which on the first sentence mentions only what lowered the utilization."""
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
"""Kinds of findings whose cost does not lower the utilization, because the link was in use or could not be used."""
_EXPLAINED = 0.9
"""Findings explain a class of lost time if their costs reach this share of it."""


def explain(recording: Recording, connection: int | None = None, *, reverse: bool | None = None) -> Diagnosis:
    """Return the diagnosis of one transfer, by default of the longest one.

    The default is the longest transfer in the group of connections that took longest.

    Parameters
    ----------
    recording : Recording
    connection : int, optional
        Its number in the recording, from 1; by default the longest of the group that took longest.
    reverse : bool, optional
        Explain the data of one direction alone: False the initiator's, True the responder's. By default both, seen
        from the one with more bytes.

    Raises
    ------
    InputError
        If there is no such connection, or its packets have no time stamps.
    """
    group = group_of(recording) if connection is None and reverse is None else None
    if group is None:
        return diagnose(Transfer.of(recording, connection, reverse=reverse), both=reverse is None)
    return diagnose(group.longest.transfer, group)


def diagnose(transfer: Transfer, group: ConnectionGroup | None = None, *, both: bool = False) -> Diagnosis:
    """Return the limits, the findings (largest cost first) and the link's account of a transfer.

    Parameters
    ----------
    transfer : Transfer
    group : ConnectionGroup, optional
        The group that contains it, whose transfers are explained in both directions; by default a group of this
        transfer alone.
    both : bool
        Whether to explain a connection, not the data of one direction alone: a wait of the transfer for its peer is
        followed to what held the peer's data back.

    Raises
    ------
    InputError
        If its packets have no time stamps.
    """
    if transfer.without_time:
        why = "; ".join(file.untimed for file in transfer.at_sender.capture.tables.files if file.untimed)
        many = f"the times of {transfer.without_time:,} of its packets are missing (in the capture {why})"
        number = transfer.at_sender.number
        raise InputError(
            f"connection {number}: {many}, so the time of this connection cannot be "
            "explained; choose another connection"
        )
    if group is not None:
        limits = group.longest
    else:
        limits = of_both_directions(limited(transfer)) if both else limited(transfer)
    transfer.recording.clocks  # noqa: B018  # not before what another thread tells of them
    return Diagnosis(limits, group or alone(limits), findings)


def headline(diagnosis: Diagnosis) -> str:
    """Return the first sentence: what limited the work, for what share of its time, and the confidence."""
    return diagnosis.headline.sentence


def channel_use(diagnosis: Diagnosis) -> str:
    """Return the sentence about the link's utilization and the largest lost time; "" without a link log."""
    account = diagnosis.account
    if not account.is_logged or not len(diagnosis.transfer.data):
        return ""
    used = "an unknown share" if np.isnan(account.utilization) else f"{100 * account.utilization:.1f} %"
    ended = " and was never completed" if account.outcome == "dropped" else ""
    took = f"{account.payload_bytes:,} bytes took {account.total_s:.1f} s{ended}"
    return f"{took}; the channel was used for {used}. {_worst(diagnosis)}".rstrip()


def _worst(diagnosis: Diagnosis) -> str:
    """Return a text about the largest lost time: a kind of finding, or a class of use without a finding."""
    account = diagnosis.account
    lost = max(LOST, key=lambda use: account.seconds[use])
    serious = account.seconds[lost] >= _SERIOUS * account.total_s
    serious_ones = [each for each in diagnosis.findings if not serious or each.kind not in _NO_LOSS]
    kind, cost_s = _dearest_kind(serious_ones)
    if not serious and account.seconds[Use.ACCESS] > max(cost_s, account.seconds[lost]):
        return f"For {account.seconds[Use.ACCESS]:.1f} s {account.says(Use.ACCESS)}."  # no finding tells of it
    if kind and cost_s >= _EXPLAINED * account.seconds[lost]:
        return kind
    if account.seconds[lost] < _WORTH_SAYING * account.total_s:
        return kind
    return f"For {account.seconds[lost]:.1f} s {account.says(lost)}."


def _dearest_kind(findings: list[Finding]) -> tuple[str, float]:
    """Return the kind of findings with the largest total lost time.

    The first element is the sentence of its largest finding, the second one the total lost time in s.
    """
    costs: dict[str, float] = {}
    for each in findings:
        costs[each.kind] = costs.get(each.kind, 0.0) + each.cost_s
    kind = max(costs, key=lambda name: costs[name], default="")
    if not costs.get(kind):
        return "", 0.0
    own = [each for each in findings if each.kind == kind]  # the dearest first
    more = f" This happened {len(own)} times and cost {costs[kind]:.1f} s in all." if len(own) > 1 else ""
    return own[0].sentence + more, costs[kind]
