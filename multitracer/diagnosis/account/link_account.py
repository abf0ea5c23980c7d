"""The account of a transfer's link: the use of each moment, and the utilization of the channel.

Paper 004, sections 4.3 and 5.1::

    utilization = 1 - (T_idle + T_redundant) / (T - T_app)

It is measured at the link sender of the data direction, in link time; docs/lost_time.md has the rules. Only a
log of the link shows it: without a log nothing is concluded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.account.by_bursts import by_bursts
from multitracer.diagnosis.account.by_slots import measured
from multitracer.diagnosis.account.uses import LOST, SAYS, WASTED_SAYS, Use, UseCause
from multitracer.schemas.findings import LINK_USE
from multitracer.tables import Table

if TYPE_CHECKING:
    from multitracer.recording.join import Join
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Document

_PERCENT = 100  # percent in a whole
_DIGITS = 6  # microseconds, finer than most capture clocks
_WORTH_A_WORD = 0.1
"""Minimum share of a class of time from which on a cause is named in its description."""


@dataclass(frozen=True)
class LinkAccount:
    """How the link time of one transfer was used.

    Attributes
    ----------
    transfer : Transfer
    uses : Table
        LINK_USE, in order of time; empty where the link was not logged at the data's sender.
    is_logged : bool
        Whether the link was logged there. If not, each number of the account is NaN.
    joined : Join or None
        Segments, packets and frames, where the link logs slots.
    """

    transfer: Transfer
    uses: Table
    is_logged: bool
    joined: Join | None = None

    @cached_property
    def seconds(self) -> dict[Use, float]:
        """Link time of every class in seconds, 0 for unused classes; they sum to `total_s`."""
        sums = np.bincount(self.uses["use"], self.uses["seconds"], minlength=len(Use))
        return {use: float(sums[use]) if self.is_logged else math.nan for use in Use}

    @property
    def total_s(self) -> float:
        """T in seconds: link time from the sender's first SYN to the ACK of its last byte (or of its FIN)."""
        return float(self.uses["seconds"].sum()) if self.is_logged else math.nan

    @property
    def outcome(self) -> str:
        """The outcome: "complete" if the last byte was acknowledged, else "dropped"."""
        return "complete" if self.transfer.is_complete else "dropped"

    @property
    def lost_s(self) -> float:
        """Link time in seconds that was idle or redundant (T_idle + T_redundant in the paper)."""
        return sum(self.seconds[use] for use in LOST)

    @property
    def utilization(self) -> float:
        """Utilization of the link, 0 to 1; NaN without a link log.

        It is (T - T_app - T_idle - T_redundant) / (T - T_app), where T_app is the time without data to send.
        """
        available_s = self.total_s - self.seconds[Use.IDLE_APP]
        if not self.is_logged or available_s <= 0 or self.seconds[Use.UNKNOWN] >= available_s:
            return math.nan
        return max(0.0, 1 - self.lost_s / available_s)

    def says(self, use: Use) -> str:
        """Return a text that describes a class of use; for `wasted`, also the fate of most of the data."""
        mine = self.uses["use"] == use
        if use is not Use.WASTED or not mine.any():
            return SAYS[use]
        sums = np.bincount(self.uses["cause"][mine], self.uses["seconds"][mine])
        causes = [UseCause(cause) for cause in np.argsort(-sums) if sums[cause] >= _WORTH_A_WORD * sums.sum()]
        return f"data were sent that {' or '.join(WASTED_SAYS[cause] for cause in causes)}"

    @property
    def far_buffer_s(self) -> float:
        """Seconds in which the far end still read data from its buffer while nothing was sent.

        They are part of the class `xoff`.
        """
        chosen = self.uses["cause"] == UseCause.FAR_BUFFER
        return float(self.uses["seconds"][chosen].sum())

    @property
    def rounded_up_percent(self) -> int | None:
        """The utilization in percent, rounded up as in figure 6 of the paper; None for NaN."""
        share = self.utilization
        return None if math.isnan(share) else math.ceil(round(share * _PERCENT, 9))

    @property
    def payload_bytes(self) -> int:
        """Payload bytes of first, intact deliveries to the receiving TCP; 0 if the link was not logged."""
        return round(float(self.uses["payload_bytes"].sum()))

    def document(self) -> Document:
        """Return the account as `diagnose --json` writes it; all values are null without a link log."""
        values: Document = {
            "total_s": round(self.total_s, _DIGITS) if self.is_logged else None,
            "utilization": None if math.isnan(self.utilization) else round(self.utilization, _DIGITS),
            "utilization_rounded_up_pct": self.rounded_up_percent,
            "outcome": self.outcome,
            "inferred": False,
            "payload_bytes": self.payload_bytes,
            "seconds": {use.label: round(value, _DIGITS) for use, value in self.seconds.items()},
        }
        return values if self.is_logged else dict.fromkeys(values)


def link_account(transfer: Transfer) -> LinkAccount:
    """Return the account of a transfer's link, from the log at the data's sender."""
    joined = transfer.joined
    if joined is not None:
        return LinkAccount(transfer, measured(transfer, joined), is_logged=True, joined=joined)
    near = transfer.near
    if near is not None and len(near.rows("burst_sent")) and len(transfer.sent):
        return LinkAccount(transfer, by_bursts(transfer), is_logged=True)
    return LinkAccount(transfer, Table.empty(LINK_USE), is_logged=False)
